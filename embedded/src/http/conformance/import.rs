//! Handles `POST /_api/import`, which writes many documents from lines, lists or tables in one
//! transaction.

use crate::error::{Code, Error, Result};
use crate::limits::KEY_LOCK_WAIT_MS;
use crate::schema::{Collection, CollectionKind};
use crate::txn::{OverwriteMode, WriteOptions};
use crate::value::{Object, Value, parse, write_text};

use crate::http::auth::Level;
use crate::http::call::{Call, Work};
use crate::http::documents::ends_everything;
use crate::http::limits::ARRAY_MAX;
use crate::http::reply::Reply;
use crate::http::request::Request;

/// Maximum number of bytes of a refused document that the details of an import show (arangod: 255).
const IMPORT_EXCERPT_BYTES: usize = 255;

/// The import's options in the URL.
struct Wish<'a> {
    complete: bool,
    ignore_missing: bool,
    ignore_duplicates: bool,
    force_prefix: bool,
    from_prefix: Option<&'a str>,
    to_prefix: Option<&'a str>,
    options: WriteOptions,
}

/// The counts and errors of an import so far.
#[derive(Default)]
struct Tally {
    created: u64,
    updated: u64,
    ignored: u64,
    empty: u64,
    errors: Vec<String>,
    /// Documents of the import that were read but not written yet.
    documents: Vec<Value>,
}

impl<'a> Wish<'a> {
    fn of(request: &'a Request) -> Self {
        let flag = |name: &str| request.flag(name) == Some(true);
        let duplicates = request.parameter("onDuplicate");
        let overwrite = match duplicates {
            Some("update") => OverwriteMode::Update,
            Some("replace") => OverwriteMode::Replace,
            _ => OverwriteMode::Conflict,
        };
        Self {
            complete: flag("complete"),
            ignore_missing: flag("ignoreMissing"),
            ignore_duplicates: duplicates == Some("ignore"),
            force_prefix: flag("overwriteCollectionPrefix"),
            from_prefix: request.parameter("fromPrefix").filter(|prefix| !prefix.is_empty()),
            to_prefix: request.parameter("toPrefix").filter(|prefix| !prefix.is_empty()),
            options: WriteOptions {
                ignore_revs: true,
                keep_null: true,
                merge_objects: true,
                overwrite,
                lock_wait_ms: KEY_LOCK_WAIT_MS,
                ..WriteOptions::default()
            },
        }
    }
}

fn bad(message: &str) -> Error {
    Error::new(Code::HttpBadParameter, message)
}

/// `POST /_api/import`
pub(in crate::http) fn import(call: &Call<'_>) -> Result<Reply> {
    let request = call.request;
    let name = request.parameter("collection").unwrap_or_default();
    if name.is_empty() {
        let message = "'collection' is missing, expecting /_api/import?collection=<identifier>";
        return Err(Error::new(Code::CollectionParameterMissing, message));
    }
    let wish = Wish::of(request);
    let kind = request.parameter("type").unwrap_or_default();
    let is_json = ["documents", "array", "list", "auto"].contains(&kind);
    // As in arangod, an error in a table's first line takes precedence over an unknown collection.
    let keys = if is_json { Vec::new() } else { header(request.bytes())? };
    let collection = call.permitted(name, Level::Write)?;
    let mut tally = Tally::default();
    let read = match kind {
        _ if !is_json => table(request, &collection, &wish, &keys, &mut tally),
        "documents" => lines(request.bytes(), &collection, &wish, &mut tally),
        "auto" if first_byte(request.bytes()) != Some(b'[') => {
            lines(request.bytes(), &collection, &wish, &mut tally)
        }
        _ => list(request, &collection, &wish, &mut tally),
    };
    read?;
    if tally.documents.len() > ARRAY_MAX {
        return Err(Error::new(Code::ResourceLimit, format!("more than {ARRAY_MAX} documents")));
    }
    let wait_for_sync = call.wait_for_sync(&collection);
    let work = call.writing(&collection, wait_for_sync)?;
    let savepoint = work.savepoint();
    let written =
        if request.flag("overwrite") == Some(true) { work.truncate(&collection) } else { Ok(()) }
            .and_then(|()| write_all(&work, &collection, &wish, &mut tally));
    written.inspect_err(|_| work.undo(savepoint))?;
    work.finish(wait_for_sync)?;
    Ok(Reply::json(201, &answer(&tally, request.flag("details") == Some(true))))
}

