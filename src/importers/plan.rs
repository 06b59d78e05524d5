//! The plan of an import: the blocks, entries and documents to write, in order, and the skipped
//! items with reasons.

use serde_json::{Map, Value};

use crate::limits::IMPORT_ITEMS_MAX;
use vctx_core::limits::{BLOCKS_MAX, DOC_ID_BYTES_MAX, NAME_BYTES_MAX, TEXT_BYTES_MAX};
use vctx_core::memory::Labels;
use vctx_core::memory::receipt::sha256;

/// Maximum length of a text sent as one document, in bytes. The body of the call stays below
/// `BODY_BYTES_MAX`, even with JSON escapes.
const IMPORT_PIECE_BYTES: usize = 768 * 1024;

/// Number of hex digits of a digest that are appended to make a name unique.
const DIGEST_CHARS: usize = 8;

/// Limits of an import that the caller chooses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Maximum length of a block, in bytes.
    pub(super) block_bytes_max: usize,
}

/// A block of core memory to write.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Block {
    pub(super) what: &'static str,
    pub(super) id: String,
    pub(super) content: String,
}

/// An entry of recall storage to write.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) what: &'static str,
    pub(super) role: &'static str,
    pub(super) content: String,
    pub(super) name: Option<String>,
    pub(super) said_at: Option<String>,
    pub(super) labels: Labels,
}

/// An archived document to write.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Document {
    pub(super) what: &'static str,
    pub(super) id: String,
    pub(super) text: String,
    /// Provenance of the document: names of attributes, each with a text. The digest of the
    /// document's text is added when the document is written.
    pub(super) provenance: Map<String, Value>,
    /// Date of the document, as `YYYY-MM-DD`.
    pub(super) fresh: Option<String>,
}

/// Items that are not imported, with the reason.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Left {
    pub(super) what: String,
    pub(super) items: u64,
    pub(super) why: String,
}

/// All items that an import has read, in the form in which they will be written.
#[derive(Debug)]
pub(super) struct Plan {
    limits: Limits,
    /// System text of a new agent.
    pub(super) system: Option<String>,
    /// Window of a new agent, in tokens.
    pub(super) window: Option<u64>,
    pub(super) blocks: Vec<Block>,
    pub(super) entries: Vec<Entry>,
    pub(super) documents: Vec<Document>,
    pub(super) left: Vec<Left>,
}

impl Plan {
    /// Creates an empty plan.
    pub(super) fn new(limits: Limits) -> Plan {
        let (blocks, entries, documents, left) = Default::default();
        Plan { limits, system: None, window: None, blocks, entries, documents, left }
    }

    /// Whether the plan has reached the maximum number of items; every module that reads a format
    /// checks this in its loop.
    pub(super) fn is_full(&self) -> bool {
        self.blocks.len() + self.entries.len() + self.documents.len() >= IMPORT_ITEMS_MAX
    }

    /// Plans a text as a block, or as the archived document `path` if the text is too long.
    pub(super) fn block(
        &mut self,
        what: &'static str,
        name: &str,
        path: &str,
        content: String,
        purpose: Option<String>,
    ) {
        if content.len() > self.limits.block_bytes_max || self.blocks.len() >= BLOCKS_MAX {
            let mut provenance = Map::new();
            if let Some(purpose) = purpose {
                provenance.insert("purpose".into(), purpose.into());
            }
            return self.document(what, path, &content, provenance, None);
        }
        let id = self.block_id(name);
        self.blocks.push(Block { what, id, content });
    }

    /// Plans a text as a recall entry. A blank text is skipped, and a text that is too long becomes
    /// a document.
    pub(super) fn entry(&mut self, entry: Entry) {
        if entry.content.trim().is_empty() {
            return self.left(entry.what, 1, "there is no text in it");
        }
        if entry.content.len() > TEXT_BYTES_MAX {
            let path = format!("{}/{}", entry.what, &sha256(&entry.content)[..DIGEST_CHARS]);
            let fresh = entry.said_at.as_deref().and_then(day);
            return self.document(entry.what, &path, &entry.content, Map::new(), fresh);
        }
        let short =
            |text: Option<String>| text.filter(|t| !t.is_empty()).map(|t| cut(&t, NAME_BYTES_MAX));
        let (name, said_at) = (short(entry.name), short(entry.said_at));
        self.entries.push(Entry { name, said_at, ..entry });
    }

    /// Plans a text for the archive; a very long text becomes several documents, `id`, `id#2`,
    /// `id#3`, …
    pub(super) fn document(
        &mut self,
        what: &'static str,
        id: &str,
        text: &str,
        provenance: Map<String, Value>,
        fresh: Option<String>,
    ) {
        if text.trim().is_empty() {
            return self.left(what, 1, "there is no text in it");
        }
        for (number, piece) in pieces(text, IMPORT_PIECE_BYTES).into_iter().enumerate() {
            let id = match number {
                0 => doc_id(id),
                _ => doc_id(&format!("{id}#{}", number + 1)),
            };
            let (provenance, fresh) = (provenance.clone(), fresh.clone());
            self.documents.push(Document { what, id, text: piece.to_owned(), provenance, fresh });
        }
    }

