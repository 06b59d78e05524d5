//! Stores a client's conversation in an agent: finds its known messages, creates a missing agent or
//! a branch, and appends the new messages.

use std::cmp::Reverse;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::executor::{CallRequest, Executor, Guard, Placed};
use crate::limits::RUN_WAIT_MS;
use vctx_base::clock;
use vctx_core::dialect::understood;
use vctx_core::error::{Code, Error, Result};
use vctx_core::memory::conversation::{ClientCall, ThreadPosition, after, beginning, places};
use vctx_core::memory::message::{Message, Role};
use vctx_core::openai::{
    Conversation, Decision, KnownMessage, Next, Previous, RequestedAgent, Sight, Visible,
    branch_name, decide, fresh_name, visible,
};
use vctx_core::tools::{AppendFifo, Call, NewAgent, PatchAgent, Tool, decode_as};
use vctx_core::trust::Principal;

/// Maximum number of messages of a run from which an answer is built.
const THREAD_ANSWER_ROWS: u64 = 1_000;
/// Maximum number of branches between an agent and the agent that a request names.
const THREAD_BRANCHES_MAX: usize = 64;
/// Maximum number of attempts to store a request while other callers write to the agent.
const THREAD_TRIES_MAX: usize = 64;

/// Returns whether a name belongs to a memory tool; clients must not use these names for their own
/// tools.
pub(super) fn is_memory_tool(name: &str) -> bool {
    Tool::by_name(name).is_ok()
}

/// Returns which part of a call the client sees: the whole call of a client tool, but only the text
/// that a memory tool's call sends to the user.
pub(super) fn sight(conversation: &Conversation) -> impl Fn(&ClientCall) -> Sight {
    |call| {
        if conversation.has_tool(&call.name) {
            return Sight::Call;
        }
        let Ok(Value::Object(arguments)) = serde_json::from_str(&call.arguments) else {
            return Sight::Nothing;
        };
        let meant = understood(&call.name, arguments).ok();
        let shown = meant.as_ref().and_then(|meant| meant.user_text());
        shown.map_or(Sight::Nothing, |text| Sight::Text(text.to_owned()))
    }
}

/// A request to store a conversation.
pub(super) struct Converse<'a> {
    pub(super) executor: &'a Executor,
    pub(super) principal: &'a Principal,
    pub(super) requested: &'a RequestedAgent,
    pub(super) conversation: &'a Conversation,
    /// Size of a new agent's window, in tokens.
    pub(super) window: u64,
}

/// A conversation whose messages are all stored in one agent.
#[derive(Clone, Debug)]
pub(super) struct StoredConversation {
    pub(super) agent: String,
    /// Position of the conversation's last message in the thread. The digest of this position is
    /// the idempotency key of the run.
    pub(super) position: ThreadPosition,
    /// Position (`seq`) of the conversation's last message in the agent's log.
    pub(super) seq: u64,
    /// When the conversation's last message was appended, in ISO form.
    pub(super) created_at: String,
    /// The answer to an earlier, equal request, if any.
    pub(super) known: Option<Visible>,
    /// The agent and position at which this request branched off, if it did.
    pub(super) branch: Option<(String, u64)>,
}

/// The agent in which a request continues its conversation.
struct Target {
    agent: String,
    /// Index of the request's first message that the agent does not have.
    from: usize,
    /// The agent's revision, if the search found that no message follows the conversation's last
    /// known message.
    rev: Option<String>,
    /// Whether the request has the same system text as the agent.
    same_system: bool,
    branch: Option<(String, u64)>,
}

/// What the search for the conversation found.
enum LookUp {
    Known(StoredConversation),
    Target(Target),
}

