//! Folds the entries of a ledger to the expected digest of each row, and compares these digests
//! with the rows that exist.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value, json};

use super::item::{ITEMS_VERSION, Item, LocalKind, RowState, Shape};
use super::note::Head;
use super::{genesis, link, text_of};
use crate::memory::export::RowKind;
use crate::memory::held::referred;
use crate::trust::Scope;

type Row = Map<String, Value>;

/// Maximum number of differences that a fold reports one by one; the others are only counted.
const DIFFERENCES_MAX: usize = 1_000;

/// How a row or an entry differs from what the ledger says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// The row is not the row that the ledger describes.
    Changed,
    /// The ledger describes a row that does not exist.
    Missing,
    /// A row exists that the ledger does not describe.
    Extra,
    /// An entry does not follow from the entry before it, or an entry is missing.
    Chain,
    /// A row or an entry cannot be read.
    Shape,
}

impl Wrong {
    /// Returns the name of this kind of difference.
    pub fn name(self) -> &'static str {
        match self {
            Self::Changed => "changed",
            Self::Missing => "missing",
            Self::Extra => "extra",
            Self::Chain => "chain",
            Self::Shape => "shape",
        }
    }
}

/// A difference between the ledger and the rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Kind of the difference.
    pub wrong: Wrong,
    /// Collection of the row.
    pub collection: &'static str,
    /// Name of the row: its number, or its names; `entry` and a number for an entry.
    pub row: String,
    /// What differs, as a sentence without an end.
    pub what: String,
}

/// A row that exists.
#[derive(Debug)]
struct FoundRow {
    digest: String,
    /// Readable name of the row; empty if the identity is readable.
    name: String,
}

/// An entry that exists.
#[derive(Debug)]
struct FoundEntry {
    /// The text that the entry's hash covers.
    text: String,
    hash: String,
    /// The written rows. A row that is no text cannot be read.
    items: Vec<Option<String>>,
}

impl FoundEntry {
    fn of(row: &Row) -> Self {
        let items = row.get("rows").and_then(Value::as_array).map(Vec::as_slice);
        Self {
            text: text_of(row),
            hash: row.get("hash").and_then(Value::as_str).unwrap_or_default().to_owned(),
            items: items.unwrap_or_default().iter().map(|one| Some(one.as_str()?.into())).collect(),
        }
    }
}

/// The newest statement of the ledger about a row.
#[derive(Debug)]
struct ExpectedRow {
    digest: String,
    until: Option<u64>,
    n: u64,
}

/// The result of a fold.
#[derive(Clone, Debug, Default)]
pub struct Folded {
    /// Number of entries; 0 if the agent has no ledger.
    pub entries: u64,
    /// Hash of the last entry, or the hash before the first entry.
    pub head: String,
    /// Number of rows that agree with the ledger.
    pub rows: u64,
    /// The differences, at most a thousand of them.
    pub differences: Vec<Difference>,
    /// Number of further differences.
    pub more: u64,
}

impl Folded {
    /// Returns the result as an answer shows it.
    pub fn told(&self) -> Value {
        let differences: Vec<Value> = self
            .differences
            .iter()
            .map(|one| {
                json!({"wrong": one.wrong.name(), "collection": one.collection, "row": one.row,
                    "what": one.what})
            })
            .collect();
        json!({"entries": self.entries, "head": self.head, "rows": self.rows,
            "differences": differences, "more": self.more})
    }
}

/// Collects the rows and entries of one agent.
#[derive(Debug, Default)]
pub struct Fold {
    found: HashMap<(Shape, String), FoundRow>,
    events: HashMap<String, u64>,
    entries: BTreeMap<u64, FoundEntry>,
    /// Salt and time of each message, by seq; the time is empty if the message has expired.
    messages: HashMap<u64, (String, String)>,
    /// Numbers of the versions to which versions refer, each with the first that refers to it.
    referred: BTreeMap<u64, u64>,
    /// Whether the core has a salt, which means that the agent must have a ledger.
    has_salt: bool,
    /// What the rows outside an export are compared with; `None` for the rows of an export.
    local: Option<Local>,
    folded: Folded,
}