    /// Records how many items of a kind are not imported, and the reason. Items of the same kind
    /// with the same reason are counted together.
    pub(super) fn left(&mut self, what: impl Into<String>, items: u64, why: impl Into<String>) {
        let (what, why) = (what.into(), why.into());
        match self.left.iter_mut().find(|left| left.what == what && left.why == why) {
            Some(left) => left.items += items,
            None => self.left.push(Left { what, items, why }),
        }
    }

    /// Converts a name to a valid block name. If the name had to be changed or another block
    /// already has it, appends a part of the name's digest.
    fn block_id(&self, name: &str) -> String {
        let plain = |letter: char| letter.is_ascii_alphanumeric() || "_.-".contains(letter);
        let clean: String =
            name.chars().map(|letter| if plain(letter) { letter } else { '-' }).collect();
        let taken = self.blocks.iter().any(|block| block.id == clean);
        if !clean.is_empty() && clean == name && clean.len() <= NAME_BYTES_MAX && !taken {
            return clean;
        }
        let digest = &sha256(name)[..DIGEST_CHARS];
        format!("{}-{digest}", cut(&clean, NAME_BYTES_MAX - DIGEST_CHARS - 1))
    }
}

/// Converts a name to a valid document name: replaces control characters by spaces. A name that is
/// too long is truncated, and a part of the name's digest is appended.
fn doc_id(name: &str) -> String {
    let clean: String =
        name.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    if clean.len() <= DOC_ID_BYTES_MAX && !clean.is_empty() {
        return clean;
    }
    let digest = &sha256(name)[..DIGEST_CHARS];
    format!("{}-{digest}", cut(&clean, DOC_ID_BYTES_MAX - DIGEST_CHARS - 1))
}

/// Returns the beginning of a text, with at most the given number of bytes and only whole
/// characters.
fn cut(text: &str, bytes_max: usize) -> String {
    text[..text.floor_char_boundary(bytes_max)].to_owned()
}

/// Splits a text into parts of limited length in bytes, after a line end if possible.
fn pieces(text: &str, bytes_max: usize) -> Vec<&str> {
    let (mut rest, mut pieces) = (text, Vec::new());
    while rest.len() > bytes_max {
        let most = rest.floor_char_boundary(bytes_max);
        let end = rest[..most].rfind('\n').map_or(most, |line| line + 1);
        let (piece, behind) = rest.split_at(end);
        pieces.push(piece);
        rest = behind;
    }
    pieces.push(rest);
    pieces
}

/// Returns the date of a timestamp that begins with a date.
pub(super) fn day(moment: &str) -> Option<String> {
    let day = moment.get(..10)?;
    let is_day = day.bytes().enumerate().all(|(at, b)| match at {
        4 | 7 => b == b'-',
        _ => b.is_ascii_digit(),
    });
    is_day.then(|| day.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        Plan::new(Limits { block_bytes_max: 10 })
    }

    #[test]
    fn a_long_text_goes_to_the_archive_and_a_short_one_stays_in_view() {
        let mut plan = plan();
        plan.block("blocks", "human", "letta/human", "short".into(), Some("the person".into()));
        plan.block(
            "blocks",
            "notes",
            "letta/notes",
            "far too long for it".into(),
            Some("notes".into()),
        );
        assert_eq!((plan.blocks.len(), plan.blocks[0].id.as_str()), (1, "human"));
        assert_eq!(plan.documents[0].id, "letta/notes");
        assert_eq!(plan.documents[0].provenance["purpose"], "notes");
    }

    #[test]
    fn names_that_were_changed_or_are_taken_stay_apart() {
        let mut plan = plan();
        for name in ["a b", "a-b", "a_b", "a/b", "a-b", ""] {
            plan.block("blocks", name, name, "x".into(), None);
        }
        let mut ids: Vec<&str> = plan.blocks.iter().map(|block| block.id.as_str()).collect();
        assert_eq!((ids[1], ids[2]), ("a-b", "a_b"));
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 6);
        assert!(doc_id(&"ä".repeat(300)).len() <= DOC_ID_BYTES_MAX);
    }

    #[test]
    fn pieces_are_the_whole_text_and_end_behind_lines() {
        let text = "one\ntwo\nthree four five\nsix";
        let cut = pieces(text, 9);
        assert_eq!(cut, ["one\ntwo\n", "three fou", "r five\n", "six"]);
        assert_eq!(cut.concat(), text);
        assert_eq!(pieces("ééé", 3), ["é", "é", "é"]);
    }

    #[test]
    fn what_is_left_is_added_up_by_its_reason() {
        let mut plan = plan();
        for why in ["a", "b", "a"] {
            plan.left("tools", 2, why);
        }
        assert_eq!(plan.left.iter().map(|left| left.items).collect::<Vec<_>>(), [4, 2]);
    }

    #[test]
    fn a_day_is_what_a_moment_begins_with() {
        assert_eq!(day("2025-10-31T22:56:56.459100+00:00").as_deref(), Some("2025-10-31"));
        assert_eq!(day("yesterday at"), None);
        assert_eq!(day("2025"), None);
    }
}
