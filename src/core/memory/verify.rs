//! Verifies that no row of an agent's log was changed, reordered or deleted. The verification
//! checks digests, the hash chain, gapless seqs, evictions and counts.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::memory::receipt;

/// Maximum number of faults that a report lists; further faults are only counted.
pub const FAULTS_MAX: usize = 50;

/// Maximum number of rows with a wrong digest that are compared with each other to find swapped
/// rows.
const SWAP_CANDIDATES_MAX: usize = 64;

/// What is wrong with a row of the log, or with the core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// The agent's state or a row of the log has an unexpected shape.
    Shape,
    /// A row is missing: the log has no row with this seq.
    Missing,
    /// A seq of the log is repeated or out of order.
    Order,
    /// The content of a message does not match the digest.
    Digest,
    /// A row's chain value does not follow from the previous chain value and the row's digest.
    Chain,
    /// The message left the queue without a logged eviction.
    EdgeMissing,
    /// The message is in the queue, although an edge logs its eviction.
    EdgeEarly,
    /// A copy of a message has its own entry in recall storage, which therefore contains the
    /// message twice.
    EdgeDouble,
    /// `in_queue` contradicts `head_seq`.
    InQueue,
    /// A message's `created_at` is not later than the previous message's.
    Time,
    /// The head of the hash chain in the core is not the chain value of the log's last row.
    ChainHead,
    /// The core's counts differ from the log's rows.
    Count,
    /// Retention removed the text of a message that is still in the queue.
    ExpiredEarly,
}

impl FaultKind {
    /// Returns the name of the fault in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Shape => "shape",
            Self::Missing => "missing",
            Self::Order => "order",
            Self::Digest => "digest",
            Self::Chain => "chain",
            Self::EdgeMissing => "edge_missing",
            Self::EdgeEarly => "edge_early",
            Self::EdgeDouble => "edge_double",
            Self::InQueue => "in_queue",
            Self::Time => "time",
            Self::ChainHead => "chain_head",
            Self::Count => "count",
            Self::ExpiredEarly => "expired_early",
        }
    }
}

/// A fault that the verification found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Kind of the fault.
    pub kind: FaultKind,
    /// Seq of the faulty row; `None` for a fault of the core.
    pub seq: Option<u64>,
    /// Id of the faulty row, if the row has one.
    pub id: Option<String>,
    /// The fault, described in one sentence.
    pub what: String,
    /// The right value.
    pub expected: String,
    /// The value found.
    pub found: String,
}

/// The result of a verification of an agent's log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Name of the agent.
    pub agent: String,
    /// Number of rows read, up to the `next_seq` of the agent's state.
    pub messages: u64,
    /// Number of messages of the kinds `turn` and `event` in the queue.
    pub kept: u64,
    /// Number of evicted messages of the kinds `turn` and `event`.
    pub evicted: u64,
    /// Number of rows of other kinds: copies, entries from `write_recall`, and parts of spooled
    /// results.
    pub other: u64,
    /// Number of rows whose text and salt were forgotten; these rows are still linked in the hash
    /// chain.
    pub forgotten: u64,
    /// Number of rows whose text and salt were removed by retention; these rows are still linked in
    /// the hash chain.
    pub expired: u64,
    /// Number of rows whose entry in recall storage was already removed by retention, but whose
    /// text was not removed yet.
    pub expiring: u64,
    /// Id of each eviction and its number of rows, in the order of the log.
    pub batches: Vec<(String, u64)>,
    /// Chain value of the newest message, as the core states it.
    pub chain_head: String,
    /// Number of messages in the hash chain, as the core states it.
    pub chain_length: u64,
    /// Faults in order of the log's rows, at most [`FAULTS_MAX`].
    pub faults: Vec<Fault>,
    /// Number of faults that the report does not list.
    pub faults_more: u64,
}

impl Report {
    /// Returns whether the verification found no fault.
    pub fn holds(&self) -> bool {
        self.faults.is_empty()
    }
}

