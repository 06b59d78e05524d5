//! Handlers of `/_api/document`, which read and write one document or a list of documents.

use std::collections::BTreeMap;

use crate::data::{DraftOutcome, takes_drafts};
use crate::encode::Drafts;
use crate::error::{Code, Error, Result};
use crate::limits::KEY_LOCK_WAIT_MS;
use crate::schema::Collection;
use crate::txn::{
    OverwriteMode, REVISIONS_DIFFER, Transaction, WriteOptions, Written, put_revision,
};
use crate::value::{Object, Value, parse, write_string, write_text};

use super::auth::Level;
use super::call::{Call, Work};
use super::limits::ARRAY_MAX;
use super::reply::{Reply, object};
use super::request::percent_encode;

/// The options of a write request, for the write and for its answer.
pub(super) struct Wish {
    pub(super) options: WriteOptions,
    pub(super) silent: bool,
    pub(super) return_old: bool,
    pub(super) return_new: bool,
    pub(super) wait_for_sync: bool,
}

impl Wish {
    /// Reads the options from the URL and headers of a write to `collection`.
    pub(super) fn of(call: &Call<'_>, collection: &Collection) -> Result<Self> {
        let request = call.request;
        let flag = |name: &str, default: bool| request.flag(name).unwrap_or(default);
        // `If-Match` applies only to a request for one document; in a list each element has its own
        // revision.
        let is_list = matches!(request.segments().as_slice(), [_, "document", _]);
        let if_match = request.header("if-match").filter(|_| !is_list).map(revision);
        let options = WriteOptions {
            // `If-Match` takes precedence over the body's `_rev`.
            ignore_revs: if_match.is_some() || flag("ignoreRevs", true),
            keep_null: flag("keepNull", true),
            merge_objects: flag("mergeObjects", true),
            overwrite: overwrite_mode(call)?,
            lock_wait_ms: KEY_LOCK_WAIT_MS,
            sees_newest: true,
            if_match,
            version_attribute: request
                .parameter("versionAttribute")
                .filter(|n| !n.is_empty())
                .map(str::to_owned),
        };
        Ok(Self {
            options,
            silent: flag("silent", false),
            return_old: flag("returnOld", false),
            return_new: flag("returnNew", false),
            wait_for_sync: call.wait_for_sync(collection),
        })
    }

    /// Whether new documents can be written as drafts (encoded directly from JSON), because neither
    /// the answer nor a check needs their values.
    fn takes_drafts(&self, collection: &Collection) -> bool {
        !self.return_old && !self.return_new && takes_drafts(collection, &self.options)
    }

    fn status(&self, synced: u16) -> u16 {
        if self.wait_for_sync { synced } else { 202 }
    }
}

/// Returns a revision without its quotes. Like arangod, accepts quoted and unquoted revisions.
fn revision(header: &str) -> String {
    let header = header.trim();
    let quoted = |quote: char| header.strip_prefix(quote).and_then(|h| h.strip_suffix(quote));
    quoted('"').or_else(|| quoted('\'')).unwrap_or(header).to_owned()
}

/// Returns the error for a request that does not name a collection.
pub(super) fn no_collection(call: &Call<'_>) -> Error {
    if call.request.method == "POST" {
        let text = "'collection' is missing, expecting /_api/document/<collection>";
        return Error::new(Code::CollectionParameterMissing, text);
    }
    let text = "expecting /_api/document/<collection> or /_api/document/<collection>/<key>";
    Error::new(Code::HttpBadParameter, text)
}

fn overwrite_mode(call: &Call<'_>) -> Result<OverwriteMode> {
    match call.request.parameter("overwriteMode") {
        Some("conflict") => Ok(OverwriteMode::Conflict),
        Some("ignore") => Ok(OverwriteMode::Ignore),
        Some("replace") => Ok(OverwriteMode::Replace),
        Some("update") => Ok(OverwriteMode::Update),
        Some(_) => Err(Error::new(Code::BadParameter, "unknown overwriteMode")),
        None if call.request.flag("overwrite") == Some(true) => Ok(OverwriteMode::Replace),
        None => Ok(OverwriteMode::Conflict),
    }
}

/// Returns error 412 for a failed precondition, with the document's `_id`, `_key` and `_rev`.
pub(super) fn precondition_failed(collection: &str, key: &str, rev: &str) -> Error {
    let extra = object! { "_id" => format!("{collection}/{key}"), "_key" => key, "_rev" => rev };
    Error::new(Code::Conflict, REVISIONS_DIFFER).with_status(412).with_extra(extra)
}

