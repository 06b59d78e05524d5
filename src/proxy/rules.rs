//! The proxy's rules, which `vctx proxy --rules` prints: every kind of request that a vctx server
//! sends, with the mode that allows it and the kind of its body.

use http::Method;

use super::refusal::{Reason, Refusal};
use super::target::Target;

/// Mode of a proxy, which determines the requests that it forwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Only requests that read. The proxy decides this by the method, the path, and the effect of
    /// the query text.
    Ro,
    /// Requests that read, and the writes of a running vctx server: queries, transactions, and the
    /// creation and removal of indexes.
    Rw,
}

impl Mode {
    /// Returns the name of the mode on the command line.
    pub fn text(self) -> &'static str {
        match self {
            Self::Ro => "ro",
            Self::Rw => "rw",
        }
    }

    /// Parses the name of a mode.
    pub fn by_name(text: &str) -> Option<Self> {
        [Self::Ro, Self::Rw].into_iter().find(|mode| mode.text() == text)
    }
}

/// The kind of body that a request carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carries {
    /// No body.
    Nothing,
    /// A query, whose text the proxy parses. In mode `ro`, the query must be known to only read; in
    /// mode `rw`, it must be known to write no system collection.
    Query,
    /// The collections of a stream transaction, none of which may be a system collection.
    Collections,
    /// Any JSON.
    Json,
}

/// A rule that allows one kind of request.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// HTTP method of the request.
    pub method: &'static str,
    /// Path of the request after `/_db/NAME`; `{name}` matches a name, `{id}` a number.
    pub path: &'static str,
    /// Whether the request is also forwarded in mode `ro`.
    pub reads: bool,
    /// Whether the request asks about the whole server; only such a request may name no database.
    pub whole_server: bool,
    /// Allowed query parameters, each at most once.
    pub parameters: &'static [&'static str],
    /// Body of the request.
    pub carries: Carries,
    /// Whether the request may be repeated after its answer was lost, because it changes no state,
    /// not even a cursor. If this is true for a query, the query may still be repeated only in mode
    /// `ro`.
    pub repeats: bool,
    /// Purpose of the request, for the printed rules.
    pub why: &'static str,
}

impl Rule {
    /// Whether the request creates or drops an index, for which a user needs other database rights
    /// than for a write.
    pub fn defines(&self) -> bool {
        !self.reads && self.path.starts_with("/_api/index")
    }
}

const fn reading(
    path: &'static str,
    parameters: &'static [&'static str],
    why: &'static str,
) -> Rule {
    Rule {
        method: "GET",
        path,
        reads: true,
        whole_server: false,
        parameters,
        carries: Carries::Nothing,
        repeats: true,
        why,
    }
}

const fn of_server(
    path: &'static str,
    parameters: &'static [&'static str],
    why: &'static str,
) -> Rule {
    Rule { whole_server: true, ..reading(path, parameters, why) }
}

const fn query(path: &'static str, why: &'static str) -> Rule {
    Rule {
        method: "POST",
        path,
        reads: true,
        whole_server: false,
        parameters: &[],
        carries: Carries::Query,
        repeats: true,
        why,
    }
}

const fn cursor(method: &'static str, path: &'static str, why: &'static str) -> Rule {
    Rule { method, repeats: false, ..reading(path, &[], why) }
}

const fn writing(
    method: &'static str,
    path: &'static str,
    parameters: &'static [&'static str],
    carries: Carries,
    why: &'static str,
) -> Rule {
    Rule { method, reads: false, carries, repeats: false, ..reading(path, parameters, why) }
}

const fn looking(path: &'static str, why: &'static str) -> Rule {
    Rule { reads: false, ..reading(path, &[], why) }
}

/// Path of the requests that run a query.
pub(super) const CURSOR_PATH: &str = "/_api/cursor";