fn answer(tally: &Tally, details: bool) -> Value {
    let mut answer = Object::with_capacity(7);
    answer.push_new("error", Value::Bool(false));
    let counts = [
        ("created", tally.created),
        ("errors", tally.errors.len() as u64),
        ("empty", tally.empty),
        ("updated", tally.updated),
        ("ignored", tally.ignored),
    ];
    for (name, count) in counts {
        answer.push_new(name, Value::from(count));
    }
    if details {
        let texts: Vec<Value> = tally.errors.iter().map(Value::string).collect();
        answer.push_new("details", texts.into());
    }
    Value::object(answer)
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | 0x08 | 0x0c)
}

fn first_byte(body: &[u8]) -> Option<u8> {
    body.iter().copied().find(|byte| !is_blank(*byte))
}

fn trimmed(mut line: &[u8]) -> &[u8] {
    while let Some(rest) = line.split_first().filter(|(byte, _)| is_blank(**byte)) {
        line = rest.1;
    }
    while let Some(rest) = line.split_last().filter(|(byte, _)| is_blank(**byte)) {
        line = rest.1;
    }
    line
}

/// Returns at most the first `IMPORT_EXCERPT_BYTES` bytes of a text, for a message.
fn excerpt(text: &str) -> String {
    if text.len() <= IMPORT_EXCERPT_BYTES {
        return text.to_owned();
    }
    format!("{}...", &text[..text.floor_char_boundary(IMPORT_EXCERPT_BYTES)])
}

fn shown(document: &Value) -> String {
    let mut bytes = Vec::new();
    write_text(document, &mut bytes);
    excerpt(&String::from_utf8_lossy(&bytes))
}

/// Reads the attribute names from the first line of a table.
fn header(body: &[u8]) -> Result<Vec<Value>> {
    let end = body.iter().position(|byte| *byte == b'\n');
    let end = end.ok_or_else(|| bad("no JSON array found in second line"))?;
    let line = trimmed(&body[..end]);
    let keys = parse(line).ok().and_then(|keys| keys.as_array().map(<[Value]>::to_vec));
    keys.filter(|keys| !keys.is_empty() && keys.iter().all(|key| key.as_str().is_some()))
        .ok_or_else(|| bad("no JSON string array found in first line"))
}

/// The message for a line that is not JSON.
fn unreadable(position: usize, line: &[u8]) -> String {
    format!(
        "at position {position}: invalid JSON type (expecting object, probably parse error), offending context: {}",
        excerpt(&String::from_utf8_lossy(line))
    )
}

/// Imports a table: the first line lists the attribute names (`keys`), and each further line lists
/// the values of one document.
fn table(
    request: &Request,
    collection: &Collection,
    wish: &Wish<'_>,
    keys: &[Value],
    tally: &mut Tally,
) -> Result<()> {
    let first: usize = request.parameter("line").and_then(|line| line.parse().ok()).unwrap_or(0);
    let body = request.bytes();
    let body = body.strip_suffix(b"\n").unwrap_or(body);
    let lines = body.split(|byte| *byte == b'\n').skip(1);
    for (line, position) in lines.zip(first.saturating_add(1)..) {
        let line = trimmed(line);
        if line.is_empty() {
            tally.empty += 1;
            continue;
        }
        let row = match parse(line) {
            Ok(values) => row(keys, &values, wish.ignore_missing)
                .map_err(|message| format!("at position {position}: {message}")),
            Err(_) => Err(unreadable(position, line)),
        };
        let failed = match row {
            Ok(document) => take(document, collection, wish, position, tally).err(),
            Err(message) => {
                tally.errors.push(message);
                Some(Error::of(Code::Internal))
            }
        };
        if let Some(error) = failed.filter(|_| wish.complete) {
            return Err(error);
        }
    }
    Ok(())
}

/// Builds an object from attribute names and a list of values; null values are omitted.
fn row(keys: &[Value], values: &Value, missing: bool) -> std::result::Result<Value, String> {
    let values = values.as_array().ok_or("no valid JSON array data")?;
    if !missing && values.len() != keys.len() {
        let (got, expected) = (values.len(), keys.len());
        return Err(format!("wrong number of JSON values (got {got}, expected {expected})"));
    }
    let mut object = Object::with_capacity(keys.len());
    for (key, value) in keys.iter().zip(values).filter(|(_, value)| !value.is_null()) {
        object.insert(key.as_str().expect("the header holds names"), value.clone());
    }
    Ok(Value::object(object))
}

