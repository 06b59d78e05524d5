//! Maps the paths that the engine supports to their handlers. Other paths are answered 404, or 501
//! if ArangoDB has them.

use std::sync::Arc;

use http::Method;

use crate::error::{Code, Error, Result};
use crate::value::Value;

use super::auth::{Caller, Level};
use super::call::{Call, SYSTEM};
use super::front::Front;
use super::read_only;
use super::reply::{Reply, object};
use super::request::Request;
use super::server::Mode;
use super::{
    admin, analyzers, cluster, collection_data, collections, cursor_calls, databases, documents,
    expected, faults, graph_data, graphs, indexes, metrics, queries, tokens, transactions,
    user_calls, views,
};

/// The path of the web interface, to which `GET /` redirects. Drivers read only the `Server` header
/// of this answer.
const FRONT_PAGE: &str = "/_db/_system/_admin/aardvark/index.html";

/// The first segments, after `/_api/`, of ArangoDB's paths that the engine does not support.
const UNSUPPORTED: [&str; 16] = [
    "agency",
    "aqlfunction",
    "batch",
    "cluster",
    "control_pregel",
    "dump",
    "foxx",
    "hot-backup",
    "pregel",
    "replication",
    "simple",
    "traversal",
    "ttl",
    "upload",
    "user-functions",
    "wal",
];

/// The paths `/_api/NAME` for which the engine supports at least one method; other methods are
/// answered 405.
const FAMILIES: [&str; 15] = [
    "import",
    "tasks",
    "version",
    "engine",
    "database",
    "user",
    "collection",
    "document",
    "index",
    "cursor",
    "explain",
    "query",
    "transaction",
    "view",
    "gharial",
];

/// Answers a request; converts an error to an error answer.
pub(super) fn answer(front: &Arc<Front>, request: &Request) -> Reply {
    let answer = match front.faults.of(request) {
        Ok(None) => routed(front, request),
        // The request is executed, and the fault replaces its answer.
        Ok(Some(fault)) if fault.after => routed(front, request).and_then(|_| Err(fault.error())),
        Ok(Some(fault)) => Err(fault.error()),
        Err(error) => Err(error),
    };
    answer.unwrap_or_else(|error| Reply::error(&error))
}

fn routed(front: &Front, request: &Request) -> Result<Reply> {
    let path = request.segments();
    // HEAD is handled like GET; `hyper` omits the body of the answer.
    let method = if request.method == Method::HEAD { "GET" } else { request.method.as_str() };
    match (method, path.as_slice()) {
        (_, []) => return Ok(Reply::empty(301).header("location", FRONT_PAGE)),
        ("POST", ["_open", "auth"]) => return admin::token(front, request),
        ("GET", ["_admin", "server", "availability"]) => return Ok(admin::availability(front)),
        _ => {}
    }
    let caller = admit(front, request)?;
    let database = front.engine.database(&request.database)?;
    let call = Call { front, request, caller, database };
    if front.mode == Mode::ReadOnly {
        read_only::check(request)?;
    }
    dispatch(&call, method, path.as_slice())
}

/// Identifies the caller and checks access to the database. Errors: 401/11 if the caller may not
/// use the database, 1228 if the database does not exist.
pub(super) fn admit(front: &Front, request: &Request) -> Result<Caller> {
    let path = request.segments();
    let caller = front.auth.identify(request.header("authorization"))?;
    let database = front.engine.database(&request.database);
    if caller.database(&request.database) == Level::None {
        let own_data =
            matches!(path.as_slice(), ["_api", "user", name, ..] if *name == caller.name());
        let admin = caller.database(SYSTEM) == Level::Write;
        let may_know_it_is_missing = admin && database.is_err();
        if !own_data && !may_know_it_is_missing {
            let message = "not authorized to execute this request";
            return Err(Error::new(Code::Forbidden, message).with_status(401));
        }
    }
    database.map(|_| caller)
}

