//! Connects one MCP client with a server.
//!
//! Chooses idempotency keys and revisions, repeats failed calls, and creates the agent at the
//! client's first write.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::sync::{Mutex, Semaphore};

use super::current::{self, BLOCK};
use super::needs::{Needs, needs};
use vctx_base::clock;
use vctx_base::ids::{Ids as _, SystemIds};
use vctx_client::{self, Client, Fault, NewAgent, Problem, Start, Write};
use vctx_core::dialect::{Dialect, Translated, translate};
use vctx_core::limits::{CALL_MS_MAX, MODEL_MS_MAX};
use vctx_core::memory::block_path::{MemoryPath, lies_in};

/// Maximum number of attempts of one MCP call to a busy server, all with the same idempotency key.
const MCP_ATTEMPTS_MAX: u32 = 5;
/// Time in milliseconds after which a failed MCP call is no longer repeated; it is shorter than the
/// usual timeout of MCP clients.
const MCP_ATTEMPTS_MS_MAX: u64 = 50_000;
/// Pause in milliseconds before an MCP call to a busy server is repeated; it grows each time.
const MCP_PAUSE_MS: u64 = 100;
/// Maximum time in milliseconds that an MCP call waits for one answer, long enough for an explicit
/// eviction that asks a model.
const MCP_ANSWER_MS_MAX: u64 = CALL_MS_MAX + MODEL_MS_MAX;
/// Maximum number of MCP calls of one client that run or wait.
const MCP_CALLS_MAX: usize = 64;
/// Maximum number of blocks of which one MCP connection remembers the revision.
const MCP_BLOCKS_MAX: usize = 1_024;
/// Maximum number of archived documents of which one MCP connection remembers the revision.
const MCP_DOCUMENTS_MAX: usize = 4_096;

/// Settings of a bridge: the agent and the server.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Name of the agent.
    pub agent: String,
    /// The dialect of the agent's tools.
    pub dialect: Dialect,
    /// Whether clients see all tools of the dialect.
    pub all_tools: bool,
    /// Window of a new agent in tokens.
    pub context_window: u64,
    /// Socket on which the server listens; `None` for the server of the data directory.
    pub socket: Option<PathBuf>,
    /// Data directory of a server that the bridge starts; `None` for the default.
    pub data_dir: Option<PathBuf>,
    /// Seconds without a connection after which a started server ends.
    pub idle_exit_s: u64,
}

/// The bridge between one MCP client and a server.
pub struct Bridge {
    pub(super) settings: Settings,
    start: Start,
    client: Client,
    /// Each MCP call holds this lock, so that the calls of a connection run one after another.
    /// Parallel calls would build on one revision, and the server could refuse all but one.
    revisions: Mutex<LastRevisions>,
    places: Semaphore,
}

/// The revisions that an MCP connection knows. The known revision of a block is the revision of the
/// last answer that showed the block, not the newest revision of the agent.
#[derive(Default)]
struct LastRevisions {
    memory: Option<String>,
    /// Revision that is used for blocks that no answer has shown: the first revision that the
    /// connection saw. After the client has read a resource that shows all blocks, the revision of
    /// this resource is used instead.
    core: Option<String>,
    blocks: HashMap<String, BlockRevision>,
    /// Number of times that an answer has shown any block.
    shown: u64,
    documents: HashMap<String, String>,
}

/// The known revision of a block, and a number that says in which order answers showed blocks.
#[derive(Clone)]
struct BlockRevision {
    revision: String,
    order: u64,
}

/// Names of the arguments for idempotency key, revision and capture, which the bridge sets and a
/// model must not set.
const OURS: [&str; 3] = ["idempotency_key", "_rev", CAPTURE];

/// Name of the argument that makes the server append the call's result to the conversation.
const CAPTURE: &str = "capture";

/// A tool call in the form that the client sent, and in its parsed form.
struct ParsedCall<'a> {
    name: &'a str,
    arguments: Map<String, Value>,
    understood: Option<Translated>,
    needs: Needs,
}

/// The result of a tool call.
pub(super) struct Outcome {
    /// Idempotency key that was sent with the call, if any.
    pub(super) key: Option<String>,
    /// Whether a repetition of the call has no further effect, because the call only reads or the
    /// client chose the key.
    pub(super) retry_safe: bool,
    /// Revision that the call built on; `*` for any revision.
    pub(super) built_on: Option<String>,
    /// The server's answer, or the problem that prevented an answer.
    pub(super) answer: Result<Value, Trouble>,
}

