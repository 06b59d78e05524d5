//! Brings a conversation to its place: finds what is known of it, makes the agent or branch where there is none, appends what is new.

use std::time::Duration;

use serde_json::{Map, Value};

use crate::executor::{CallRequest, Executor, Guard, Placed};
use vctx_base::clock;
use vctx_core::dialect::understood;
use vctx_core::error::{Code, Error, Result};
use vctx_core::limits::{RUN_WAIT_MS, THREAD_ANSWER_ROWS, THREAD_TRIES_MAX};
use vctx_core::memory::Encoding;
use vctx_core::memory::message::{Message, Role};
use vctx_core::memory::thread::{Place, SeenCall, after, beginning, places};
use vctx_core::openai::{
    Conversation, Decision, Found, Named, Next, Sight, Visible, branch_name, decide, fresh_name,
    visible,
};
use vctx_core::policy::Principal;
use vctx_core::tools::{AppendFifo, Call, NewAgent, PatchAgent, Tool, decode_as};

/// Whether a name is that of a tool of the memory, which no client may use for one of its own.
pub(super) fn ours(name: &str) -> bool {
    Tool::named(name).is_ok()
}

/// What the client of a conversation sees of a call: of its own tools the call, of the memory's what it says to the user.
pub(super) fn sight(conversation: &Conversation) -> impl Fn(&SeenCall) -> Sight {
    |call| {
        if conversation.has_tool(&call.name) {
            return Sight::Call;
        }
        let Ok(Value::Object(arguments)) = serde_json::from_str(&call.arguments) else {
            return Sight::Nothing;
        };
        let meant = understood(&call.name, arguments).ok();
        let shown = meant.as_ref().and_then(|meant| meant.shown());
        shown.map_or(Sight::Nothing, |text| Sight::Text(text.to_owned()))
    }
}

/// One request on its way to its place.
pub(super) struct Converse<'a> {
    pub(super) executor: &'a Executor,
    pub(super) principal: &'a Principal,
    pub(super) named: &'a Named,
    pub(super) conversation: &'a Conversation,
    /// Window of an agent that has to be made, in tokens.
    pub(super) window: u64,
}

/// A conversation whose every message stands in an agent.
#[derive(Clone, Debug)]
pub(super) struct Settled {
    /// The agent.
    pub(super) agent: String,
    /// Place of the last message in the thread: its digest is the key of the run.
    pub(super) place: Place,
    /// Place of that message on the number line.
    pub(super) seq: u64,
    /// When it was appended, in ISO form.
    pub(super) created_at: String,
    /// The answer, where it was given before.
    pub(super) known: Option<Visible>,
    /// Agent and seq that this request parted from.
    pub(super) branch: Option<(String, u64)>,
}

/// Where a request goes on, before it is there.
struct Goal {
    agent: String,
    /// First message of the request that is new there.
    from: usize,
    /// Revision of the agent on which nothing else was said at this place.
    rev: Option<String>,
    /// Whether the system text of the request is the agent's.
    same_system: bool,
    branch: Option<(String, u64)>,
}

/// What one look came to.
enum Looked {
    Known(Settled),
    Goal(Goal),
}

