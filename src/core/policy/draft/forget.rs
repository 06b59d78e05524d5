//! The changes of a forget operation (a permanent removal of texts): the first change lists the
//! texts to remove, and later changes remove these texts.

use std::collections::BTreeSet;

use serde_json::json;

use super::Draft;
use crate::limits::FORGET_ROWS;
use crate::memory::change::{Expire, Forget, Part};
use crate::memory::core::Summary;
use crate::memory::forget::{Forgetting, ForgottenText, Phase};
use crate::memory::message::Message;
use crate::memory::run::OpenRun;
use crate::policy::forget::{ForgetAsked, ForgetFound, ForgetLook, StandingMessage};
use crate::policy::question::Answers;
use crate::policy::step::Stop;
use crate::search::escaped;

impl Draft<'_> {
    /// Begins a forget operation. The operation's row lists everything to remove, so that any
    /// server can continue the forget operation without knowing the text. This first change also
    /// removes a summary that contains the text and, on request, blocks that quote the text.
    pub fn begin_forgetting(&mut self, key: &str, asked: &ForgetAsked, found: &ForgetFound) {
        let mut quoted = found.quoted.clone();
        let blocks = if asked.blocks { std::mem::take(&mut quoted.blocks) } else { Vec::new() };
        for block in &blocks {
            self.remove_block(block);
        }
        if let Some(text) = &asked.text {
            self.forget_names(text);
        }
        let mut row = Forgetting {
            key: key.to_owned(),
            agent_id: self.after.agent_id.clone(),
            tenant: self.after.tenant.clone(),
            what: kind_of(asked).to_owned(),
            items: found.messages.iter().map(item).collect(),
            documents: found.documents.clone(),
            schedules: found.schedules.clone(),
            tool_sets: found.tool_sets.clone(),
            packs: found.packs.clone(),
            versions: found.versions.clone(),
            answers: found.answers.clone(),
            prompts: found.prompts.clone(),
            blocks,
            quoted,
            threads: found.messages.iter().any(|one| one.thread),
            renews: asked.renews,
            by: json!(self.around.actor),
            begun_at: self.after.updated_at.clone(),
            touched_ms: self.around.unix_ms,
            ..Forgetting::default()
        };
        if !row.versions.is_empty() {
            // The system text stays, also where it quotes the text. So no later version may refer
            // to the versions that lose it: the next one contains all texts.
            self.after.held = None;
        }
        if found.in_summary {
            row.summary_from = Some(0);
            self.drop_summary();
        }
        self.parts.push(Part::Forget(Box::new(step_of(row, None))));
    }

    /// Removes the names that contain a text from the core. A run with such a name ends, because
    /// nothing could continue it.
    fn forget_names(&mut self, text: &str) {
        let holds = |name: &str| escaped::contains(name, text);
        let core = &mut self.after;
        core.removed_blocks.retain(|block| !holds(&block.id));
        core.learned.retain(|model| !holds(&model.model));
        let named = |run: &OpenRun| {
            holds(&run.id) || holds(&run.owner) || run.labels.iter().any(|label| holds(label))
        };
        if core.run.as_ref().is_some_and(named) {
            core.run = None;
        }
        let asked = core.asked.as_ref();
        if asked.is_some_and(|asked| holds(&asked.run) || holds(&asked.model)) {
            core.asked = None;
        }
    }

    /// Runs the next step of a forget operation.
    pub fn go_on_forgetting(&mut self, row: &Forgetting, look: &ForgetLook) {
        let at = Some(row.step);
        let mut row = row.clone();
        row.step += 1;
        row.touched_ms = self.around.unix_ms;
        let mut step = step_of(row, at);
        let row = &mut step.row;
        match row.phase {
            Phase::Beside => {
                if row.at == 0 {
                    step.schedules.clone_from(&row.schedules);
                    step.tool_sets.clone_from(&row.tool_sets);
                    step.beside = true;
                    row.count("schedules", row.schedules.len() as u64);
                    row.count("tool_sets", row.tool_sets.len() as u64);
                }
                let quoting = row.packs.len().min(FORGET_ROWS as usize);
                step.packs = row.packs.drain(..quoting).collect();
                let showing = look.keys.iter().filter(|key| !step.packs.contains(key));
                let showing: Vec<String> = showing.cloned().collect();
                step.packs.extend(showing);
                row.count("context_packs", step.packs.len() as u64);
                row.at += 1;
                if row.packs.is_empty() && look.after.is_none() {
                    row.advance();
                }
            }
            Phase::Documents => {
                // The server removed the document by a separate call just before this step.
                let more = row.at + 1 < row.documents.len() as u64;
                row.count("archival_manifests", u64::from(!row.documents.is_empty()));
                if more { row.at += 1 } else { row.advance() }
            }
            Phase::Messages => {
                self.forget_messages(row, &look.messages);
                row.at += FORGET_ROWS;
                if row.at >= row.items.len() as u64 {
                    // The version of this change may contain the new summary.
                    row.summary_until = self.before.version;
                    row.advance();
                }
            }
            Phase::Versions => {
                // A version that quotes the text and loses its summary too is one row.
                let quoting = |key: &String| row.versions.iter().any(|one| one.key == *key);
                let others = look.keys.iter().filter(|key| !quoting(key)).count();
                let first = row.versions.len().min(FORGET_ROWS as usize);
                step.versions = row.versions.drain(..first).collect();
                row.count("core_versions", (step.versions.len() + others) as u64);
                if !look.keys.is_empty() {
                    self.expire_rows(Expire { versions: look.keys.clone(), ..Expire::default() });
                }
                if row.versions.is_empty() && look.after.is_none() {
                    row.advance();
                }
            }
            Phase::Answers => {
                let quoting = row.answers.len().min(FORGET_ROWS as usize);
                let naming = look.keys.iter().filter(|key| !row.answers.contains(key));
                let mut keys: Vec<String> = naming.cloned().collect();
                keys.extend(row.answers.drain(..quoting));
                let last = look.after.is_none() && row.answers.is_empty();
                row.count("idempotency", keys.len() as u64);
                if last {
                    // The stored answer to the forget operation itself is removed last, because it
                    // contains a hash of the request's arguments.
                    keys.push(row.key.clone());
                }
                if !keys.is_empty() {
                    self.expire_rows(Expire { answers: keys, ..Expire::default() });
                }
                if let Some(after) = &look.after {
                    row.after.clone_from(after);
                }
                if last {
                    row.advance();
                }
            }
            Phase::Threads => {
                step.threads.clone_from(&look.keys);
                row.count("threads", look.keys.len() as u64);
                match &look.after {
                    Some(after) => row.after.clone_from(after),
                    None => row.advance(),
                }
            }
            Phase::Prompts => {
                let quoting = row.prompts.len().min(FORGET_ROWS as usize);
                let showing = look.keys.iter().filter(|key| !row.prompts.contains(key));
                step.prompts = showing.cloned().collect();
                step.noticed = row.prompts.drain(..quoting).collect();
                row.count("prompts", (step.noticed.len() + step.prompts.len()) as u64);
                if let Some(after) = &look.after {
                    row.after.clone_from(after);
                } else if row.prompts.is_empty() {
                    row.advance();
                }
            }
            // Nothing to do: the rows of a forgotten agent are removed by other calls, which need
            // no core.
            Phase::Rows | Phase::Done => {}
        }
        if row.phase == Phase::Done {
            row.end(&self.after.updated_at);
        }
        self.parts.push(Part::Forget(Box::new(step)));
    }

    /// Removes the text of messages and takes these messages out of the queue. A summary that
    /// includes one of these messages is dropped.
    fn forget_messages(&mut self, row: &mut Forgetting, messages: &[StandingMessage]) {
        let going: Vec<&StandingMessage> = messages.iter().filter(|one| !one.gone).collect();
        let head_seq = self.after.queue.head_seq;
        for one in &going {
            let turn = matches!(one.kind.as_str(), "turn" | "event");
            if one.seq >= head_seq && (turn || one.kind == "copy") {
                self.drop_shown(one.token_estimate, one.frame_tokens);
            } else if let Some(from) = one.summary_from(head_seq) {
                row.summary_from = Some(row.summary_from.map_or(from, |known| known.min(from)));
            }
        }
        if let Some(calls) = &mut self.after.open_calls {
            calls.retain(|call| going.iter().all(|one| one.seq != call.seq));
        }
        if row.summary_from.is_some_and(|from| self.after.queue_head_summary.revision >= from) {
            self.drop_summary();
        }
        let count = going.len() as u64;
        self.after.forgotten.messages += count;
        row.count("messages", count);
        row.count(
            "recall_log",
            going.iter().filter(|one| one.summary_rev.is_some()).count() as u64,
        );
        let (keys, seqs) = going.iter().map(|one| (one.id.clone(), one.seq)).unzip();
        self.expire_rows(Expire { keys, seqs, ..Expire::default() });
    }

    /// Takes the text of a message of the queue out of the counts. The lines around the copies of a
    /// search stay with their place.
    pub(super) fn drop_shown(&mut self, token_estimate: u64, frame_tokens: u64) {
        let queue = &mut self.after.queue;
        queue.count = queue.count.saturating_sub(u64::from(frame_tokens == 0));
        let dropped = token_estimate.saturating_sub(frame_tokens);
        queue.tokens = queue.tokens.saturating_sub(dropped);
        queue.changed_at_version = self.after.version;
    }

    fn expire_rows(&mut self, rows: Expire) {
        self.parts.push(Part::Expire(Expire {
            expired_at: self.after.updated_at.clone(),
            forgotten_version: Some(self.after.version),
            ..rows
        }));
    }

    /// Makes the summary again from the evicted messages that this forget operation leaves, if this
    /// step is the one in which the last text that the summary may contain goes.
    pub fn renew_forgotten(
        &mut self,
        row: &Forgetting,
        evicted: &[Message],
        answers: &Answers,
    ) -> Result<(), Stop> {
        let gone: BTreeSet<u64> = row.items.iter().map(|one| one.seq).collect();
        let left: Vec<Message> =
            evicted.iter().filter(|one| !gone.contains(&one.seq)).cloned().collect();
        let cap = self.refined_tokens_max();
        self.renew_summary(&left, answers, "forgotten", cap)
    }

    /// Drops the agent's summary, because it may contain words of the removed text at unknown
    /// positions. An empty summary gets a new revision too, so that no summary is written that was
    /// made before.
    fn drop_summary(&mut self) {
        self.after.queue_head_summary = Summary {
            revision: self.after.queue_head_summary.revision + 1,
            changed_at_version: self.after.version,
            ..Summary::default()
        };
    }
}

fn kind_of(asked: &ForgetAsked) -> &'static str {
    match (&asked.text, &asked.doc_id) {
        (Some(_), _) => "match",
        (None, Some(_)) => "document",
        (None, None) => "messages",
    }
}

fn item(found: &crate::policy::forget::FoundMessage) -> ForgottenText {
    ForgottenText {
        seq: found.seq,
        id: found.id.clone(),
        kind: found.kind.clone(),
        digest: found.digest.clone(),
    }
}

fn step_of(row: Forgetting, at: Option<u64>) -> Forget {
    Forget {
        row,
        at,
        threads: Vec::new(),
        prompts: Vec::new(),
        noticed: Vec::new(),
        versions: Vec::new(),
        schedules: Vec::new(),
        tool_sets: Vec::new(),
        packs: Vec::new(),
        beside: false,
    }
}
