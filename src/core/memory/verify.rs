//! The proof that a log of messages was only appended to: digests, chain, density, evictions and the core's own figures, row by row.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::memory::receipt;

/// Faults kept word by word in a report; further ones are only counted.
pub const FAULTS_MAX: usize = 50;

/// Rows compared with each other to find out whether two of them were swapped.
const SWAP_CANDIDATES_MAX: usize = 64;

/// What can be wrong with a row, or with the core that counts the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// The state or a row has not the shape of an answer of this server.
    Shape,
    /// A sequence number is absent.
    Missing,
    /// A sequence number comes twice or after a greater one.
    Order,
    /// The content is not what the digest was made of.
    Digest,
    /// The chain value does not follow from the row before and the digest.
    Chain,
    /// The row left the queue, but nothing logged its eviction.
    EdgeMissing,
    /// The row is still in the queue, but is logged as evicted.
    EdgeEarly,
    /// A copy is logged: what it stands for would be in recall storage twice.
    EdgeDouble,
    /// `in_queue` does not say what `head_seq` says.
    InQueue,
    /// The time of creation does not rise with the sequence.
    Time,
    /// The core's chain head is not the chain value of the row it counts to.
    ChainHead,
    /// The core counts other rows than there are.
    Count,
    /// The text of the row went by its age, though the row is still in the queue.
    ExpiredEarly,
}

impl FaultKind {
    /// One word for people and machines.
    pub fn name(self) -> &'static str {
        match self {
            FaultKind::Shape => "shape",
            FaultKind::Missing => "missing",
            FaultKind::Order => "order",
            FaultKind::Digest => "digest",
            FaultKind::Chain => "chain",
            FaultKind::EdgeMissing => "edge_missing",
            FaultKind::EdgeEarly => "edge_early",
            FaultKind::EdgeDouble => "edge_double",
            FaultKind::InQueue => "in_queue",
            FaultKind::Time => "time",
            FaultKind::ChainHead => "chain_head",
            FaultKind::Count => "count",
            FaultKind::ExpiredEarly => "expired_early",
        }
    }
}

/// One thing that is not as it must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// What kind of fault it is.
    pub kind: FaultKind,
    /// The row; `None` when the core itself is at fault.
    pub seq: Option<u64>,
    /// Id of the row, where there is a row.
    pub id: Option<String>,
    /// What is wrong, in one sentence.
    pub what: String,
    /// What would be right.
    pub expected: String,
    /// What is there.
    pub found: String,
}

/// What verification found out about one agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Whose memory.
    pub agent: String,
    /// Rows read up to the state's `next_seq`.
    pub messages: u64,
    /// Turns and events in the queue.
    pub kept: u64,
    /// Turns and events evicted.
    pub evicted: u64,
    /// Copies, recall entries and spooled parts: rows beside the conversation.
    pub other: u64,
    /// Rows whose text and salt were forgotten; their place in the chain still holds.
    pub forgotten: u64,
    /// Rows whose text and salt went by the policy of retention; their place in the chain still holds.
    pub expired: u64,
    /// Rows whose entry went by that policy and whose text is about to.
    pub expiring: u64,
    /// Evicted rows per batch, in the order of the batches.
    pub batches: Vec<(String, u64)>,
    /// Chain value that the core holds.
    pub chain_head: String,
    /// Messages that the core counts under it.
    pub chain_length: u64,
    /// The broken rows, first row first, at most [`FAULTS_MAX`].
    pub faults: Vec<Fault>,
    /// Faults beyond those listed.
    pub faults_more: u64,
}

impl Report {
    /// True when nothing is wrong.
    pub fn holds(&self) -> bool {
        self.faults.is_empty()
    }
}

