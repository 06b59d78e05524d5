//! What an import will do: blocks, entries and documents in their order, and what is left out with the reason.

use serde_json::{Map, Value};

use vctx_core::limits::{
    BLOCKS_MAX, DOC_ID_BYTES_MAX, IMPORT_ITEMS_MAX, IMPORT_PIECE_BYTES, NAME_BYTES_MAX,
    TEXT_BYTES_MAX,
};
use vctx_core::memory::receipt::sha256;

/// Hex digits of a digest that make a name one of its own.
const DIGEST_CHARS: usize = 8;

/// Bounds that the caller chose.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Bytes of the longest text that becomes a block.
    pub(super) block_bytes_max: usize,
}

/// A block of working memory to be.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Block {
    pub(super) what: &'static str,
    pub(super) id: String,
    pub(super) content: String,
}

/// An entry of recall storage to be.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) what: &'static str,
    pub(super) role: &'static str,
    pub(super) content: String,
    pub(super) name: Option<String>,
    pub(super) said_at: Option<String>,
}

/// An archived document to be.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Document {
    pub(super) what: &'static str,
    pub(super) id: String,
    pub(super) text: String,
    /// Where it comes from: names and texts, without the digest, which is added when it is written.
    pub(super) provenance: Map<String, Value>,
    /// `YYYY-MM-DD`.
    pub(super) fresh: Option<String>,
}

/// Something that is not taken over.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Left {
    pub(super) what: String,
    pub(super) items: u64,
    pub(super) why: String,
}

/// Everything that was read.
#[derive(Debug)]
pub(super) struct Plan {
    limits: Limits,
    /// System text for an agent that is made.
    pub(super) system: Option<String>,
    /// Window for an agent that is made, in tokens.
    pub(super) window: Option<u64>,
    pub(super) blocks: Vec<Block>,
    pub(super) entries: Vec<Entry>,
    pub(super) documents: Vec<Document>,
    pub(super) left: Vec<Left>,
}

impl Plan {
    /// Nothing yet.
    pub(super) fn new(limits: Limits) -> Plan {
        let (blocks, entries, documents, left) = Default::default();
        Plan { limits, system: None, window: None, blocks, entries, documents, left }
    }

    /// Whether more can be taken; every reader asks it in its loop.
    pub(super) fn is_full(&self) -> bool {
        self.blocks.len() + self.entries.len() + self.documents.len() >= IMPORT_ITEMS_MAX
    }

    /// A text that stays in view, or goes to the archive as the document `path` when it is too long for that.
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

    /// A text that is found when it is asked for; one without words is left, one too long becomes a document.
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

    /// A text for the archive; a very long one becomes several, `id`, `id#2`, `id#3`, …
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

    /// Tells that so many things are not taken, and why; the same again is added up.
    pub(super) fn left(&mut self, what: impl Into<String>, items: u64, why: impl Into<String>) {
        let (what, why) = (what.into(), why.into());
        match self.left.iter_mut().find(|left| left.what == what && left.why == why) {
            Some(left) => left.items += items,
            None => self.left.push(Left { what, items, why }),
        }
    }

    /// A name as blocks have them; one that had to be changed, or that is there already, gets a piece of its digest.
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

/// A name as documents have them: without control characters, and with a piece of its digest where it is too long.
fn doc_id(name: &str) -> String {
    let clean: String =
        name.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    if clean.len() <= DOC_ID_BYTES_MAX && !clean.is_empty() {
        return clean;
    }
    let digest = &sha256(name)[..DIGEST_CHARS];
    format!("{}-{digest}", cut(&clean, DOC_ID_BYTES_MAX - DIGEST_CHARS - 1))
}

/// The beginning of a text, in bytes, at the end of a character.
fn cut(text: &str, bytes_max: usize) -> String {
    text[..text.floor_char_boundary(bytes_max)].to_owned()
}

/// Parts of a text of at most so many bytes, cut behind a line where there is one.
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

/// The day of a moment that begins with one.
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
