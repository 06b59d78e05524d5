//! One client's conversation with a server: keys, revisions, repeated attempts, and an agent that is made by its first write.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::sync::{Mutex, Semaphore};

use super::current::{self, BLOCK};
use super::needs::{Needs, blocks_of, needs};
use vctx_base::clock;
use vctx_base::ids::{Ids as _, SystemIds};
use vctx_client::{self, Client, Fault, NewAgent, Problem, Start, Write};
use vctx_core::dialect::{Dialect, Translated, translate};
use vctx_core::limits::{
    MCP_ANSWER_MS_MAX, MCP_ATTEMPTS_MAX, MCP_ATTEMPTS_MS_MAX, MCP_BLOCKS_MAX, MCP_CALLS_MAX,
    MCP_DOCUMENTS_MAX, MCP_PAUSE_MS,
};
use vctx_core::memory::block_path::{Place, lies_in};

/// Whose memory, and where.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The agent.
    pub agent: String,
    /// The names under which its memory is spoken of.
    pub dialect: Dialect,
    /// Its window in tokens, if it has to be made.
    pub context_window: u64,
    /// Socket of the server.
    pub socket: PathBuf,
    /// Directory of the data of a server that has to be started; absent: the usual one.
    pub data_dir: Option<PathBuf>,
    /// Seconds without a connection after which a started server ends.
    pub idle_exit_s: u64,
}

/// The bridge between one MCP client and a server.
pub struct Bridge {
    pub(super) settings: Settings,
    start: Start,
    client: Client,
    /// Calls of one conversation follow each other: two at once would build on the same revision.
    seen: Mutex<Seen>,
    places: Semaphore,
}

/// The revisions that this conversation saw last. An answer about one thing says nothing of the others: what a block holds is
/// known as of the answer that showed it, not of the newest one.
#[derive(Default)]
struct Seen {
    memory: Option<String>,
    /// The first one, and that of the core as a resource: what is known of blocks that no answer was about.
    core: Option<String>,
    blocks: HashMap<String, Known>,
    /// How often a block was shown so far.
    shown: u64,
    documents: HashMap<String, String>,
}

/// What is known of a block: its revision, and which of all that were shown it was.
#[derive(Clone)]
struct Known {
    revision: String,
    order: u64,
}

/// The arguments that a server takes for key, revision and capture; a model is not to give them.
const OURS: [&str; 3] = ["idempotency_key", "_rev", CAPTURE];

/// The argument under which a server is told to capture a call.
const CAPTURE: &str = "capture";

/// A call as it came, and what is understood of it.
struct Asked<'a> {
    name: &'a str,
    arguments: Map<String, Value>,
    understood: Option<Translated>,
    needs: Needs,
}

/// What a call came to.
pub(super) struct Outcome {
    /// The key that was sent.
    pub(super) key: Option<String>,
    /// Whether the same call, sent again, happens once: it only reads, or its key was the client's own.
    pub(super) retry_safe: bool,
    /// The revision it built on; `*` for any.
    pub(super) built_on: Option<String>,
    /// The server's answer, or why there is none.
    pub(super) answer: Result<Value, Trouble>,
}

/// A problem, and what is current now if something had changed.
pub(super) struct Trouble {
    pub(super) problem: Problem,
    pub(super) current: Option<Value>,
}

impl From<Problem> for Trouble {
    fn from(problem: Problem) -> Self {
        Self { problem, current: None }
    }
}

impl Bridge {
    /// A bridge that looks for its server with the first call.
    pub fn new(settings: Settings) -> Bridge {
        let client = Client::new(vctx_client::Settings {
            deadline: Duration::from_millis(MCP_ANSWER_MS_MAX),
            attempts_max: 1,
            ..vctx_client::Settings::new(&settings.socket)
        });
        let start = Start {
            socket: settings.socket.clone(),
            data_dir: settings.data_dir.clone(),
            idle_exit_s: settings.idle_exit_s,
        };
        let (seen, places) = (Mutex::default(), Semaphore::new(MCP_CALLS_MAX));
        Bridge { settings, start, client, seen, places }
    }

