//! The counts for every term of the Conveyance score, the reasons for a zero score, and the values
//! of the terms.

use serde::{Deserialize, Serialize};

use super::formula::{Term, Terms};
use super::times::Times;

/// A share, stored as numerator and denominator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ratio {
    /// Number of cases that meet the condition.
    pub numerator: u64,
    /// Number of all cases.
    pub denominator: u64,
}

impl Ratio {
    /// Returns a share from numerator and denominator.
    pub fn of(numerator: u64, denominator: u64) -> Self {
        Self { numerator, denominator }
    }

    /// Adds two shares: numerator to numerator, and denominator to denominator.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self::of(self.numerator + other.numerator, self.denominator + other.denominator)
    }

    /// Returns the ratio of numerator and denominator; `None` if the denominator is zero.
    pub fn value(self) -> Option<f64> {
        (self.denominator > 0).then(|| self.numerator as f64 / self.denominator as f64)
    }
}

/// A storage tier of the memory, which probes test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// The core memory: the collection `core_memory`, probed over the database's sockets for reads
    /// and for writes.
    Core,
    /// Recall storage: the collection `recall_log` and the view of its entries.
    Recall,
    /// The archive: the collection `archival_docs`.
    Archival,
}

impl Tier {
    /// All tiers.
    pub const ALL: [Self; 3] = [Self::Core, Self::Recall, Self::Archival];

    /// Returns the name of the tier.
    pub fn text(self) -> &'static str {
        match self {
            Self::Core => "core",
            Self::Recall => "recall",
            Self::Archival => "archival",
        }
    }
}

/// A reason why the score C is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// A tier of the memory did not answer its last probe.
    TierDown(Tier),
    /// Chunks were offered without late-chunking evidence (and refused).
    NaiveChunking,
}

impl Why {
    /// All reasons for a zero score.
    pub const ALL: [Self; 4] = [
        Self::TierDown(Tier::Core),
        Self::TierDown(Tier::Recall),
        Self::TierDown(Tier::Archival),
        Self::NaiveChunking,
    ];

    /// Returns the name of the reason in answers, logs and metrics.
    pub fn text(self) -> &'static str {
        match self {
            Self::TierDown(Tier::Core) => "tier_down_core",
            Self::TierDown(Tier::Recall) => "tier_down_recall",
            Self::TierDown(Tier::Archival) => "tier_down_archival",
            Self::NaiveChunking => "naive_chunking",
        }
    }
}

/// An operation with an allowed duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// `search_recall`.
    Recall,
    /// `search_archival`.
    Archival,
    /// A write to a core that checks the caller's revision and evicts nothing.
    CoreWrite,
}

impl Path {
    /// All operations.
    pub const ALL: [Self; 3] = [Self::Recall, Self::Archival, Self::CoreWrite];

    /// Returns the name of the operation.
    pub fn text(self) -> &'static str {
        match self {
            Self::Recall => "recall",
            Self::Archival => "archival",
            Self::CoreWrite => "core_write",
        }
    }

    /// Returns the allowed 99th percentile of the operation's durations, in milliseconds, as this
    /// project's specification requires.
    pub fn allowed_ms(self) -> f64 {
        match self {
            Self::Recall => 250.0,
            Self::Archival => 750.0,
            Self::CoreWrite => 100.0,
        }
    }
}

/// Measured durations of an operation.
#[derive(Clone, Debug, PartialEq)]
pub struct PathTime {
    /// The operation.
    pub path: Path,
    /// The durations.
    pub times: Times,
    /// Whether the durations were measured in this session. If the session has no samples, the
    /// samples of the whole server are used and the value is `false`.
    pub of_session: bool,
}

impl PathTime {
    /// Returns the 99th percentile of the durations as a share of the allowed time; `None` without
    /// samples.
    pub fn cost(&self) -> Option<f64> {
        self.times.p99_ms().map(|p99| p99 / self.path.allowed_ms())
    }
}

/// How many messages of an agent are in the queue, and how many in recall storage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Places {
    /// The first counted seq (position in the agent's log); above 1 if the agent has too many
    /// messages, so that the oldest messages are not counted.
    pub from_seq: u64,
    /// The seq of the next message.
    pub next_seq: u64,
    /// Number of stored messages in the counted range of seqs.
    pub stored: u64,
    /// Number of messages in the queue.
    pub queued: u64,
    /// Number of entries in recall storage.
    pub logged: u64,
    /// Number of evicted copies. An evicted copy counts as accounted for, because its original
    /// message remains.
    pub copies: u64,
    /// Number of messages whose entry in recall storage was removed by retention.
    #[serde(default)]
    pub expired: u64,
}

impl Places {
    /// Returns the number of messages appended in the counted range of seqs.
    pub fn appended(&self) -> u64 {
        self.next_seq - self.from_seq
    }

    /// Returns the number of messages that are accounted for: in the queue, in recall storage,
    /// evicted copies, or removed by retention.
    pub fn placed(&self) -> u64 {
        self.queued + self.logged + self.copies + self.expired
    }

    /// Returns the messages that are not lost, as a share of all appended messages. A message that
    /// is in the queue and in recall storage counts once; [`Self::doubled`] counts such messages.
    pub fn conservation(&self) -> Ratio {
        Ratio::of(self.stored.min(self.placed()), self.appended())
    }

    /// Returns the number of messages that are both in the queue and in recall storage.
    pub fn doubled(&self) -> u64 {
        self.placed().saturating_sub(self.stored)
    }
}

/// All inputs of the Conveyance score.
#[derive(Clone, Debug, PartialEq)]
pub struct Inputs {
    /// How many messages of an agent are in each storage.
    pub places: Places,
    /// Recall searches with a result, as a share of all recall searches.
    pub recall_hits: Ratio,
    /// Answered database requests, as a share of all database requests.
    pub store_requests: Ratio,
    /// Whether `store_requests` counts only the requests of this session; otherwise it counts the
    /// requests of the whole server.
    pub store_requests_of_session: bool,
    /// Chains that ended by `explicit_yield` or `tokens`, as a share of all started chains.
    pub chains: Ratio,
    /// Durations of the three operations that [`Path`] lists.
    pub times: [PathTime; 3],
    /// Chunks with late-chunking evidence, as a share of all offered chunks.
    pub chunks: Ratio,
    /// Probes that the storage tiers answered, as a share of all probes.
    pub probes: Ratio,
    /// Flushes that reached their target without a drift alarm (a summary that lacks evicted text),
    /// as a share of all flushes.
    pub flushes: Ratio,
    /// Self-checks that passed, as a share of all self-checks.
    pub guards: Ratio,
    /// Writes with an audit row, as a share of all writes.
    pub audited: Ratio,
    /// Reasons why the score C is zero.
    pub zero: Vec<Why>,
}

impl Inputs {
    /// Returns the values of the score's terms.
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

    /// Returns the largest of the three operations' costs (see [`PathTime::cost`]); `None` if at
    /// least one operation has no samples.
    fn time(&self) -> Option<f64> {
        self.times
            .iter()
            .map(PathTime::cost)
            .try_fold(0.0_f64, |worst, cost| cost.map(|cost| worst.max(cost)))
    }

    /// Returns the names of the counts that a term still lacks; without these counts, the term has
    /// no value.
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
