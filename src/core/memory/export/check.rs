//! Whether a file is whole, sound and of one agent: line after line, before anything of it is written anywhere.

use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap, HashSet};

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::part::Part;
use super::row::{Owner, known, number, settled, text};
use super::tally::{FORMAT, Header, Tally, VERSION, line_of, parted};
use crate::limits::{
    CHUNK_BYTES_MAX, DIMENSION_MAX, DOC_ID_BYTES_MAX, EXPORT_ROWS_MAX, KEY_BYTES_MAX,
    NAME_BYTES_MAX,
};
use crate::memory::core::Core;
use crate::memory::event::Event;
use crate::memory::message::Message;
use crate::memory::prompt::{Prompt, ToolSet};
use crate::memory::receipt;
use crate::memory::schedule::Schedule;

type Row = Map<String, Value>;
type Said<T> = Result<T, String>;

/// What a file turned out to hold.
#[derive(Clone, Debug)]
pub struct Checked {
    /// Its first line.
    pub header: Header,
    /// The core.
    pub core: Row,
    /// The first copy of the core's texts.
    pub first: Row,
    /// Schedules.
    pub schedules: Vec<Row>,
    /// Rows of each part.
    pub counts: Value,
    /// Rows in all.
    pub rows: u64,
    /// Hash of the state.
    pub state: String,
    /// Head of the hash chain.
    pub chain_head: String,
}

/// Where a row stands among those of its part.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Number(u64),
    Text(String),
}

/// A document and what was seen of it.
#[derive(Debug)]
struct Document {
    chunks: u64,
    seen: u64,
}

/// Takes one line after the other.
#[derive(Debug)]
pub struct Checker {
    /// Schema of the program that reads.
    schema: u64,
    header: Option<Header>,
    tally: Tally,
    part: Part,
    place: Option<Vec<Place>>,
    core: Option<(Row, Core)>,
    first: Option<Row>,
    schedules: Vec<Row>,
    chain: String,
    said_at: String,
    ids: HashMap<u128, u64>,
    versions: BTreeSet<u64>,
    documents: HashMap<String, Document>,
    chunks: HashSet<[u8; 16]>,
    ended: Option<Checked>,
    lines: u64,
}

