//! A text that a context could show, with its source.

use std::ops::Range;

use super::keep::Keep;
use crate::memory::message::Role;
use crate::memory::pack::{Fate, Origin};

/// A text that a context could show.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// Where the text is from.
    pub origin: Origin,
    /// The text, or the part of a long text that a look found.
    pub text: String,
    /// Byte position of `text` in the whole text.
    pub start: usize,
    /// Digest of the message; empty for another text.
    pub digest: String,
    /// Time of the text, in words; `None` if the text has none.
    pub time: Option<String>,
    /// Name or role of the speaker; `None` for a document.
    pub speaker: Option<String>,
    /// Rank in each look that found it, from 0, with the number of the look.
    pub ranks: Vec<(usize, usize)>,
    /// How far a search ranks it ahead of a usual result, in standard scores of the search; the
    /// largest of several searches. Negative for a result that is not ahead, `None` without such a
    /// search.
    pub lead: Option<f64>,
    /// How far in front the looks found it: the sum of a share of 1 for the first place of a look.
    pub found: f64,
    /// What is known about it before it is graded.
    pub fate: Option<Fate>,
    /// How long a context keeps it if not all texts fit.
    pub keep: Keep,
    /// Byte ranges of the user's lasting requests in `text`, which a context shows although they
    /// do not answer the question.
    pub lasting: Vec<Range<usize>>,
}

impl Candidate {
    /// Returns a text that the caller gave, with its name.
    pub fn given(id: &str, text: &str) -> Self {
        Self {
            origin: Origin::Document { id: id.to_owned() },
            text: text.to_owned(),
            start: 0,
            digest: String::new(),
            time: None,
            speaker: None,
            ranks: Vec::new(),
            lead: None,
            found: 0.0,
            fate: None,
            keep: Keep::Given,
            lasting: Vec::new(),
        }
    }

    /// Whether the text is said in a conversation.
    pub fn is_said(&self) -> bool {
        matches!(self.origin, Origin::Recall { .. })
    }

    /// Whether the model said the text.
    pub fn is_own(&self) -> bool {
        self.is_said() && self.speaker.as_deref() == Some(Role::Assistant.text())
    }

    /// Whether a part of the text has a lasting request of the user.
    pub fn has_lasting(&self, part: &Range<usize>) -> bool {
        self.lasting.iter().any(|own| own.start < part.end && part.start < own.end)
    }

    /// Returns the place of a part of the text in the whole text.
    pub fn place_of(&self, part: &Range<usize>) -> Range<usize> {
        self.start + part.start..self.start + part.end
    }
}