impl Converse<'_> {
    /// Appends the conversation's new messages to its agent.
    pub(super) async fn store(&self) -> Result<StoredConversation> {
        let (all, base) = self.positions().await?;
        for _ in 0..THREAD_TRIES_MAX {
            let target = match self.look_up(&all, base).await? {
                LookUp::Known(stored) => return Ok(stored),
                LookUp::Target(target) => target,
            };
            match self.append(&target, &all[base..]).await {
                // Another caller wrote to the agent meanwhile, so the conversation is searched for
                // again.
                Err(error) if error.code == Code::RevisionStale => continue,
                Err(error) => return Err(error),
                Ok(()) => return self.stored(target, &all).await,
            }
        }
        let text = "too many writes to this agent: retry later with the same request";
        Err(Error::new(Code::Conflict, text))
    }

    /// Returns the thread positions of the conversation's messages. The returned number says how
    /// many positions precede the request's first message.
    async fn positions(&self) -> Result<(Vec<ThreadPosition>, usize)> {
        let said = &self.conversation.said;
        let Some(previous) = &self.conversation.previous else {
            let agent = self.requested.agent.as_deref();
            let (tenant, uid) = (&self.principal.tenant, self.principal.actor.uid);
            let beginning = beginning(tenant, uid, agent, self.conversation.labels.user.as_deref());
            return Ok((places(&beginning, said), 0));
        };
        let thread = match previous {
            Previous::AnswerTo(thread) | Previous::Compacted(thread) => thread.clone(),
        };
        let asked = ThreadPosition { thread, follows: String::new() };
        let found = self.known_rows(std::slice::from_ref(&asked), "").await?;
        let oldest = found.into_iter().min_by(|a, b| a.row.key.cmp(&b.row.key));
        let base = match previous {
            Previous::AnswerTo(thread) => {
                let next = oldest.into_iter().flat_map(|found| found.row.next);
                let answer = next.into_iter().find(|next| next.role == Role::Assistant);
                let follows = thread.clone();
                answer.map(|answer| ThreadPosition { thread: answer.thread, follows })
            }
            Previous::Compacted(_) => oldest.map(|_| asked),
        };
        let base = base.ok_or_else(|| unknown(previous))?;
        let mut all = places(&base.thread, said);
        all.insert(0, base);
        Ok((all, 1))
    }

    /// Returns how many messages, counted from the beginning of the conversation, are known.
    pub(super) async fn count_known(&self) -> Result<usize> {
        let all = match self.positions().await {
            Ok((all, _)) => all,
            // The request continues an answer that this database does not have.
            Err(error) if error.code == Code::InvalidArgument => return Ok(0),
            Err(error) => return Err(error),
        };
        let system = self.conversation.system.as_deref().unwrap_or_default();
        let rows = self.known_rows(&all, system).await?;
        Ok(rows.iter().map(|placed| placed.row.at + 1).max().unwrap_or(0))
    }

    /// Finds the newest known position. If the request names both an agent and a position, only
    /// this agent and its branches are searched, since the position could be another agent's.
    async fn known_rows(&self, all: &[ThreadPosition], system: &str) -> Result<Vec<Placed>> {
        let mut rows = self.executor.threads(self.principal, all, system, None).await?;
        if let (Some(named), Some(_)) = (&self.requested.agent, &self.conversation.previous) {
            let found = std::mem::take(&mut rows);
            for row in found {
                if self.is_branch_of(named, &row.agent).await? {
                    rows.push(row);
                }
            }
        }
        Ok(rows)
    }

    /// Whether an agent is the named agent, or a branch of it.
    async fn is_branch_of(&self, named: &str, agent: &str) -> Result<bool> {
        let mut at = agent.to_owned();
        for _ in 0..THREAD_BRANCHES_MAX {
            if at == named {
                return Ok(true);
            }
            let parent = match self.executor.peek(self.principal, &at, "").await {
                Ok((core, _)) => core.branch.as_ref().map(|branch| branch.parent.clone()),
                Err(error) if matches!(error.code, Code::AgentNotFound | Code::AgentElsewhere) => {
                    None
                }
                Err(error) => return Err(error),
            };
            match parent {
                Some(parent) => at = parent,
                None => return Ok(false),
            }
        }
        Ok(false)
    }

    /// Returns the thread position of the conversation's last message, and the agent and the
    /// message at this position. Refuses a conversation that is not completely stored.
    pub(super) async fn last_known(&self) -> Result<(ThreadPosition, Placed)> {
        let (all, base) = self.positions().await?;
        let rows = self.known_rows(&all, "").await?;
        let newest = rows.into_iter().max_by_key(|row| (row.row.at, Reverse(row.row.key.clone())));
        let total = all.len();
        match newest {
            Some(found) if found.row.at + 1 == total => {
                let last = all.into_iter().next_back().expect("a conversation has a message");
                Ok((last, found))
            }
            newest => {
                let known = newest.map_or(0, |found| found.row.at + 1).saturating_sub(base);
                let text = format!(
                    "{known} of its {} messages are in the memory: send the conversation to /v1/responses first, for the same agent and user",
                    total - base
                );
                Err(Error::argument("input", text))
            }
        }
    }

    async fn look_up(&self, all: &[ThreadPosition], base: usize) -> Result<LookUp> {
        let conversation = self.conversation;
        let system = conversation.system.as_deref().unwrap_or_default();
        let rows = self.known_rows(all, system).await?;
        let found: Vec<KnownMessage> = rows.iter().map(found).collect();
        let first_answer = conversation.said.iter().position(|seen| seen.role == Role::Assistant);
        let answered = if base > 0 { 0 } else { first_answer.unwrap_or(all.len()) };
        // A request that continues a position and has no system text keeps the agent's.
        let named = self.requested.agent.is_some() || (base > 0 && conversation.system.is_none());
        let decision = decide(&found, all.len(), answered, named);
        let placed = |found: &KnownMessage| {
            let same = |row: &&Placed| row.row.key == found.key && row.row.at == found.at;
            rows.iter().find(same).cloned()
        };
        match decision {
            Decision::Known { found, answer } => {
                let said =
                    messages_after(self.executor, self.principal, &found.agent, found.seq).await?;
                match answer_up_to(&said, answer, conversation) {
                    Some(known) => Ok(LookUp::Known(self.known(found, all, known))),
                    // The answer's text is gone: the retention policy has removed it.
                    None => self.branch_off(placed(&found), all, base).await.map(LookUp::Target),
                }
            }
            Decision::GoOn { found, new } => {
                self.continue_in(found, new, all, base).await.map(LookUp::Target)
            }
            Decision::Branch { found } => {
                self.branch_off(placed(&found), all, base).await.map(LookUp::Target)
            }
            Decision::New => self.begin(all).await.map(LookUp::Target),
        }
    }

    fn known(
        &self,
        found: KnownMessage,
        all: &[ThreadPosition],
        known: Visible,
    ) -> StoredConversation {
        StoredConversation {
            agent: found.agent,
            position: all.last().expect("a conversation has a message").clone(),
            seq: found.seq,
            created_at: found.created_at,
            known: Some(known),
            branch: None,
        }
    }

    /// Continues the conversation in an agent. If the client left before an answer's end, this
    /// answer has no thread position yet. The answer gets its position now if the request contains
    /// the answer's text or the beginning of this text.
    async fn continue_in(
        &self,
        found: KnownMessage,
        new: usize,
        all: &[ThreadPosition],
        base: usize,
    ) -> Result<Target> {
        let mut from = new - base;
        let said = &self.conversation.said;
        if let Some(next) = said.get(from).filter(|next| next.role == Role::Assistant) {
            let rows =
                messages_after(self.executor, self.principal, &found.agent, found.seq).await?;
            let end = rows.iter().position(|m| m.thread.is_some()).unwrap_or(rows.len());
            if let Some(shown) =
                visible(&rows[..end], &sight(self.conversation)).filter(|shown| shown.whole)
            {
                let whole = shown.seen.canonical() == next.canonical();
                let begun = next.calls.is_empty() && shown.seen.text.starts_with(&next.text);
                if whole || begun {
                    let position = &all[new];
                    let agent = found.agent.as_str();
                    self.executor.mark_thread(self.principal, agent, shown.seq, position).await?;
                    from += 1;
                }
            }
        }
        Ok(Target {
            agent: found.agent,
            from,
            rev: Some(found.rev),
            same_system: found.same_system,
            branch: None,
        })
    }

    /// Creates a branch of an agent, since the conversation continues after an earlier message. The
    /// conversation's other messages will be appended to the branch.
    async fn branch_off(
        &self,
        found: Option<Placed>,
        all: &[ThreadPosition],
        base: usize,
    ) -> Result<Target> {
        let found =
            found.ok_or_else(|| Error::new(Code::Internal, "no message to branch off from"))?;
        if base > 0 {
            return Err(continued(self.conversation.previous.as_ref()));
        }
        let last = &all.last().expect("a conversation has a message").thread;
        let system = self.conversation.system.as_deref();
        let agent = branch_name(&found.agent, last, system);
        self.executor.branch(self.principal, &agent, &found, system).await?;
        let from = self.known_in(&agent, all).await?;
        let branch = Some((found.agent, found.row.seq));
        Ok(Target { agent, from, rev: None, same_system: true, branch })
    }

    /// Begins a conversation in the named agent, or else in a new one. Creates the agent if it is
    /// missing.
    async fn begin(&self, all: &[ThreadPosition]) -> Result<Target> {
        let last = &all.last().expect("a conversation has a message").thread;
        let system = self.conversation.system.as_deref();
        let fresh = || fresh_name(last, system);
        let agent = self.requested.agent.clone().unwrap_or_else(fresh);
        let state = match self.executor.state(self.principal, &agent).await {
            Err(error) if error.code == Code::AgentNotFound => {
                let body = NewAgent {
                    system: Some(system.unwrap_or_default().to_owned()),
                    user: self.conversation.labels.user.clone(),
                    ..NewAgent::with_window(self.window)
                };
                match self.executor.create(self.principal, &agent, body).await {
                    Err(error) if error.code == Code::AgentExists => {
                        self.executor.state(self.principal, &agent).await?
                    }
                    made => made?.1,
                }
            }
            state => state?,
        };
        let same_system = system.is_none_or(|system| state["system"] == system);
        // An earlier attempt of this request may have appended some of the messages.
        let from = self.known_in(&agent, all).await?;
        Ok(Target { agent, from, rev: None, same_system, branch: None })
    }

    /// Returns how many of the conversation's messages an agent has.
    async fn known_in(&self, agent: &str, all: &[ThreadPosition]) -> Result<usize> {
        let rows = self.executor.threads(self.principal, all, "", Some(agent)).await?;
        Ok(rows.iter().map(|row| row.row.at + 1).max().unwrap_or(0))
    }

    /// Appends the conversation's new messages. The idempotency key of each append contains the
    /// digest of the message's thread position, so that no message is appended twice, even by two
    /// servers.
    async fn append(&self, target: &Target, positions: &[ThreadPosition]) -> Result<()> {
        if let (Some(system), false) = (&self.conversation.system, target.same_system) {
            let arguments = Map::from_iter([("system".to_owned(), Value::from(system.as_str()))]);
            let patch = decode_as::<PatchAgent>(arguments.clone())?;
            let last = &positions.last().expect("a conversation has a message").thread;
            let key = format!("{last}/system");
            let call = Call::from(patch.checked()?);
            self.call(&target.agent, call, arguments, key, Guard::Any).await?;
        }
        let new = self.conversation.said.iter().zip(positions).enumerate().skip(target.from);
        if target.from < positions.len() {
            self.wait_for_run(
                &target.agent,
                &positions.last().expect("a conversation has a message").thread,
            )
            .await?;
        }
        let mut guard = target.rev.clone().map_or(Guard::Any, Guard::Rev);
        for (number, (seen, position)) in new {
            let at = format!("messages[{number}].");
            let labels = &self.conversation.labels;
            let call = AppendFifo::from_client(seen, labels, position.clone(), &at)?;
            let arguments =
                Map::from_iter([("thread".to_owned(), position.thread.as_str().into())]);
            let key = format!("{}/said", position.thread);
            self.call(&target.agent, Call::from(call), arguments, key, guard).await?;
            guard = Guard::Any;
        }
        Ok(())
    }

    /// Waits until no other run of the agent is open, so that the new messages do not get between
    /// the messages of another run.
    async fn wait_for_run(&self, agent: &str, own: &str) -> Result<()> {
        let (longest, look) = RUN_WAIT_MS;
        let until = clock::now() + Duration::from_millis(longest);
        loop {
            let (core, _) = self.executor.peek(self.principal, agent, "").await?;
            let now = self.executor.unix_ms();
            let open = core.run.as_ref().filter(|run| run.id != own && run.until_ms > now);
            let Some(open) = open else { return Ok(()) };
            if clock::now() > until {
                let text =
                    "another run of this agent is under way: retry later with the same request";
                let wait_ms = open.until_ms - now;
                return Err(Error::new(Code::RunBusy, text).with("retry_after_ms", wait_ms));
            }
            tokio::time::sleep(Duration::from_millis(look)).await;
        }
    }

    async fn call(
        &self,
        agent: &str,
        call: Call,
        arguments: Map<String, Value>,
        key: String,
        guard: Guard,
    ) -> Result<Value> {
        let whose = (self.principal.clone(), agent.to_owned());
        let request = CallRequest::internal(whose, call, []);
        let (key, guard) = (Some(key), Some(guard));
        let request = CallRequest { arguments, key, guard, ..request };
        self.executor.call(&request).await.map(|reply| reply.body)
    }

    async fn stored(&self, target: Target, all: &[ThreadPosition]) -> Result<StoredConversation> {
        let position = all.last().expect("a conversation has a message").clone();
        let agent = target.agent.as_str();
        let last = std::slice::from_ref(&position);
        let rows = self.executor.threads(self.principal, last, "", Some(agent)).await?;
        let missing = || Error::new(Code::Internal, "an appended message was not found");
        let row = rows.into_iter().next().ok_or_else(missing)?.row;
        Ok(StoredConversation {
            agent: target.agent,
            position,
            seq: row.seq,
            created_at: row.created_at,
            known: None,
            branch: target.branch,
        })
    }
}

