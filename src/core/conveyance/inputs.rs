//! Every term with its numerator and denominator, as plain counts; what makes C zero; what the terms come to.

use serde::{Deserialize, Serialize};

use super::formula::{Term, Terms};
use super::times::Times;

/// A share by its counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ratio {
    /// What is right.
    pub numerator: u64,
    /// All.
    pub denominator: u64,
}

impl Ratio {
    /// A share.
    pub fn of(numerator: u64, denominator: u64) -> Self {
        Self { numerator, denominator }
    }

    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self::of(self.numerator + other.numerator, self.denominator + other.denominator)
    }

    /// Its value; none when there is nothing to share.
    pub fn value(self) -> Option<f64> {
        (self.denominator > 0).then(|| self.numerator as f64 / self.denominator as f64)
    }
}

/// A tier of the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// `core_memory`, on both sockets.
    Core,
    /// `recall_log` and its view.
    Recall,
    /// `archival_docs`.
    Archival,
}

impl Tier {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Core, Self::Recall, Self::Archival];

    /// Its name.
    pub fn text(self) -> &'static str {
        match self {
            Self::Core => "core",
            Self::Recall => "recall",
            Self::Archival => "archival",
        }
    }
}

/// Why C is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// The last probe of a tier was not answered.
    TierDown(Tier),
    /// Chunks without late-chunking evidence were offered (and refused).
    NaiveChunking,
}

impl Why {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::TierDown(Tier::Core),
        Self::TierDown(Tier::Recall),
        Self::TierDown(Tier::Archival),
        Self::NaiveChunking,
    ];

    /// The flag as answers, logs and metrics carry it.
    pub fn text(self) -> &'static str {
        match self {
            Self::TierDown(Tier::Core) => "tier_down_core",
            Self::TierDown(Tier::Recall) => "tier_down_recall",
            Self::TierDown(Tier::Archival) => "tier_down_archival",
            Self::NaiveChunking => "naive_chunking",
        }
    }
}

/// A way whose time is promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// `search_recall`.
    Recall,
    /// `search_archival`.
    Archival,
    /// A guarded write of a core that evicts nothing.
    CoreWrite,
}

impl Path {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Recall, Self::Archival, Self::CoreWrite];

    /// Its name.
    pub fn text(self) -> &'static str {
        match self {
            Self::Recall => "recall",
            Self::Archival => "archival",
            Self::CoreWrite => "core_write",
        }
    }

    /// What the 99th percentile may take, in milliseconds (seed 002, non-functional requirements).
    pub fn allowed_ms(self) -> f64 {
        match self {
            Self::Recall => 250.0,
            Self::Archival => 750.0,
            Self::CoreWrite => 100.0,
        }
    }
}

/// How long a way took.
#[derive(Clone, Debug, PartialEq)]
pub struct PathTime {
    /// The way.
    pub path: Path,
    /// What was measured.
    pub times: Times,
    /// Whether this session was measured, or the whole server because the session has no sample.
    pub of_session: bool,
}

impl PathTime {
    /// Share of the allowance that the 99th percentile takes; none without samples.
    pub fn cost(&self) -> Option<f64> {
        self.times.p99_ms().map(|p99| p99 / self.path.allowed_ms())
    }
}

/// Where the messages of an agent are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Places {
    /// First seq looked at; 1 unless there are more than are looked at.
    pub from_seq: u64,
    /// The seq of the next message.
    pub next_seq: u64,
    /// Messages that are there.
    pub stored: u64,
    /// Those in the queue.
    pub queued: u64,
    /// Entries in recall storage.
    pub logged: u64,
    /// Copies that have left the queue; nothing is lost with them.
    pub copies: u64,
    /// Messages whose time is over by the policy of retention: they need no entry any more.
    #[serde(default)]
    pub expired: u64,
}

impl Places {
    /// Messages appended in the part looked at.
    pub fn appended(&self) -> u64 {
        self.next_seq - self.from_seq
    }

    /// Messages that have a place, in the queue or in recall storage.
    pub fn placed(&self) -> u64 {
        self.queued + self.logged + self.copies + self.expired
    }

    /// Accounted for: a message that is there and has a place. More places than messages are a doubling, told apart.
    pub fn conservation(&self) -> Ratio {
        Ratio::of(self.stored.min(self.placed()), self.appended())
    }

    /// Places beyond the messages: some message stands in two.
    pub fn doubled(&self) -> u64 {
        self.placed().saturating_sub(self.stored)
    }
}

/// Everything the score is computed from.
#[derive(Clone, Debug, PartialEq)]
pub struct Inputs {
    /// Where the messages are.
    pub places: Places,
    /// Recall searches that found something, of all.
    pub recall_hits: Ratio,
    /// Database requests with an answer, of all sent.
    pub store_requests: Ratio,
    /// Whether those are this session's, or the whole server's.
    pub store_requests_of_session: bool,
    /// Chains ended by `explicit_yield` or `tokens`, of all started.
    pub chains: Ratio,
    /// The three times.
    pub times: [PathTime; 3],
    /// Chunks with late-chunking evidence, of all offered.
    pub chunks: Ratio,
    /// Probes that were answered, of all.
    pub probes: Ratio,
    /// Flushes that reached their target without a drift alarm, of all.
    pub flushes: Ratio,
    /// Checks of the inside eye that pass, of all.
    pub guards: Ratio,
    /// Writes with an audit row, of all.
    pub audited: Ratio,
    /// What makes C zero.
    pub zero: Vec<Why>,
}

