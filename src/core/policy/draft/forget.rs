//! Forgetting inside a change: how it begins, and its steps, each whole.

use serde_json::json;

use super::Draft;
use crate::limits::FORGET_ROWS;
use crate::memory::change::{Expire, Forget};
use crate::memory::core::Summary;
use crate::memory::forget::{Forgetting, Item, Phase};
use crate::policy::forget::{ForgetAsked, ForgetFound, ForgetLook, StandingMessage};

impl Draft<'_> {
    /// Begins a forgetting: its row says all that goes, so that whoever goes on with it needs no text. Blocks that quote it go with this very
    /// change where that was asked, and so does a summary that holds it.
    pub fn begin_forgetting(&mut self, key: &str, asked: &ForgetAsked, found: &ForgetFound) {
        let mut quoted = found.quoted.clone();
        let blocks = if asked.blocks { std::mem::take(&mut quoted.blocks) } else { Vec::new() };
        for block in &blocks {
            self.remove_block(block);
        }
        let mut row = Forgetting {
            key: key.to_owned(),
            agent_id: self.after.agent_id.clone(),
            tenant: self.after.tenant.clone(),
            what: what(asked).to_owned(),
            items: found.messages.iter().map(item).collect(),
            documents: found.documents.clone(),
            schedules: found.schedules.clone(),
            tool_sets: found.tool_sets.clone(),
            versions: found.versions.clone(),
            answers: found.answers.clone(),
            blocks,
            quoted,
            threads: found.messages.iter().any(|one| one.thread),
            by: json!(self.around.actor),
            begun_at: self.after.updated_at.clone(),
            touched_ms: self.around.unix_ms,
            ..Forgetting::default()
        };
        if found.in_summary {
            row.summary_from = Some(0);
            self.drop_summary();
        }
        self.forget = Some(Box::new(step_of(row, None)));
    }

    /// Does the next step of a forgetting.
    pub fn go_on_forgetting(&mut self, row: &Forgetting, look: &ForgetLook) {
        let at = Some(row.step);
        let mut row = row.clone();
        row.step += 1;
        row.touched_ms = self.around.unix_ms;
        let mut step = step_of(row, at);
        let row = &mut step.row;
        match row.phase {
            Phase::Beside => {
                step.schedules.clone_from(&row.schedules);
                step.tool_sets.clone_from(&row.tool_sets);
                step.beside = true;
                row.count("schedules", row.schedules.len() as u64);
                row.count("tool_sets", row.tool_sets.len() as u64);
                row.advance();
            }
            Phase::Documents => {
                // The document itself went by a call of its own, just before.
                let more = row.at + 1 < row.documents.len() as u64;
                row.count("archival_manifests", u64::from(!row.documents.is_empty()));
                if more { row.at += 1 } else { row.advance() }
            }
            Phase::Messages => {
                self.forget_messages(row, &look.messages);
                row.at += FORGET_ROWS;
                if row.at >= row.items.len() as u64 {
                    row.summary_until = self.after.version;
                    row.advance();
                }
            }
            Phase::Versions => {
                let quoting = row.versions.len().min(FORGET_ROWS as usize);
                step.versions = row.versions.drain(..quoting).collect();
                row.count("core_versions", (step.versions.len() + look.keys.len()) as u64);
                self.expire_rows(&look.keys, &[]);
                if row.versions.is_empty() && look.after.is_none() {
                    row.advance();
                }
            }
            Phase::Answers => {
                let quoting = row.answers.len().min(FORGET_ROWS as usize);
                let mut keys: Vec<String> = row.answers.drain(..quoting).collect();
                keys.extend(look.keys.iter().cloned());
                let last = look.after.is_none() && row.answers.is_empty();
                row.count("idempotency", keys.len() as u64);
                if last {
                    // The record of the request itself holds a hash of what was asked.
                    keys.push(row.key.clone());
                }
                self.expire_rows(&[], &keys);
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
            // Rows of a whole agent go without its core.
            Phase::Rows | Phase::Done => {}
        }
        if row.phase == Phase::Done {
            row.end(&self.after.updated_at);
        }
        self.forget = Some(Box::new(step));
    }

    /// Messages lose their text; those of the queue stand there no more, and a summary that they were folded into is dropped.
    fn forget_messages(&mut self, row: &mut Forgetting, messages: &[StandingMessage]) {
        let going: Vec<&StandingMessage> = messages.iter().filter(|one| !one.gone).collect();
        let head_seq = self.after.queue.head_seq;
        for one in &going {
            let turn = matches!(one.kind.as_str(), "turn" | "event");
            if one.seq >= head_seq && (turn || one.kind == "copy") {
                self.after.queue.count = self.after.queue.count.saturating_sub(1);
                self.after.queue.tokens =
                    self.after.queue.tokens.saturating_sub(one.token_estimate);
                self.after.queue.changed_at_version = self.after.version;
            } else if turn {
                // Without its entry nobody knows which revision took it up.
                let from = one.summary_rev.filter(|_| one.folded).unwrap_or(0);
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
        self.expire = Some(Expire {
            keys: going.iter().map(|one| one.id.clone()).collect(),
            seqs: going.iter().map(|one| one.seq).collect(),
            versions: Vec::new(),
            answers: Vec::new(),
            expired_at: self.after.updated_at.clone(),
            forgotten_version: Some(self.after.version),
        });
    }

    fn expire_rows(&mut self, versions: &[String], answers: &[String]) {
        if versions.is_empty() && answers.is_empty() {
            return;
        }
        self.expire = Some(Expire {
            keys: Vec::new(),
            seqs: Vec::new(),
            versions: versions.to_vec(),
            answers: answers.to_vec(),
            expired_at: self.after.updated_at.clone(),
            forgotten_version: Some(self.after.version),
        });
    }

    /// The summary is made of text that goes, and nobody can tell which words of it: the next eviction begins a new one.
    fn drop_summary(&mut self) {
        if self.after.queue_head_summary.content.is_empty() {
            return;
        }
        self.after.queue_head_summary = Summary {
            revision: self.after.queue_head_summary.revision + 1,
            changed_at_version: self.after.version,
            ..Summary::default()
        };
    }
}

fn what(asked: &ForgetAsked) -> &'static str {
    match (&asked.text, &asked.doc_id) {
        (Some(_), _) => "match",
        (None, Some(_)) => "document",
        (None, None) => "messages",
    }
}

fn item(found: &crate::policy::forget::FoundMessage) -> Item {
    Item {
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
        versions: Vec::new(),
        schedules: Vec::new(),
        tool_sets: Vec::new(),
        beside: false,
    }
}