#[rustfmt::skip]
fn dispatch(call: &Call<'_>, method: &str, path: &[&str]) -> Result<Reply> {
    match (method, path) {
        // As recorded from ArangoDB, every method is accepted on this path.
        (_, ["_api", "version"]) => admin::version(call),
        ("GET", ["_api", "engine"]) => Ok(admin::engine()),
        ("GET", ["_admin", "status"]) => Ok(admin::status(call)),
        ("GET", ["_admin", "server", "role"]) => Ok(admin::role(call)),
        ("GET", ["_admin", "server", "mode"]) => Ok(admin::mode(call)),
        ("GET", ["_admin", "server", "id"]) => Err(Error::of(Code::HttpServerError)),
        ("GET", ["_admin", "time"]) => Ok(admin::time()),
        ("GET", ["_admin", "license"]) => Ok(admin::license()),
        ("GET", ["_admin", "options"]) => admin::options(call),
        ("GET", ["_admin", "options-public"]) => admin::options_public(call),
        ("GET", ["_api", "cluster", "endpoints"]) => cluster::endpoints(call),
        ("PUT", ["_admin", "embedded", "faults"]) => faults::order(call),
        ("DELETE", ["_admin", "embedded", "faults"]) => faults::clear(call),
        ("GET", ["_api", "key-generators"]) => Ok(admin::key_generators()),

        ("GET", ["_admin", "metrics"]) | ("GET", ["_admin", "metrics", "v2"]) => Ok(metrics::metrics(call)),

        ("GET", ["_api", "tasks"]) => Ok(Reply::json(200, &Vec::<Value>::new().into())),
        ("GET" | "DELETE", ["_api", "tasks", _]) => Err(Error::of(Code::TaskNotFound)),
        ("POST" | "PUT", ["_api", "tasks", ..]) => Err(Error::unsupported("/_api/tasks")),

        (_, ["_api", "token", ..]) if !call.database.release.access_tokens() => Err(unknown(path)),
        ("GET", ["_api", "token", name]) => tokens::all(call, name),
        ("POST", ["_api", "token", name]) => tokens::create(call, name),
        ("DELETE", ["_api", "token", name, id]) => tokens::remove(call, name, id),

        ("GET", ["_api", "database"]) => databases::all(call),
        ("GET", ["_api", "database", "user"]) => databases::accessible(call),
        ("GET", ["_api", "database", "current"]) => Ok(databases::current(call)),
        ("POST", ["_api", "database"]) => databases::create(call),
        ("DELETE", ["_api", "database", name]) => databases::remove(call, name),

        ("GET", ["_api", "user"]) => user_calls::all(call),
        ("POST", ["_api", "user"]) => user_calls::create(call),
        ("GET", ["_api", "user", name]) => user_calls::one(call, name),
        ("POST", ["_api", "user", name]) => user_calls::validate(call, name),
        ("GET" | "POST", ["_admin", "auth", "reload"]) => Ok(Reply::ok(200, object! {})),
        ("PUT", ["_api", "user", name]) => user_calls::replace(call, name),
        ("PATCH", ["_api", "user", name]) => user_calls::update(call, name),
        ("DELETE", ["_api", "user", name]) => user_calls::remove(call, name),
        ("GET", ["_api", "user", name, "database"]) => user_calls::levels(call, name),
        ("GET", ["_api", "user", name, "database", db]) => user_calls::level(call, name, db, None),
        ("GET", ["_api", "user", name, "database", db, c]) => user_calls::level(call, name, db, Some(c)),
        ("PUT", ["_api", "user", name, "database", db]) => user_calls::grant(call, name, db, None),
        ("PUT", ["_api", "user", name, "database", db, c]) => user_calls::grant(call, name, db, Some(c)),
        ("DELETE", ["_api", "user", name, "database", db]) => user_calls::revoke(call, name, db, None),
        ("DELETE", ["_api", "user", name, "database", db, c]) => user_calls::revoke(call, name, db, Some(c)),

        ("GET", ["_api", "collection"]) => collections::all(call),
        ("POST", ["_api", "collection"]) => collections::create(call),
        ("PUT", ["_api", "collection"]) => Err(collections::no_action()),
        ("GET", ["_api", "collection", c]) => collections::brief(call, c),
        ("DELETE", ["_api", "collection", c]) => collections::remove(call, c),
        ("GET", ["_api", "collection", c, "properties"]) => collections::properties(call, c),
        ("PUT", ["_api", "collection", c, "properties"]) => collections::change(call, c),
        ("GET", ["_api", "collection", c, "shards"]) if cluster::is_coordinator(call) => cluster::shards(call, c),
        ("GET", ["_api", "collection", c, "shards"]) => collection_data::shards(call, c),
        ("PUT", ["_api", "collection", c, "responsibleShard"]) => collection_data::shards(call, c),
        ("PUT", ["_api", "collection", c, "rename"]) => collections::rename(call, c),
        ("GET", ["_api", "collection", c, "count"]) => collection_data::count(call, c),
        ("GET", ["_api", "collection", c, "figures"]) => collection_data::figures(call, c),
        ("GET", ["_api", "collection", c, "revision"]) => collection_data::revision(call, c),
        ("GET", ["_api", "collection", c, "checksum"]) => collection_data::checksum(call, c),
        ("PUT", ["_api", "collection", c, "truncate"]) => collection_data::truncate(call, c),
        ("PUT", ["_api", "collection", c, action @ ("load" | "unload" | "compact" | "recalculateCount"
            | "loadIndexesIntoMemory")]) => collection_data::nothing(call, c, action),

        ("POST" | "PUT" | "PATCH" | "DELETE", ["_api", "document"]) => {
            Err(documents::no_collection(call))
        }
        ("GET", ["_api", "document", c]) => Err(super::call::not_found(c)),
        ("POST", ["_api", "document", c]) => documents::insert(call, c),
        ("PUT", ["_api", "document", c]) => documents::replace_many(call, c),
        ("PATCH", ["_api", "document", c]) => documents::update_many(call, c),
        ("DELETE", ["_api", "document", c]) => documents::remove_many(call, c),
        ("GET", ["_api", "document", c, key]) => documents::read(call, c, key),
        ("PUT", ["_api", "document", c, key]) => documents::replace(call, c, key),
        ("PATCH", ["_api", "document", c, key]) => documents::update(call, c, key),
        ("DELETE", ["_api", "document", c, key]) => documents::remove(call, c, key),

        ("GET", ["_api", "index"]) => indexes::all(call),
        ("POST", ["_api", "index"]) => indexes::create(call),
        ("GET", ["_api", "index", c, id]) => indexes::one(call, c, id),
        ("DELETE", ["_api", "index", c, id]) => indexes::remove(call, c, id),

        ("POST", ["_api", "cursor"]) => cursor_calls::create(call),
        ("POST" | "PUT", ["_api", "cursor", id]) => cursor_calls::next(call, id, None),
        ("POST", ["_api", "cursor", id, batch]) => cursor_calls::next(call, id, Some(batch)),
        ("DELETE", ["_api", "cursor", id]) => cursor_calls::remove(call, id),
        ("POST", ["_api", "explain"]) => queries::explain(call),
        ("POST", ["_api", "query"]) => queries::parse(call),
        ("GET", ["_api", "query", "rules"]) => Ok(queries::rules()),

        ("POST", ["_api", "transaction", "begin"]) => transactions::begin(call),
        ("GET", ["_api", "transaction"]) => Ok(transactions::all(call)),
        ("GET", ["_api", "transaction", id]) => transactions::status(call, id),
        ("PUT", ["_api", "transaction", id]) => transactions::commit(call, id),
        ("DELETE", ["_api", "transaction", "write"]) => Ok(transactions::abort_writing(call)),
        ("DELETE", ["_api", "transaction", id]) => transactions::abort(call, id),
        ("POST", ["_api", "transaction"]) => Err(Error::unsupported("JavaScript transactions")),

        ("GET", ["_api", "view"]) => views::all(call),
        ("POST", ["_api", "view"]) => views::create(call),
        ("GET", ["_api", "view", v]) => views::brief(call, v),
        ("DELETE", ["_api", "view", v]) => views::remove(call, v),
        ("GET", ["_api", "view", v, "properties"]) => views::properties(call, v),
        ("PATCH", ["_api", "view", v, "properties"]) => views::change(call, v, views::Change::Patch),
        ("PUT", ["_api", "view", v, "properties"]) => views::change(call, v, views::Change::Replace),
        ("PUT", ["_api", "view", v, "rename"]) => views::rename(call, v),

        ("GET", ["_api", "analyzer"]) => analyzers::all(call),
        ("POST", ["_api", "analyzer"]) => analyzers::create(call),
        ("GET", ["_api", "analyzer", a]) => analyzers::one(call, a),
        ("DELETE", ["_api", "analyzer", a]) => analyzers::remove(call, a),

        ("GET", ["_api", "gharial"]) => graphs::all(call),
        ("POST", ["_api", "gharial"]) => graphs::create(call),
        ("GET", ["_api", "gharial", g]) => graphs::one(call, g),
        ("DELETE", ["_api", "gharial", g]) => graphs::remove(call, g),
        ("GET", ["_api", "gharial", g, "vertex"]) => graphs::vertex_collections(call, g),
        ("POST", ["_api", "gharial", g, "vertex"]) => graphs::add_vertex_collection(call, g),
        ("DELETE", ["_api", "gharial", g, "vertex", c]) => graphs::remove_vertex_collection(call, g, c),
        ("GET", ["_api", "gharial", g, "edge"]) => graphs::edge_collections(call, g),
        ("POST", ["_api", "gharial", g, "edge"]) => graphs::add_definition(call, g),
        ("PUT", ["_api", "gharial", g, "edge", c]) => graphs::replace_definition(call, g, c),
        ("DELETE", ["_api", "gharial", g, "edge", c]) => graphs::remove_definition(call, g, c),
        ("POST", ["_api", "gharial", g, kind @ ("vertex" | "edge"), c]) => graph_data::insert(call, g, kind, c),
        ("GET", ["_api", "gharial", g, kind @ ("vertex" | "edge"), c, key]) => graph_data::read(call, g, kind, c, key),
        ("PATCH", ["_api", "gharial", g, kind @ ("vertex" | "edge"), c, key]) => graph_data::update(call, g, kind, c, key),
        ("PUT", ["_api", "gharial", g, kind @ ("vertex" | "edge"), c, key]) => graph_data::replace(call, g, kind, c, key),
        ("DELETE", ["_api", "gharial", g, kind @ ("vertex" | "edge"), c, key]) => graph_data::remove(call, g, kind, c, key),
        ("GET", ["_api", "edges", c]) => graph_data::edges(call, c),

        _ => {
            #[cfg(feature = "conformance")]
            if let Some(reply) = super::conformance::dispatch(call, method, path) {
                return reply;
            }
            #[cfg(not(feature = "conformance"))]
            if let Some(error) = left_out(path) {
                return Err(error);
            }
            Err(expected::expected(method, path).unwrap_or_else(|| unknown(path)))
        }
    }
}

/// Returns error 501 for a call that only a build with the feature `conformance` supports; `None`
/// for other calls.
#[cfg(not(feature = "conformance"))]
fn left_out(path: &[&str]) -> Option<Error> {
    const FAMILIES: [&str; 5] = ["import", "job", "endpoint", "query-plan-cache", "query-cache"];
    let is_left_out = match path {
        ["_api", "query", what, ..] => *what != "rules",
        ["_api", family, ..] => FAMILIES.contains(family),
        _ => false,
    };
    let name = || format!("/{} in a build without the feature `conformance`", path.join("/"));
    is_left_out.then(|| Error::unsupported(name()))
}

/// Returns error 404, 405 or 501 for a request that no handler answers.
fn unknown(path: &[&str]) -> Error {
    match path {
        ["_api", family, ..] if UNSUPPORTED.contains(family) => {
            Error::unsupported(format_args!("/_api/{family}"))
        }
        ["_api", family] if FAMILIES.contains(family) => Error::of(Code::HttpMethodNotAllowed),
        ["_admin", ..] => Error::unsupported(format_args!("/{}", path.join("/"))),
        _ => Error::new(Code::HttpNotFound, format!("unknown path '/{}'", path.join("/"))),
    }
}