/// What a database says of an agent in addition to the rows of an export.
#[derive(Clone, Copy, Debug, Default)]
struct Local {
    /// Number of entries that an import brought along. Rows that an export leaves out and that
    /// these entries describe are missing rightly.
    imported: u64,
}

/// The statements of a ledger, folded.
#[derive(Debug, Default)]
struct Statements {
    rows: HashMap<(Shape, String), ExpectedRow>,
    /// Events that are no entries: count and last entry, by digest.
    events: HashMap<String, (u64, u64)>,
    /// Digests of the vectors of each chunk, by the chunk's identity.
    vectors: HashMap<String, Vec<String>>,
    /// Whether the last entry has the newest list of kinds.
    complete: bool,
}

impl Fold {
    /// Adds a row in the form of an export. The messages must come before the rows of recall
    /// storage.
    pub fn row(&mut self, kind: RowKind, row: &Row) {
        let seq = row.get("seq").and_then(Value::as_u64);
        let text = |name: &str| row.get(name).and_then(Value::as_str).unwrap_or_default();
        if kind == RowKind::Messages
            && let Some(seq) = seq
        {
            let at = if text("expired_at").is_empty() { text("created_at") } else { "" };
            self.messages.insert(seq, (text("salt").to_owned(), at.to_owned()));
        }
        if kind == RowKind::Core {
            self.has_salt = !text("salt").is_empty();
        }
        if kind == RowKind::Versions {
            let version = row.get("version").and_then(Value::as_u64).unwrap_or_default();
            for at in referred(row) {
                self.referred.entry(at).or_insert(version);
            }
        }
        if kind == RowKind::Events && row.contains_key("n") {
            return self.entry(row);
        }
        let salt = match kind {
            RowKind::Recall | RowKind::RecallVectors => {
                seq.and_then(|seq| self.messages.get(&seq)).map(|(salt, _)| salt.as_str())
            }
            _ => None,
        };
        match Item::of_export(kind, row, salt) {
            Ok(items) => items.into_iter().for_each(|item| self.item(item, row)),
            Err(why) => self.differ(Wrong::Shape, kind.collection(), String::new(), why),
        }
    }

    /// Adds what the core has in the database but not in an export. After this call, rows that an
    /// export leaves out are compared too.
    pub fn core_in_database(&mut self, core: &Row) {
        let imported = core.get("imported_entries").and_then(Value::as_u64).unwrap_or(0);
        self.local = Some(Local { imported });
        if let Some(item) = Item::moving(RowKind::Core, core) {
            self.item(item, core);
        }
    }

    /// Adds a row that an export leaves out, in the form of the database.
    pub fn local_row(&mut self, kind: LocalKind, row: Row, scope: &Scope) {
        let key = row.get("_key").and_then(Value::as_str).unwrap_or_default().to_owned();
        match Item::of_local(kind, row, scope) {
            Ok(item) => {
                let RowState::Is { digest, .. } = item.state else { return };
                self.found.insert((item.shape, item.id), FoundRow { digest, name: key });
            }
            Err(why) => self.differ(Wrong::Shape, kind.collection(), key, why),
        }
    }

    fn item(&mut self, item: Item, row: &Row) {
        let RowState::Is { digest, .. } = item.state else { return };
        if item.shape == Shape::Row(RowKind::Events) {
            *self.events.entry(digest).or_default() += 1;
            return;
        }
        let found = FoundRow { digest, name: name_of(item.shape, row) };
        if let Some(earlier) = self.found.insert((item.shape, item.id.clone()), found) {
            let name = readable(&item.id, &earlier.name);
            self.differ(Wrong::Extra, item.shape.collection(), name, "exists twice".into());
        }
    }