/// Returns the error for a request that continues a position which no agent of the request has.
fn unknown(previous: &Previous) -> Error {
    match previous {
        Previous::AnswerTo(_) => {
            let text = "this server knows no answer with that id: send the whole history as input";
            Error::argument("previous_response_id", text)
        }
        Previous::Compacted(_) => {
            let text = "this server does not have the conversation of the compaction: send the whole history instead";
            Error::argument("input", text)
        }
    }
}

/// Returns the error for a request that continues a position after which the conversation has
/// already continued otherwise.
fn continued(previous: Option<&Previous>) -> Error {
    match previous {
        Some(Previous::Compacted(_)) => {
            let text = "the conversation already continued after the compaction: send the whole history instead";
            Error::argument("input", text)
        }
        Some(Previous::AnswerTo(_)) | None => {
            let text = "the conversation already continued after that answer: send the whole history as input";
            Error::argument("previous_response_id", text)
        }
    }
}

/// Returns the messages after a position in the log, at most as many as a run can have.
pub(super) async fn messages_after(
    executor: &Executor,
    principal: &Principal,
    agent: &str,
    seq: u64,
) -> Result<Vec<Message>> {
    executor.said_from(principal, agent, seq + 1, THREAD_ANSWER_ROWS).await
}

/// Stores an answer's position in the thread, so that the answer is recognised when the client
/// sends it again. An empty answer gets no position, since clients do not send empty answers.
pub(super) async fn mark_answer(
    executor: &Executor,
    principal: &Principal,
    stored: &StoredConversation,
    answer: &Visible,
) -> Result<()> {
    if answer.seen.is_empty() {
        return Ok(());
    }
    let follows = stored.position.thread.clone();
    let position = ThreadPosition { thread: after(&follows, &answer.seen), follows };
    executor.mark_thread(principal, &stored.agent, answer.seq, &position).await
}