/// Every kind of request that the proxy forwards; all other requests are refused.
pub const RULES: &[Rule] = &[
    of_server("/", &[], "a driver checks what kind of server answers"),
    of_server("/_api/version", &["details"], "release and features"),
    reading("/_api/database/current", &[], "whether the database exists, and how it is sharded"),
    of_server("/_admin/server/role", &[], "single server or coordinator"),
    of_server("/_admin/server/availability", &[], "whether the server takes requests"),
    reading("/_api/collection", &["excludeSystem"], "collections"),
    reading("/_api/collection/{name}", &[], "one collection"),
    reading("/_api/collection/{name}/properties", &[], "validation and sharding of a collection"),
    reading("/_api/collection/{name}/count", &[], "number of documents of a collection"),
    reading("/_api/collection/{name}/revision", &[], "whether a collection has changed"),
    reading("/_api/index", &["collection", "withHidden", "withStats"], "indexes of a collection"),
    reading("/_api/index/{name}/{id}", &[], "one index"),
    reading("/_api/view", &[], "views"),
    reading("/_api/view/{name}", &[], "one view"),
    reading("/_api/view/{name}/properties", &[], "its links"),
    reading("/_api/analyzer", &[], "analyzers"),
    reading("/_api/analyzer/{name}", &[], "one analyzer"),
    reading("/_api/gharial", &[], "graphs"),
    reading("/_api/gharial/{name}", &[], "one graph"),
    query(CURSOR_PATH, "a query; in mode ro a query that only reads"),
    query("/_api/explain", "the plan of a query; in mode ro of a query that only reads"),
    cursor("POST", "/_api/cursor/{id}", "the next rows of a query"),
    cursor("POST", "/_api/cursor/{id}/{id}", "the same rows again"),
    cursor("PUT", "/_api/cursor/{id}", "the next rows of a query, in the older form"),
    cursor("DELETE", "/_api/cursor/{id}", "the end of a cursor"),
    looking("/_api/transaction", "running stream transactions"),
    looking("/_api/transaction/{id}", "the state of a transaction"),
    writing(
        "POST",
        "/_api/transaction/begin",
        &[],
        Carries::Collections,
        "a stream transaction begins",
    ),
    writing("PUT", "/_api/transaction/{id}", &[], Carries::Nothing, "its commit"),
    writing("DELETE", "/_api/transaction/{id}", &[], Carries::Nothing, "its abort"),
    writing(
        "POST",
        "/_api/index",
        &["collection"],
        Carries::Json,
        "a vector index once there are enough vectors, or an index for the age of entries",
    ),
    writing(
        "DELETE",
        "/_api/index/{name}/{id}",
        &[],
        Carries::Nothing,
        "an index that another index replaces",
    ),
];

/// A part of ArangoDB's API that the proxy does not forward in any mode.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// Path prefixes of this part of the API.
    pub paths: &'static [&'static str],
    /// Purpose of the requests to this part of the API.
    pub what: &'static str,
}

/// Parts of ArangoDB's API that are refused, with the names that refusals use. A request to any
/// other path without a rule is refused too.
pub const FAMILIES: &[Family] = &[
    Family {
        paths: &["/_open", "/_api/user", "/_api/token", "/_admin/auth"],
        what: "users, grants and tokens",
    },
    Family {
        paths: &[
            "/_api/tasks",
            "/_api/foxx",
            "/_api/aqlfunction",
            "/_api/user-functions",
            "/_admin/execute",
            "/_admin/routing",
        ],
        what: "code that runs inside the database",
    },
    Family { paths: &["/_api/transaction"], what: "JavaScript transactions" },
    Family { paths: &["/_api/batch"], what: "many requests in one" },
    Family { paths: &["/_api/job"], what: "requests that run detached" },
    Family {
        paths: &[
            "/_api/database",
            "/_api/collection",
            "/_api/view",
            "/_api/analyzer",
            "/_api/gharial",
            "/_api/index",
            "/_api/schema",
        ],
        what: "changes of the schema (`vctx setup` makes it)",
    },
    Family {
        paths: &["/_api/document", "/_api/edges", "/_api/import", "/_api/export", "/_api/simple"],
        what: "single documents (servers read and write them by queries)",
    },
    Family {
        paths: &["/_api/query", "/_api/query-cache", "/_api/query-plan-cache", "/_api/cursor"],
        what: "running queries of other users, and caches",
    },
    Family {
        paths: &["/_api/replication", "/_api/wal", "/_api/dump", "/_admin/backup"],
        what: "copies of the whole database",
    },
    Family { paths: &["/_admin", "/_api/cluster", "/_api/agency"], what: "administration" },
];

