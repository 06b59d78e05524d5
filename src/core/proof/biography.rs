//! The history of a fact: the versions of the core whose texts contained the fact, and the prompts
//! that contained the fact.

use std::collections::BTreeMap;

use serde::Serialize;

use super::fact::{Fact, Says};
use crate::memory::message::{Kind, Message};
use crate::memory::pack::{ContextPack, Origin};
use crate::memory::prompt::{Marks, Texts};

/// A period during which one text of the core contained the same words of a fact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Span {
    /// The text: `summary`, `system`, or `block` with the block's name.
    pub of: String,
    /// Version of the core at the start of the period.
    pub from_version: u64,
    /// Version of the core at the end of the period (exclusive); `None` if the text in the newest
    /// stored core version still contains the fact's words.
    pub until_version: Option<u64>,
    /// Revision of the summary at the start of the period; `None` for system text and blocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_revision: Option<u64>,
    /// Revision of the summary at the end of the period (exclusive).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until_revision: Option<u64>,
    /// Time when the period starts.
    pub since: String,
    /// Time when the period ends; `None` if it has not ended.
    pub until: Option<String>,
    /// How the text states the fact; `None` if the text contains only some of the fact's words.
    pub says: Option<Says>,
    /// Those words of the fact that the text contains.
    pub words: Vec<String>,
}

/// Collects the periods in which texts of the core contained words of a fact, from the stored
/// versions of the core.
#[derive(Debug, Default)]
pub struct Lives {
    open: BTreeMap<(bool, String), Span>,
    over: Vec<Span>,
}

impl Lives {
    /// Adds the texts of the core's next stored version. The versions must be added in ascending
    /// order.
    pub fn take(&mut self, fact: &Fact, texts: &Texts) {
        let summary = texts.queue_head_summary["content"].as_str().unwrap_or_default();
        let revision = texts.queue_head_summary["revision"].as_u64();
        let mut there = BTreeMap::new();
        there.insert((false, "summary".to_owned()), (summary, revision));
        there.insert((false, "system".to_owned()), (texts.system.content.as_str(), None));
        for block in &texts.working_blocks {
            there.insert((true, block.id.clone()), (block.content.as_str(), None));
        }
        let gone: Vec<_> =
            self.open.keys().filter(|key| !there.contains_key(*key)).cloned().collect();
        for key in gone {
            self.close(&key, texts, None);
        }
        for (key, (content, revision)) in there {
            self.look(fact, texts, key, content, revision);
        }
    }

    fn look(
        &mut self,
        fact: &Fact,
        texts: &Texts,
        key: (bool, String),
        content: &str,
        revision: Option<u64>,
    ) {
        let words: Vec<String> = fact.held_in(content).into_iter().map(str::to_owned).collect();
        let says = fact.said_in(content);
        if self.open.get(&key).is_some_and(|open| open.words == words && open.says == says) {
            return;
        }
        self.close(&key, texts, revision);
        if words.is_empty() && says.is_none() {
            return;
        }
        let of = if key.0 { format!("block {}", key.1) } else { key.1.clone() };
        let span = Span {
            of,
            from_version: texts.version,
            until_version: None,
            from_revision: revision,
            until_revision: None,
            since: texts.ts.clone(),
            until: None,
            says,
            words,
        };
        self.open.insert(key, span);
    }

    fn close(&mut self, key: &(bool, String), texts: &Texts, revision: Option<u64>) {
        let Some(mut span) = self.open.remove(key) else { return };
        span.until_version = Some(texts.version);
        span.until_revision = revision;
        span.until = Some(texts.ts.clone());
        self.over.push(span);
    }

    /// Returns all periods in the order of their starts. A period that has not ended has no end
    /// time.
    pub fn spans(mut self) -> Vec<Span> {
        self.over.extend(self.open.into_values());
        self.over.sort_by(|a, b| (a.from_version, &a.of).cmp(&(b.from_version, &b.of)));
        self.over
    }
}

/// A range of consecutive turns whose prompts contained a fact in the same messages and texts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PresenceRange {
    /// The first and the last turn of the range.
    pub turns: (u64, u64),
    /// Messages and texts that contained the fact in these prompts, like `message 17`, `copy 40`,
    /// `block plan`, `summary`, `system`, or `context: message 17, grade 0.83` for an item of a
    /// context pack.
    pub r#as: Vec<String>,
}

/// A context pack that shows a fact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackWithFact {
    /// Digest of the pack.
    pub digest: String,
    /// The items of the pack that show the fact, like `context: message 17, grade 0.83`.
    pub places: Vec<String>,
}

/// Returns the items of a context pack that show a fact; `said` are the messages of the pack.
/// Returns `None` if no item shows it.
pub fn pack_with_fact(fact: &Fact, pack: &ContextPack, said: &[Message]) -> Option<PackWithFact> {
    let content = pack.content()?;
    let message = |seq: u64| said.iter().find(|message| message.seq == seq);
    let shows = |at: usize| {
        let text = content.item_text(at, message).ok();
        text.is_some_and(|text| fact.said_in(&text).is_some())
    };
    let place = |at: usize| {
        let item = &content.items[at];
        let name = match &item.origin {
            Origin::Recall { seq, .. } => format!("message {seq}"),
            Origin::Archive { doc_id, chunk_id, .. } => format!("document {doc_id}, {chunk_id}"),
            Origin::Document { id } => format!("given document {id}"),
        };
        format!("context: {name}, grade {}", item.grade)
    };
    let places: Vec<String> = (0..content.items.len()).filter(|at| shows(*at)).map(place).collect();
    (!places.is_empty()).then(|| PackWithFact { digest: pack.digest.clone(), places })
}

/// Returns the prompts that contained a fact, as ranges of turns.
pub fn presence_ranges(
    prompts: &[Marks],
    said: &[Message],
    spans: &[Span],
    packs: &[PackWithFact],
) -> Vec<PresenceRange> {
    let mut ranges: Vec<PresenceRange> = Vec::new();
    for prompt in prompts {
        let mut places = places(prompt, said, spans);
        let shown = packs.iter().find(|pack| Some(&pack.digest) == prompt.pack.as_ref());
        places.extend(shown.into_iter().flat_map(|pack| pack.places.iter().cloned()));
        if places.is_empty() {
            continue;
        }
        match ranges.last_mut() {
            Some(last) if last.turns.1 + 1 == prompt.turn && last.r#as == places => {
                last.turns.1 = prompt.turn;
            }
            _ => ranges.push(PresenceRange { turns: (prompt.turn, prompt.turn), r#as: places }),
        }
    }
    ranges
}

fn places(prompt: &Marks, said: &[Message], spans: &[Span]) -> Vec<String> {
    let stood =
        |m: &&Message| m.kind.queued() && m.seq >= prompt.head_seq && m.seq < prompt.next_seq;
    let messages = said.iter().filter(stood).map(|m| {
        let what = if m.kind == Kind::Copy { "copy" } else { "message" };
        format!("{what} {}", m.seq)
    });
    let lived = |span: &&Span| {
        span.says.is_some()
            && span.from_version <= prompt.version
            && span.until_version.is_none_or(|until| prompt.version < until)
    };
    messages.chain(spans.iter().filter(lived).map(|span| span.of.clone())).collect()
}
