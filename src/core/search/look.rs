//! Looks: searches of several stores that one call makes at once.

use super::recall::RecallHit;
use crate::memory::archive::FoundPassage;
use crate::memory::message::Message;

/// Maximum number of looks of one round.
pub const LOOKS_MAX: usize = 14;
/// Number of results of a look that become candidates, and their maximum for a large context.
pub const LOOK_ROWS: usize = 25;
pub const LOOK_ROWS_MAX: usize = 100;
/// Maximum number of results of a look into the archive, which is the maximum of a search.
pub const ARCHIVE_ROWS_MAX: usize = 40;

/// Maximum number of messages whose partners become candidates.
pub const PARTNERS_MAX: usize = 50;
/// Maximum number of messages with lasting requests that become candidates.
pub const LASTING_MAX: usize = 32;

/// How near in meaning a text is to a question, by an embedding model.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Likeness {
    /// Cosine of the vectors of question and text.
    pub whole: f64,
    /// Mean over the question's tokens of the greatest cosine with a token of the text (late
    /// interaction, as in ColBERT by Khattab and Zaharia 2020). Equal to `whole` if the model gives
    /// no vectors of single tokens.
    pub words: f64,
}

/// A look into one store of the memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Look {
    /// A search of recall storage and the queue.
    Recall {
        /// Words of the search.
        query: String,
        /// Maximum number of results.
        rows: usize,
    },
    /// A search of the archive.
    Archive {
        /// Words of the search.
        query: String,
        /// Maximum number of results.
        rows: usize,
    },
    /// A search of one store by meaning only.
    Meaning {
        /// Sentence near which the results are.
        query: String,
        /// Maximum number of results.
        rows: usize,
        /// Whether the archive is searched, and otherwise recall storage.
        archive: bool,
    },
    /// The replies to messages of recall storage, and the messages that replies answer.
    Partners {
        /// Keys of the messages.
        ids: Vec<String>,
    },
    /// The newest messages with lasting requests of the user.
    Lasting,
}

/// What a look found, best first.
#[derive(Clone, Debug)]
pub enum LookFound {
    /// Messages, and the hits that led to them.
    Recall(Vec<RecallHit>, Vec<Message>),
    /// Chunks of the archive.
    Archive(Vec<FoundPassage>),
    /// Messages, each with the key of the message whose partner it is.
    Partners(Vec<(String, Message)>),
    /// Messages with lasting requests, the newest first.
    Lasting(Vec<Message>),
    /// The look failed; the name says why.
    Failed(&'static str),
}

impl LookFound {
    /// Returns why the look failed, if it did.
    pub fn failed(&self) -> Option<&'static str> {
        match self {
            Self::Failed(why) => Some(why),
            Self::Recall(..) | Self::Archive(_) | Self::Partners(_) | Self::Lasting(_) => None,
        }
    }
}
