//! The stores of a memory and their parts, each with its tokens.

use std::collections::BTreeMap;

use serde_json::Value;

use super::html::{counted, percent};
use super::messages::LogMessage;
use super::texts::{Text, Texts};
use vctx_cli::output::{field, list, number};

/// Number of the newest messages of the queue whose texts a page shows.
const QUEUE_TEXTS_MAX: usize = 50;
/// Maximum number of parts of recall storage; with more days, a part is a month, or a year.
const PERIODS_MAX: usize = 14;

/// One store of the memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Store {
    pub(super) name: &'static str,
    /// Class of the store's colour.
    pub(super) class: &'static str,
    /// Parts with their tokens, largest first.
    pub(super) parts: Vec<Part>,
    /// What the store holds back or has lost.
    pub(super) about: String,
}

/// A part of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) name: String,
    pub(super) tokens: u64,
    pub(super) about: String,
    /// Texts of the part, on request.
    pub(super) texts: Vec<Text>,
}

impl Store {
    /// Returns the tokens of all parts.
    pub(super) fn tokens(&self) -> u64 {
        self.parts.iter().map(|part| part.tokens).sum()
    }

    fn new(name: &'static str, class: &'static str, mut parts: Vec<Part>, about: String) -> Store {
        parts.retain(|part| part.tokens > 0);
        parts.sort_by(|a, b| b.tokens.cmp(&a.tokens).then_with(|| a.name.cmp(&b.name)));
        Store { name, class, parts, about }
    }
}

/// What the server said about tainted items.
#[derive(Debug, Clone, Default)]
pub(super) struct Tainted {
    /// The server's mode: `off`, `mark` or `quarantine`.
    pub(super) mode: String,
    pub(super) items: Vec<Value>,
}

impl Tainted {
    /// Says how many of some tainted items are in quarantine, and how many are only marked.
    fn told(&self, is_of: impl Fn(&Value) -> bool) -> Vec<String> {
        let of: Vec<&Value> = self.items.iter().filter(|item| is_of(item)).collect();
        let held = of.iter().filter(|item| self.holds(item)).count() as u64;
        let marked = of.len() as u64 - held;
        [(held, "in quarantine"), (marked, "tainted, but shown")]
            .into_iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{count} {what}"))
            .collect()
    }

    fn holds(&self, item: &Value) -> bool {
        self.mode == "quarantine" && item["released"] != true
    }

    /// Whether a passage of the document is in quarantine.
    pub(super) fn holds_part_of(&self, doc_id: &str) -> bool {
        self.items.iter().any(|item| item["doc_id"] == doc_id && self.holds(item))
    }
}

/// Returns the core memory: system text, blocks and summary.
pub(super) fn core(state: &Value, texts: &mut Texts) -> Store {
    let window = number(state, "/context_window");
    let of_window = |tokens: u64| format!("{} of the window", percent(tokens, window));
    let mut parts = Vec::new();
    for (name, path) in [("system text", "/system"), ("summary", "/summary/content")] {
        let section = if path == "/system" { "system" } else { "summary" };
        let tokens = number(state, &format!("/tokens/{section}"));
        let text = texts.take(name, &field(state, path));
        parts.push(Part {
            name: name.into(),
            tokens,
            about: of_window(tokens),
            texts: text.into_iter().collect(),
        });
    }
    for (at, block) in list(state, "/blocks").iter().enumerate() {
        let tokens = number(block, "/token_estimate");
        let is_tainted = block["taint"].is_object();
        let shows = texts.wanted() && !is_tainted;
        let name = match shows {
            true => format!("block {}", field(block, "/id")),
            false => format!("block {}", at + 1),
        };
        let mut about = of_window(tokens);
        for (holds, what) in
            [(block["pinned"] == true, "pinned"), (is_tainted, "tainted: not shown")]
        {
            if holds {
                about = format!("{about}, {what}");
            }
        }
        let text = if shows { texts.take(name.clone(), &field(block, "/content")) } else { None };
        parts.push(Part { name, tokens, about, texts: text.into_iter().collect() });
    }
    let blocks = list(state, "/blocks").len() as u64;
    Store::new("Core memory", "working", parts, counted(blocks, "block"))
}

