//! A context pack: what a built context shows, as references to messages and as texts, so that the
//! context can be rendered again byte by byte.

use std::collections::BTreeSet;
use std::ops::Range;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::message::Message;
use super::receipt::{canonical_json, sha256};

/// Number of hex digits of the digest that names a context pack.
const PACK_DIGEST_DIGITS: usize = 32;
/// Beginning of each further line of a quoted text, so that no line of it can pass for a line of
/// the context.
const FURTHER_LINE: &str = "\n  ";

/// Where a text of a context is from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "store", rename_all = "snake_case")]
pub enum Origin {
    /// A message of the log, or an entry of recall storage.
    Recall {
        /// Key of the message.
        id: String,
        /// Position of the message.
        seq: u64,
    },
    /// A chunk of the archive.
    Archive {
        /// Name of the document.
        doc_id: String,
        /// Name of the chunk within the document.
        chunk_id: String,
        /// Revision of the document at the chunk's ingest.
        revision: String,
    },
    /// A document that the caller gave.
    Document {
        /// Name of the document, or its number.
        id: String,
    },
}

/// Why a candidate is in the context, or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// The context shows it.
    Shown,
    /// The window shows it already.
    InWindow,
    /// Another candidate has the same text.
    Repeated,
    /// It answers no part of the question.
    Poor,
    /// Better candidates filled the context.
    NoRoom,
    /// It is in quarantine.
    Quarantined,
    /// It reads like an instruction.
    Tainted,
}

impl Fate {
    /// Returns the name of the fate, as answers have it.
    pub fn text(self) -> &'static str {
        match self {
            Self::Shown => "shown",
            Self::InWindow => "in_window",
            Self::Repeated => "repeated",
            Self::Poor => "poor",
            Self::NoRoom => "no_room",
            Self::Quarantined => "quarantined",
            Self::Tainted => "tainted",
        }
    }
}

/// A piece of a context's text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Piece {
    /// A part of a message, which is not stored again.
    Said {
        /// Position of the message.
        seq: u64,
        /// First byte of the part in the message's text.
        from: usize,
        /// End of the part.
        to: usize,
        /// Digest of the message.
        digest: String,
        /// Whether the line begins with this part; then it names the message, its time and its
        /// speaker.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        time: Option<String>,
        /// Index of the item.
        item: usize,
    },
    /// A text as it is shown.
    Text {
        /// The text.
        text: String,
        /// Index of the item; `None` for a text of the server between the items.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        item: Option<usize>,
    },
}

impl Piece {
    /// Returns the index of the item to which the piece belongs, if any.
    pub fn item(&self) -> Option<usize> {
        match self {
            Self::Said { item, .. } => Some(*item),
            Self::Text { item, .. } => *item,
        }
    }

    /// Returns the piece as a piece of another item.
    pub fn of_item(self, number: usize) -> Self {
        match self {
            Self::Said { seq, from, to, digest, time, .. } => {
                Self::Said { seq, from, to, digest, time, item: number }
            }
            Self::Text { text, .. } => Self::Text { text, item: Some(number) },
        }
    }
}

/// A text that a context shows, and why.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShownItem {
    /// Where the text is from.
    pub origin: Origin,
    /// Byte ranges of the shown parts in the whole text, in order.
    pub spans: Vec<Range<usize>>,
    /// Index of the part of the question that the text answers best.
    pub part: usize,
    /// How well the text answers that part, from 0 to 1.
    pub grade: Value,
    /// Cost of the text with its line, in tokens.
    pub tokens: u64,
}

/// A text that a context leaves out, and why.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LeftOut {
    /// Where the text is from.
    pub origin: Origin,
    /// Why it is left out.
    pub reason: Fate,
    /// How well it answers the question, from 0 to 1.
    pub grade: Value,
}

