//! Handlers of the calls under `/_api/collection/C/` about a collection's documents.

use sha2::{Digest, Sha256};

use crate::error::{Code, Error, Result};
use crate::schema::{Collection, IndexKind};
use crate::txn::Transaction;
use crate::value::{Object, Value, write_text};

use super::auth::Level;
use super::call::Call;
use super::collections::{brief_reply, kind_number, located, properties_of, unique_id};
use super::limits::SCAN_BATCH;
use super::reply::{Reply, object};

/// `GET /_api/collection/C/count`
pub(super) fn count(call: &Call<'_>, name: &str) -> Result<Reply> {
    let collection = call.permitted(name, Level::Read)?;
    let count = call.reading(&collection)?.count(&collection)?;
    let body = properties_of(call, &collection, &object! { "count" => count })?;
    Ok(located(call, Reply::ok(200, body)))
}

/// `GET /_api/collection/C/figures`. The engine does not measure the sizes of single collections
/// and reports 0.
pub(super) fn figures(call: &Call<'_>, name: &str) -> Result<Reply> {
    let collection = call.permitted(name, Level::Read)?;
    let count = call.reading(&collection)?.count(&collection)?;
    let indexes = object! { "count" => collection.indexes.len() as u64, "size" => 0_i64 };
    let mut figures = object! {
        "indexes" => indexes,
        "documentsSize" => 0_i64,
        "cacheInUse" => false,
        "cacheSize" => 0_i64,
        "cacheUsage" => 0_i64,
    };
    if call.request.flag("details") == Some(true) {
        figures = with_engine(&figures, &collection, count);
    }
    let body =
        properties_of(call, &collection, &object! { "figures" => figures, "count" => count })?;
    Ok(located(call, Reply::ok(200, body)))
}

/// Adds the figures of the storage engine and of each index, which `details=true` requests.
fn with_engine(figures: &Value, collection: &Collection, count: u64) -> Value {
    let indexes = collection.indexes.iter().map(|index| {
        let kind = index.definition.text_of("type").unwrap_or(match index.kind {
            IndexKind::Primary => "primary",
            _ => "edge",
        });
        object! { "type" => kind, "id" => index.id, "count" => count }
    });
    let indexes: Vec<Value> = indexes.collect();
    let mut all: Object = figures.as_object().cloned().unwrap_or_default();
    all.insert("engine", object! { "documents" => count, "indexes" => indexes });
    Value::object(all)
}

/// Calls `each` for every document of a collection.
fn scan(
    transaction: &Transaction,
    collection: &Collection,
    mut each: impl FnMut(&Value),
) -> Result<()> {
    let mut scan = transaction.scan(collection)?;
    loop {
        let documents = transaction.next(&mut scan, SCAN_BATCH)?;
        if documents.is_empty() {
            return Ok(());
        }
        documents.iter().for_each(&mut each);
    }
}

fn newest(rev: &mut String, document: &Value) {
    let candidate = document.text_of("_rev").unwrap_or_default();
    // Of two revisions, the longer text is newer; texts of equal length sort from the older to the
    // newer revision.
    if (candidate.len(), candidate) > (rev.len(), rev.as_str()) {
        candidate.clone_into(rev);
    }
}

/// `GET /_api/collection/C/revision`: the newest revision of the collection's documents, or `0` for
/// an empty collection.
pub(super) fn revision(call: &Call<'_>, name: &str) -> Result<Reply> {
    let collection = call.permitted(name, Level::Read)?;
    let mut rev = String::new();
    scan(&*call.reading(&collection)?, &collection, |document| newest(&mut rev, document))?;
    let rev = if rev.is_empty() { "0".to_owned() } else { rev };
    let body = properties_of(call, &collection, &object! { "revision" => rev })?;
    Ok(located(call, Reply::ok(200, body)))
}

/// `GET /_api/collection/C/checksum`: a checksum that does not depend on the order of the
/// documents.
pub(super) fn checksum(call: &Call<'_>, name: &str) -> Result<Reply> {
    let collection = call.permitted(name, Level::Read)?;
    let with_revisions = call.request.flag("withRevisions") == Some(true);
    let with_data = call.request.flag("withData") == Some(true);
    let mut rev = String::new();
    let mut sum = 0_u64;
    scan(&*call.reading(&collection)?, &collection, |document| {
        newest(&mut rev, document);
        sum = sum.wrapping_add(digest(document, with_revisions, with_data));
    })?;
    let rev = if rev.is_empty() { "0".to_owned() } else { rev };
    let body = object! {
        "isSystem" => collection.is_system,
        "status" => 3_i64,
        "type" => kind_number(collection.kind),
        "name" => collection.name.as_str(),
        "id" => collection.id.to_string(),
        "revision" => rev,
        "globallyUniqueId" => unique_id(&collection),
        "checksum" => sum.to_string(),
    };
    Ok(located(call, Reply::ok(200, body)))
}

fn digest(document: &Value, with_revisions: bool, with_data: bool) -> u64 {
    let counts = |name: &str| match name {
        "_key" => true,
        "_rev" => with_revisions,
        "_id" => false,
        _ => with_data,
    };
    let mut parts: Vec<_> = document
        .as_object()
        .map(|object| object.iter().filter(|(name, _)| counts(name)).collect())
        .unwrap_or_default();
    parts.sort_by_key(|(name, _)| (*name).clone());
    let part: Object = parts.into_iter().map(|(n, v)| (n.clone(), v.clone())).collect();
    let mut text = Vec::new();
    write_text(&Value::object(part), &mut text);
    let hash = Sha256::digest(&text);
    u64::from_be_bytes(hash[..8].try_into().expect("a hash of 32 bytes has at least 8 bytes"))
}

/// `PUT /_api/collection/C/truncate`, also inside a stream transaction.
pub(super) fn truncate(call: &Call<'_>, name: &str) -> Result<Reply> {
    let collection = call.permitted(name, Level::Write)?;
    if call.stream()?.is_some() {
        let work = call.writing(&collection, false)?;
        let savepoint = work.savepoint();
        work.truncate(&collection).inspect_err(|_| work.undo(savepoint))?;
    } else {
        call.engine().truncate(call.db(), &collection.name)?;
    }
    Ok(brief_reply(call, &collection))
}

/// `GET /_api/collection/C/shards` and `PUT …/responsibleShard`: a single server has no shards and
/// refuses both calls.
pub(super) fn shards(call: &Call<'_>, name: &str) -> Result<Reply> {
    call.permitted(name, Level::Read)?;
    let message = "this operation is only supported on a coordinator";
    Err(Error::new(Code::NotImplemented, message))
}

/// Answers calls such as `load` and `recalculateCount`, which have no effect because the engine's
/// collections are always loaded, compacted and counted.
pub(super) fn nothing(call: &Call<'_>, name: &str, action: &str) -> Result<Reply> {
    let collection = call.permitted(name, Level::Read)?;
    match action {
        "loadIndexesIntoMemory" | "recalculateCount" => {
            Ok(located(call, Reply::result(200, true.into())))
        }
        _ => Ok(brief_reply(call, &collection)),
    }
}