    fn entry(&mut self, row: &Row) {
        let Some(n) = row.get("n").and_then(Value::as_u64) else {
            let what = "has a number that is not whole".to_owned();
            return self.differ(Wrong::Shape, ENTRIES, "entry".into(), what);
        };
        if self.entries.insert(n, FoundEntry::of(row)).is_some() {
            self.differ(Wrong::Extra, ENTRIES, format!("entry {n}"), "exists twice".into());
        }
    }

    fn differ(&mut self, wrong: Wrong, collection: &'static str, row: String, what: String) {
        if self.folded.differences.len() == DIFFERENCES_MAX {
            self.folded.more += 1;
            return;
        }
        self.folded.differences.push(Difference { wrong, collection, row, what });
    }

    /// Compares the rows with the entries. `sealed_as` is the name that the digests of the agent's
    /// messages contain, and `now_s` the time in seconds since 1970. Entries of recall storage may
    /// be missing if their message is older than `recall_before`; an empty text means that none may
    /// be missing. `signed` are heads of the ledger that were signed before.
    pub fn finish(
        mut self,
        sealed_as: &str,
        now_s: u64,
        recall_before: &str,
        signed: &[Head],
    ) -> Folded {
        let mut statements = Statements::default();
        let mut head = genesis(sealed_as);
        let mut next = 1;
        for (n, entry) in std::mem::take(&mut self.entries) {
            if n != next {
                let name = format!("entry {next}");
                let what = match n - 1 {
                    last if last == next => "is missing".to_owned(),
                    last => format!("is missing, as are all entries up to {last}"),
                };
                self.differ(Wrong::Chain, ENTRIES, name, what);
            } else if entry.hash != link(&head, n, &entry.text) {
                let what = "does not follow from the entry before it".to_owned();
                self.differ(Wrong::Chain, ENTRIES, format!("entry {n}"), what);
            }
            next = n + 1;
            head = entry.hash;
            if signed.iter().any(|signed| signed.n == n && signed.hash != head) {
                let what = "is not the entry that was signed".to_owned();
                self.differ(Wrong::Chain, ENTRIES, format!("entry {n}"), what);
            }
            let mut items = entry.items.as_slice();
            let first = items.first().and_then(Option::as_deref);
            statements.complete = first == Some(ITEMS_VERSION);
            if statements.complete {
                items = &items[1..];
            }
            for item in items {
                match item.as_deref().and_then(Item::parse) {
                    Some(item) => {
                        self.compare_before(&statements, &item, n);
                        statements.take(item, n);
                    }
                    None => {
                        let what = "lists a row that cannot be read".to_owned();
                        self.differ(Wrong::Shape, ENTRIES, format!("entry {n}"), what);
                    }
                }
            }
        }
        self.folded.entries = next - 1;
        self.folded.head = head;
        if let Some(signed) =
            signed.iter().max_by_key(|signed| signed.n).filter(|signed| signed.n >= next)
        {
            let what = format!("is missing: the ledger was signed up to entry {}", signed.n);
            self.differ(Wrong::Chain, ENTRIES, format!("entry {next}"), what);
        }
        if next == 1 && !self.has_salt && signed.is_empty() {
            // An earlier program version wrote the agent, so there is nothing to compare.
            self.folded.differences.clear();
            return self.folded;
        }
        if let Some(local) = self.local.filter(|local| local.imported >= next) {
            let what = format!("names {} imported entries", local.imported);
            self.differ(Wrong::Changed, RowKind::Core.collection(), String::new(), what);
        }
        self.compare_references(&statements);
        self.compare_vectors(&statements);
        self.compare_events(std::mem::take(&mut statements.events));
        self.compare(statements, now_s, recall_before);
        self.folded.differences.sort_by(|a, b| (a.collection, &a.row).cmp(&(b.collection, &b.row)));
        self.folded
    }