    /// One tool call, with the client's key or a fresh one. `capture`: how its result is to stand in the conversation.
    pub(super) async fn call(
        &self,
        name: &str,
        arguments: Map<String, Value>,
        given: Option<String>,
        capture: Option<Value>,
    ) -> Outcome {
        // What is not understood here is refused by the server, in the same words.
        let understood = translate(self.settings.dialect, name, arguments.clone()).ok();
        let call = Asked { name, needs: needs(understood.as_ref()), understood, arguments };
        let reads = call.needs == Needs::Nothing && capture.is_none();
        let mut outcome = Outcome {
            retry_safe: reads || given.is_some(),
            key: (!reads).then(|| given.unwrap_or_else(|| SystemIds.key())),
            built_on: None,
            answer: Ok(Value::Null),
        };
        outcome.answer = match self.places.try_acquire() {
            Ok(_place) => self.in_turn(call, capture, &mut outcome).await,
            Err(_) => Err(crowded().into()),
        };
        outcome
    }

    async fn in_turn(
        &self,
        call: Asked<'_>,
        capture: Option<Value>,
        outcome: &mut Outcome,
    ) -> Result<Value, Trouble> {
        let Asked { name, needs, understood, mut arguments } = call;
        if let Some(name) = OURS.iter().find(|name| arguments.contains_key(**name)) {
            return Err(not_yours(name).into());
        }
        let mut seen = self.seen.lock().await;
        let document = match needs {
            Needs::DocumentRevision => arguments.get("doc_id").and_then(Value::as_str),
            _ => None,
        }
        .map(str::to_owned);
        let blocks = understood.as_ref().map(|call| blocks_of(&call.call)).unwrap_or_default();
        let mut known = seen.known(&blocks);
        outcome.built_on = match (needs, &document) {
            (Needs::MemoryRevision, _) => {
                let newest = self.memory_revision(&mut seen).await?;
                let core = seen.core.clone().filter(|_| !blocks.is_empty());
                let oldest = known.front().map(|known| known.revision.clone());
                Some(oldest.or(core).unwrap_or(newest))
            }
            // A document that this conversation knows nothing of must be new: it is no silent overwrite then.
            (Needs::DocumentRevision, Some(id)) => {
                Some(seen.documents.get(id).cloned().unwrap_or_default())
            }
            (Needs::DocumentRevision, None) => Some(String::new()),
            (Needs::Nothing | Needs::Key | Needs::KeyAndAgent, _) => None,
        };
        let beats = understood.as_ref().is_some_and(Translated::beats);
        let may_make = capture.is_some() || !matches!(needs, Needs::Nothing | Needs::Key) || beats;
        if let Some(capture) = capture {
            arguments.insert(CAPTURE.into(), capture);
        }
        let arguments = Value::Object(arguments);
        let mut write = Write {
            key: outcome.key.clone().unwrap_or_else(|| SystemIds.key()),
            revision: outcome.built_on.clone(),
        };
        let mut answer = self.tool(name, &arguments, &write).await;
        if is(&answer, "AGENT_NOT_FOUND") {
            if !may_make {
                return current::of_nobody(understood.as_ref()).map_err(Trouble::from);
            }
            self.make_agent().await?;
            answer = self.tool(name, &arguments, &write).await;
        }
        // What was shown since, and has not changed since that, is no news to this conversation: it builds on the next thing that it knows.
        while let Some(next) = seen.next_base(&answer, &mut known) {
            outcome.built_on = Some(next.clone());
            write.revision = Some(next);
            answer = self.tool(name, &arguments, &write).await;
        }
        match answer {
            Ok(answer) => {
                seen.note(&answer, document.as_deref());
                let revision = text(&answer, "_rev");
                for id in blocks.iter().chain(&current::renamed(&answer)) {
                    seen.note_block(id, revision.clone());
                }
                Ok(answer)
            }
            Err(problem) if problem.code == "REVISION_STALE" => {
                let changed = current::changed_blocks(&problem);
                let trouble = self.stale(problem, &mut seen, document.as_deref()).await;
                for id in blocks.iter().chain(&changed).filter(|_| trouble.current.is_some()) {
                    let shown = seen.memory.clone();
                    seen.note_block(id, shown);
                }
                Err(trouble)
            }
            Err(problem) => Err(problem.into()),
        }
    }