/// `GET /_api/document/C/K`
pub(super) fn read(call: &Call<'_>, collection: &str, key: &str) -> Result<Reply> {
    let collection = call.permitted(collection, Level::Read)?;
    let work = call.reading(&collection)?;
    let document = work.get(&collection, key)?.ok_or_else(|| Error::of(Code::DocumentNotFound))?;
    let rev = document.attribute("_rev");
    let rev = rev.as_str().unwrap_or_default();
    let wanted = call.request.header("if-match").map(revision);
    if wanted.is_some_and(|wanted| wanted != rev) {
        return Err(precondition_failed(&collection.name, key, rev));
    }
    if call.request.header("if-none-match").map(revision).is_some_and(|known| known == rev) {
        return Ok(Reply::empty(304).etag(rev));
    }
    Ok(Reply::json(200, &document).etag(rev))
}

/// Returns the answer to a write: the document's identity and, if requested, the old and the new
/// document.
pub(super) fn described(collection: &str, written: &Written, wish: &Wish) -> Value {
    let mut answer = Object::with_capacity(6);
    answer.push_new("_id", format!("{collection}/{}", written.key).into());
    answer.push_new("_key", written.key.as_str().into());
    answer.push_new("_rev", written.rev.as_str().into());
    let is_removal = written.executed && written.new.is_null();
    if let (Some(old_rev), false) = (&written.old_rev, is_removal) {
        answer.push_new("_oldRev", old_rev.as_str().into());
    }
    // A document that `overwriteMode: ignore` left unchanged is returned neither as `old` nor as
    // `new` (tests of python-arango).
    let left_alone = !written.executed && written.new.is_null();
    if wish.return_old && !written.old.is_null() && !left_alone {
        answer.push_new("old", written.old.clone());
    }
    if wish.return_new && !is_removal && !left_alone {
        answer.push_new("new", written.new.clone());
    }
    Value::object(answer)
}

/// Runs a single write in the request's transaction.
fn write_one(
    call: &Call<'_>,
    collection: &Collection,
    wish: &Wish,
    write: impl FnOnce(&Transaction) -> Result<Written>,
) -> Result<Written> {
    let work = call.writing(collection, wish.wait_for_sync)?;
    let savepoint = work.savepoint();
    let written = write(&work).inspect_err(|_| work.undo(savepoint)).map_err(as_precondition)?;
    work.finish(wish.wait_for_sync)?;
    Ok(written)
}

/// Sets the status of error 1200 to 412 if the revision differs from the expected one; a conflict
/// between writers stays 409.
pub(super) fn as_precondition(error: Error) -> Error {
    let differs = error.code == Code::Conflict && error.message == REVISIONS_DIFFER;
    if differs { error.with_status(412) } else { error }
}

fn reply_one(
    call: &Call<'_>,
    collection: &Collection,
    written: &Written,
    wish: &Wish,
    synced: u16,
) -> Reply {
    let status = wish.status(synced);
    let reply = if wish.silent {
        Reply::json(status, &object! {})
    } else {
        Reply::json(status, &described(&collection.name, written, wish))
    };
    let location = format!(
        "/_db/{}/_api/document/{}/{}",
        percent_encode(call.db()),
        percent_encode(&collection.name),
        percent_encode(&written.key)
    );
    reply.etag(&written.rev).header("location", &location)
}

/// `POST /_api/document/C` with an object or a list.
pub(super) fn insert(call: &Call<'_>, collection: &str) -> Result<Reply> {
    let collection = call.permitted(collection, Level::Write)?;
    let wish = Wish::of(call, &collection)?;
    if wish.takes_drafts(&collection) {
        let drafts = Drafts::read(call.request.json()?)?;
        match drafts.list.as_slice() {
            list if drafts.is_list => {
                need_room(list)?;
                return insert_drafts(call, &collection, &drafts, &wish);
            }
            [one] if one.is_plain() => return insert_draft(call, &collection, &drafts, &wish),
            _ => {}
        }
    }
    match call.request.body()? {
        Value::Array(list) => many(call, &collection, &list, &wish, 201, |work, document| {
            need_object(document)?;
            work.insert(&collection, document, &wish.options)
        }),
        document => {
            need_object(&document)?;
            let written = write_one(call, &collection, &wish, |work| {
                work.insert(&collection, &document, &wish.options)
            })?;
            Ok(reply_one(call, &collection, &written, &wish, 201))
        }
    }
}

