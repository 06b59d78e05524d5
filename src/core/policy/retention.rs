//! Retention: the rows whose texts are old enough to remove, and the log position up to which all
//! texts of an agent are removed.

use serde::{Deserialize, Serialize};

use crate::clock::iso8601;

/// The retention policy, which limits how long the texts of evicted messages are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retention {
    /// Lifetime of an entry of recall storage, in days after the time of its message; 0 means
    /// unlimited. Fractions are allowed.
    pub recall_ttl_days: f64,
}

/// Number of seconds in a day.
const DAY_S: f64 = 86_400.0;
/// Maximum lifetime of an entry, in days: a hundred years.
const DAYS_MAX: f64 = 36_525.0;

impl Retention {
    /// Returns the lifetime of an entry in seconds, as a TTL index needs it; `None` if unlimited.
    pub fn recall_ttl_s(&self) -> Option<u64> {
        let seconds = (self.recall_ttl_days * DAY_S).round();
        // A validated retention policy has a lifetime of at most a hundred years, which fits the
        // integer.
        (self.recall_ttl_days > 0.0).then_some((seconds as u64).max(1))
    }

    /// Returns the time before which entries are due for removal, ISO 8601; empty without
    /// retention.
    pub fn before(&self, unix_ms: u64) -> String {
        match self.recall_ttl_s() {
            Some(ttl_s) => iso8601(unix_ms.saturating_sub(ttl_s.saturating_mul(1000))),
            None => String::new(),
        }
    }

    /// Returns the time after which texts stay for at least another tenth of their lifetime, ISO
    /// 8601; empty without retention. A summary that is made again leaves older texts out, so it is
    /// made again about ten times within a lifetime, not for each message.
    pub fn fresh(&self, unix_ms: u64) -> String {
        match self.recall_ttl_s() {
            Some(ttl_s) => iso8601(unix_ms.saturating_sub(ttl_s.saturating_mul(900))),
            None => String::new(),
        }
    }

    /// Returns a description of the invalid value, or `None` if the retention policy is valid.
    pub fn fault(&self) -> Option<String> {
        let days = self.recall_ttl_days;
        let fits = days == 0.0 || (days * DAY_S >= 1.0 && days <= DAYS_MAX);
        (!fits).then(|| {
            format!("retention.recall_ttl_days: use 0 (for ever), or a second to {DAYS_MAX} days")
        })
    }
}

/// Rows of an agent whose texts are due for removal.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Due {
    /// Messages whose text is due for removal, in the order of the log.
    pub messages: Vec<DueMessage>,
    /// Keys of the evicted copies of messages whose text is due for removal.
    pub copies: Vec<String>,
    /// Copies in the window of messages whose text is due for removal.
    #[serde(default)]
    pub shown: Vec<ShownCopy>,
    /// Stored core versions whose summaries are due for removal.
    pub versions: Vec<DueVersion>,
    /// Keys of stored answers that are due for removal.
    pub answers: Vec<String>,
    /// Positions of messages that are older than the retention age and whose texts may still exist,
    /// in the order of the log.
    pub places: Vec<OldPlace>,
}

/// A message whose text is due for removal.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct DueMessage {
    /// Key of the message.
    pub key: String,
    /// Position of the message.
    pub seq: u64,
}

/// A copy in the window of a message whose text is due for removal.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct ShownCopy {
    /// Key of the copy.
    pub key: String,
    /// Rendered cost of the copy, in tokens.
    pub token_estimate: u64,
    /// Cost of the lines around the copies of a search, which stay; 0 unless the copy is the first
    /// of these copies.
    #[serde(default)]
    pub frame_tokens: u64,
}

/// A stored core version (a row of `core_versions`) whose summary is due for removal.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct DueVersion {
    /// Key of the row in `core_versions`.
    pub key: String,
    /// Version number of the core whose texts the row contains.
    pub version: u64,
}

/// A position of the log whose message is older than the retention age.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct OldPlace {
    /// The position.
    pub seq: u64,
    /// Time of the message at the position.
    pub at: String,
    /// Whether the text at the position is already removed.
    pub gone: bool,
}

impl Due {
    /// Returns whether no text is due for removal.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty() && self.versions.is_empty() && self.answers.is_empty()
    }

    /// Returns the last position up to which all texts are removed after this step; `None` if this
    /// position is not beyond `through_seq`.
    pub fn settled(&self, through_seq: u64) -> Option<&OldPlace> {
        let goes = |seq: u64| self.messages.iter().any(|one| one.seq == seq);
        let places = self.places.iter().zip(through_seq + 1..);
        places
            .take_while(|(one, seq)| one.seq == *seq && (one.gone || goes(one.seq)))
            .last()
            .map(|(one, _)| one)
    }
}
