//! The order in which a context leaves texts out if not all of them fit.

use crate::memory::pack::Origin;

/// How long a context keeps a text, first those that it keeps longest. Of each class, the least
/// valuable texts are left out first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Keep {
    /// A text that the caller gave.
    #[default]
    Given,
    /// A message that answers a part of the question.
    CorrectMessage,
    /// A chunk of the archive that answers a part of the question.
    CorrectChunk,
    /// A message that may help.
    Message,
    /// A chunk of the archive that may help.
    Chunk,
}

impl Keep {
    /// Returns how long a text from the given place is kept.
    pub fn of(origin: &Origin, is_correct: bool) -> Self {
        match (origin, is_correct) {
            (Origin::Document { .. }, _) => Self::Given,
            (Origin::Recall { .. }, true) => Self::CorrectMessage,
            (Origin::Archive { .. }, true) => Self::CorrectChunk,
            (Origin::Recall { .. }, false) => Self::Message,
            (Origin::Archive { .. }, false) => Self::Chunk,
        }
    }
}