/// The values of an agent's state that the log's rows must match.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Core {
    agent: String,
    /// The agent's name as the messages' digests cover it; if the agent has a tenant, this name
    /// includes the tenant.
    agent_id: String,
    version: u64,
    head_seq: u64,
    next_seq: u64,
    count: u64,
    tokens: u64,
    chain_head: String,
    chain_length: u64,
    /// Number of expired messages, as the core states it.
    expired: u64,
    /// Number of forgotten messages, as the core states it; `None` in a core without this count.
    forgotten: Option<u64>,
    /// Time before which retention removes entries of recall storage; empty without retention.
    before: String,
}

impl Core {
    fn read(state: &Value) -> Result<Core, String> {
        let number = |pointer: &str| {
            state
                .pointer(pointer)
                .and_then(whole)
                .ok_or_else(|| format!("the state has no whole number at {pointer}"))
        };
        let text = |pointer: &str| {
            state
                .pointer(pointer)
                .and_then(Value::as_str)
                .map(str::to_string)
                .ok_or_else(|| format!("the state has no text at {pointer}"))
        };
        Ok(Core {
            agent: text("/agent")?,
            agent_id: text("/agent_id").or_else(|_| text("/agent"))?,
            version: number("/version")?,
            head_seq: number("/queue/head_seq")?,
            next_seq: number("/queue/next_seq")?,
            count: number("/queue/count")?,
            tokens: number("/queue/tokens")?,
            chain_head: text("/chain/head")?,
            chain_length: number("/chain/length")?,
            // Earlier program versions, which had no retention, wrote states without these counts.
            expired: number("/expired/messages").unwrap_or(0),
            forgotten: number("/forgotten/messages").ok(),
            before: text("/retention/before").unwrap_or_default(),
        })
    }
}

/// Checks the rows of a log in order and returns a [`Report`]. The agent's state is read twice. The
/// state read before the rows determines the last row to check. The state read after the rows shows
/// which messages were evicted in the meantime.
pub struct Verifier {
    core: Core,
    report: Report,
    /// Seq that the next row must have.
    next: u64,
    /// Chain value of the previous row; `None` after a gap in the seqs.
    chain: Option<String>,
    created_at: String,
    /// Rows without an entry in recall storage. Retention may have removed the entries while the
    /// log was read.
    unlogged: Vec<Unlogged>,
    queue_count: u64,
    queue_tokens: u64,
    /// Index of each eviction in `batches` of the report, by the eviction's id.
    batch_of: BTreeMap<String, usize>,
    /// Seq and id of each evicted row that is in the queue according to the state read before the
    /// rows, and whether an edge logs the eviction. Such a row is valid only if, in the state read
    /// after the rows, the queue begins after the row.
    early: Vec<(u64, Option<String>, bool)>,
    swapped: Vec<(u64, Value, String)>,
}

impl Verifier {
    /// Starts a verification with the agent's state that was read before the rows. An error names
    /// the field that the state lacks.
    pub fn new(state: &Value) -> Result<Verifier, String> {
        let core = Core::read(state)?;
        Ok(Verifier {
            report: Report {
                agent: core.agent.clone(),
                chain_head: core.chain_head.clone(),
                chain_length: core.chain_length,
                ..Report::default()
            },
            next: 1,
            chain: Some(receipt::genesis(&core.agent_id)),
            created_at: String::new(),
            unlogged: Vec::new(),
            queue_count: 0,
            queue_tokens: 0,
            batch_of: BTreeMap::new(),
            early: Vec::new(),
            swapped: Vec::new(),
            core,
        })
    }

    /// Returns whether all further rows are newer than the state read before the rows, so that they
    /// need no check.
    pub fn is_complete(&self) -> bool {
        self.next >= self.core.next_seq
    }

    /// Checks the next row of the log.
    pub fn message(&mut self, message: &Value) {
        let id = message.get("id").and_then(Value::as_str).map(str::to_string);
        let Some(seq) = message.get("seq").and_then(whole) else {
            let found = message.get("seq").cloned().unwrap_or(Value::Null);
            let what = "a row has no sequence number";
            self.fault(FaultKind::Shape, None, &id, what, "a whole number", found);
            return;
        };
        if seq >= self.core.next_seq {
            return;
        }
        self.report.messages += 1;
        self.position(seq, &id);
        self.digest_and_chain(seq, &id, message);
        self.time(seq, &id, message);
        self.queue(seq, &id, message);
    }