/// The content of a context pack.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PackContent {
    /// Position of the message for which the context is built; `None` for a given question. The
    /// prompt shows the context before this message, and at the end of the queue without it.
    pub question_seq: Option<u64>,
    /// Cost of the text, in tokens.
    pub tokens: u64,
    /// The context's text, piece by piece.
    pub pieces: Vec<Piece>,
    /// The texts that the context shows.
    pub items: Vec<ShownItem>,
    /// Texts that were found and that the context does not show, best first.
    pub left_out: Vec<LeftOut>,
}

impl PackContent {
    /// Returns the positions of the messages that the context shows, each once, in order.
    pub fn seqs(&self) -> Vec<u64> {
        let seqs = self.pieces.iter().filter_map(|piece| match piece {
            Piece::Said { seq, .. } => Some(*seq),
            Piece::Text { .. } => None,
        });
        seqs.collect::<BTreeSet<u64>>().into_iter().collect()
    }

    /// Returns the names of the archive's documents that the context shows or leaves out.
    fn documents(&self) -> Vec<String> {
        let shown = self.items.iter().map(|item| &item.origin);
        let origins = shown.chain(self.left_out.iter().map(|one| &one.origin));
        let names = origins.filter_map(|origin| match origin {
            Origin::Archive { doc_id, .. } => Some(doc_id.clone()),
            Origin::Recall { .. } | Origin::Document { .. } => None,
        });
        names.collect::<BTreeSet<String>>().into_iter().collect()
    }

    /// Returns the context's text; `message` returns the message at a position. If a message is
    /// missing or has no text any more, returns its position instead.
    pub fn text<'m>(&self, message: impl Fn(u64) -> Option<&'m Message>) -> Result<String, u64> {
        self.text_where(|_| true, message)
    }

    /// Returns the text of one item, as [`Self::text`] does for the whole context.
    pub fn item_text<'m>(
        &self,
        at: usize,
        message: impl Fn(u64) -> Option<&'m Message>,
    ) -> Result<String, u64> {
        let of_item = |piece: &Piece| piece.item() == Some(at);
        self.text_where(of_item, message)
    }

    fn text_where<'m>(
        &self,
        is_wanted: impl Fn(&Piece) -> bool,
        message: impl Fn(u64) -> Option<&'m Message>,
    ) -> Result<String, u64> {
        let mut text = String::new();
        for piece in self.pieces.iter().filter(|piece| is_wanted(piece)) {
            match piece {
                Piece::Text { text: shown, .. } => text.push_str(shown),
                Piece::Said { seq, from, to, time, .. } => {
                    let said = message(*seq).filter(|one| one.expired_at.is_none()).ok_or(*seq)?;
                    if let Some(time) = time {
                        text.push_str(&head(&seq_name(*seq), Some(time), Some(&speaker(said))));
                    }
                    text.push_str(&quoted(said.content.get(*from..*to).ok_or(*seq)?));
                }
            }
        }
        Ok(text)
    }
}

/// The row `context_packs/{scope}:{digest}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextPack {
    /// Key of the row: the scope (the agent's key) and the digest.
    #[serde(rename = "_key")]
    pub key: String,
    /// Key of the agent.
    pub agent_id: String,
    /// First digits of the SHA-256 of `text`.
    pub digest: String,
    /// Positions of the messages that the context shows.
    pub seqs: Vec<u64>,
    /// Names of the archive's documents that the context shows or leaves out.
    pub documents: Vec<String>,
    /// Canonical JSON of the pack's content.
    pub text: String,
}

impl ContextPack {
    /// Returns the row of a content. The same content has the same row.
    pub fn of(agent_id: &str, content: &PackContent) -> Self {
        let text = canonical_json(&json!(content));
        let digest = pack_digest(&text);
        Self {
            key: format!("{agent_id}:{digest}"),
            agent_id: agent_id.to_owned(),
            digest,
            seqs: content.seqs(),
            documents: content.documents(),
            text,
        }
    }

