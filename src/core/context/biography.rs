//! The life of a fact: where it was said, how long it lived in the summary and in blocks, and which prompts held it.

use std::collections::BTreeMap;

use serde::Serialize;

use super::fact::{Fact, Says};
use crate::memory::message::{Kind, Message};
use crate::memory::prompt::{Marks, Texts};

/// A time in which one text held the same words of a fact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Span {
    /// `summary`, `system`, or the name of a block.
    pub of: String,
    /// Version of the core in which it began.
    pub from_version: u64,
    /// Version in which it was over; none: it holds up to the last copy looked at.
    pub until_version: Option<u64>,
    /// Revision of the summary in which it began; none for what is no summary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_revision: Option<u64>,
    /// Revision in which it was over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until_revision: Option<u64>,
    /// When it began.
    pub since: String,
    /// When it was over.
    pub until: Option<String>,
    /// How all of the fact is said; none where only some of its words are there.
    pub says: Option<Says>,
    /// The words that are there.
    pub words: Vec<String>,
}

/// One after the other, the times in which texts held something of a fact.
#[derive(Debug, Default)]
pub struct Lives {
    open: BTreeMap<(bool, String), Span>,
    over: Vec<Span>,
}

impl Lives {
    /// Takes the next copy of texts, in order of versions.
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

    /// All of them, in order of their beginning; those at the end hold still.
    pub fn spans(mut self) -> Vec<Span> {
        self.over.extend(self.open.into_values());
        self.over.sort_by(|a, b| (a.from_version, &a.of).cmp(&(b.from_version, &b.of)));
        self.over
    }
}

/// Turns one after the other that held a fact in the same places.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Held {
    /// First and last of them.
    pub turns: (u64, u64),
    /// As what: `message 17`, `copy 40`, `block plan`, `summary`, `system`.
    pub r#as: Vec<String>,
}

/// Which prompts held a fact, as ranges of turns. Prompts that did not are left out.
pub fn held_by(prompts: &[Marks], said: &[Message], spans: &[Span]) -> Vec<Held> {
    let mut ranges: Vec<Held> = Vec::new();
    for prompt in prompts {
        let places = places(prompt, said, spans);
        if places.is_empty() {
            continue;
        }
        match ranges.last_mut() {
            Some(last) if last.turns.1 + 1 == prompt.turn && last.r#as == places => {
                last.turns.1 = prompt.turn;
            }
            _ => ranges.push(Held { turns: (prompt.turn, prompt.turn), r#as: places }),
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn texts(version: u64, summary: (&str, u64), blocks: Value) -> Texts {
        let blocks: Vec<Value> = blocks
            .as_object()
            .unwrap()
            .iter()
            .map(|(id, content)| json!({"id": id, "role": "x", "content": content, "token_estimate": 1, "pinned": false, "changed_at_version": 1}))
            .collect();
        serde_json::from_value(json!({"_key": format!("ada:{version}"), "version": version,
            "system": {"content": "Be brief.", "token_estimate": 1, "changed_at_version": 1}, "working_blocks": blocks,
            "queue_head_summary": {"content": summary.0, "revision": summary.1}, "context_window": 100, "encoding": "o200k_base",
            "token_budget": {"warning": 1, "flush": 1, "target": 1, "max": 1}, "ts": format!("t{version}")}))
        .unwrap()
    }

    #[test]
    fn a_fact_lives_fades_and_dies_in_summary_and_blocks() {
        let fact = Fact::parse("berth costs 14").unwrap();
        let mut lives = Lives::default();
        for copy in [
            texts(1, ("", 0), json!({})),
            texts(3, ("The berth costs 14.", 1), json!({})),
            texts(5, ("The berth costs 14.", 1), json!({"plan": "Berth costs 14"})),
            texts(7, ("A berth.", 2), json!({"plan": "Berth costs 14"})),
            texts(9, ("Nothing.", 3), json!({})),
        ] {
            lives.take(&fact, &copy);
        }
        let spans = lives.spans();
        let told: Vec<(&str, u64, Option<u64>, bool, usize)> = spans
            .iter()
            .map(|s| {
                (s.of.as_str(), s.from_version, s.until_version, s.says.is_some(), s.words.len())
            })
            .collect();
        assert_eq!(
            told,
            [
                ("summary", 3, Some(7), true, 3),
                ("block plan", 5, Some(9), true, 3),
                ("summary", 7, Some(9), false, 1)
            ]
        );
        assert_eq!((spans[0].from_revision, spans[0].until_revision), (Some(1), Some(2)));

        let mark = |turn, version| Marks { turn, version, head_seq: 1, next_seq: 1 };
        let prompts = [mark(1, 2), mark(2, 3), mark(3, 4), mark(4, 6), mark(5, 8), mark(6, 10)];
        let held = held_by(&prompts, &[], &spans);
        let told: Vec<((u64, u64), String)> =
            held.iter().map(|h| (h.turns, h.r#as.join("+"))).collect();
        assert_eq!(
            told,
            [
                ((2, 3), "summary".to_owned()),
                ((4, 4), "summary+block plan".to_owned()),
                ((5, 5), "block plan".to_owned())
            ]
        );
    }
}
