//! A text that a context could show, with its source.

use std::ops::Range;

use serde::Serialize;

/// Where a candidate is from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
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
    /// It reads like an instruction, and a context has no fence around its texts.
    Tainted,
}

/// A text that a context could show.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// Where the text is from.
    pub origin: Origin,
    /// The text, or the part of a long text that a look found.
    pub text: String,
    /// Byte position of `text` in the whole text.
    pub start: usize,
    /// Time of the text, in words; `None` if the text has none.
    pub time: Option<String>,
    /// Name or role of the speaker; `None` for a document.
    pub speaker: Option<String>,
    /// Rank in each look that found it, from 0, with the number of the look.
    pub ranks: Vec<(usize, usize)>,
    /// What is known about it before it is graded.
    pub fate: Option<Fate>,
}

impl Candidate {
    /// Returns a text that the caller gave, with its name.
    pub fn given(id: &str, text: &str) -> Self {
        Self {
            origin: Origin::Document { id: id.to_owned() },
            text: text.to_owned(),
            start: 0,
            time: None,
            speaker: None,
            ranks: Vec::new(),
            fate: None,
        }
    }

    /// Whether the text is said in a conversation.
    pub fn is_said(&self) -> bool {
        matches!(self.origin, Origin::Recall { .. })
    }

    /// Returns the place of a part of the text in the whole text.
    pub fn place_of(&self, part: &Range<usize>) -> Range<usize> {
        self.start + part.start..self.start + part.end
    }
}
