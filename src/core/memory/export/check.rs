//! Checks an export file line by line before an import writes any row. The file must be complete
//! and valid, and must contain the rows of one agent.

use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap, HashSet};

use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::part::RowKind;
use super::row::{Owner, check_attributes, number, settled, text};
use super::tally::{FORMAT, Header, Tally, VERSION, line_of, parted};
use crate::limits::{
    CHUNK_BYTES_MAX, DIMENSION_MAX, DOC_ID_BYTES_MAX, EXPORT_LINE_VALUES_MAX, EXPORT_ROWS_MAX,
    INCARNATIONS_MAX, KEY_BYTES_MAX, NAME_BYTES_MAX,
};
use crate::memory::core::Core;
use crate::memory::event::Event;
use crate::memory::held::referred;
use crate::memory::json_weight::JsonWeight;
use crate::memory::message::Message;
use crate::memory::pack::ContextPack;
use crate::memory::prompt::{Prompt, ToolSet};
use crate::memory::receipt;
use crate::memory::schedule::Schedule;
use crate::sha::Sha256;

type Row = Map<String, Value>;
type CheckResult<T> = Result<T, String>;

/// The content of a checked export.
#[derive(Clone, Debug)]
pub struct ImportPlan {
    /// The header of the export.
    pub header: Header,
    /// The agent's core, as a row of the file.
    pub core: Row,
    /// The row of the first stored core version in the export.
    pub first: Row,
    /// The agent's schedules, as rows of the file.
    pub schedules: Vec<Row>,
    /// Number of rows of each kind in the export.
    pub counts: Value,
    /// Number of all rows in the export.
    pub rows: u64,
    /// Digest of the export's rows.
    pub state: String,
    /// Digest of all lines before the trailer.
    pub file: String,
    /// Head of the agent's hash chain.
    pub chain_head: String,
    /// The signed head of the agent's ledger in the last line of the export, if there is one. Its
    /// content is not checked yet.
    pub checkpoint: Option<Value>,
}

/// A value by which the rows of one kind are sorted in the file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum RowId {
    Number(u64),
    Text(String),
}

/// Two counts of a document's chunks: the number that the document's row states, and the number
/// that was read so far.
#[derive(Debug)]
struct Document {
    chunks: u64,
    seen: u64,
}

/// Checks the lines of an export one after the other.
#[derive(Debug)]
pub struct Checker {
    /// Newest schema of an export that this program can read.
    schema: u64,
    header: Option<Header>,
    tally: Tally,
    part: RowKind,
    place: Option<Vec<RowId>>,
    core: Option<(Row, Core)>,
    first: Option<Row>,
    schedules: Vec<Row>,
    chain: String,
    said_at: String,
    ids: HashMap<u128, u64>,
    versions: BTreeSet<u64>,
    documents: HashMap<String, Document>,
    chunks: HashSet<[u8; 16]>,
    ended: Option<ImportPlan>,
    lines: u64,
}

impl Checker {
    /// Returns a checker that has read no line; `schema` is the newest schema that this program can
    /// read.
    pub fn new(schema: u64) -> Self {
        Self {
            schema,
            header: None,
            tally: Tally::begun(""),
            part: RowKind::Core,
            place: None,
            core: None,
            first: None,
            schedules: Vec::new(),
            chain: String::new(),
            said_at: String::new(),
            ids: HashMap::new(),
            versions: BTreeSet::new(),
            documents: HashMap::new(),
            chunks: HashSet::new(),
            ended: None,
            lines: 0,
        }
    }

    /// Checks the next line of an export, given without its line end. An error names the line's
    /// number and the fault.
    pub fn line(&mut self, line: &str) -> CheckResult<()> {
        self.lines += 1;
        if JsonWeight::of(line.as_bytes()).values > EXPORT_LINE_VALUES_MAX {
            let text = "values, more than any row of an agent has: export the agent again";
            return Err(format!("line {} has over {EXPORT_LINE_VALUES_MAX} {text}", self.lines));
        }
        let checked = match (&self.header, &self.ended) {
            (None, _) => self.begin(line),
            (Some(_), Some(_)) => self.checkpoint(line),
            (Some(_), None) if line.starts_with("{\"in\":") => self.row(line),
            (Some(_), None) => self.end(line),
        };
        checked.map_err(|why| format!("line {} {why}", self.lines))
    }

    /// Returns the number of rows read so far.
    pub fn rows(&self) -> u64 {
        self.tally.rows()
    }