    /// Compares the row that a statement of entry `n` found with what the entries before say. The
    /// row may be right again, or gone, by now; the entry still shows that it was not.
    fn compare_before(&mut self, statements: &Statements, item: &Item, n: u64) {
        let RowState::Is { before: Some(before), .. } = &item.state else { return };
        let row = (item.shape, item.id.clone());
        let (wrong, what) = match statements.rows.get(&row) {
            Some(expected) if expected.digest == *before => return,
            Some(expected) => {
                let described = format!("was not the row that entry {} describes", expected.n);
                (Wrong::Changed, described)
            }
            None => (Wrong::Extra, "was described by no entry".to_owned()),
        };
        let name = self.found.get(&row).map_or("", |found| found.name.as_str());
        let name = readable(&row.1, name);
        let what = format!("{what} when entry {n} changed it");
        self.differ(wrong, item.shape.collection(), name, what);
    }

    fn compare(&mut self, statements: Statements, now_s: u64, recall_before: &str) {
        let mut found = std::mem::take(&mut self.found);
        for ((shape, id), expected) in statements.rows {
            let collection = shape.collection();
            match found.remove(&(shape, id.clone())) {
                Some(found) if found.digest == expected.digest => self.folded.rows += 1,
                Some(found) => {
                    let what = format!("is not the row that entry {} describes", expected.n);
                    self.differ(Wrong::Changed, collection, readable(&id, &found.name), what);
                }
                None if expected.until.is_some_and(|until| until <= now_s) => {}
                None if self.expired(shape, &id, recall_before) => {}
                None if self.may_be_missing(shape, expected.n) => {}
                None => {
                    let what = format!("is missing, but entry {} describes it", expected.n);
                    self.differ(Wrong::Missing, collection, id, what);
                }
            }
        }
        for ((shape, id), found) in found {
            if matches!(shape, Shape::Local(_) | Shape::Moving) && !statements.complete {
                continue;
            }
            let what = "is described by no entry".to_owned();
            let name = readable(&id, &found.name);
            self.differ(Wrong::Extra, shape.collection(), name, what);
        }
    }

    /// Notes the versions to which other versions refer and that never existed. Missing versions
    /// that the ledger describes are noted with all other rows.
    fn compare_references(&mut self, statements: &Statements) {
        for (at, version) in std::mem::take(&mut self.referred) {
            let row = (Shape::Row(RowKind::Versions), at.to_string());
            if !self.found.contains_key(&row) && !statements.rows.contains_key(&row) {
                let what = format!("is missing, but version {version} refers to it");
                self.differ(Wrong::Missing, RowKind::Versions.collection(), row.1, what);
            }
        }
    }

    /// Compares the vectors that searches use with those that the ledger lists for their chunks.
    fn compare_vectors(&mut self, statements: &Statements) {
        let mut wrong = Vec::new();
        let found = &mut self.found;
        for (chunk, digests) in &statements.vectors {
            let row = (Shape::Row(RowKind::Passages), chunk.clone());
            let name = found.get(&row).map(|row| row.name.clone());
            let what = match found.remove(&(Shape::Vector, chunk.clone())) {
                Some(vector) if digests.contains(&vector.digest) => {
                    self.folded.rows += 1;
                    continue;
                }
                Some(_) => (Wrong::Changed, "has a vector that no entry describes"),
                None if name.is_some() => (Wrong::Missing, "has lost its vector"),
                // The chunk itself is missing, which is a difference of its own.
                None => continue,
            };
            wrong.push((what, readable(chunk, &name.unwrap_or_default())));
        }
        let others = found.keys().filter(|(shape, _)| *shape == Shape::Vector).cloned();
        for other in others.collect::<Vec<_>>() {
            if let Some(vector) = found.remove(&other)
                && statements.complete
            {
                let what = (Wrong::Extra, "has a vector that no entry describes");
                wrong.push((what, readable(&other.1, &vector.name)));
            }
        }
        for ((wrong, what), name) in wrong {
            self.differ(wrong, Shape::Vector.collection(), name, what.to_owned());
        }
    }