    fn position(&mut self, seq: u64, id: &Option<String>) {
        if seq < self.next {
            let what = "the sequence number is repeated, or follows a greater number";
            self.fault(FaultKind::Order, Some(seq), id, what, self.next, seq);
            self.chain = None;
            return;
        }
        if seq > self.next {
            self.missing(self.next, seq - 1);
        }
        self.next = seq + 1;
    }

    fn missing(&mut self, first: u64, last: u64) {
        let what = if first == last {
            format!("message {first} is missing")
        } else {
            format!("messages {first} to {last} are missing")
        };
        self.fault(FaultKind::Missing, Some(first), &None, what, "every number once", "no row");
        self.chain = None;
    }

    fn digest_and_chain(&mut self, seq: u64, id: &Option<String>, message: &Value) {
        let stored_digest = text_of(message, "digest");
        let stored_chain = text_of(message, "chain");
        match forgotten(message) {
            Some(true) if expired(message) && message["forgotten_at"].is_null() => {
                self.report.expired += 1;
            }
            Some(true) => self.report.forgotten += 1,
            Some(false) => {
                let canonical = receipt::canonical_message(&self.core.agent_id, message);
                let made = receipt::digest(&text_of(message, "salt"), &canonical);
                if made != stored_digest {
                    let what = "the row is not what its digest was made of";
                    self.fault(FaultKind::Digest, Some(seq), id, what, &stored_digest, made);
                    if self.swapped.len() < SWAP_CANDIDATES_MAX {
                        self.swapped.push((seq, message.clone(), stored_digest.clone()));
                    }
                }
            }
            None => {
                let what = "only one of text and salt is absent: a removal always removes both";
                self.fault(FaultKind::Digest, Some(seq), id, what, "both or none", "one of them");
            }
        }
        if let Some(before) = &self.chain {
            let made = receipt::link(before, &stored_digest);
            if made != stored_chain {
                let before = seq.saturating_sub(1);
                let what = format!("the chain value does not follow from message {before}");
                self.fault(FaultKind::Chain, Some(seq), id, what, made, &stored_chain);
            }
        }
        self.chain = Some(stored_chain);
    }

    fn time(&mut self, seq: u64, id: &Option<String>, message: &Value) {
        let created_at = text_of(message, "created_at");
        if created_at <= self.created_at {
            let what = "created_at does not rise with the sequence";
            let after = format!("after {}", self.created_at);
            self.fault(FaultKind::Time, Some(seq), id, what, after, &created_at);
        }
        self.created_at = created_at;
    }