    /// Returns the content of the export after its last line was checked. Returns an error if lines
    /// are missing.
    pub fn finish(self) -> CheckResult<ImportPlan> {
        self.ended.ok_or_else(|| match self.lines {
            0 => "the file is empty".into(),
            lines => format!("the file was cut off after line {lines}"),
        })
    }

    fn begin(&mut self, line: &str) -> CheckResult<()> {
        let value = super::exact::exact(line)?;
        if value["format"] != FORMAT {
            return Err(format!("is not the first of an export (`format` is not `{FORMAT}`)"));
        }
        match value["version"].as_u64() {
            Some(VERSION) => {}
            Some(newer) if newer > VERSION => {
                return Err(format!("has format {newer}, newer than {VERSION}: use a newer vctx"));
            }
            _ => return Err("has no format version".into()),
        }
        let header: Header = serde_json::from_value(value).map_err(|e| format!("{e}"))?;
        if header.schema > self.schema {
            let (is, knows) = (header.schema, self.schema);
            return Err(format!("has schema {is}, this vctx knows {knows}: use a newer vctx"));
        }
        if header.line() != line {
            return Err("is not in canonical form".into());
        }
        if header
            .vector
            .as_ref()
            .is_some_and(|kind| kind.dimension == 0 || kind.dimension > DIMENSION_MAX)
        {
            return Err(format!("has a dimension outside 1 to {DIMENSION_MAX}"));
        }
        name("agent", &header.agent)?;
        let (tenant, agent) = header.sealed_as.split_once(':').unwrap_or(("-", &header.sealed_as));
        name("sealed_as", tenant)?;
        let (agent, number) = agent.split_once('@').unwrap_or((agent, "2"));
        name("sealed_as", agent)?;
        if !(2..=INCARNATIONS_MAX).any(|one| one.to_string() == number) {
            return Err("has a bad `sealed_as`".into());
        }
        self.tally = Tally::begun(line);
        self.chain = receipt::genesis(&header.sealed_as);
        self.header = Some(header);
        Ok(())
    }

    fn row(&mut self, line: &str) -> CheckResult<()> {
        let (part, row) = parted(line)?;
        if self.tally.rows() >= EXPORT_ROWS_MAX {
            return Err(format!("exceeds the maximum of {EXPORT_ROWS_MAX} rows of an export"));
        }
        check_attributes(part, &row)?;
        let place = place_of(part, &row, line)?;
        match part.cmp(&self.part) {
            Ordering::Less => return Err("follows rows of a kind that must come after it".into()),
            Ordering::Greater => (self.part, self.place) = (part, None),
            Ordering::Equal => {}
        }
        match self.place.as_ref().map(|before| before.cmp(&place)) {
            None | Some(Ordering::Less) => {}
            // Only memory events may have equal rows.
            Some(Ordering::Equal) if part == RowKind::Events => {}
            Some(_) => return Err("is out of order, or comes twice".into()),
        }
        self.place = Some(place);
        if part != RowKind::Core && self.core.is_none() {
            return Err("comes before the core".into());
        }
        self.judge(part, row)?;
        self.tally.row(part, line);
        Ok(())
    }

    fn judge(&mut self, part: RowKind, row: Row) -> CheckResult<()> {
        match part {
            RowKind::Core => self.core(row),
            RowKind::Versions => self.version(row),
            RowKind::Messages => self.message(row),
            RowKind::Recall => {
                self.message_at(&row, "id")?;
                if !row.get("payload").is_some_and(Value::is_object) {
                    return Err("has no payload".into());
                }
                number(&row, "summary_rev").map(drop)
            }
            RowKind::RecallVectors => {
                self.message_at(&row, "id")?;
                text(&row, "fingerprint")?;
                vector(&row, None)
            }
            RowKind::Manifests => self.manifest(&row),
            RowKind::Passages => self.passage(&row),
            RowKind::Cites => {
                self.message_at(&row, "message")?;
                self.chunk(&row)
            }
            RowKind::Derived => self.derived(&row),
            RowKind::Prompts => self.typed::<Prompt>(part, &row).map(drop),
            RowKind::ToolSets => match self.typed::<ToolSet>(part, &row)?.holds() {
                true => Ok(()),
                false => Err("has a text that does not match its digest".into()),
            },
            RowKind::Packs => match self.typed::<ContextPack>(part, &row)?.holds() {
                true => Ok(()),
                false => Err("has a text that does not match its digest".into()),
            },
            RowKind::Answers => answer(&row),
            RowKind::Schedules => {
                self.typed::<Schedule>(part, &row)?;
                self.schedules.push(row);
                Ok(())
            }
            RowKind::Events => self.typed::<Event>(part, &row).map(drop),
        }
    }