    /// Returns whether a row that entry `n` describes may be missing: a row that an export leaves
    /// out, in an export or after an import, a row that only saves work, and the mark of a move,
    /// which an agent loses when it arrives.
    fn may_be_missing(&self, shape: Shape, n: u64) -> bool {
        match (shape, self.local) {
            (Shape::Moving, _) | (Shape::Local(_), None) => true,
            (Shape::Local(LocalKind::Forgettings), Some(local)) => n <= local.imported,
            (Shape::Local(LocalKind::Pages | LocalKind::Parts | LocalKind::Marks), Some(_)) => true,
            _ => false,
        }
    }

    /// Returns whether retention may have removed this row of recall storage.
    fn expired(&self, shape: Shape, id: &str, recall_before: &str) -> bool {
        if shape != Shape::Row(RowKind::Recall) {
            return false;
        }
        let seq = id.split('.').next().and_then(|seq| seq.parse::<u64>().ok());
        let message = seq.and_then(|seq| self.messages.get(&seq));
        message.is_some_and(|(_, at)| at.is_empty() || at.as_str() < recall_before)
    }

    fn compare_events(&mut self, expected: HashMap<String, (u64, u64)>) {
        let mut found = std::mem::take(&mut self.events);
        for (digest, (count, n)) in expected {
            let there = found.remove(&digest).unwrap_or(0);
            if there < count {
                let what = format!("is missing or changed: an event that entry {n} describes");
                self.differ(Wrong::Missing, ENTRIES, format!("event of entry {n}"), what);
            }
            if there > count {
                let what = "exists more often than entries describe it".to_owned();
                self.differ(Wrong::Extra, ENTRIES, format!("event of entry {n}"), what);
            }
            self.folded.rows += there.min(count);
        }
        for (digest, count) in found {
            let what = format!("is described by no entry ({count} times)");
            self.differ(Wrong::Extra, ENTRIES, format!("event {digest}"), what);
        }
    }
}

/// Collection of the entries and of all other events.
const ENTRIES: &str = "memory_events";

impl Statements {
    fn take(&mut self, item: Item, n: u64) {
        match (item.shape, item.state) {
            (Shape::Row(RowKind::Events), RowState::Is { digest, .. }) => {
                let (count, last) = self.events.entry(digest).or_default();
                *count += 1;
                *last = n;
            }
            (Shape::Vector, RowState::Is { digest, .. }) => {
                let digests = self.vectors.entry(item.id).or_default();
                if !digests.contains(&digest) {
                    digests.push(digest);
                }
            }
            (shape, RowState::Is { digest, until, .. }) => {
                self.rows.insert((shape, item.id), ExpectedRow { digest, until, n });
            }
            (shape, RowState::Gone) => {
                if shape == Shape::Row(RowKind::Passages) {
                    self.vectors.remove(&item.id);
                }
                self.rows.remove(&(shape, item.id));
            }
        }
    }
}

/// Returns the readable name of a row whose identity is a digest of names.
fn name_of(shape: Shape, row: &Row) -> String {
    let kind = match shape {
        Shape::Row(kind) => kind,
        Shape::Vector => RowKind::Passages,
        Shape::PromptEnd | Shape::Moving | Shape::Local(_) => return String::new(),
    };
    let names: &[&str] = match kind {
        RowKind::Manifests => &["doc_id"],
        RowKind::Passages => &["doc_id", "chunk_id"],
        RowKind::Cites => &["message", "doc_id", "chunk_id"],
        RowKind::Derived => &["version", "message", "before"],
        RowKind::Schedules => &["name"],
        RowKind::Core
        | RowKind::Versions
        | RowKind::Messages
        | RowKind::Recall
        | RowKind::RecallVectors
        | RowKind::Prompts
        | RowKind::ToolSets
        | RowKind::Packs
        | RowKind::Answers
        | RowKind::Events => &[],
    };
    let shown = names.iter().filter_map(|name| match row.get(*name)? {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    });
    shown.collect::<Vec<_>>().join(" ")
}

fn readable(id: &str, name: &str) -> String {
    if name.is_empty() { id.to_owned() } else { name.to_owned() }
}