/// The figures of an agent's state that the rows must agree with.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Core {
    agent: String,
    /// The name under the digests: with its tenant, where the state tells one.
    agent_id: String,
    version: u64,
    head_seq: u64,
    next_seq: u64,
    count: u64,
    tokens: u64,
    chain_head: String,
    chain_length: u64,
    /// Messages that the core counts as expired.
    expired: u64,
    /// Messages that the core counts as forgotten; none where the state does not count them.
    forgotten: Option<u64>,
    /// The moment before which entries go by the policy of retention; empty: none does.
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
            // States from before there was a policy of retention have neither.
            expired: number("/expired/messages").unwrap_or(0),
            forgotten: number("/forgotten/messages").ok(),
            before: text("/retention/before").unwrap_or_default(),
        })
    }
}

/// Reads rows in the order they are answered and ends with a [`Report`]. Rows that arrive while the log is read are left out:
/// the state taken before says where to stop, the state taken after says which evictions may have happened meanwhile.
pub struct Verifier {
    core: Core,
    /// Sequence number the next row must have.
    next: u64,
    /// Chain value of the row before; `None` after a gap, when there is nothing to follow from.
    chain: Option<String>,
    created_at: String,
    messages: u64,
    kept: u64,
    evicted: u64,
    other: u64,
    forgotten: u64,
    expired: u64,
    expiring: u64,
    /// Rows without an entry that may have become old enough while the log was read.
    unlogged: Vec<Unlogged>,
    queue_count: u64,
    queue_tokens: u64,
    batches: BTreeMap<u64, (String, u64)>,
    batch_of: BTreeMap<String, u64>,
    /// Rows gone beyond the head of the first state, and whether an edge tells so: right only if the head moved meanwhile.
    early: Vec<(u64, Option<String>, bool)>,
    swapped: Vec<(u64, Value, String)>,
    faults: Vec<Fault>,
    faults_more: u64,
}

impl Verifier {
    /// Begins with the agent's state as the server answered it before the rows were read. An error says what of it is missing.
    pub fn new(state: &Value) -> Result<Verifier, String> {
        let core = Core::read(state)?;
        let genesis = receipt::genesis(&core.agent_id);
        Ok(Verifier {
            core,
            next: 1,
            chain: Some(genesis),
            created_at: String::new(),
            messages: 0,
            kept: 0,
            evicted: 0,
            other: 0,
            forgotten: 0,
            expired: 0,
            expiring: 0,
            unlogged: Vec::new(),
            queue_count: 0,
            queue_tokens: 0,
            batches: BTreeMap::new(),
            batch_of: BTreeMap::new(),
            early: Vec::new(),
            swapped: Vec::new(),
            faults: Vec::new(),
            faults_more: 0,
        })
    }

    /// Whether rows from here on are newer than the state and not judged.
    pub fn is_complete(&self) -> bool {
        self.next >= self.core.next_seq
    }

    /// Takes the next row.
    pub fn message(&mut self, message: &Value) {
        let id = message.get("id").and_then(Value::as_str).map(str::to_string);
        let Some(seq) = message.get("seq").and_then(whole) else {
            let found = message.get("seq").cloned().unwrap_or(Value::Null).to_string();
            self.fault(
                FaultKind::Shape,
                None,
                id,
                "a row has no sequence number",
                "a whole number".into(),
                found,
            );
            return;
        };
        if seq >= self.core.next_seq {
            return;
        }
        self.messages += 1;
        self.place(seq, &id);
        self.digest_and_chain(seq, &id, message);
        self.time(seq, &id, message);
        self.queue(seq, &id, message);
    }

    fn place(&mut self, seq: u64, id: &Option<String>) {
        if seq < self.next {
            let what = "the sequence number came before, or after a greater one";
            self.fault(
                FaultKind::Order,
                Some(seq),
                id.clone(),
                what,
                self.next.to_string(),
                seq.to_string(),
            );
            self.chain = None;
            return;
        }
        if seq > self.next {
            self.missing(self.next, seq - 1);
            self.chain = None;
        }
        self.next = seq + 1;
    }