    fn queue(&mut self, seq: u64, id: &Option<String>, message: &Value) {
        let kind = text_of(message, "kind");
        let turn = matches!(kind.as_str(), "turn" | "event");
        let queued = turn || kind == "copy";
        let batch = message.get("evicted_batch_id").and_then(Value::as_str);
        let in_queue = message.get("in_queue").and_then(Value::as_bool);
        let inside = seq >= self.core.head_seq;
        let is_held = queued && inside && in_queue == Some(true);
        if is_held {
            self.queue_count += 1;
            self.queue_tokens += message.get("token_estimate").and_then(whole).unwrap_or(0);
        }
        if expired(message) {
            // The frame of a message stays when its text is forgotten.
            let frame = message.get("frame_tokens").and_then(whole).unwrap_or(0);
            let is_frame = frame > 0 && !text_of(message, "forgotten_at").is_empty();
            if is_held && !is_frame {
                let what =
                    "the text was removed because of its age, although the message is in the queue";
                self.fault(FaultKind::ExpiredEarly, Some(seq), id, what, "a text", "none");
            }
            return;
        }
        if !(queued || matches!(kind.as_str(), "recall" | "spool")) {
            let what = "the kind of the row is unknown";
            let wanted = "turn, event, copy, recall or spool";
            self.fault(FaultKind::Shape, Some(seq), id, what, wanted, &kind);
        }
        if !turn {
            self.report.other += 1;
        } else if batch.is_some() {
            self.report.evicted += 1;
        } else {
            self.report.kept += 1;
        }
        if let Some(batch) = batch {
            self.count_batch(batch);
        }
        // A message from `write_recall` has an edge without an eviction id.
        let logged = message.get("logged").and_then(Value::as_bool) == Some(true);
        let head = self.core.head_seq;
        let unlogged = match kind.as_str() {
            "recall" | "spool" if !logged => {
                Some((format!("a {kind} entry has no edge"), "an edge"))
            }
            _ if turn && !inside && batch.is_none() => {
                let what = format!(
                    "the queue begins at {head}, but no edge logs the eviction of this message"
                );
                Some((what, "an evicted_batch_id"))
            }
            _ => None,
        };
        if let Some((what, wanted)) = unlogged {
            let created_at = text_of(message, "created_at");
            self.without_entry(Unlogged { seq, id: id.clone(), created_at, what, wanted });
        }
        if kind == "copy" && (logged || batch.is_some()) {
            let what = "a copy is logged, so its original is in recall storage twice";
            self.fault(FaultKind::EdgeDouble, Some(seq), id, what, "no edge", "an edge");
        }
        // The eviction of a copy of a message adds no edge.
        let left = if turn { batch.is_some() } else { queued && in_queue == Some(false) };
        if inside && left {
            self.early.push((seq, id.clone(), turn));
        } else if in_queue != Some(queued && inside) {
            let what = format!("the queue begins at {head}, but in_queue says otherwise");
            let found = in_queue.map_or_else(|| "none".to_string(), |value| value.to_string());
            self.fault(FaultKind::InQueue, Some(seq), id, what, queued && inside, found);
        }
    }

    /// Handles a row without an entry in recall storage. Either retention removed the entry, or the
    /// entry is lost. If the state read before the rows cannot explain the missing entry, the row
    /// is checked again with the state read after the rows.
    fn without_entry(&mut self, row: Unlogged) {
        if row.created_at < self.core.before {
            self.report.expiring += 1;
        } else if self.core.before.is_empty() {
            self.lost(row);
        } else {
            self.unlogged.push(row);
        }
    }

    fn lost(&mut self, row: Unlogged) {
        self.fault(FaultKind::EdgeMissing, Some(row.seq), &row.id, row.what, row.wanted, "none");
    }

    fn entries_gone(&mut self, after: &Core) {
        for row in std::mem::take(&mut self.unlogged) {
            match row.created_at < after.before {
                true => self.report.expiring += 1,
                false => self.lost(row),
            }
        }
    }

    fn count_batch(&mut self, batch: &str) {
        let batches = &mut self.report.batches;
        let at = *self.batch_of.entry(batch.to_string()).or_insert_with(|| {
            batches.push((batch.to_string(), 0));
            batches.len() - 1
        });
        batches[at].1 += 1;
    }

    /// Finishes the verification with the agent's state that was read after the rows. The caller
    /// may pass the state that was read before the rows again, if no write was possible while the
    /// rows were read.
    pub fn finish(mut self, after: &Value) -> Report {
        if self.next < self.core.next_seq {
            self.missing(self.next, self.core.next_seq - 1);
        }
        match Core::read(after) {
            Ok(after) => {
                self.entries_gone(&after);
                self.evicted_too_early(&after);
                self.figures(&after);
            }
            Err(what) => self.fault(FaultKind::Shape, None, &None, what, "a state", "none"),
        }
        self.explain_swaps();
        self.report.faults.sort_by_key(|fault| fault.seq.unwrap_or(u64::MAX));
        self.report
    }

    fn evicted_too_early(&mut self, after: &Core) {
        let head = after.head_seq;
        let mut early = std::mem::take(&mut self.early);
        early.retain(|(seq, _, _)| *seq >= head);
        for (seq, id, logged) in early {
            let (kind, what, wanted, found) = if logged {
                let what =
                    format!("the queue begins at {head}, yet the message is logged as evicted");
                (FaultKind::EdgeEarly, what, "no evicted_batch_id", "an evicted_batch_id")
            } else {
                let what = format!("the queue begins at {head}, but in_queue says otherwise");
                (FaultKind::InQueue, what, "true", "false")
            };
            self.fault(kind, Some(seq), &id, what, wanted, found);
        }
    }