/// Returns the queue, divided by who speaks.
pub(super) fn queue(
    state: &Value,
    messages: &[LogMessage],
    tainted: &Tainted,
    texts: &mut Texts,
) -> Store {
    let queued: Vec<&LogMessage> = messages.iter().filter(|message| message.in_queue).collect();
    let mut parts: BTreeMap<&str, (u64, u64, Vec<Text>)> = BTreeMap::new();
    for (at, message) in queued.iter().rev().enumerate() {
        let name =
            if message.kind == "copy" { "copies of recalled messages" } else { &message.role };
        let part = parts.entry(name).or_default();
        (part.0, part.1) = (part.0 + message.tokens, part.1 + 1);
        if at < QUEUE_TEXTS_MAX {
            let about = format!("{} · {} · {}", message.seq, message.role, message.at);
            part.2.extend(texts.take(about, &message.text));
        }
    }
    let mut parts: Vec<Part> = parts
        .into_iter()
        .map(|(name, (tokens, count, texts))| Part {
            name: name.to_owned(),
            tokens,
            about: counted(count, "message"),
            texts,
        })
        .collect();
    // Beside the messages, the section has a line with the first day, and a line for each call that
    // waits for its result.
    let lines: u64 =
        number(state, "/tokens/fifo").saturating_sub(parts.iter().map(|part| part.tokens).sum());
    parts.push(Part {
        name: "other lines".into(),
        tokens: lines,
        about: "the first day, and calls that wait".into(),
        texts: Vec::new(),
    });
    let first = queued.first().map_or(u64::MAX, |message| message.seq);
    let is_queued = |item: &Value| {
        item["seq"].as_u64().is_some_and(|seq| seq >= first)
            && ["turn", "event", "copy"].contains(&item["kind"].as_str().unwrap_or_default())
    };
    let mut about = vec![counted(queued.len() as u64, "message")];
    about.extend(tainted.told(is_queued));
    if texts.wanted() && queued.len() > QUEUE_TEXTS_MAX {
        about.push(format!("texts of the newest {QUEUE_TEXTS_MAX}"));
    }
    Store::new("Queue", "fifo", parts, about.join(", "))
}

/// Returns recall storage, divided by time.
pub(super) fn recall(state: &Value, messages: &[LogMessage], tainted: &Tainted) -> Store {
    let kept: Vec<&LogMessage> = messages.iter().filter(|message| message.is_recalled()).collect();
    let periods = |digits: usize| {
        let mut periods: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        for message in &kept {
            let period = periods.entry(message.day.get(..digits).unwrap_or("no date")).or_default();
            *period = (period.0 + message.tokens, period.1 + 1);
        }
        periods
    };
    // A day, a month or a year, whichever gives few enough parts.
    let found = [10, 7].map(periods).into_iter().find(|found| found.len() <= PERIODS_MAX);
    let found = found.unwrap_or_else(|| periods(4));
    let parts = found.into_iter().map(|(period, (tokens, count))| Part {
        name: period.to_owned(),
        tokens,
        about: counted(count, "message"),
        texts: Vec::new(),
    });
    let queued = messages.iter().find(|message| message.in_queue);
    let first = queued.map_or(u64::MAX, |message| message.seq);
    let is_recalled = |item: &Value| {
        item["seq"].as_u64().is_some_and(|seq| seq < first)
            || ["recall", "spool"].contains(&item["kind"].as_str().unwrap_or_default())
    };
    let mut about = vec![counted(kept.len() as u64, "message")];
    about.extend(tainted.told(is_recalled));
    for (pointer, what) in
        [("/forgotten/messages", "forgotten"), ("/expired/messages", "removed by age")]
    {
        match number(state, pointer) {
            0 => {}
            count => about.push(format!("{count} {what}")),
        }
    }
    Store::new("Recall storage", "recall", parts.collect(), about.join(", "))
}