/// Parses and inserts a document that could not be written as a draft.
fn insert_text(
    work: &Transaction,
    collection: &Collection,
    text: &[u8],
    wish: &Wish,
) -> Result<Written> {
    let document = parse(text)?;
    need_object(&document)?;
    work.insert(collection, &document, &wish.options)
}

/// Inserts a list of new documents, as drafts where possible.
fn insert_drafts(
    call: &Call<'_>,
    collection: &Collection,
    drafts: &Drafts<'_>,
    wish: &Wish,
) -> Result<Reply> {
    let work = call.writing(collection, wish.wait_for_sync)?;
    let mut outcome = Outcome::new(collection, wish, drafts.list.len());
    work.insert_drafts(collection, drafts, &wish.options, |told| match told {
        DraftOutcome::Written(key, revision) => {
            outcome.put_new(key, revision);
            Ok(())
        }
        DraftOutcome::Left(text) => {
            outcome.take(&work, || insert_text(&work, collection, text, wish))
        }
    })?;
    work.finish(wish.wait_for_sync)?;
    Ok(outcome.reply(call, 201))
}

/// Inserts one new document, as a draft if possible.
fn insert_draft(
    call: &Call<'_>,
    collection: &Collection,
    drafts: &Drafts<'_>,
    wish: &Wish,
) -> Result<Reply> {
    let written = write_one(call, collection, wish, |work| {
        let mut written = None;
        work.insert_drafts(collection, drafts, &wish.options, |told| {
            written = Some(match told {
                DraftOutcome::Written(key, revision) => Written::fresh(key, revision),
                DraftOutcome::Left(text) => insert_text(work, collection, text, wish)?,
            });
            Ok(())
        })?;
        Ok(written.expect("each draft has an answer"))
    })?;
    Ok(reply_one(call, collection, &written, wish, 201))
}

fn need_object(document: &Value) -> Result<()> {
    match document {
        Value::Object(_) => Ok(()),
        _ => Err(Error::of(Code::DocumentTypeInvalid)),
    }
}

/// `PUT /_api/document/C/K`
pub(super) fn replace(call: &Call<'_>, collection: &str, key: &str) -> Result<Reply> {
    let collection = call.permitted(collection, Level::Write)?;
    let wish = Wish::of(call, &collection)?;
    let body = call.request.body()?;
    need_object(&body)?;
    let written = write_one(call, &collection, &wish, |work| {
        work.replace(&collection, key, &body, &wish.options)
    })?;
    Ok(reply_one(call, &collection, &written, &wish, 201))
}

/// `PATCH /_api/document/C/K`
pub(super) fn update(call: &Call<'_>, collection: &str, key: &str) -> Result<Reply> {
    let collection = call.permitted(collection, Level::Write)?;
    let wish = Wish::of(call, &collection)?;
    let body = call.request.body()?;
    need_object(&body)?;
    let written = write_one(call, &collection, &wish, |work| {
        work.update(&collection, key, &body, &wish.options)
    })?;
    Ok(reply_one(call, &collection, &written, &wish, 201))
}

/// `DELETE /_api/document/C/K`
pub(super) fn remove(call: &Call<'_>, collection: &str, key: &str) -> Result<Reply> {
    let collection = call.permitted(collection, Level::Write)?;
    let wish = Wish::of(call, &collection)?;
    let body = if call.request.has_body() { call.request.body()? } else { Value::Null };
    let rev = body.text_of("_rev");
    let written = write_one(call, &collection, &wish, |work| {
        work.remove(&collection, key, rev, &wish.options)
    })?;
    Ok(reply_one(call, &collection, &written, &wish, 200))
}

/// `PUT /_api/document/C` with a list; `onlyget=true` reads the listed documents.
pub(super) fn replace_many(call: &Call<'_>, collection: &str) -> Result<Reply> {
    if call.request.flag("onlyget") == Some(true) {
        return read_many(call, collection);
    }
    let list = list(call)?;
    let collection = call.permitted(collection, Level::Write)?;
    let wish = Wish::of(call, &collection)?;
    many(call, &collection, &list, &wish, 201, |work, document| {
        need_object(document)?;
        let (key, _) = selected(&collection, document)?;
        work.replace(&collection, key, document, &wish.options)
    })
}

/// `PATCH /_api/document/C`
pub(super) fn update_many(call: &Call<'_>, collection: &str) -> Result<Reply> {
    let list = list(call)?;
    let collection = call.permitted(collection, Level::Write)?;
    let wish = Wish::of(call, &collection)?;
    many(call, &collection, &list, &wish, 201, |work, document| {
        need_object(document)?;
        let (key, _) = selected(&collection, document)?;
        work.update(&collection, key, document, &wish.options)
    })
}

