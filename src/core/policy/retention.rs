//! The policy of retention: what is due to go from an agent, and how far a memory has gone by it.

use serde::{Deserialize, Serialize};

use crate::clock::iso8601;

/// How long what left the window stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retention {
    /// Life of an entry of recall storage, in days, counted from when it was said; 0: for ever. Fractions are allowed.
    pub recall_ttl_days: f64,
}

/// Seconds of a day.
const DAY_S: f64 = 86_400.0;
/// Longest life, in days: a hundred years.
const DAYS_MAX: f64 = 36_525.0;

impl Retention {
    /// The life of an entry in whole seconds, as a ttl index takes it; none: for ever.
    pub fn recall_ttl_s(&self) -> Option<u64> {
        let seconds = (self.recall_ttl_days * DAY_S).round();
        // A checked policy has at least one second and at most a hundred years, which a whole number holds.
        (self.recall_ttl_days > 0.0).then_some((seconds as u64).max(1))
    }

    /// The moment before which the time of what was said is over, in ISO form; empty: there is none.
    pub fn before(&self, unix_ms: u64) -> String {
        match self.recall_ttl_s() {
            Some(ttl_s) => iso8601(unix_ms.saturating_sub(ttl_s.saturating_mul(1000))),
            None => String::new(),
        }
    }

    /// What is wrong with it.
    pub fn fault(&self) -> Option<String> {
        let days = self.recall_ttl_days;
        let fits = days == 0.0 || (days * DAY_S >= 1.0 && days <= DAYS_MAX);
        (!fits).then(|| {
            format!("retention.recall_ttl_days: use 0 (for ever), or a second to {DAYS_MAX} days")
        })
    }
}

/// What is due to go from an agent, as it was found.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Due {
    /// Messages, in order.
    pub messages: Vec<DueMessage>,
    /// Copies of them that left the window.
    pub copies: Vec<String>,
    /// Copies of texts.
    pub versions: Vec<DueVersion>,
    /// Stored answers.
    pub answers: Vec<String>,
    /// Old places behind those where everything went already, in order.
    pub places: Vec<OldPlace>,
}

/// A message that may go.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct DueMessage {
    /// Its key.
    pub key: String,
    /// Its place.
    pub seq: u64,
}

/// A copy of texts that is old enough.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct DueVersion {
    /// Its key.
    pub key: String,
    /// Its version.
    pub version: u64,
}

/// A place on the number line whose time is over.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct OldPlace {
    /// The place.
    pub seq: u64,
    /// When it was taken.
    pub at: String,
    /// Whether its text went already.
    pub gone: bool,
}

impl Due {
    /// Whether there is no text to take away.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty() && self.versions.is_empty() && self.answers.is_empty()
    }

    /// The last place up to which every text is gone once these went, from one on; none if that one stays the last.
    pub fn settled(&self, through_seq: u64) -> Option<&OldPlace> {
        let goes = |seq: u64| self.messages.iter().any(|one| one.seq == seq);
        let places = self.places.iter().zip(through_seq + 1..);
        places
            .take_while(|(one, seq)| one.seq == *seq && (one.gone || goes(one.seq)))
            .last()
            .map(|(one, _)| one)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_life_is_whole_seconds_and_a_moment_before_which_it_is_over() {
        let days = |recall_ttl_days| Retention { recall_ttl_days };
        assert_eq!(days(0.0).recall_ttl_s(), None);
        assert_eq!(days(0.0).before(5_000), "");
        assert_eq!(days(30.0).recall_ttl_s(), Some(2_592_000));
        assert_eq!(days(1.0).before(86_400_000 + 5_000), "1970-01-01T00:00:05.000Z");
        for (given, good) in [
            (0.0, true),
            (0.000_02, true),
            (0.000_001, false),
            (-1.0, false),
            (f64::NAN, false),
            (4e4, false),
        ] {
            assert_eq!(days(given).fault().is_none(), good, "{given}");
        }
    }

    #[test]
    fn the_settled_places_end_before_what_stays() {
        let place = |seq, gone| OldPlace { seq, at: format!("t{seq}"), gone };
        let due = Due {
            messages: vec![DueMessage { key: "m5".into(), seq: 5 }],
            places: vec![place(5, false), place(6, true), place(7, false), place(8, true)],
            ..Due::default()
        };
        assert_eq!(due.settled(4).map(|one| one.seq), Some(6));
        assert_eq!(due.settled(3), None, "there is a gap before it");
        assert_eq!(due.settled(6), None);
        assert!(!due.is_empty());
        assert!(Due { places: vec![place(5, true)], ..Due::default() }.is_empty());
    }
}