    /// The revision that the conversation saw last; before the first answer the newest, of an agent that is made if need be.
    async fn memory_revision(&self, seen: &mut Seen) -> Result<String, Problem> {
        if let Some(revision) = &seen.memory {
            return Ok(revision.clone());
        }
        let state = match self.state().await? {
            Some(state) => state,
            None => self.make_agent().await?,
        };
        let revision = text(&state, "_rev");
        let revision = revision
            .ok_or_else(|| Problem::garbled("the state of the agent has no revision".into()))?;
        seen.memory = Some(revision.clone());
        seen.core.get_or_insert_with(|| revision.clone());
        Ok(revision)
    }

    /// The agent's state; none when there is no such agent.
    pub(super) async fn state(&self) -> Result<Option<Value>, Problem> {
        found(self.patiently(|| self.client.state(&self.settings.agent)).await)
    }

    /// Takes note that all blocks were shown, as they are in this state.
    pub(super) async fn shown(&self, state: &Value) {
        let mut seen = self.seen.lock().await;
        seen.blocks.clear();
        seen.core = text(state, "_rev").or(seen.core.take());
    }

    /// The rendered window; none when there is no such agent.
    pub(super) async fn window(&self) -> Result<Option<Value>, Problem> {
        found(self.patiently(|| self.client.context(&self.settings.agent)).await)
    }

    /// A message by its place; none when there is none, or no such agent.
    pub(super) async fn message(&self, seq: u64) -> Result<Option<Value>, Problem> {
        let agent = &self.settings.agent;
        let page = found(self.patiently(|| self.client.messages(agent, seq, 1)).await)?;
        let first = page.and_then(|(messages, _)| messages.into_iter().next());
        Ok(first.filter(|message| message["seq"] == seq))
    }

    /// A passage of the archive by its key; none when there is none, or no such agent.
    pub(super) async fn passage(&self, key: &str) -> Result<Option<Value>, Problem> {
        let (agent, from) = (&self.settings.agent, format!("archival_docs/{key}"));
        let asked = [("limit", "1".to_owned()), ("follow", "links".to_owned())];
        let traced = self.patiently(|| self.client.trace(agent, &from, &asked)).await;
        let traced = match found(traced) {
            // A trace that begins nowhere is refused as a wrong argument.
            Err(problem) if problem.fields.get("field").is_some_and(|f| f == "from") => None,
            other => other?,
        };
        let Some(mut traced) = traced else { return Ok(None) };
        let first = traced.get_mut("entries").and_then(|all| all.get_mut(0)).map(Value::take);
        match first {
            Some(passage) => Ok(Some(passage)),
            None => Err(Problem::garbled("a trace does not tell where it began".into())),
        }
    }

    /// Makes the agent and answers its state; one that another client made a moment ago, in whatever size, is as good.
    async fn make_agent(&self) -> Result<Value, Problem> {
        let new =
            NewAgent { context_window: self.settings.context_window, system: None, encoding: None };
        let agent = &self.settings.agent;
        match self.patiently(|| self.client.create_agent(agent, &new)).await {
            Err(problem) if problem.code == "AGENT_EXISTS" => {
                self.patiently(|| self.client.state(agent)).await
            }
            made => made,
        }
    }

    async fn tool(&self, name: &str, arguments: &Value, write: &Write) -> Result<Value, Problem> {
        self.patiently(|| self.client.tool(&self.settings.agent, name, arguments, write)).await
    }

    /// Adds what is current to a refusal, and builds on that from now on: the model decides anew on what it is shown here.
    async fn stale(&self, problem: Problem, seen: &mut Seen, document: Option<&str>) -> Trouble {
        let newest = text(&Value::Object(problem.fields.clone()), "_rev");
        if let Some(id) = document {
            seen.note_document(id, newest);
            return problem.into();
        }
        seen.memory = newest;
        let state = match self.state().await {
            Ok(Some(state)) => state,
            Ok(None) => return problem.into(),
            Err(error) => {
                tracing::warn!(code = error.code, "the current texts could not be read");
                return problem.into();
            }
        };
        seen.memory = text(&state, "_rev").or(seen.memory.take());
        let from = current::first_message(&state);
        let agent = &self.settings.agent;
        let limit = vctx_core::limits::MCP_CURRENT_MESSAGES;
        let messages = match current::wants_messages(&problem) {
            true => self.patiently(|| self.client.messages(agent, from, limit)).await,
            false => Ok((Vec::new(), None)),
        };
        let messages = match messages {
            Ok((messages, _)) => messages,
            Err(error) => {
                tracing::warn!(code = error.code, "the newest messages could not be read");
                Vec::new()
            }
        };
        let current = current::of(&problem, &state, &messages);
        Trouble { problem, current: Some(current) }
    }