    /// Decodes a row of an export as the type that is stored in the database.
    fn typed<T: serde::de::DeserializeOwned>(&self, part: RowKind, row: &Row) -> CheckResult<T> {
        let header = self.header.as_ref().ok_or("comes before the first line")?;
        let owner = Owner {
            scope: header.sealed_as.clone(),
            tenant: String::new(),
            sealed_as: header.sealed_as.clone(),
            vector: header.vector.clone(),
            number: 1,
        };
        let settled = settled(part, row.clone(), &owner)?;
        serde_json::from_value(Value::Object(settled))
            .map_err(|e| format!("is no row of {}: {}", part.collection(), said_without_values(&e)))
    }

    fn core(&mut self, row: Row) -> CheckResult<()> {
        let core: Core = self.typed(RowKind::Core, &row)?;
        if core.queue.next_seq != core.chain.length + 1 || core.queue.head_seq > core.queue.next_seq
        {
            return Err("has a queue that does not fit its hash chain".into());
        }
        self.core = Some((row, core));
        Ok(())
    }

    fn version(&mut self, row: Row) -> CheckResult<()> {
        let version = number(&row, "version")?;
        if self.versions.is_empty() && version != 1 {
            return Err("is not the first copy of the texts".into());
        }
        let last = self.core.as_ref().map_or(0, |(_, core)| core.version);
        if version > last {
            return Err("has a version that is later than the version of the core".into());
        }
        text(&row, "ts")?;
        for (name, is) in [
            ("system", Value::is_object as fn(&Value) -> bool),
            ("working_blocks", Value::is_array),
            ("queue_head_summary", Value::is_object),
        ] {
            if !row.get(name).is_some_and(is) {
                return Err(format!("has no `{name}`"));
            }
        }
        if let Some(at) = referred(&row).find(|at| !self.versions.contains(at)) {
            return Err(format!("refers to version {at}, which does not come before it"));
        }
        if version == 1 {
            self.first = Some(row);
        }
        self.versions.insert(version);
        Ok(())
    }

    fn message(&mut self, row: Row) -> CheckResult<()> {
        let message: Message = self.typed(RowKind::Messages, &row)?;
        let sealed_as = self.header.as_ref().map_or("", |header| &header.sealed_as);
        let id = uuid(&message.key)?;
        let seq = self.ids.len() as u64 + 1;
        if message.seq != seq {
            return Err(format!("has seq {} and not {seq}", message.seq));
        }
        if message.expired_at.is_none() {
            let canonical = receipt::canonical_message(sealed_as, &Value::Object(message.public()));
            if receipt::digest(&message.salt, &canonical) != message.digest {
                return Err("is not what its digest was made of".into());
            }
        }
        if receipt::link(&self.chain, &message.digest) != message.chain {
            return Err("does not follow in the hash chain".into());
        }
        if message.created_at <= self.said_at {
            return Err("has a time that is not later than the time of the previous message".into());
        }
        if let Some(original) = &message.copy_of
            && !self.ids.contains_key(&uuid(original)?)
        {
            return Err("is a copy of no message before it".into());
        }
        if self.ids.insert(id, seq).is_some() {
            return Err("has the id of another message".into());
        }
        self.chain = message.chain;
        self.said_at = message.created_at;
        Ok(())
    }

    /// Checks that a row refers to a message of this file and contains the seq of this message.
    fn message_at(&self, row: &Row, name: &str) -> CheckResult<()> {
        let id = uuid(text(row, name)?)?;
        match self.ids.get(&id) {
            Some(seq) if *seq == number(row, "seq")? => Ok(()),
            _ => Err("belongs to no message of this file".into()),
        }
    }

    fn manifest(&mut self, row: &Row) -> CheckResult<()> {
        let doc_id = text(row, "doc_id")?;
        if doc_id.is_empty() || doc_id.len() > DOC_ID_BYTES_MAX {
            return Err(format!("has a `doc_id` outside 1 to {DOC_ID_BYTES_MAX} bytes"));
        }
        if !row.get("provenance").is_some_and(Value::is_object) {
            return Err("has no provenance".into());
        }
        let document = Document { chunks: number(row, "chunks")?, seen: 0 };
        self.documents.insert(doc_id.to_owned(), document);
        Ok(())
    }