impl Inputs {
    /// Values of the terms.
    pub fn terms(&self) -> Terms {
        let both = |a: Ratio, b: Ratio| Some((a.value()?, b.value()?));
        Terms::default()
            .with(Term::W, both(self.places.conservation(), self.recall_hits).map(|(a, b)| a * b))
            .with(Term::R, self.store_requests.value())
            .with(Term::H, self.chains.value())
            .with(Term::T, self.time())
            .with(Term::L, self.chunks.value())
            .with(Term::I, self.probes.value())
            .with(Term::A, self.flushes.value())
            .with(Term::G, both(self.guards, self.audited).map(|(a, b)| a.min(b)))
    }

    /// The worst of the three times, each as a share of its allowance; none while one of them was never measured.
    fn time(&self) -> Option<f64> {
        self.times
            .iter()
            .map(PathTime::cost)
            .try_fold(0.0_f64, |worst, cost| cost.map(|cost| worst.max(cost)))
    }

    /// The counts that a term lacks, by name.
    pub fn lacks(&self, term: Term) -> Vec<&'static str> {
        let zero = |pairs: &[(&'static str, Ratio)]| {
            pairs.iter().filter(|(_, r)| r.denominator == 0).map(|(name, _)| *name).collect()
        };
        match term {
            Term::W => zero(&[
                ("conservation", self.places.conservation()),
                ("recall_hit_rate", self.recall_hits),
            ]),
            Term::R => zero(&[("store_requests", self.store_requests)]),
            Term::H => zero(&[("chains", self.chains)]),
            Term::T => {
                let silent = self.times.iter().filter(|time| time.times.samples() == 0);
                silent.map(|time| time.path.text()).collect()
            }
            Term::L => zero(&[("chunks", self.chunks)]),
            Term::I => zero(&[("probes", self.probes)]),
            Term::A => zero(&[("flushes", self.flushes)]),
            Term::G => zero(&[("guards", self.guards), ("audited_writes", self.audited)]),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::formula::score;
    use super::*;

    pub(in super::super) fn healthy() -> Inputs {
        let time = |path| {
            let mut times = Times::default();
            times.record(20.0);
            PathTime { path, times, of_session: true }
        };
        Inputs {
            places: Places {
                from_seq: 1,
                next_seq: 11,
                stored: 10,
                queued: 4,
                logged: 5,
                copies: 1,
                expired: 0,
            },
            recall_hits: Ratio::of(4, 5),
            store_requests: Ratio::of(100, 100),
            store_requests_of_session: true,
            chains: Ratio::of(2, 2),
            times: Path::ALL.map(time),
            chunks: Ratio::of(9, 10),
            probes: Ratio::of(30, 30),
            flushes: Ratio::of(3, 4),
            guards: Ratio::of(5, 5),
            audited: Ratio::of(12, 12),
            zero: Vec::new(),
        }
    }

    #[test]
    fn terms_are_their_counts() {
        let terms = healthy().terms();
        let value = |term| terms.get(term).unwrap();
        assert_eq!(value(Term::W), 0.8);
        assert_eq!(value(Term::T), 0.2, "20 ms of the 100 of a core write are the worst");
        assert_eq!((value(Term::L), value(Term::A), value(Term::G)), (0.9, 0.75, 1.0));
    }

    #[test]
    fn every_zero_denominator_is_named_by_term_and_count() {
        let none = Ratio::default();
        let bare = Inputs {
            places: Places { from_seq: 1, next_seq: 1, ..Places::default() },
            recall_hits: none,
            store_requests: none,
            chains: none,
            chunks: none,
            probes: none,
            flushes: none,
            guards: none,
            times: Path::ALL.map(|path| PathTime {
                path,
                times: Times::default(),
                of_session: false,
            }),
            ..healthy()
        };
        let found = score(&bare.terms(), false);
        assert_eq!((found.c, found.missing.as_slice()), (None, &Term::ALL[..]));
        assert_eq!(bare.lacks(Term::W), ["conservation", "recall_hit_rate"]);
        assert_eq!(bare.lacks(Term::T), ["recall", "archival", "core_write"]);
        assert_eq!(bare.lacks(Term::G), ["guards"]);
    }

    #[test]
    fn a_lost_message_and_a_doubled_one_do_not_make_up_for_each_other() {
        let lost = Places { stored: 9, logged: 4, ..healthy().places };
        assert_eq!(lost.conservation(), Ratio::of(9, 10));
        let edge_lost = Places { logged: 4, ..healthy().places };
        assert_eq!(edge_lost.conservation(), Ratio::of(9, 10));
        let both = Places { stored: 9, logged: 6, ..healthy().places };
        assert_eq!((both.conservation(), both.doubled()), (Ratio::of(9, 10), 2));
    }
}