    /// Asks again, with the same key, while the server is lost or busy, and starts one when there is none; within bounds.
    async fn patiently<T, F: Future<Output = Result<T, Problem>>>(
        &self,
        ask: impl Fn() -> F,
    ) -> Result<T, Problem> {
        let until = clock::now() + Duration::from_millis(MCP_ATTEMPTS_MS_MAX);
        let mut attempt = 1;
        loop {
            let problem = match ask().await {
                Ok(answer) => return Ok(answer),
                Err(problem) => problem,
            };
            if attempt >= MCP_ATTEMPTS_MAX || clock::now() >= until {
                return Err(problem);
            }
            match problem.fault {
                Fault::Unreachable | Fault::Unanswered => self.start.ensure().await?,
                Fault::Refused(503) if problem.code == "NOT_READY" => self.start.ensure().await?,
                Fault::Refused(409 | 502 | 503 | 504) if problem.is_passing() => {
                    let pause = MCP_PAUSE_MS * u64::from(attempt);
                    tokio::time::sleep(Duration::from_millis(pause)).await;
                }
                Fault::Refused(_) | Fault::Garbled => return Err(problem),
            }
            tracing::debug!(code = problem.code, attempt, "asked again");
            attempt += 1;
        }
    }
}

impl Seen {
    /// Remembers what an answer says of revisions.
    fn note(&mut self, answer: &Value, document: Option<&str>) {
        let memory = match document {
            Some(id) => {
                self.note_document(id, text(&answer["result"], "_rev"));
                text(answer, "agent_rev")
            }
            None => text(answer, "_rev"),
        };
        self.memory = memory.or(self.memory.take());
        if self.core.is_none() {
            self.core.clone_from(&self.memory);
        }
    }

    /// What is known of some blocks, and of those that lie in them, in the order in which they were shown.
    fn known(&self, ids: &[String]) -> VecDeque<Known> {
        let meant = |name: &str| {
            ids.iter().any(|id| id == name || lies_in(name, &Place::Named(id.clone())))
        };
        let known = self.blocks.iter().filter(|(name, _)| meant(name));
        let mut known: Vec<Known> = known.map(|(_, known)| known.clone()).collect();
        known.sort_by_key(|known| known.order);
        known.into()
    }

    /// The next revision to build on, where a call was refused on the first of those that are known only for what was shown behind it; none
    /// where somebody else changed something.
    fn next_base(
        &self,
        answer: &Result<Value, Problem>,
        known: &mut VecDeque<Known>,
    ) -> Option<String> {
        let problem = answer.as_ref().err().filter(|problem| problem.code == "REVISION_STALE")?;
        let base = known.pop_front()?;
        let changed = problem.fields.get("changed").and_then(Value::as_array)?;
        let shown_since = |name: &Value| {
            let block = name.as_str().and_then(|name| name.strip_prefix(BLOCK));
            let shown = block.and_then(|block| self.blocks.get(block));
            shown.is_some_and(|shown| shown.order > base.order)
        };
        let own = !changed.is_empty() && changed.iter().all(shown_since);
        known.front().filter(|_| own).map(|next| next.revision.clone())
    }

    fn note_block(&mut self, id: &str, revision: Option<String>) {
        let Some(revision) = revision else { return };
        if self.blocks.len() >= MCP_BLOCKS_MAX && !self.blocks.contains_key(id) {
            // What is forgotten counts as known since the beginning only: a call on it may be refused and shown the present text.
            self.blocks.clear();
        }
        self.shown += 1;
        self.blocks.insert(id.to_owned(), Known { revision, order: self.shown });
    }