/// Returns the archive, divided into documents. `passages` are the texts of documents by their
/// names, on request. The name of a document is a text of its writer.
pub(super) fn archive(
    documents: &[Value],
    passages: &mut BTreeMap<String, Vec<Text>>,
    tainted: &Tainted,
    forgotten: u64,
    texts: &Texts,
) -> Store {
    let part = |(at, document): (usize, &Value)| {
        let (doc_id, chunks) = (field(document, "/doc_id"), number(document, "/chunks"));
        let is_held = tainted.holds_part_of(&doc_id);
        let held = tainted.told(|item| item["doc_id"] == doc_id.as_str());
        let about = [vec![counted(chunks, "passage")], held].concat().join(", ");
        let shown = passages.remove(&doc_id).unwrap_or_default();
        // The sender of a text in quarantine may also have chosen the name of its document.
        let name = match texts.wanted() && !is_held {
            true => doc_id,
            false => format!("document {}", at + 1),
        };
        Part { name, tokens: number(document, "/tokens"), about, texts: shown }
    };
    let parts: Vec<Part> = documents.iter().enumerate().map(part).collect();
    let mut about = vec![counted(documents.len() as u64, "document")];
    about.extend(tainted.told(|item| item["doc_id"].is_string()));
    if forgotten > 0 {
        about.push(format!("{forgotten} forgotten"));
    }
    Store::new("Archive", "archive", parts, about.join(", "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn said(seq: u64, day: &str, in_queue: bool) -> LogMessage {
        LogMessage {
            seq,
            day: day.into(),
            role: "user".into(),
            kind: "turn".into(),
            tokens: 10,
            in_queue,
            text: format!("text {seq}"),
            ..LogMessage::default()
        }
    }

    #[test]
    fn names_and_texts_are_shown_only_on_request_and_never_from_quarantine() {
        let state = json!({"context_window": 100, "system": "Be brief.", "tokens": {"system": 5},
            "blocks": [{"id": "human", "content": "Noor.", "token_estimate": 20, "pinned": true},
                {"id": "odd", "content": "Ignore.", "token_estimate": 3, "taint": {"rules": []}}]});
        let names = |store: &Store| -> Vec<String> {
            store.parts.iter().map(|part| part.name.clone()).collect()
        };
        let plain = core(&state, &mut Texts::new(false));
        assert_eq!(names(&plain), ["block 1", "system text", "block 2"]);
        assert_eq!(plain.parts[0].about, "20.0\u{a0}% of the window, pinned");
        assert!(plain.parts.iter().all(|part| part.texts.is_empty()));
        let open = core(&state, &mut Texts::new(true));
        assert_eq!(names(&open), ["block human", "system text", "block 2"]);
        assert_eq!(open.parts[0].texts[0].text, "Noor.");
        assert!(open.parts[2].texts.is_empty(), "a tainted block");

        let tainted = Tainted {
            mode: "quarantine".into(),
            items: vec![
                json!({"doc_id": "mail", "released": false}),
                json!({"doc_id": "b", "released": true}),
            ],
        };
        let documents = [("mail", 4), ("b", 9)]
            .map(|(id, tokens)| json!({"doc_id": id, "chunks": 1, "tokens": tokens}));
        let found = archive(&documents, &mut BTreeMap::new(), &tainted, 2, &Texts::new(true));
        assert_eq!(names(&found), ["b", "document 1"]);
        assert_eq!(found.about, "2 documents, 1 in quarantine, 1 tainted, but shown, 2 forgotten");
        let found = archive(&documents, &mut BTreeMap::new(), &tainted, 0, &Texts::new(false));
        assert_eq!(names(&found), ["document 2", "document 1"]);
    }

    #[test]
    fn recall_storage_is_divided_into_days_or_longer_periods() {
        let days = |count: u64| -> Vec<LogMessage> {
            (0..count)
                .map(|n| said(n + 1, &format!("2026-{:02}-{:02}", n / 28 + 1, n % 28 + 1), false))
                .collect()
        };
        let parts =
            |messages: &[LogMessage]| recall(&json!({}), messages, &Tainted::default()).parts;
        assert_eq!(parts(&days(3)).len(), 3);
        assert_eq!(parts(&days(60))[0].name, "2026-01");
        let mut messages = days(2);
        messages.push(said(3, "2026-01-03", true));
        messages.push(LogMessage { kind: "copy".into(), ..said(4, "2026-01-03", false) });
        messages.push(LogMessage { is_removed: true, ..said(5, "2026-01-03", false) });
        assert_eq!(parts(&messages).iter().map(|part| part.tokens).sum::<u64>(), 20);
        let state = json!({"tokens": {"fifo": 12}});
        let queue = queue(&state, &messages, &Tainted::default(), &mut Texts::new(true));
        assert_eq!((queue.tokens(), queue.parts[0].texts[0].text.as_str()), (12, "text 3"));
    }
}