/// Prefixes of header names that cause a refusal, with the reason. These headers have effects that
/// are not visible in the method, path and body.
pub const HEADERS_REFUSED: &[(&str, &str)] = &[
    ("x-http-method", "another method than the one in the first line"),
    ("x-method-override", "another method than the one in the first line"),
    ("x-original-", "another path than the one in the first line"),
    ("x-rewrite-", "another path than the one in the first line"),
    ("transfer-encoding", "a body without a stated length: send content-length alone"),
    ("content-encoding", "a compressed body: send it plain"),
    ("upgrade", "another protocol"),
    ("trailer", "trailers after the body"),
    ("x-arango-", "a feature of the database that no server of vctx asks for"),
];

/// AQL functions that a read must not call, with the reason; user functions (`GROUP::NAME`) are
/// forbidden too.
pub const CALLS_REFUSED: &[(&str, &str)] = &[
    ("APPLY", "calls a function whose name is data"),
    ("CALL", "calls a function whose name is data"),
    ("SLEEP", "blocks a thread of the database"),
    ("V8", "runs as JavaScript"),
];

impl Rule {
    fn is(&self, method: &Method, target: &Target<'_>) -> bool {
        let parts = self.path.split('/').filter(|part| !part.is_empty());
        let fits = |(part, segment): (&str, &&str)| match part {
            "{name}" => true,
            "{id}" => !segment.is_empty() && segment.bytes().all(|b| b.is_ascii_digit()),
            fixed => fixed == *segment,
        };
        *method == *self.method
            && parts.clone().count() == target.segments.len()
            && parts.zip(&target.segments).all(fits)
    }

    /// Whether the proxy forwards the request in the given mode.
    pub fn passes(&self, mode: Mode) -> bool {
        match mode {
            Mode::Ro => self.reads,
            Mode::Rw => true,
        }
    }
}

/// Whether a vctx server may write a collection of this name. The names of system collections begin
/// with `_`. A name of digits is refused too, because it could be the id of any collection.
pub(super) fn is_writable(collection: &str) -> bool {
    collection.starts_with(|first: char| first.is_ascii_alphabetic())
}

/// Returns the refusal of a write to a system collection.
pub(super) fn system_write() -> Refusal {
    Refusal::administration("a write to a collection whose name does not begin with a letter")
}

/// Finds the rule that allows a request to one of the given databases, or returns the refusal.
pub(super) fn rule_for(
    mode: Mode,
    databases: &[String],
    method: &Method,
    target: &Target<'_>,
) -> Result<&'static Rule, Refusal> {
    let Some(rule) = RULES.iter().find(|rule| rule.is(method, target)) else {
        let what = family_of(target).map_or("this request", |family| family.what);
        return Err(Refusal::administration(what));
    };
    if !rule.passes(mode) {
        return Err(Refusal::writes(rule.why));
    }
    let served = |name: &str| databases.iter().any(|database| database == name);
    if !(served(target.database.unwrap_or("_system"))
        || (rule.whole_server && target.database.is_none()))
    {
        return Err(Refusal::administration("a database that this proxy does not serve"));
    }
    for (at, (name, value)) in target.parameters.iter().enumerate() {
        if rule.defines() && *name == "collection" && !is_writable(value) {
            return Err(system_write());
        }
        let twice = target.parameters[..at].iter().any(|(other, _)| other == name);
        if twice || !rule.parameters.contains(name) {
            let text = "the path has a parameter that its rule does not name, or a parameter twice";
            return Err(Refusal::of(Reason::Path, text));
        }
    }
    if rule.defines() && target.segments.get(2).is_some_and(|name| !is_writable(name)) {
        return Err(system_write());
    }
    Ok(rule)
}