    fn missing(&mut self, first: u64, last: u64) {
        let what = if first == last {
            format!("message {first} is missing")
        } else {
            format!("messages {first} to {last} are missing")
        };
        self.fault(
            FaultKind::Missing,
            Some(first),
            None,
            &what,
            "every number once".into(),
            "no row".into(),
        );
    }

    fn digest_and_chain(&mut self, seq: u64, id: &Option<String>, message: &Value) {
        let stored_digest = text_of(message, "digest");
        let stored_chain = text_of(message, "chain");
        match forgotten(message) {
            Some(true) if expired(message) && message["forgotten_at"].is_null() => {
                self.expired += 1;
            }
            Some(true) => self.forgotten += 1,
            Some(false) => {
                let canonical = receipt::canonical_message(&self.core.agent_id, message);
                let made = receipt::digest(&text_of(message, "salt"), &canonical);
                if made != stored_digest {
                    let what = "the row is not what its digest was made of";
                    self.fault(
                        FaultKind::Digest,
                        Some(seq),
                        id.clone(),
                        what,
                        stored_digest.clone(),
                        made,
                    );
                    if self.swapped.len() < SWAP_CANDIDATES_MAX {
                        self.swapped.push((seq, message.clone(), stored_digest.clone()));
                    }
                }
            }
            None => {
                let what =
                    "either text or salt is absent: a message is forgotten whole or not at all";
                self.fault(
                    FaultKind::Digest,
                    Some(seq),
                    id.clone(),
                    what,
                    "both or none".into(),
                    "one of them".into(),
                );
            }
        }
        if let Some(before) = &self.chain {
            let made = receipt::link(before, &stored_digest);
            if made != stored_chain {
                let what = format!(
                    "the chain value does not follow from message {}",
                    seq.saturating_sub(1)
                );
                self.fault(
                    FaultKind::Chain,
                    Some(seq),
                    id.clone(),
                    &what,
                    made,
                    stored_chain.clone(),
                );
            }
        }
        self.chain = Some(stored_chain);
    }