impl Converse<'_> {
    /// Brings the conversation to its place.
    pub(super) async fn settle(&self) -> Result<Settled> {
        let (all, base) = self.places().await?;
        for _ in 0..THREAD_TRIES_MAX {
            let goal = match self.look(&all, base).await? {
                Looked::Known(settled) => return Ok(settled),
                Looked::Goal(goal) => goal,
            };
            match self.append(&goal, &all[base..]).await {
                // Something was said in the agent since; it may have been said at this very place.
                Err(error) if error.code == Code::RevisionStale => continue,
                Err(error) => return Err(error),
                Ok(()) => return self.arrived(goal, &all).await,
            }
        }
        let text = "the agent is written to all the time: retry later with the same request";
        Err(Error::new(Code::Conflict, text))
    }

    /// All places of the conversation, and how many of them stand before the messages of the request.
    async fn places(&self) -> Result<(Vec<Place>, usize)> {
        let said = &self.conversation.said;
        let Some(previous) = &self.conversation.previous else {
            let agent = self.named.agent.as_deref();
            let (tenant, uid) = (&self.principal.tenant, self.principal.actor.uid);
            let beginning = beginning(tenant, uid, agent, self.conversation.user.as_deref());
            return Ok((places(&beginning, said), 0));
        };
        let asked = Place { thread: previous.clone(), follows: String::new() };
        let found = self.executor.threads(self.principal, &[asked], "", None).await?;
        let oldest = found.into_iter().min_by(|a, b| a.row.key.cmp(&b.row.key));
        let answer = oldest
            .and_then(|found| found.row.next.into_iter().find(|next| next.role == Role::Assistant));
        let unknown = || {
            let text = "no answer of that id is known here: send the whole history as input";
            Error::argument("previous_response_id", text)
        };
        let base = Place { thread: answer.ok_or_else(unknown)?.thread, follows: previous.clone() };
        let mut all = places(&base.thread, said);
        all.insert(0, base);
        Ok((all, 1))
    }

    /// How many messages of the conversation are known, counted from its beginning.
    pub(super) async fn how_much(&self) -> Result<usize> {
        let all = match self.places().await {
            Ok((all, _)) => all,
            // What it goes on from is not known here.
            Err(error) if error.code == Code::InvalidArgument => return Ok(0),
            Err(error) => return Err(error),
        };
        let system = self.conversation.system.as_deref().unwrap_or_default();
        let rows = self.executor.threads(self.principal, &all, system, None).await?;
        Ok(rows.iter().map(|placed| placed.row.at + 1).max().unwrap_or(0))
    }

    async fn look(&self, all: &[Place], base: usize) -> Result<Looked> {
        let conversation = self.conversation;
        let system = conversation.system.as_deref().unwrap_or_default();
        let rows = self.executor.threads(self.principal, all, system, None).await?;
        let found: Vec<Found> = rows.iter().map(found).collect();
        let first_answer = conversation.said.iter().position(|seen| seen.role == Role::Assistant);
        let answered = if base > 0 { 0 } else { first_answer.unwrap_or(all.len()) };
        let decision = decide(&found, all.len(), answered, self.named.agent.is_some());
        let placed = |found: &Found| {
            let same = |row: &&Placed| row.row.key == found.key && row.row.at == found.at;
            rows.iter().find(same).cloned()
        };
        match decision {
            Decision::Known { found, answer } => {
                let said =
                    said_after(self.executor, self.principal, &found.agent, found.seq).await?;
                match answer_up_to(&said, answer, conversation) {
                    Some(known) => Ok(Looked::Known(self.known(found, all, known))),
                    // Its text went by the policy of retention.
                    None => self.part(placed(&found), all, base).await.map(Looked::Goal),
                }
            }
            Decision::GoOn { found, new } => {
                self.go_on(found, new, all, base).await.map(Looked::Goal)
            }
            Decision::Branch { found } => {
                self.part(placed(&found), all, base).await.map(Looked::Goal)
            }
            Decision::New => self.begin(all).await.map(Looked::Goal),
        }
    }

    fn known(&self, found: Found, all: &[Place], known: Visible) -> Settled {
        Settled {
            agent: found.agent,
            place: all.last().expect("a conversation has a message").clone(),
            seq: found.seq,
            created_at: found.created_at,
            known: Some(known),
            branch: None,
        }
    }

    /// Goes on in an agent. An answer that stands there without a place, since its client went away before its end or did not wait for it, takes the place
    /// that the client gives it: all of it, or the part that came through.
    async fn go_on(&self, found: Found, new: usize, all: &[Place], base: usize) -> Result<Goal> {
        let mut from = new - base;
        let said = &self.conversation.said;
        if let Some(next) = said.get(from).filter(|next| next.role == Role::Assistant) {
            let rows = said_after(self.executor, self.principal, &found.agent, found.seq).await?;
            let end = rows.iter().position(|m| m.thread.is_some()).unwrap_or(rows.len());
            if let Some(stands) =
                visible(&rows[..end], &sight(self.conversation)).filter(|stands| stands.whole)
            {
                let whole = stands.seen.canonical() == next.canonical();
                let begun = next.calls.is_empty() && stands.seen.text.starts_with(&next.text);
                if whole || begun {
                    let place = &all[new];
                    let agent = found.agent.as_str();
                    self.executor.mark_thread(self.principal, agent, stands.seq, place).await?;
                    from += 1;
                }
            }
        }
        Ok(Goal {
            agent: found.agent,
            from,
            rev: Some(found.rev),
            same_system: found.same_system,
            branch: None,
        })
    }

    /// Parts from an agent: a new one with what it had at that message, and all that the request says.
    async fn part(&self, found: Option<Placed>, all: &[Place], base: usize) -> Result<Goal> {
        let found =
            found.ok_or_else(|| Error::new(Code::Internal, "a decision without its message"))?;
        if base > 0 {
            let text =
                "the conversation went on from there already: send the whole history as input";
            return Err(Error::argument("previous_response_id", text));
        }
        let last = &all.last().expect("a conversation has a message").thread;
        let system = self.conversation.system.as_deref();
        let agent = branch_name(&found.agent, last, system);
        self.executor.branch(self.principal, &agent, &found, system).await?;
        let from = self.known_in(&agent, all).await?;
        let branch = Some((found.agent, found.row.seq));
        Ok(Goal { agent, from, rev: None, same_system: true, branch })
    }

    /// Begins a conversation: in the agent that is named, made where there is none, or in one of its own.
    async fn begin(&self, all: &[Place]) -> Result<Goal> {
        let last = &all.last().expect("a conversation has a message").thread;
        let system = self.conversation.system.as_deref();
        let fresh = || fresh_name(last, system);
        let agent = self.named.agent.clone().unwrap_or_else(fresh);
        let state = match self.executor.state(self.principal, &agent).await {
            Err(error) if error.code == Code::AgentNotFound => {
                let body = NewAgent {
                    context_window: self.window,
                    system: system.unwrap_or_default().to_owned(),
                    encoding: Encoding::default(),
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
        // A conversation that was cut off while it was taken in is taken in from there.
        let from = self.known_in(&agent, all).await?;
        Ok(Goal { agent, from, rev: None, same_system, branch: None })
    }

    /// How many messages an agent that was made for this request has.
    async fn known_in(&self, agent: &str, all: &[Place]) -> Result<usize> {
        let rows = self.executor.threads(self.principal, all, "", Some(agent)).await?;
        Ok(rows.iter().map(|row| row.row.at + 1).max().unwrap_or(0))
    }

    /// Appends what is new, each message under the digest of its place: the same request again, on whatever server, appends nothing twice.
    async fn append(&self, goal: &Goal, places: &[Place]) -> Result<()> {
        if let (Some(system), false) = (&self.conversation.system, goal.same_system) {
            let arguments = Map::from_iter([("system".to_owned(), Value::from(system.as_str()))]);
            let patch = decode_as::<PatchAgent>(arguments.clone())?;
            let last = &places.last().expect("a conversation has a message").thread;
            let key = format!("{last}/system");
            let call = Call::PatchAgent(patch.checked()?);
            self.call(&goal.agent, call, arguments, key, Guard::Any).await?;
        }
        let new = self.conversation.said.iter().zip(places).enumerate().skip(goal.from);
        if goal.from < places.len() {
            self.wait_for(
                &goal.agent,
                &places.last().expect("a conversation has a message").thread,
            )
            .await?;
        }
        let mut guard = goal.rev.clone().map_or(Guard::Any, Guard::Rev);
        for (number, (seen, place)) in new {
            let call = AppendFifo::seen(seen, place.clone(), &format!("messages[{number}]."))?;
            let arguments = Map::from_iter([("thread".to_owned(), place.thread.as_str().into())]);
            let key = format!("{}/said", place.thread);
            self.call(&goal.agent, Call::AppendFifo(call), arguments, key, guard).await?;
            guard = Guard::Any;
        }
        Ok(())
    }

    /// Waits until no other run of the agent is open: what is said now must not stand in the middle of it.
    async fn wait_for(&self, agent: &str, own: &str) -> Result<()> {
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
        let request = CallRequest {
            principal: self.principal.clone(),
            agent: agent.to_owned(),
            call,
            arguments,
            key: Some(key),
            guard: Some(guard),
            capture: None,
            wording: None,
        };
        self.executor.call(&request).await.map(|reply| reply.body)
    }

    async fn arrived(&self, goal: Goal, all: &[Place]) -> Result<Settled> {
        let place = all.last().expect("a conversation has a message").clone();
        let agent = goal.agent.as_str();
        let last = std::slice::from_ref(&place);
        let rows = self.executor.threads(self.principal, last, "", Some(agent)).await?;
        let missing = || Error::new(Code::Internal, "a message is not where it was put");
        let row = rows.into_iter().next().ok_or_else(missing)?.row;
        Ok(Settled {
            agent: goal.agent,
            place,
            seq: row.seq,
            created_at: row.created_at,
            known: None,
            branch: goal.branch,
        })
    }
}

/// Messages after a place on the number line, those of one run at most.
pub(super) async fn said_after(
    executor: &Executor,
    principal: &Principal,
    agent: &str,
    seq: u64,
) -> Result<Vec<Message>> {
    executor.said_from(principal, agent, seq + 1, THREAD_ANSWER_ROWS).await
}

/// Gives an answer its place, so that it is known when its client sends it back; one that says nothing has none, since no client sends it back.
pub(super) async fn take_place(
    executor: &Executor,
    principal: &Principal,
    settled: &Settled,
    answer: &Visible,
) -> Result<()> {
    if answer.seen.is_empty() {
        return Ok(());
    }
    let follows = settled.place.thread.clone();
    let place = Place { thread: after(&follows, &answer.seen), follows };
    executor.mark_thread(principal, &settled.agent, answer.seq, &place).await
}

/// The answer that ends at a seq, of messages after the client's own; what another conversation said in between ends nothing of it. None where its text is gone.
fn answer_up_to(said: &[Message], end: u64, conversation: &Conversation) -> Option<Visible> {
    let upto = said.iter().position(|m| m.seq > end).unwrap_or(said.len());
    let foreign = |m: &Message| m.thread.is_some() && m.seq != end;
    let begin = said[..upto].iter().rposition(foreign).map_or(0, |at| at + 1);
    // Results of the memory's own tools stand behind the answer that asked for them.
    let behind = said[upto..].iter().take_while(|m| m.thread.is_none() && m.role == Role::Tool);
    let upto = upto + behind.count();
    let part = &said[begin..upto];
    let gone = part.iter().any(|m| m.role == Role::Assistant && m.expired_at.is_some());
    visible(part, &sight(conversation)).filter(|found| !gone && found.seq == end)
}

fn found(placed: &Placed) -> Found {
    let row = &placed.row;
    let next = row.next.iter();
    let next = next.map(|n| Next { thread: n.thread.clone(), seq: n.seq, role: n.role }).collect();
    Found {
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