fn family_of(target: &Target<'_>) -> Option<&'static Family> {
    let path = target.segments.iter().fold(String::new(), |path, part| path + "/" + part);
    let begins = |start: &&str| {
        path.strip_prefix(*start).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    FAMILIES.iter().find(|family| family.paths.iter().any(&begins))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(mode: Mode, method: &str, path: &str) -> Result<&'static Rule, Refusal> {
        let uri = path.parse().unwrap();
        rule_for(mode, &["vctx".to_owned()], &method.parse().unwrap(), &Target::read(&uri)?)
    }

    #[test]
    fn a_request_has_one_rule_and_every_rule_can_be_met() {
        for (at, rule) in RULES.iter().enumerate() {
            let path = rule.path.replace("{name}", "messages").replace("{id}", "42");
            let below = if path == "/" { path.clone() } else { format!("/_db/vctx{path}") };
            let found = judged(Mode::Rw, rule.method, &below).unwrap();
            assert_eq!(
                (found.method, found.path),
                (rule.method, rule.path),
                "the rule before {at}"
            );
            assert_eq!(judged(Mode::Ro, rule.method, &below).is_ok(), rule.reads, "{below}");
            assert_eq!(judged(Mode::Rw, rule.method, &path).is_ok(), rule.whole_server, "{path}");
            for other in ["_system", "vctx2", "VCTX"] {
                let other = format!("/_db/{other}{path}");
                assert!(judged(Mode::Rw, rule.method, &other).is_err(), "{other}");
            }
            assert!(!rule.repeats || rule.method == "GET" || rule.carries == Carries::Query);
        }
    }

    #[test]
    fn what_no_rule_names_is_refused_by_its_family() {
        for (method, path, what) in [
            ("POST", "/_api/transaction", "JavaScript transactions"),
            ("DELETE", "/_api/transaction/write", "JavaScript transactions"),
            ("DELETE", "/_db/vctx/_api/cursor/1x", "queries of other users"),
            ("PUT", "/_admin/shutdown", "administration"),
            ("DELETE", "/_admin/shutdown", "administration"),
            ("GET", "/_api/user/vctx_rw", "users"),
            ("GET", "/_API/version", "this request"),
            ("HEAD", "/_api/version", "this request"),
            ("GET", "/_arango/v0/_api/version", "this request"),
            ("GET", "/_api/usersx", "this request"),
        ] {
            for mode in [Mode::Ro, Mode::Rw] {
                let refusal = judged(mode, method, path).unwrap_err();
                assert_eq!(refusal.reason, Reason::Administration, "{method} {path}");
                assert!(refusal.text.contains(what), "{method} {path}: {}", refusal.text);
            }
        }
    }

    #[test]
    fn no_index_of_a_system_collection_is_made_or_dropped() {
        for (name, passes) in [("messages", true), ("_users", false), ("17", false)] {
            let made = format!("/_db/vctx/_api/index?collection={name}");
            assert_eq!(judged(Mode::Rw, "POST", &made).is_ok(), passes, "{made}");
            let dropped = format!("/_db/vctx/_api/index/{name}/1");
            assert_eq!(judged(Mode::Rw, "DELETE", &dropped).is_ok(), passes, "{dropped}");
            assert!(judged(Mode::Ro, "GET", &dropped).is_ok(), "{dropped}");
        }
    }

    #[test]
    fn parameters_are_named_and_stand_once() {
        assert!(judged(Mode::Ro, "GET", "/_db/vctx/_api/index?collection=messages").is_ok());
        for path in [
            "/_db/vctx/_api/index?collection=a&collection=b",
            "/_api/version?details=true&x=1",
            "/_db/vctx/_api/collection/messages/count?details=true",
        ] {
            assert_eq!(judged(Mode::Ro, "GET", path).unwrap_err().reason, Reason::Path, "{path}");
        }
    }
}