    fn passage(&mut self, row: &Row) -> CheckResult<()> {
        let kind = self.header.as_ref().and_then(|header| header.vector.as_ref());
        let kind = kind.ok_or("has a vector that the first line does not describe")?;
        vector(row, Some(kind.dimension.into()))?;
        if text(row, "text")?.len() > CHUNK_BYTES_MAX * CHUNK_GROWTH {
            return Err("is longer than a chunk".into());
        }
        if !row.get("provenance").is_some_and(Value::is_object) {
            return Err("has no provenance".into());
        }
        let (doc_id, index) = (text(row, "doc_id")?, number(row, "index")?);
        let document =
            self.documents.get_mut(doc_id).ok_or("is a chunk of no document of this file")?;
        if index != document.seen || index >= document.chunks {
            return Err(format!("is chunk {index}, but chunk {} comes next", document.seen));
        }
        document.seen += 1;
        if !self.chunks.insert(chunk_mark(doc_id, text(row, "chunk_id")?)) {
            return Err("has the name of another chunk of its document".into());
        }
        Ok(())
    }

    fn chunk(&self, row: &Row) -> CheckResult<()> {
        let mark = chunk_mark(text(row, "doc_id")?, text(row, "chunk_id")?);
        let known = self.chunks.contains(&mark);
        known.then_some(()).ok_or_else(|| "ends at no chunk of this file".into())
    }

    fn derived(&self, row: &Row) -> CheckResult<()> {
        if let Some(before) = row.get("before").filter(|_| !row.contains_key("message")) {
            let before = before.as_u64().ok_or("has a bad `before`")?;
            if !self.versions.contains(&before) {
                return Err("does not end at a summary of this file".into());
            }
        } else if row.contains_key("before")
            || !self.ids.contains_key(&uuid(text(row, "message")?)?)
        {
            return Err("ends at no message of this file".into());
        }
        match (row.get("chunk"), row.get("version")) {
            (Some(Value::Object(chunk)), None) if chunk.len() == 2 && row.len() == 2 => {
                self.chunk(chunk)
            }
            (None, Some(_)) if self.versions.contains(&number(row, "version")?) => Ok(()),
            _ => Err("begins neither at a summary nor at a chunk of this file".into()),
        }
    }

    fn end(&mut self, line: &str) -> CheckResult<()> {
        let (row, core) = self.core.take().ok_or("comes before the core")?;
        let first = self.first.take().ok_or("comes before the first copy of the texts")?;
        if core.chain.head != self.chain || core.chain.length != self.ids.len() as u64 {
            return Err("follows messages that do not match the core's hash chain".into());
        }
        if self.documents.values().any(|document| document.seen != document.chunks) {
            return Err("ends a document with missing chunks".into());
        }
        if self.tally.trailer(&self.chain) != line {
            return Err("does not match the lines before it: the file was changed or cut".into());
        }
        let header = self.header.clone().ok_or("comes before the first line")?;
        if header.vector.is_some() == self.documents.is_empty() {
            return Err("follows documents that do not fit the vectors of the first line".into());
        }
        self.ended = Some(ImportPlan {
            header,
            core: row,
            first,
            schedules: std::mem::take(&mut self.schedules),
            counts: self.tally.counts(),
            rows: self.tally.rows(),
            state: self.tally.state(),
            file: self.tally.file(),
            chain_head: self.chain.clone(),
            checkpoint: None,
        });
        Ok(())
    }

    fn checkpoint(&mut self, line: &str) -> CheckResult<()> {
        let plan = self.ended.as_mut().filter(|plan| plan.checkpoint.is_none());
        let plan = plan.ok_or("follows the last line")?;
        let mut row = super::exact::exact(line)?;
        let proof = row["checkpoint"].take();
        if checkpoint_line(&proof) != line {
            return Err("follows the last line".into());
        }
        plan.checkpoint = Some(proof);
        Ok(())
    }
}

/// Returns the line of an export with the signed head of the agent's ledger, without the line end.
/// The line follows the trailer.
pub fn checkpoint_line(proof: &Value) -> String {
    receipt::canonical_json(&json!({"checkpoint": proof}))
}

/// Factor by which the text of an imported chunk may exceed [`CHUNK_BYTES_MAX`], because the chunk
/// may have been ingested under another limit.
const CHUNK_GROWTH: usize = 64;

impl ImportPlan {
    /// Returns the rows that an import writes last, in one transaction: the core, the first stored
    /// core version, and the schedules.
    pub fn held_back(&self) -> impl Iterator<Item = (RowKind, String)> {
        let rows = [(RowKind::Core, &self.core), (RowKind::Versions, &self.first)];
        let schedules = self.schedules.iter().map(|row| (RowKind::Schedules, row));
        rows.into_iter().chain(schedules).map(|(part, row)| (part, line_of(part, row)))
    }