    fn figures(&mut self, after: &Core) {
        let core = self.core.clone();
        let rows = core.next_seq.saturating_sub(1);
        let mut counts =
            vec![("the core's chain length is not the number of rows", rows, core.chain_length)];
        if after.version == core.version {
            let (expired, forgotten) = (self.report.expired, self.report.forgotten);
            counts.extend([
                (
                    "the core's count of messages in the queue is wrong",
                    self.queue_count,
                    core.count,
                ),
                (
                    "the core's count of tokens in the queue is wrong",
                    self.queue_tokens,
                    core.tokens,
                ),
                ("the core's count of expired messages is wrong", expired, core.expired),
                (
                    "the core's count of forgotten messages is wrong",
                    forgotten,
                    core.forgotten.unwrap_or(forgotten),
                ),
            ]);
        }
        for (what, expected, found) in counts {
            if expected != found {
                self.fault(FaultKind::Count, None, &None, what, expected, found);
            }
        }
        if let Some(chain) = self.chain.clone().filter(|chain| *chain != core.chain_head) {
            let what = "the core's chain head is not the chain value of the last message";
            self.fault(FaultKind::ChainHead, None, &None, what, chain, core.chain_head);
        }
    }

    /// Reports two rows with exchanged seqs as one swap instead of two wrong digests.
    fn explain_swaps(&mut self) {
        let rows = std::mem::take(&mut self.swapped);
        let numbers: BTreeSet<u64> = rows.iter().map(|(seq, _, _)| *seq).collect();
        for (seq, message, digest) in &rows {
            let fits = numbers.iter().find(|other| {
                let mut moved = message.clone();
                moved["seq"] = Value::from(**other);
                let canonical = receipt::canonical_message(&self.core.agent_id, &moved);
                *other != seq && receipt::digest(&text_of(message, "salt"), &canonical) == *digest
            });
            let Some(other) = fits else { continue };
            let faults = &mut self.report.faults;
            let is_fault =
                |fault: &&mut Fault| fault.seq == Some(*seq) && fault.kind == FaultKind::Digest;
            if let Some(fault) = faults.iter_mut().find(is_fault) {
                fault.what = format!(
                    "the row carries number {seq}, but its digest was made with number {other}: rows were swapped"
                );
            }
        }
    }

    fn fault(
        &mut self,
        kind: FaultKind,
        seq: Option<u64>,
        id: &Option<String>,
        what: impl Into<String>,
        expected: impl ToString,
        found: impl ToString,
    ) {
        if self.report.faults.len() == FAULTS_MAX {
            self.report.faults_more += 1;
            return;
        }
        let (expected, found) = (expected.to_string(), found.to_string());
        self.report.faults.push(Fault {
            kind,
            seq,
            id: id.clone(),
            what: what.into(),
            expected,
            found,
        });
    }
}

/// A row without its expected entry in recall storage, and the fault to report.
struct Unlogged {
    seq: u64,
    id: Option<String>,
    created_at: String,
    what: String,
    wanted: &'static str,
}

/// Returns whether retention removed the row's text.
fn expired(message: &Value) -> bool {
    message.get("expired_at").is_some_and(Value::is_string) && forgotten(message) == Some(true)
}

/// Returns `Some(true)` for a row without text and salt, `Some(false)` for a row with text and
/// salt, and `None` for a row with only one of the two.
fn forgotten(message: &Value) -> Option<bool> {
    let absent = |name: &str| message.get(name).is_none_or(Value::is_null);
    match (absent("salt"), absent("content")) {
        (true, true) => Some(true),
        (false, false) => Some(false),
        _ => None,
    }
}

/// Reads a non-negative whole number, which may be written as a float.
pub fn whole(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| {
        value
            .as_f64()
            .filter(|float| *float >= 0.0 && float.fract() == 0.0)
            .map(|float| float as u64)
    })
}

/// Reads a text attribute; a missing attribute gives an empty text.
pub fn text_of(value: &Value, name: &str) -> String {
    value.get(name).and_then(Value::as_str).unwrap_or_default().to_string()
}