/// The problem that prevented an answer. After a refusal because of changed texts, it also contains
/// the current texts.
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
    /// Creates a bridge that connects to the server at the first call.
    pub fn new(settings: Settings) -> Bridge {
        let start = Start {
            socket: settings.socket.clone(),
            data_dir: settings.data_dir.clone(),
            idle_exit_s: settings.idle_exit_s,
        };
        let client = Client::new(vctx_client::Settings {
            deadline: Duration::from_millis(MCP_ANSWER_MS_MAX),
            attempts_max: 1,
            ..vctx_client::Settings::new(start.door())
        });
        let (revisions, places) = (Mutex::default(), Semaphore::new(MCP_CALLS_MAX));
        Bridge { settings, start, client, revisions, places }
    }

    /// Makes one tool call, with the client's idempotency key or a new one. The argument `capture`
    /// says whether and how the call's result is appended to the conversation.
    pub(super) async fn call(
        &self,
        name: &str,
        mut arguments: Map<String, Value>,
        given: Option<String>,
        capture: Option<Value>,
    ) -> Outcome {
        // The client's model does not see the window, so copies in it would be of no use.
        vctx_core::tools::look_only(name, &mut arguments);
        // A call that the bridge cannot parse is sent anyway, so that the server refuses it with
        // the parser's error text.
        let understood = translate(self.settings.dialect, name, arguments.clone()).ok();
        let call = ParsedCall { name, needs: needs(understood.as_ref()), understood, arguments };
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
        call: ParsedCall<'_>,
        capture: Option<Value>,
        outcome: &mut Outcome,
    ) -> Result<Value, Trouble> {
        let ParsedCall { name, needs, understood, mut arguments } = call;
        if let Some(name) = OURS.iter().find(|name| arguments.contains_key(**name)) {
            return Err(not_yours(name).into());
        }
        let mut revisions = self.revisions.lock().await;
        let document = match needs {
            Needs::DocumentRevision => arguments.get("doc_id").and_then(Value::as_str),
            _ => None,
        }
        .map(str::to_owned);
        let blocks =
            understood.as_ref().map(|asked| asked.call.depends().blocks()).unwrap_or_default();
        let mut known = revisions.block_revisions(&blocks);
        outcome.built_on = match (needs, &document) {
            (Needs::MemoryRevision, _) => {
                let newest = self.memory_revision(&mut revisions).await?;
                let core = revisions.core.clone().filter(|_| !blocks.is_empty());
                let oldest = known.front().map(|known| known.revision.clone());
                Some(oldest.or(core).unwrap_or(newest))
            }
            // For a document that this connection does not know, the bridge sends the empty
            // revision. The server then accepts only a new document, so the call cannot silently
            // overwrite an existing one.
            (Needs::DocumentRevision, Some(id)) => {
                Some(revisions.documents.get(id).cloned().unwrap_or_default())
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
        // If answers on this connection have already shown the change that caused the refusal, the
        // call is repeated on the next known revision.
        while let Some(next) = revisions.next_base(&answer, &mut known) {
            outcome.built_on = Some(next.clone());
            write.revision = Some(next);
            answer = self.tool(name, &arguments, &write).await;
        }
        match answer {
            Ok(answer) => {
                revisions.note(&answer, document.as_deref());
                let revision = text(&answer, "_rev");
                for id in blocks.iter().chain(&current::listed_blocks(&answer)) {
                    revisions.note_block(id, revision.clone());
                }
                Ok(answer)
            }
            Err(problem) if problem.code == "REVISION_STALE" => {
                let changed = current::changed_blocks(&problem);
                let trouble = self.stale(problem, &mut revisions, document.as_deref()).await;
                for id in blocks.iter().chain(&changed).filter(|_| trouble.current.is_some()) {
                    let shown = revisions.memory.clone();
                    revisions.note_block(id, shown);
                }
                Err(trouble)
            }
            Err(problem) => Err(problem.into()),
        }
    }

    /// Returns the last revision of the agent's memory that this connection saw. Before the first
    /// answer, loads the newest revision, and creates the agent if necessary.
    async fn memory_revision(&self, revisions: &mut LastRevisions) -> Result<String, Problem> {
        if let Some(revision) = &revisions.memory {
            return Ok(revision.clone());
        }
        let state = match self.state().await? {
            Some(state) => state,
            None => self.make_agent().await?,
        };
        let revision = text(&state, "_rev");
        let revision = revision
            .ok_or_else(|| Problem::garbled("the state of the agent has no revision".into()))?;
        revisions.memory = Some(revision.clone());
        revisions.core.get_or_insert_with(|| revision.clone());
        Ok(revision)
    }

    /// Returns the agent's state; `None` if the agent does not exist.
    pub(super) async fn state(&self) -> Result<Option<Value>, Problem> {
        optional(self.patiently(|| self.client.state(&self.settings.agent)).await)
    }

    /// Records that an answer showed all blocks at the revision of the given state.
    pub(super) async fn note_all_blocks(&self, state: &Value) {
        let mut revisions = self.revisions.lock().await;
        revisions.blocks.clear();
        revisions.core = text(state, "_rev").or(revisions.core.take());
    }

    /// Returns the rendered window; `None` if the agent does not exist.
    pub(super) async fn window(&self) -> Result<Option<Value>, Problem> {
        optional(self.patiently(|| self.client.context(&self.settings.agent)).await)
    }

    /// Returns the message at a position; `None` if the message or the agent does not exist. The
    /// text of a message in quarantine is replaced as in the answers of tools.
    pub(super) async fn message(&self, seq: u64) -> Result<Option<Value>, Problem> {
        let agent = &self.settings.agent;
        let page = optional(self.patiently(|| self.client.messages(agent, seq, 1)).await)?;
        let first = page.and_then(|(messages, _)| messages.into_iter().next());
        let Some(mut message) = first.filter(|message| message["seq"] == seq) else {
            return Ok(None);
        };
        let vertex = self.vertex(&seq.to_string()).await?;
        if let Some(held) = vertex.filter(|vertex| vertex["quarantined"] == true) {
            message["content"] = held["text"].clone();
            message["meta"] = json!({});
            message["tainted"] = held["taint"].clone();
            message["quarantined"] = true.into();
        }
        Ok(Some(message))
    }

    /// Returns the archived passage with the given key; `None` if the passage or agent is missing.
    pub(super) async fn passage(&self, key: &str) -> Result<Option<Value>, Problem> {
        self.vertex(&format!("archival_docs/{key}")).await
    }

    /// Returns what a trace shows of a message or passage; `None` if this item or the agent does
    /// not exist.
    async fn vertex(&self, from: &str) -> Result<Option<Value>, Problem> {
        let agent = &self.settings.agent;
        let asked = [("limit", "1".to_owned()), ("follow", "links".to_owned())];
        let traced = self.patiently(|| self.client.trace(agent, from, &asked)).await;
        let traced = match optional(traced) {
            // If the passage does not exist, the server refuses `from` as a wrong argument.
            Err(problem) if problem.fields.get("field").is_some_and(|f| f == "from") => None,
            other => other?,
        };
        let Some(mut traced) = traced else { return Ok(None) };
        let first = traced.get_mut("entries").and_then(|all| all.get_mut(0)).map(Value::take);
        match first {
            Some(passage) => Ok(Some(passage)),
            None => Err(Problem::garbled("the answer to a trace lacks its first item".into())),
        }
    }

    /// Creates the agent and returns its state. If another client has just created the agent,
    /// accepts that agent even if its window has another size.
    async fn make_agent(&self) -> Result<Value, Problem> {
        let new = NewAgent::with_window(self.settings.context_window);
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

    /// Adds the current texts to a refusal. The model sees these texts, so later calls build on
    /// their revision.
    async fn stale(
        &self,
        problem: Problem,
        revisions: &mut LastRevisions,
        document: Option<&str>,
    ) -> Trouble {
        let newest = text(&Value::Object(problem.fields.clone()), "_rev");
        if let Some(id) = document {
            revisions.note_document(id, newest);
            return problem.into();
        }
        revisions.memory = newest;
        let state = match self.state().await {
            Ok(Some(state)) => state,
            Ok(None) => return problem.into(),
            Err(error) => {
                tracing::warn!(code = error.code, "the current texts could not be read");
                return problem.into();
            }
        };
        revisions.memory = text(&state, "_rev").or(revisions.memory.take());
        let from = current::first_message(&state);
        let agent = &self.settings.agent;
        let limit = crate::limits::MCP_CURRENT_MESSAGES;
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

    /// Makes a call, and repeats it with the same key while the server is unreachable or busy, up
    /// to a maximum number of attempts and a maximum time. Starts a server if none is running.
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

impl LastRevisions {
    /// Records the revisions that an answer contains.
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

    /// Returns the known revisions of the given blocks and of the blocks below their paths, in the
    /// order in which the blocks were shown.
    fn block_revisions(&self, ids: &[String]) -> VecDeque<BlockRevision> {
        let meant = |name: &str| {
            ids.iter().any(|id| id == name || lies_in(name, &MemoryPath::Named(id.clone())))
        };
        let known = self.blocks.iter().filter(|(name, _)| meant(name));
        let mut known: Vec<BlockRevision> = known.map(|(_, known)| known.clone()).collect();
        known.sort_by_key(|known| known.order);
        known.into()
    }

    /// Returns the next known revision, on which a refused call is repeated, if answers on this
    /// connection have already shown all changes. Returns `None` if no answer has shown one of the
    /// changes.
    fn next_base(
        &self,
        answer: &Result<Value, Problem>,
        known: &mut VecDeque<BlockRevision>,
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
            // When the number of recorded block revisions reaches its maximum, all of them are
            // removed. A block without a recorded revision then counts as a block that no answer
            // has shown. The server may then refuse a call, and the refusal shows the block's
            // current text.
            self.blocks.clear();
        }
        self.shown += 1;
        self.blocks.insert(id.to_owned(), BlockRevision { revision, order: self.shown });
    }

    /// Records the revision of a document. A document without a revision is removed from the map,
    /// so that the next call treats it as new.
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

fn optional<T>(answer: Result<T, Problem>) -> Result<Option<T>, Problem> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(problem) if problem.code == "AGENT_NOT_FOUND" => Ok(None),
        Err(problem) => Err(problem),
    }
}

fn crowded() -> Problem {
    let detail =
        format!("more than {MCP_CALLS_MAX} calls of this client are waiting: call again later");
    Problem::refused(503, &json!({"error": "OVERLOADED", "detail": detail}), None)
}

fn not_yours(name: &str) -> Problem {
    let detail =
        format!("{name}: no argument of a tool; the bridge sets key, revision and capture");
    let body = json!({"error": "INVALID_ARGUMENT", "detail": detail, "field": name});
    Problem::refused(400, &body, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_revision_counts_and_an_answer_without_one_changes_nothing() {
        let mut revisions = LastRevisions::default();
        revisions.note(&json!({"_rev": "_a"}), None);
        revisions.note(&json!({"_rev": null}), None);
        assert_eq!(revisions.memory.as_deref(), Some("_a"));
        revisions.note(&json!({"_rev": "_b"}), None);
        assert_eq!(revisions.memory.as_deref(), Some("_b"));
    }

    #[test]
    fn what_a_conversation_was_shown_since_is_no_news_to_it() {
        let mut revisions = LastRevisions::default();
        for (id, revision) in [("a..x", "_1"), ("b", "_2"), ("a..y", "_3"), ("a..z", "_4")] {
            revisions.note_block(id, Some(revision.into()));
        }
        let stale = |changed: &[&str]| -> Result<Value, Problem> {
            let body = json!({"error": "REVISION_STALE", "detail": "d", "changed": changed});
            Err(Problem::refused(412, &body, None))
        };
        let ids = ["a".to_owned()];
        let known: Vec<String> =
            revisions.block_revisions(&ids).iter().map(|k| k.revision.clone()).collect();
        assert_eq!(known, ["_1", "_3", "_4"]);
        let mut known = revisions.block_revisions(&ids);
        let next = revisions.next_base(&stale(&["block:a..y", "block:a..z"]), &mut known);
        assert_eq!(next.as_deref(), Some("_3"));
        assert_eq!(revisions.next_base(&stale(&["block:a..z"]), &mut known).as_deref(), Some("_4"));
        assert_eq!(revisions.next_base(&stale(&["block:a..z"]), &mut known), None);
        // If a changed block was last shown before the base revision, or was never shown, another
        // caller made the change.
        for changed in [
            &["block:a..x"][..],
            &["block:a..new"],
            &["block:a..y", "block:a..x"],
            &["unknown"],
            &[],
        ] {
            assert_eq!(
                revisions.next_base(&stale(changed), &mut revisions.block_revisions(&ids)),
                None,
                "{changed:?}"
            );
        }
        assert_eq!(revisions.next_base(&Ok(json!({})), &mut revisions.block_revisions(&ids)), None);
    }

    #[test]
    fn a_document_has_a_revision_of_its_own() {
        let mut revisions = LastRevisions::default();
        revisions.note(&json!({"_rev": "_m1", "result": {"_rev": "_m1"}}), Some("d"));
        assert_eq!((revisions.documents["d"].as_str(), &revisions.memory), ("_m1", &None));
        let answer = json!({"_rev": "_m2", "agent_rev": "_a", "result": {"_rev": "_m2"}});
        revisions.note(&answer, Some("d"));
        assert_eq!(
            (revisions.documents["d"].as_str(), revisions.memory.as_deref()),
            ("_m2", Some("_a"))
        );
        revisions.note(&json!({"_rev": "_m3", "result": {}}), Some("d"));
        assert!(revisions.documents.is_empty());
        for number in 0..=MCP_DOCUMENTS_MAX {
            revisions.note_document(&number.to_string(), Some("_r".into()));
        }
        assert!(revisions.documents.len() <= MCP_DOCUMENTS_MAX);
    }
}