/// `DELETE /_api/document/C`
pub(super) fn remove_many(call: &Call<'_>, collection: &str) -> Result<Reply> {
    let Ok(Value::Array(list)) = call.request.body() else {
        let text = "expecting a key in the path or a JSON array as body";
        return Err(Error::new(Code::HttpBadParameter, text));
    };
    let collection = call.permitted(collection, Level::Write)?;
    let wish = Wish::of(call, &collection)?;
    many(call, &collection, &list, &wish, 200, |work, selector| {
        let (key, rev) = selected(&collection, selector)?;
        work.remove(&collection, key, rev, &wish.options)
    })
}

fn list(call: &Call<'_>) -> Result<Vec<Value>> {
    match call.request.body()? {
        Value::Array(list) => Ok((*list).clone()),
        _ => Err(Error::new(Code::DocumentTypeInvalid, "expecting a JSON array as body")),
    }
}

/// Returns the key and the revision in an element of a list: a key, an id, or an object with `_key`
/// or `_id`. An id of another collection is error 1202.
fn selected<'a>(
    collection: &Collection,
    selector: &'a Value,
) -> Result<(&'a str, Option<&'a str>)> {
    let text = match selector {
        Value::String(text) => &**text,
        _ => match selector.text_of("_key").or_else(|| selector.text_of("_id")) {
            Some(text) => text,
            None => return Err(Error::of(Code::DocumentHandleBad)),
        },
    };
    match text.split_once('/') {
        None => Ok((text, selector.text_of("_rev"))),
        Some((name, key)) if name == collection.name => Ok((key, selector.text_of("_rev"))),
        Some(_) => Err(Error::of(Code::DocumentNotFound)),
    }
}

/// Returns the answer for a failed element of the list in a request.
fn failed(error: &Error, with_identity: bool) -> Value {
    let mut answer = Object::with_capacity(6);
    answer.push_new("error", Value::Bool(true));
    answer.push_new("errorNum", Value::Int(i64::from(error.code.num())));
    answer.push_new("errorMessage", Value::string(&error.message));
    if let (true, Some(extra)) = (with_identity, error.extra.as_deref().and_then(Value::as_object))
    {
        for (name, value) in extra.iter() {
            answer.insert(name.clone(), value.clone());
        }
    }
    Value::object(answer)
}

/// The number of failed elements for each error number, for the header `x-arango-error-codes`.
#[derive(Default)]
struct Failures(BTreeMap<u32, u64>);

impl Failures {
    fn add(&mut self, error: &Error) {
        *self.0.entry(error.code.num()).or_default() += 1;
    }

    fn mark(&self, reply: Reply) -> Reply {
        if self.0.is_empty() {
            return reply;
        }
        let counts: Vec<String> = self.0.iter().map(|(num, n)| format!("\"{num}\":{n}")).collect();
        reply.header("x-arango-error-codes", &format!("{{{}}}", counts.join(",")))
    }
}

/// Writes the elements of a list in one transaction. A failed element gets its error as its answer
/// and is counted as failed; all other elements are written.
fn many(
    call: &Call<'_>,
    collection: &Collection,
    list: &[Value],
    wish: &Wish,
    synced: u16,
    write: impl Fn(&Transaction, &Value) -> Result<Written>,
) -> Result<Reply> {
    need_room(list)?;
    let work = call.writing(collection, wish.wait_for_sync)?;
    let mut outcome = Outcome::new(collection, wish, list.len());
    for element in list {
        outcome.take(&work, || write(&work, element))?;
    }
    work.finish(wish.wait_for_sync)?;
    Ok(outcome.reply(call, synced))
}

/// Capacity in bytes that suffices for most answers to one element of the request's list.
const ANSWER_BYTES: usize = 96;

/// The answers to the elements of a list that have been processed so far.
struct Outcome<'a> {
    collection: &'a Collection,
    wish: &'a Wish,
    elements: usize,
    failures: Failures,
    /// The answers as JSON text, which needs less memory than values for a long list.
    answers: String,
    /// The JSON text with which each identity begins: everything before the key in `_id`.
    beginning: String,
}

impl<'a> Outcome<'a> {
    fn new(collection: &'a Collection, wish: &'a Wish, elements: usize) -> Self {
        let answers = String::with_capacity(if wish.silent { 0 } else { ANSWER_BYTES * elements });
        let mut beginning = "{\"_id\":".to_owned();
        write_string(&format!("{}/", collection.name), &mut beginning);
        beginning.pop(); // the key follows in the same string
        Self { collection, wish, elements, failures: Failures::default(), answers, beginning }
    }