    /// Returns the answer that reports the content of a checked export.
    pub fn answer(&self) -> Value {
        json!({"agent": self.header.agent, "sealed_as": self.header.sealed_as, "rows": self.rows, "counts": self.counts,
            "state": self.state, "chain_head": self.chain_head})
    }
}

fn place_of(part: RowKind, row: &Row, line: &str) -> CheckResult<Vec<RowId>> {
    let n = |name: &str| number(row, name).map(RowId::Number);
    let t = |name: &str| text(row, name).map(|text| RowId::Text(text.to_owned()));
    let whole = || RowId::Text(line.to_owned());
    Ok(match part {
        RowKind::Core => Vec::new(),
        RowKind::Versions => vec![n("version")?],
        RowKind::Messages | RowKind::Recall => vec![n("seq")?],
        RowKind::RecallVectors => vec![n("seq")?, n("passage")?],
        RowKind::Manifests => vec![t("doc_id")?],
        RowKind::Passages => vec![t("doc_id")?, n("index")?],
        RowKind::Cites => vec![n("seq")?, t("doc_id")?, t("chunk_id")?],
        RowKind::Derived => match row.get("chunk") {
            None => vec![RowId::Number(0), n("version")?, whole()],
            Some(Value::Object(chunk)) => {
                let of = |name: &str| text(chunk, name).map(|text| RowId::Text(text.to_owned()));
                vec![RowId::Number(1), of("doc_id")?, of("chunk_id")?, t("message")?]
            }
            Some(_) => return Err("has a bad `chunk`".into()),
        },
        RowKind::Prompts => vec![n("turn")?],
        RowKind::ToolSets | RowKind::Packs => vec![t("digest")?],
        RowKind::Answers => {
            vec![
                t("key")?,
                RowId::Number(row.get("part").and_then(Value::as_u64).map_or(0, |p| p + 1)),
            ]
        }
        RowKind::Schedules => vec![t("name")?],
        RowKind::Events => vec![t("ts")?, whole()],
    })
}

/// Sorts rows of one kind into the order that an export file requires.
pub fn in_order(part: RowKind, rows: Vec<Row>) -> CheckResult<Vec<Row>> {
    let placed: CheckResult<Vec<(Vec<RowId>, Row)>> = rows
        .into_iter()
        .map(|row| Ok((place_of(part, &row, &line_of(part, &row))?, row)))
        .collect();
    let mut placed = placed?;
    placed.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(placed.into_iter().map(|(_, row)| row).collect())
}

/// Checks the name of an agent or tenant.
fn name(what: &str, text: &str) -> CheckResult<()> {
    let known = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
    let fits = !text.is_empty() && text.len() <= NAME_BYTES_MAX && text.bytes().all(known);
    (fits && text != "." && text != "..").then_some(()).ok_or_else(|| format!("has a bad `{what}`"))
}

/// Parses the id of a message, which must be a UUID in canonical form.
fn uuid(text: &str) -> CheckResult<u128> {
    let id = Uuid::try_parse(text).map_err(|_| "has an id that is no UUID")?;
    match id.hyphenated().to_string() == text {
        true => Ok(id.as_u128()),
        false => Err("has an id that is not in canonical form".into()),
    }
}

fn chunk_mark(doc_id: &str, chunk_id: &str) -> [u8; 16] {
    let mut mark = [0; 16];
    mark.copy_from_slice(&Sha256::digest(format!("{doc_id}\0{chunk_id}"))[..16]);
    mark
}

fn vector(row: &Row, dimension: Option<u64>) -> CheckResult<()> {
    let Some(Value::Array(items)) = row.get("embedding") else {
        return Err("has no vector".into());
    };
    let fits = dimension.is_none_or(|dimension| items.len() as u64 == dimension)
        && !items.is_empty()
        && items.len() <= DIMENSION_MAX as usize
        && items.iter().all(Value::is_number);
    fits.then_some(()).ok_or_else(|| "has a vector of another dimension".into())
}

fn answer(row: &Row) -> CheckResult<()> {
    let key = text(row, "key")?;
    if key.is_empty() || key.len() > KEY_BYTES_MAX {
        return Err(format!("has a key whose length is not 1 to {KEY_BYTES_MAX} bytes"));
    }
    let part = row.get("part").is_none_or(Value::is_u64);
    let response = row.get("response").is_some_and(Value::is_object);
    number(row, "expires_at")?;
    text(row, "tool")?;
    text(row, "request_hash")?;
    (part && response).then_some(()).ok_or_else(|| "is no answer to a call".into())
}

/// Returns the message of a serde error without values from the file, because these may be texts of
/// a memory.
fn said_without_values(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(": ").next().unwrap_or_default().to_owned()
}