    fn time(&mut self, seq: u64, id: &Option<String>, message: &Value) {
        let created_at = text_of(message, "created_at");
        if created_at <= self.created_at {
            let what = "created_at does not rise with the sequence";
            let after = format!("after {}", self.created_at);
            self.fault(FaultKind::Time, Some(seq), id.clone(), what, after, created_at.clone());
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
        if expired(message) {
            let in_queue = queued && inside && in_queue == Some(true);
            if in_queue {
                self.queue_count += 1;
                self.queue_tokens += message.get("token_estimate").and_then(whole).unwrap_or(0);
            }
            self.gone(seq, id, in_queue);
            return;
        }
        if !(queued || matches!(kind.as_str(), "recall" | "spool")) {
            let what = "the kind of the row is unknown";
            self.fault(
                FaultKind::Shape,
                Some(seq),
                id.clone(),
                what,
                "turn, event, copy, recall or spool".into(),
                kind.clone(),
            );
        }
        if queued && inside && in_queue == Some(true) {
            self.queue_count += 1;
            self.queue_tokens += message.get("token_estimate").and_then(whole).unwrap_or(0);
        }
        if !turn {
            self.other += 1;
        } else if batch.is_some() {
            self.evicted += 1;
        } else {
            self.kept += 1;
        }
        if let Some(batch) = batch {
            self.count_batch(seq, batch);
        }
        // An entry that was written straight into recall storage has an edge, but no eviction that wrote it.
        let logged = message.get("logged").and_then(Value::as_bool) == Some(true);
        let unlogged = match kind.as_str() {
            "recall" | "spool" if !logged => {
                Some((format!("a {kind} entry has no edge"), "an edge"))
            }
            _ if turn && !inside && batch.is_none() => {
                let head = self.core.head_seq;
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
            let what = "a copy is logged, so what it stands for is in recall storage twice";
            let (wanted, found) = ("no edge".to_owned(), "an edge".to_owned());
            self.fault(FaultKind::EdgeDouble, Some(seq), id.clone(), what, wanted, found);
        }
        // A copy leaves without a trace but that it is gone.
        let left = if turn { batch.is_some() } else { queued && in_queue == Some(false) };
        if inside && left {
            self.early.push((seq, id.clone(), turn));
        } else if in_queue != Some(queued && inside) {
            let what =
                format!("the queue begins at {}, but in_queue says otherwise", self.core.head_seq);
            let found = in_queue.map_or_else(|| "none".to_string(), |value| value.to_string());
            self.fault(
                FaultKind::InQueue,
                Some(seq),
                id.clone(),
                &what,
                (queued && inside).to_string(),
                found,
            );
        }
    }

    /// A row whose text went by its age: out of the queue, and with nothing that logs it.
    fn gone(&mut self, seq: u64, id: &Option<String>, in_queue: bool) {
        if in_queue {
            let what = "the text went by its age, though the message stands in the queue";
            let (wanted, found) = ("a text".to_owned(), "none".to_owned());
            self.fault(FaultKind::ExpiredEarly, Some(seq), id.clone(), what, wanted, found);
        }
    }

    /// An entry that is not there: gone by the policy of retention, or lost. What became old enough while the log was read is judged by the
    /// state that is taken after it.
    fn without_entry(&mut self, row: Unlogged) {
        if row.created_at < self.core.before {
            self.expiring += 1;
        } else if self.core.before.is_empty() {
            self.lost(row);
        } else {
            self.unlogged.push(row);
        }
    }

    fn lost(&mut self, row: Unlogged) {
        let (seq, wanted, found) = (Some(row.seq), row.wanted.into(), "none".to_owned());
        self.fault(FaultKind::EdgeMissing, seq, row.id, &row.what, wanted, found);
    }

    fn entries_gone(&mut self, after: &Core) {
        for row in std::mem::take(&mut self.unlogged) {
            match row.created_at < after.before {
                true => self.expiring += 1,
                false => self.lost(row),
            }
        }
    }

    fn count_batch(&mut self, seq: u64, batch: &str) {
        let first = *self.batch_of.entry(batch.to_string()).or_insert(seq);
        self.batches.entry(first).or_insert_with(|| (batch.to_string(), 0)).1 += 1;
    }

    /// Ends with the state taken after the rows were read (the same one, when nothing can have happened meanwhile).
    pub fn finish(mut self, after: &Value) -> Report {
        if self.next < self.core.next_seq {
            self.missing(self.next, self.core.next_seq - 1);
            self.chain = None;
        }
        match Core::read(after) {
            Ok(after) => {
                self.entries_gone(&after);
                self.evicted_too_early(&after);
                self.figures(&after);
            }
            Err(what) => {
                self.fault(FaultKind::Shape, None, None, &what, "a state".into(), "none".into())
            }
        }
        self.explain_swaps();
        self.faults.sort_by_key(|fault| fault.seq.unwrap_or(u64::MAX));
        Report {
            agent: self.core.agent,
            messages: self.messages,
            kept: self.kept,
            evicted: self.evicted,
            other: self.other,
            forgotten: self.forgotten,
            expired: self.expired,
            expiring: self.expiring,
            batches: self.batches.into_values().collect(),
            chain_head: self.core.chain_head,
            chain_length: self.core.chain_length,
            faults: self.faults,
            faults_more: self.faults_more,
        }
    }

    fn evicted_too_early(&mut self, after: &Core) {
        for (seq, id, logged) in std::mem::take(&mut self.early) {
            if seq < after.head_seq {
                continue;
            }
            let head = after.head_seq;
            let (kind, what, wanted, found) = if logged {
                let what =
                    format!("the queue begins at {head}, yet the message is logged as evicted");
                (FaultKind::EdgeEarly, what, "no evicted_batch_id", "an evicted_batch_id")
            } else {
                let what = format!("the queue begins at {head}, but in_queue says otherwise");
                (FaultKind::InQueue, what, "true", "false")
            };
            self.fault(kind, Some(seq), id, &what, wanted.into(), found.into());
        }
    }

    fn figures(&mut self, after: &Core) {
        let core = self.core.clone();
        let mut check = |kind: FaultKind, what: &str, expected: String, found: String| {
            if expected != found {
                self.fault(kind, None, None, what, expected, found);
            }
        };
        let rows = core.next_seq.saturating_sub(1);
        check(
            FaultKind::Count,
            "the core's chain length is not the number of rows",
            rows.to_string(),
            core.chain_length.to_string(),
        );
        if after.version == core.version {
            let (count, tokens, expired) = (self.queue_count, self.queue_tokens, self.expired);
            let forgotten = self.forgotten;
            let mut check = |what: &str, expected: u64, found: u64| {
                if expected != found {
                    self.fault(
                        FaultKind::Count,
                        None,
                        None,
                        what,
                        expected.to_string(),
                        found.to_string(),
                    );
                }
            };
            check("the core counts other messages in the queue than there are", count, core.count);
            check(
                "the core counts other tokens in the queue than its messages have",
                tokens,
                core.tokens,
            );
            check("the core counts other expired messages than there are", expired, core.expired);
            let told = core.forgotten.unwrap_or(forgotten);
            check("the core counts other forgotten messages than there are", forgotten, told);
        }
        if let Some(chain) = self.chain.clone().filter(|chain| *chain != core.chain_head) {
            let what = "the core's chain head is not the chain value of the last message";
            self.fault(FaultKind::ChainHead, None, None, what, chain, core.chain_head);
        }
    }

    /// Two rows that carry each other's number are said to be swapped, which the two digests alone do not tell a reader.
    fn explain_swaps(&mut self) {
        let rows = std::mem::take(&mut self.swapped);
        let numbers: BTreeSet<u64> = rows.iter().map(|(seq, _, _)| *seq).collect();
        for (seq, message, digest) in &rows {
            let fits = numbers.iter().find(|other| {
                let mut moved = message.clone();
                moved["seq"] = Value::from(**other);
                *other != seq
                    && receipt::digest(
                        &text_of(message, "salt"),
                        &receipt::canonical_message(&self.core.agent_id, &moved),
                    ) == *digest
            });
            let Some(other) = fits else { continue };
            let fault = self
                .faults
                .iter_mut()
                .find(|fault| fault.seq == Some(*seq) && fault.kind == FaultKind::Digest);
            if let Some(fault) = fault {
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
        id: Option<String>,
        what: &str,
        expected: String,
        found: String,
    ) {
        if self.faults.len() == FAULTS_MAX {
            self.faults_more += 1;
            return;
        }
        self.faults.push(Fault { kind, seq, id, what: what.to_string(), expected, found });
    }
}

/// A row that should be logged and is not.
struct Unlogged {
    seq: u64,
    id: Option<String>,
    created_at: String,
    what: String,
    wanted: &'static str,
}

/// Whether the text went by the policy of retention: then it is gone, and the row says when.
fn expired(message: &Value) -> bool {
    message.get("expired_at").is_some_and(Value::is_string) && forgotten(message) == Some(true)
}

/// `Some(true)` when text and salt are both gone, `Some(false)` when both are there, `None` when one is missing.
fn forgotten(message: &Value) -> Option<bool> {
    let absent = |name: &str| message.get(name).is_none_or(Value::is_null);
    match (absent("salt"), absent("content")) {
        (true, true) => Some(true),
        (false, false) => Some(false),
        _ => None,
    }
}

/// A whole number, also when a trip through a database has made it a float.
pub fn whole(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| {
        value
            .as_f64()
            .filter(|float| *float >= 0.0 && float.fract() == 0.0)
            .map(|float| float as u64)
    })
}

/// A text attribute, empty without it.
pub fn text_of(value: &Value, name: &str) -> String {
    value.get(name).and_then(Value::as_str).unwrap_or_default().to_string()
}

#[cfg(test)]
pub(crate) mod tests;