    /// Writes one element. An error that concerns only the element becomes the element's answer.
    fn take(&mut self, work: &Work, write: impl FnOnce() -> Result<Written>) -> Result<()> {
        let savepoint = work.savepoint();
        match write() {
            Ok(_) if self.wish.silent => {}
            Ok(written) => self.put(&written),
            Err(error) if ends_everything(&error) => {
                work.undo(savepoint);
                return Err(error);
            }
            Err(error) => {
                work.rollback_to(savepoint);
                self.failures.add(&error);
                self.put_item(&failed(&error, false));
            }
        }
        Ok(())
    }

    fn put_item(&mut self, item: &Value) {
        if !self.answers.is_empty() {
            self.answers.push(',');
        }
        write_text(item, &mut self.answers);
    }

    fn put(&mut self, written: &Written) {
        if written.old_rev.is_some() || self.wish.return_old || self.wish.return_new {
            return self.put_item(&described(&self.collection.name, written, self.wish));
        }
        self.put_identity(&written.key, |answers| answers.push_str(&written.rev));
    }

    /// Adds the answer for a new document: its `_id`, `_key` and `_rev`.
    fn put_new(&mut self, key: &str, revision: u64) {
        if !self.wish.silent {
            self.put_identity(key, |answers| put_revision(revision, answers));
        }
    }

    /// Writes an identity (`_id`, `_key`, `_rev`) directly as text, because keys and revisions need
    /// no JSON escapes.
    fn put_identity(&mut self, key: &str, put_revision: impl FnOnce(&mut String)) {
        let answers = &mut self.answers;
        if !answers.is_empty() {
            answers.push(',');
        }
        for part in [&self.beginning, key, "\",\"_key\":\"", key, "\",\"_rev\":\""] {
            answers.push_str(part);
        }
        put_revision(answers);
        answers.push_str("\"}");
    }

    fn reply(mut self, call: &Call<'_>, synced: u16) -> Reply {
        // If nothing was written, the collection's `waitForSync` has no effect (recorded from
        // ArangoDB).
        let failed = self.failures.0.values().sum::<u64>();
        let nothing_written = failed == self.elements as u64 && self.elements > 0;
        let asked = call.request.flag("waitForSync") == Some(true);
        let status = if nothing_written && !asked { 202 } else { self.wish.status(synced) };
        let body = if self.wish.silent && self.answers.is_empty() {
            "{}".to_owned()
        } else {
            self.answers.insert(0, '[');
            self.answers.push(']');
            self.answers
        };
        self.failures.mark(Reply::json_text(status, body))
    }
}

/// Whether an error concerns the whole transaction or the engine, and not just one element of the
/// list.
pub(super) fn ends_everything(error: &Error) -> bool {
    let request_wide = [
        Code::ResourceLimit,
        Code::ReadOnly,
        Code::TransactionUnregisteredCollection,
        Code::TransactionAborted,
        Code::DataSourceNotFound,
        Code::NotImplemented,
        Code::Internal,
        Code::SystemError,
    ];
    request_wide.contains(&error.code)
}

fn need_room<T>(list: &[T]) -> Result<()> {
    if list.len() > ARRAY_MAX {
        return Err(Error::new(Code::ResourceLimit, format!("more than {ARRAY_MAX} elements")));
    }
    Ok(())
}

/// `PUT /_api/document/C?onlyget=true`
fn read_many(call: &Call<'_>, collection: &str) -> Result<Reply> {
    let collection = call.permitted(collection, Level::Read)?;
    let list = list(call)?;
    need_room(&list)?;
    let check_revs = call.request.flag("ignoreRevs") == Some(false);
    let work = call.reading(&collection)?;
    let mut failures = Failures::default();
    let mut answers = Vec::with_capacity(list.len());
    for selector in &list {
        let found = selected(&collection, selector).and_then(|(key, rev)| {
            let document =
                work.get(&collection, key)?.ok_or_else(|| Error::of(Code::DocumentNotFound))?;
            let current = document.text_of("_rev").unwrap_or_default();
            match rev {
                Some(rev) if check_revs && rev != current => {
                    Err(precondition_failed(&collection.name, key, current))
                }
                _ => Ok(document),
            }
        });
        answers.push(found.unwrap_or_else(|error| {
            failures.add(&error);
            failed(&error, true)
        }));
    }
    Ok(failures.mark(Reply::json(200, &answers.into())))
}
