//! `retrieve_memories`: finds messages and documents by one question and ranks them by one grade.
//! Another dialect offers it.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::context_told::{barred, rounded, zone};
use super::search_archival::SearchArchival;
use super::search_recall::{SearchRecall, searched_queue};
use super::spec::{Access, Arguments, Command, Spec, decode_as};
use crate::context::{Candidate, MessageView, Pool, SubQuestion, graded};
use crate::error::{Error, Result};
use crate::limits::{QUERY_BYTES_MAX, RECALL_LIMIT};
use crate::memory::message::Message;
use crate::memory::pack::speaker;
use crate::policy::{Ctx, Question, Step, Stop, time_of_message};
use crate::search::{LOOK_ROWS, LookFound};

/// A question to both stores of the memory.
#[derive(Clone, Debug)]
pub struct RetrieveMemories {
    query: String,
    /// Maximum number of results.
    limit: usize,
    recall: SearchRecall,
    archive: SearchArchival,
    /// Time before which a document's text is dated.
    before: Option<String>,
}

impl RetrieveMemories {
    /// Reads a question, the maximum number of results, and the times from which and before which
    /// texts are looked for. An error names the argument.
    pub fn of(
        query: &str,
        limit: u64,
        (after, before): (Option<String>, Option<String>),
    ) -> Result<Self> {
        let (_, most) = RECALL_LIMIT;
        if limit == 0 || limit > most {
            return Err(Error::argument("limit", format!("use 1 to {most}")));
        }
        if query.len() > QUERY_BYTES_MAX {
            let text = format!("longer than {QUERY_BYTES_MAX} bytes: shorten it");
            return Err(Error::argument("query", text));
        }
        let recall = json!({"query": query, "after": after, "before": before, "rehydrate": false});
        let filter = after.map(|after| json!({"freshness_after": after}));
        let archive = json!({"query_text": query, "limit": LOOK_ROWS, "filter": filter});
        Ok(Self {
            query: query.to_owned(),
            limit: usize::try_from(limit).unwrap_or(usize::MAX),
            recall: decode_as::<SearchRecall>(object(recall))?.checked()?,
            archive: decode_as::<SearchArchival>(object(archive))?.checked()?,
            before,
        })
    }

    /// Returns what recall storage and the queue have.
    fn messages(&self, ctx: &Ctx<'_>) -> Result<LookFound, Stop> {
        let (query, now_ms) = (self.recall.recall_query()?, ctx.around.unix_ms);
        let queue = searched_queue(ctx);
        let found = ctx.answers.recall(|| Question::Recall { query, queue, now_ms })?;
        let hits = &found.hits[..found.hits.len().min(LOOK_ROWS)];
        let ids: Vec<String> = hits.iter().map(|hit| hit.id.clone()).collect();
        if ids.is_empty() {
            return Ok(LookFound::Recall(Vec::new(), Vec::new()));
        }
        let head_seq = ctx.core.queue.head_seq;
        let entries = ctx.answers.entries(|| Question::Entries { ids, head_seq, pairs: false })?;
        Ok(LookFound::Recall(hits.to_vec(), entries.found.clone()))
    }

    /// Returns what the archive has.
    fn passages(&self, ctx: &Ctx<'_>) -> Result<LookFound, Stop> {
        let mut passages = match ctx.core.archived.chunks {
            0 => Vec::new(),
            _ => self.archive.passages(ctx)?,
        };
        if let Some(before) = &self.before {
            passages.retain(|passage| passage.freshness_ts < *before);
        }
        Ok(LookFound::Archive(passages))
    }
}

impl Command for RetrieveMemories {
    const SPEC: Spec =
        Spec { tells_messages: true, ..Spec::tool("retrieve_memories", Access::Read) };

    fn step(&self, ctx: &Ctx<'_>) -> Result<Step, Stop> {
        let zone = zone(ctx.core);
        let of = |message: &Message| (time_of_message(message, &zone).day(), speaker(message));
        let barred = |message: &Message| barred(ctx, message);
        // The caller may not see the window.
        let view = MessageView { barred: &barred, of: &of, head_seq: u64::MAX, question_seq: None };
        let mut pool = Pool::default();
        pool.add(0, &self.messages(ctx)?, &view);
        pool.add(1, &self.passages(ctx)?, &view);
        let grades = graded(&SubQuestion::of(&self.query), &pool.candidates);
        let mut order: Vec<usize> = (0..pool.candidates.len()).collect();
        order.sort_by(|a, b| grades[*b].grade.total_cmp(&grades[*a].grade));
        let (shown, withheld): (Vec<usize>, Vec<usize>) =
            order.into_iter().partition(|at| pool.candidates[*at].fate.is_none());
        let mut seen = HashSet::new();
        let shown = shown.into_iter().filter(|at| seen.insert(&pool.candidates[*at].text));
        let result = |at: usize| told(&pool.candidates[at], grades[at].grade);
        let results: Vec<Value> = shown.take(self.limit).map(result).collect();
        let mut told = Map::new();
        told.insert("results".into(), results.into());
        if !withheld.is_empty() {
            told.insert("withheld".into(), withheld.len().into());
        }
        Ok(Step::Read(told))
    }
}

fn told(candidate: &Candidate, grade: f64) -> Value {
    let mut told = json!(candidate.origin);
    told["time"] = json!(candidate.time);
    told["speaker"] = json!(candidate.speaker);
    told["grade"] = rounded(grade);
    told["text"] = candidate.text.as_str().into();
    told
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}