impl Checker {
    /// Before the first line; `schema` is the newest that the caller knows.
    pub fn new(schema: u64) -> Self {
        Self {
            schema,
            header: None,
            tally: Tally::begun(""),
            part: Part::Core,
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

    /// The next line, without its end. The error says which line is wrong, and how.
    pub fn line(&mut self, line: &str) -> Said<()> {
        self.lines += 1;
        let checked = match (&self.header, &self.ended) {
            (None, _) => self.begin(line),
            (Some(_), Some(_)) => Err("stands behind the last one".into()),
            (Some(_), None) if line.starts_with("{\"in\":") => self.row(line),
            (Some(_), None) => self.end(line),
        };
        checked.map_err(|why| format!("line {} {why}", self.lines))
    }

    /// Rows so far.
    pub fn rows(&self) -> u64 {
        self.tally.rows()
    }

    /// The whole, behind the last line.
    pub fn finish(self) -> Said<Checked> {
        self.ended.ok_or_else(|| match self.lines {
            0 => "the file is empty".into(),
            lines => format!("the file was cut off behind line {lines}"),
        })
    }

    fn begin(&mut self, line: &str) -> Said<()> {
        let value = super::exact::exact(line)?;
        if value["format"] != FORMAT {
            return Err(format!("is not the first of an export (`format` is not `{FORMAT}`)"));
        }
        match value["version"].as_u64() {
            Some(VERSION) => {}
            Some(newer) if newer > VERSION => {
                return Err(format!("says format {newer}, newer than {VERSION}: use a newer vctx"));
            }
            _ => return Err("says no format version".into()),
        }
        let header: Header = serde_json::from_value(value).map_err(|e| format!("{e}"))?;
        if header.schema > self.schema {
            let (is, knows) = (header.schema, self.schema);
            return Err(format!("says schema {is}, this vctx knows {knows}: use a newer vctx"));
        }
        if header.line() != line {
            return Err("is not written in the canonical way".into());
        }
        if header
            .vector
            .as_ref()
            .is_some_and(|kind| kind.dimension == 0 || kind.dimension > DIMENSION_MAX)
        {
            return Err(format!("says a dimension beyond 1 to {DIMENSION_MAX}"));
        }
        name("agent", &header.agent)?;
        let (tenant, agent) = header.sealed_as.split_once(':').unwrap_or(("-", &header.sealed_as));
        name("sealed_as", tenant)?;
        name("sealed_as", agent)?;
        self.tally = Tally::begun(line);
        self.chain = receipt::genesis(&header.sealed_as);
        self.header = Some(header);
        Ok(())
    }

    fn row(&mut self, line: &str) -> Said<()> {
        let (part, row) = parted(line)?;
        if self.tally.rows() >= EXPORT_ROWS_MAX {
            return Err(format!("is one more than the {EXPORT_ROWS_MAX} rows of an export"));
        }
        known(part, &row)?;
        let place = place_of(part, &row, line)?;
        match part.cmp(&self.part) {
            Ordering::Less => return Err("stands behind rows of a later kind".into()),
            Ordering::Greater => (self.part, self.place) = (part, None),
            Ordering::Equal => {}
        }
        match self.place.as_ref().map(|before| before.cmp(&place)) {
            None | Some(Ordering::Less) => {}
            // Two events may be alike.
            Some(Ordering::Equal) if part == Part::Events => {}
            Some(_) => return Err("does not stand in its order, or comes twice".into()),
        }
        self.place = Some(place);
        if part != Part::Core && self.core.is_none() {
            return Err("comes before the core".into());
        }
        self.judge(part, row)?;
        self.tally.row(part, line);
        Ok(())
    }

    fn judge(&mut self, part: Part, row: Row) -> Said<()> {
        match part {
            Part::Core => self.core(row),
            Part::Versions => self.version(row),
            Part::Messages => self.message(row),
            Part::Recall => {
                self.message_at(&row, "id")?;
                if !row.get("payload").is_some_and(Value::is_object) {
                    return Err("has no payload".into());
                }
                number(&row, "summary_rev").map(drop)
            }
            Part::RecallVectors => {
                self.message_at(&row, "id")?;
                text(&row, "fingerprint")?;
                vector(&row, None)
            }
            Part::Manifests => self.manifest(&row),
            Part::Passages => self.passage(&row),
            Part::Cites => {
                self.message_at(&row, "message")?;
                self.chunk(&row)
            }
            Part::Derived => self.derived(&row),
            Part::Prompts => self.typed::<Prompt>(part, &row).map(drop),
            Part::ToolSets => match self.typed::<ToolSet>(part, &row)?.holds() {
                true => Ok(()),
                false => Err("has another text than its digest says".into()),
            },
            Part::Answers => answer(&row),
            Part::Schedules => {
                self.typed::<Schedule>(part, &row)?;
                self.schedules.push(row);
                Ok(())
            }
            Part::Events => self.typed::<Event>(part, &row).map(drop),
        }
    }

    /// The row as it would lie in a database, read as what it must be there.
    fn typed<T: serde::de::DeserializeOwned>(&self, part: Part, row: &Row) -> Said<T> {
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

    fn core(&mut self, row: Row) -> Said<()> {
        let core: Core = self.typed(Part::Core, &row)?;
        if core.queue.next_seq != core.chain.length + 1 || core.queue.head_seq > core.queue.next_seq
        {
            return Err("has a queue that does not fit its chain".into());
        }
        self.core = Some((row, core));
        Ok(())
    }

    fn version(&mut self, row: Row) -> Said<()> {
        let version = number(&row, "version")?;
        if self.versions.is_empty() && version != 1 {
            return Err("is not the first copy of the texts".into());
        }
        let last = self.core.as_ref().map_or(0, |(_, core)| core.version);
        if version > last {
            return Err("is a copy of a version that is not yet".into());
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
        if version == 1 {
            self.first = Some(row);
        }
        self.versions.insert(version);
        Ok(())
    }

    fn message(&mut self, row: Row) -> Said<()> {
        let message: Message = self.typed(Part::Messages, &row)?;
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
            return Err("is not later than the message before".into());
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

    /// The message that a row belongs to must be there, at the place that the row says.
    fn message_at(&self, row: &Row, name: &str) -> Said<()> {
        let id = uuid(text(row, name)?)?;
        match self.ids.get(&id) {
            Some(seq) if *seq == number(row, "seq")? => Ok(()),
            _ => Err("belongs to no message of this file".into()),
        }
    }

    fn manifest(&mut self, row: &Row) -> Said<()> {
        let doc_id = text(row, "doc_id")?;
        if doc_id.is_empty() || doc_id.len() > DOC_ID_BYTES_MAX {
            return Err(format!("has a `doc_id` beyond 1 to {DOC_ID_BYTES_MAX} bytes"));
        }
        if !row.get("provenance").is_some_and(Value::is_object) {
            return Err("has no provenance".into());
        }
        let document = Document { chunks: number(row, "chunks")?, seen: 0 };
        self.documents.insert(doc_id.to_owned(), document);
        Ok(())
    }

    fn passage(&mut self, row: &Row) -> Said<()> {
        let kind = self.header.as_ref().and_then(|header| header.vector.as_ref());
        let kind = kind.ok_or("has a vector of which the first line does not tell")?;
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
            return Err(format!("is chunk {index}, where {} comes next", document.seen));
        }
        document.seen += 1;
        if !self.chunks.insert(chunk_mark(doc_id, text(row, "chunk_id")?)) {
            return Err("has the name of another chunk of its document".into());
        }
        Ok(())
    }

    fn chunk(&self, row: &Row) -> Said<()> {
        let mark = chunk_mark(text(row, "doc_id")?, text(row, "chunk_id")?);
        let known = self.chunks.contains(&mark);
        known.then_some(()).ok_or_else(|| "ends at no chunk of this file".into())
    }

    fn derived(&self, row: &Row) -> Said<()> {
        if let Some(before) = row.get("before").filter(|_| !row.contains_key("message")) {
            let before = before.as_u64().ok_or("has a bad `before`")?;
            if !self.versions.contains(&before) {
                return Err("ends at no summary of this file".into());
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

    fn end(&mut self, line: &str) -> Said<()> {
        let (row, core) = self.core.take().ok_or("comes before the core")?;
        let first = self.first.take().ok_or("comes before the first copy of the texts")?;
        if core.chain.head != self.chain || core.chain.length != self.ids.len() as u64 {
            return Err("ends messages that are not those under the core's chain".into());
        }
        if self.documents.values().any(|document| document.seen != document.chunks) {
            return Err("ends a document whose chunks are not all there".into());
        }
        if self.tally.trailer(&self.chain) != line {
            return Err("does not tell what stands before it: the file was changed or cut".into());
        }
        let header = self.header.clone().ok_or("comes before the first line")?;
        if header.vector.is_some() == self.documents.is_empty() {
            return Err("ends documents that the first line does not tell of".into());
        }
        self.ended = Some(Checked {
            header,
            core: row,
            first,
            schedules: std::mem::take(&mut self.schedules),
            counts: self.tally.counts(),
            rows: self.tally.rows(),
            state: self.tally.state(),
            chain_head: self.chain.clone(),
        });
        Ok(())
    }
}

/// Room beyond the limit of a chunk: what was taken in under another limit is taken in again.
const CHUNK_GROWTH: usize = 64;

impl Checked {
    /// The lines of what is written last and at once: core, first copy of texts, schedules.
    pub fn held_back(&self) -> impl Iterator<Item = (Part, String)> {
        let rows = [(Part::Core, &self.core), (Part::Versions, &self.first)];
        let schedules = self.schedules.iter().map(|row| (Part::Schedules, row));
        rows.into_iter().chain(schedules).map(|(part, row)| (part, line_of(part, row)))
    }

    /// What is told of it.
    pub fn told(&self) -> Value {
        json!({"agent": self.header.agent, "sealed_as": self.header.sealed_as, "rows": self.rows, "counts": self.counts,
            "state": self.state, "chain_head": self.chain_head})
    }
}

fn place_of(part: Part, row: &Row, line: &str) -> Said<Vec<Place>> {
    let n = |name: &str| number(row, name).map(Place::Number);
    let t = |name: &str| text(row, name).map(|text| Place::Text(text.to_owned()));
    let whole = || Place::Text(line.to_owned());
    Ok(match part {
        Part::Core => Vec::new(),
        Part::Versions => vec![n("version")?],
        Part::Messages | Part::Recall => vec![n("seq")?],
        Part::RecallVectors => vec![n("seq")?, n("passage")?],
        Part::Manifests => vec![t("doc_id")?],
        Part::Passages => vec![t("doc_id")?, n("index")?],
        Part::Cites => vec![n("seq")?, t("doc_id")?, t("chunk_id")?],
        Part::Derived => match row.get("chunk") {
            None => vec![Place::Number(0), n("version")?, whole()],
            Some(Value::Object(chunk)) => {
                let of = |name: &str| text(chunk, name).map(|text| Place::Text(text.to_owned()));
                vec![Place::Number(1), of("doc_id")?, of("chunk_id")?, t("message")?]
            }
            Some(_) => return Err("has a bad `chunk`".into()),
        },
        Part::Prompts => vec![n("turn")?],
        Part::ToolSets => vec![t("digest")?],
        Part::Answers => {
            vec![
                t("key")?,
                Place::Number(row.get("part").and_then(Value::as_u64).map_or(0, |p| p + 1)),
            ]
        }
        Part::Schedules => vec![t("name")?],
        Part::Events => vec![t("ts")?, whole()],
    })
}

/// Puts rows of one part in order, as they must stand in a file.
pub fn in_order(part: Part, rows: Vec<Row>) -> Said<Vec<Row>> {
    let placed: Said<Vec<(Vec<Place>, Row)>> = rows
        .into_iter()
        .map(|row| Ok((place_of(part, &row, &line_of(part, &row))?, row)))
        .collect();
    let mut placed = placed?;
    placed.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(placed.into_iter().map(|(_, row)| row).collect())
}

/// Names of agents and tenants, as they may stand in keys.
fn name(what: &str, text: &str) -> Said<()> {
    let known = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
    let fits = !text.is_empty() && text.len() <= NAME_BYTES_MAX && text.bytes().all(known);
    (fits && text != "." && text != "..").then_some(()).ok_or_else(|| format!("has a bad `{what}`"))
}

/// An id of a message in its one form.
fn uuid(text: &str) -> Said<u128> {
    let id = Uuid::try_parse(text).map_err(|_| "has an id that is no UUID")?;
    match id.hyphenated().to_string() == text {
        true => Ok(id.as_u128()),
        false => Err("has an id that is not written in the canonical way".into()),
    }
}

fn chunk_mark(doc_id: &str, chunk_id: &str) -> [u8; 16] {
    let mut mark = [0; 16];
    mark.copy_from_slice(&Sha256::digest(format!("{doc_id}\0{chunk_id}"))[..16]);
    mark
}

fn vector(row: &Row, dimension: Option<u64>) -> Said<()> {
    let Some(Value::Array(items)) = row.get("embedding") else {
        return Err("has no vector".into());
    };
    let fits = dimension.is_none_or(|dimension| items.len() as u64 == dimension)
        && !items.is_empty()
        && items.len() <= DIMENSION_MAX as usize
        && items.iter().all(Value::is_number);
    fits.then_some(()).ok_or_else(|| "has a vector of another dimension".into())
}

fn answer(row: &Row) -> Said<()> {
    let key = text(row, "key")?;
    if key.is_empty() || key.len() > KEY_BYTES_MAX {
        return Err(format!("has a key beyond 1 to {KEY_BYTES_MAX} bytes"));
    }
    let part = row.get("part").is_none_or(Value::is_u64);
    let response = row.get("response").is_some_and(Value::is_object);
    number(row, "expires_at")?;
    text(row, "tool")?;
    text(row, "request_hash")?;
    (part && response).then_some(()).ok_or_else(|| "is no answer to a call".into())
}

/// What serde says, without values of the file.
fn said_without_values(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(": ").next().unwrap_or_default().to_owned()
}