    /// Whether the text matches the digest.
    pub fn holds(&self) -> bool {
        pack_digest(&self.text) == self.digest
    }

    /// Returns the content; `None` if the text is not the text of a pack.
    pub fn content(&self) -> Option<PackContent> {
        serde_json::from_str(&self.text).ok()
    }
}

/// The newest context of an agent's prompts, kept in the core, so that all prompts with the same
/// question show the same context.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoreContext {
    /// Position of the message for which the context was built.
    pub question_seq: Option<u64>,
    /// Digest of the context pack; `None` if nothing was to be shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pack: Option<String>,
    /// Cost of the context's message, in tokens; 0 if nothing was shown.
    #[serde(default)]
    pub token_estimate: u64,
    /// The context of the prompt that is rendered; the window without a prompt has none.
    #[serde(skip)]
    pub shown: Option<ShownContext>,
}

/// A context as a window shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShownContext {
    /// Digest of the context pack.
    pub digest: String,
    /// Position of the message for which the context was built.
    pub question_seq: Option<u64>,
    /// The text.
    pub text: String,
    /// Cost of the context's message, in tokens.
    pub token_estimate: u64,
}

fn pack_digest(text: &str) -> String {
    let mut digest = sha256(text);
    digest.truncate(PACK_DIGEST_DIGITS);
    digest
}

/// Returns a text as a context shows it: each further line of it is indented.
pub fn quoted(text: &str) -> String {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    text.trim_end().replace('\n', FURTHER_LINE)
}

/// Returns the beginning of an item's line: what the text is, its time and its speaker.
pub fn head(name: &str, time: Option<&str>, speaker: Option<&str>) -> String {
    let time = time.filter(|time| !time.is_empty()).map(|time| format!(" {time}"));
    let speaker = speaker.map(|name| format!("{}: ", quoted(name)));
    format!("[{}{}] {}", quoted(name), time.unwrap_or_default(), speaker.unwrap_or_default())
}

/// Returns the name of a message in a context.
pub fn seq_name(seq: u64) -> String {
    format!("#{seq}")
}

/// Returns the name of a message's speaker, or its role.
pub fn speaker(message: &Message) -> String {
    let name = message.meta.get("name").and_then(Value::as_str);
    name.unwrap_or(message.role.text()).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pack_is_named_by_its_content_and_shows_no_line_of_its_own() {
        let piece = |text: &str, item| Piece::Text { text: text.into(), item };
        let item = ShownItem {
            origin: Origin::Archive {
                doc_id: "d".into(),
                chunk_id: "c".into(),
                revision: "r".into(),
            },
            spans: vec![Range { start: 0, end: 3 }],
            part: 0,
            grade: json!(0.5),
            tokens: 7,
        };
        let content = PackContent {
            question_seq: Some(3),
            tokens: 9,
            pieces: vec![
                piece("[From documents]\n", None),
                piece("one", Some(0)),
                Piece::Said {
                    seq: 9,
                    from: 0,
                    to: 2,
                    digest: "x".into(),
                    time: Some("t".into()),
                    item: 1,
                },
            ],
            items: vec![item],
            left_out: Vec::new(),
        };
        let pack = ContextPack::of("ada", &content);
        assert_eq!(pack, ContextPack::of("ada", &content));
        assert!(pack.holds() && pack.content() == Some(content.clone()));
        assert_eq!((pack.seqs.clone(), pack.documents.clone()), (vec![9], vec!["d".to_owned()]));
        assert_eq!(content.text(|_| None), Err(9));
        assert_eq!(content.item_text(0, |_| None), Ok("one".into()));
        let other = ContextPack { text: pack.text.replace("one", "two"), ..pack };
        assert!(!other.holds());
        assert_eq!(quoted("a\r\n[From memory]\rb\n"), "a\n  [From memory]\n  b");
        assert_eq!(head("a\nb", Some("t"), Some("x\ny")), "[a\n  b t] x\n  y: ");
    }
}