/// Returns the answer that ends at position `end`. `said` has the messages after the client's last
/// message; messages of other conversations are skipped. Returns `None` if the answer's text was
/// removed.
fn answer_up_to(said: &[Message], end: u64, conversation: &Conversation) -> Option<Visible> {
    let upto = said.iter().position(|m| m.seq > end).unwrap_or(said.len());
    let foreign = |m: &Message| m.thread.is_some() && m.seq != end;
    let begin = said[..upto].iter().rposition(foreign).map_or(0, |at| at + 1);
    // The results of memory tools are stored after the answer that called the tools.
    let behind = said[upto..].iter().take_while(|m| m.thread.is_none() && m.role == Role::Tool);
    let upto = upto + behind.count();
    let part = &said[begin..upto];
    let gone = part.iter().any(|m| m.role == Role::Assistant && m.expired_at.is_some());
    visible(part, &sight(conversation)).filter(|found| !gone && found.seq == end)
}

fn found(placed: &Placed) -> KnownMessage {
    let row = &placed.row;
    let next = row.next.iter();
    let next = next.map(|n| Next { thread: n.thread.clone(), seq: n.seq, role: n.role }).collect();
    KnownMessage {
        at: row.at,
        agent: placed.agent.clone(),
        seq: row.seq,
        key: row.key.clone(),
        created_at: row.created_at.clone(),
        rev: row.rev.clone(),
        same_system: row.same_system,
        next,
    }
}