    /// A document whose revision is unknown is forgotten: the next call on it takes it for new.
    fn note_document(&mut self, id: &str, revision: Option<String>) {
        let Some(revision) = revision else {
            self.documents.remove(id);
            return;
        };
        if self.documents.len() >= MCP_DOCUMENTS_MAX && !self.documents.contains_key(id) {
            self.documents.clear();
        }
        self.documents.insert(id.to_owned(), revision);
    }
}

fn text(value: &Value, name: &str) -> Option<String> {
    value.get(name).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
}

fn is(answer: &Result<Value, Problem>, code: &str) -> bool {
    answer.as_ref().is_err_and(|problem| problem.code == code)
}

fn found<T>(answer: Result<T, Problem>) -> Result<Option<T>, Problem> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(problem) if problem.code == "AGENT_NOT_FOUND" => Ok(None),
        Err(problem) => Err(problem),
    }
}

fn crowded() -> Problem {
    let detail = format!("more than {MCP_CALLS_MAX} calls of this client wait: call again later");
    Problem::refused(503, &json!({"error": "OVERLOADED", "detail": detail}), None)
}

fn not_yours(name: &str) -> Problem {
    let detail =
        format!("{name}: no argument of a tool; key, revision and capture are kept for you");
    let body = json!({"error": "INVALID_ARGUMENT", "detail": detail, "field": name});
    Problem::refused(400, &body, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_revision_counts_and_an_answer_without_one_changes_nothing() {
        let mut seen = Seen::default();
        seen.note(&json!({"_rev": "_a"}), None);
        seen.note(&json!({"_rev": null}), None);
        assert_eq!(seen.memory.as_deref(), Some("_a"));
        seen.note(&json!({"_rev": "_b"}), None);
        assert_eq!(seen.memory.as_deref(), Some("_b"));
    }

    #[test]
    fn what_a_conversation_was_shown_since_is_no_news_to_it() {
        let mut seen = Seen::default();
        for (id, revision) in [("a..x", "_1"), ("b", "_2"), ("a..y", "_3"), ("a..z", "_4")] {
            seen.note_block(id, Some(revision.into()));
        }
        let stale = |changed: &[&str]| -> Result<Value, Problem> {
            let body = json!({"error": "REVISION_STALE", "detail": "d", "changed": changed});
            Err(Problem::refused(412, &body, None))
        };
        let ids = ["a".to_owned()];
        let known: Vec<String> = seen.known(&ids).iter().map(|k| k.revision.clone()).collect();
        assert_eq!(known, ["_1", "_3", "_4"]);
        let mut known = seen.known(&ids);
        let next = seen.next_base(&stale(&["block:a..y", "block:a..z"]), &mut known);
        assert_eq!(next.as_deref(), Some("_3"));
        assert_eq!(seen.next_base(&stale(&["block:a..z"]), &mut known).as_deref(), Some("_4"));
        assert_eq!(seen.next_base(&stale(&["block:a..z"]), &mut known), None);
        // A block that was shown before, or never, was changed by somebody else.
        for changed in [
            &["block:a..x"][..],
            &["block:a..new"],
            &["block:a..y", "block:a..x"],
            &["unknown"],
            &[],
        ] {
            assert_eq!(seen.next_base(&stale(changed), &mut seen.known(&ids)), None, "{changed:?}");
        }
        assert_eq!(seen.next_base(&Ok(json!({})), &mut seen.known(&ids)), None);
    }

    #[test]
    fn a_document_has_a_revision_of_its_own() {
        let mut seen = Seen::default();
        seen.note(&json!({"_rev": "_m1", "result": {"_rev": "_m1"}}), Some("d"));
        assert_eq!((seen.documents["d"].as_str(), &seen.memory), ("_m1", &None));
        let answer = json!({"_rev": "_m2", "agent_rev": "_a", "result": {"_rev": "_m2"}});
        seen.note(&answer, Some("d"));
        assert_eq!((seen.documents["d"].as_str(), seen.memory.as_deref()), ("_m2", Some("_a")));
        seen.note(&json!({"_rev": "_m3", "result": {}}), Some("d"));
        assert!(seen.documents.is_empty());
        for number in 0..=MCP_DOCUMENTS_MAX {
            seen.note_document(&number.to_string(), Some("_r".into()));
        }
        assert!(seen.documents.len() <= MCP_DOCUMENTS_MAX);
    }
}