/// Imports one document from each line.
fn lines(body: &[u8], collection: &Collection, wish: &Wish<'_>, tally: &mut Tally) -> Result<()> {
    let body = body.strip_suffix(b"\n").unwrap_or(body);
    if body.is_empty() {
        return Ok(());
    }
    for (line, position) in body.split(|byte| *byte == b'\n').zip(1..) {
        let line = trimmed(line);
        if line.is_empty() {
            tally.empty += 1;
            continue;
        }
        match parse(line) {
            Ok(document) => {
                let taken = take(document, collection, wish, position, tally);
                if wish.complete {
                    taken?;
                }
            }
            Err(_) => {
                tally.errors.push(unreadable(position, line));
                if wish.complete {
                    return Err(Error::of(Code::HttpCorruptedJson));
                }
            }
        }
    }
    Ok(())
}

/// Imports all documents of one list.
fn list(
    request: &Request,
    collection: &Collection,
    wish: &Wish<'_>,
    tally: &mut Tally,
) -> Result<()> {
    let body =
        parse(request.bytes()).map_err(|_| bad("expecting a valid JSON array in the request"))?;
    let documents = body.as_array().ok_or_else(|| bad("expecting a JSON array in the request"))?;
    for (document, position) in documents.iter().zip(1..) {
        let taken = take(document.clone(), collection, wish, position, tally);
        if wish.complete {
            taken?;
        }
    }
    Ok(())
}

/// Adds a document to the documents to write, or records its error. In an edge, adds the prefixes
/// from the import's options to `_from` and `_to`.
fn take(
    document: Value,
    collection: &Collection,
    wish: &Wish<'_>,
    position: usize,
    tally: &mut Tally,
) -> Result<()> {
    let Value::Object(object) = &document else {
        let text = shown(&document);
        tally.errors.push(format!(
            "at position {position}: invalid JSON type (expecting object), offending document: {text}"
        ));
        return Err(Error::of(Code::DocumentTypeInvalid));
    };
    if collection.kind == CollectionKind::Document {
        tally.documents.push(document);
        return Ok(());
    }
    let mut edge = (**object).clone();
    for (name, prefix) in [("_from", wish.from_prefix), ("_to", wish.to_prefix)] {
        if let Some(prefix) = prefix
            && let Some(id) = prefixed(edge.get(name), prefix, wish.force_prefix)
        {
            edge.insert(name, id.into());
        }
    }
    let complete =
        ["_from", "_to"].iter().all(|name| edge.get(name).is_some_and(|v| v.as_str().is_some()));
    let edge = Value::object(edge);
    if !complete {
        let text = shown(&edge);
        tally.errors.push(format!(
            "at position {position}: missing '_from' or '_to' attribute, offending document: {text}"
        ));
        return Err(Error::of(Code::InvalidEdgeAttribute));
    }
    tally.documents.push(edge);
    Ok(())
}

/// Returns the end of an edge with the prefix before its key; `None` if the end needs no change or
/// is not valid.
fn prefixed(end: Option<&Value>, prefix: &str, force: bool) -> Option<String> {
    let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
    match end? {
        Value::Int(number) => Some(format!("{prefix}/{number}")),
        Value::String(text) => match text.split_once('/') {
            None => Some(format!("{prefix}/{text}")),
            Some((_, key)) if force => Some(format!("{prefix}/{key}")),
            Some(_) => None,
        },
        _ => None,
    }
}

/// Writes the collected documents; with `complete` the first failure ends the import.
fn write_all(
    work: &Work,
    collection: &Collection,
    wish: &Wish<'_>,
    tally: &mut Tally,
) -> Result<()> {
    for (position, document) in std::mem::take(&mut tally.documents).iter().enumerate() {
        let savepoint = work.savepoint();
        match work.insert(collection, document, &wish.options) {
            Ok(written) if written.old_rev.is_some() => tally.updated += 1,
            Ok(_) => tally.created += 1,
            Err(error) if ends_everything(&error) => return Err(error),
            Err(error) => {
                work.rollback_to(savepoint);
                if error.code == Code::UniqueConstraintViolated && wish.ignore_duplicates {
                    tally.ignored += 1;
                    continue;
                }
                let (reason, text) = (error.code.text(), shown(document));
                tally.errors.push(format!(
                    "at position {position}: creating document failed with error '{reason}', offending document: {text}"
                ));
                if wish.complete {
                    return Err(Error::of(error.code));
                }
            }
        }
    }
    Ok(())
}
