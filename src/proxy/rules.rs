//! What passes, said once: every request that a server sends, in which mode, with which body; `vctx proxy --rules` prints it.

use http::Method;

use super::refusal::{Reason, Refusal};
use super::target::Target;

/// What a proxy lets through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Reads alone: by method, path, and what the text of a query does.
    Ro,
    /// Reads and what a running server writes: queries, transactions, indexes of its vectors.
    Rw,
}

impl Mode {
    /// As it stands on the command line.
    pub fn text(self) -> &'static str {
        match self {
            Self::Ro => "ro",
            Self::Rw => "rw",
        }
    }

    /// The mode of that name.
    pub fn named(text: &str) -> Option<Self> {
        [Self::Ro, Self::Rw].into_iter().find(|mode| mode.text() == text)
    }
}

/// What a request carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carries {
    /// No body.
    Nothing,
    /// A query; in mode `ro` its text is parsed, and what is not known to read is refused.
    Query,
    /// Any JSON.
    Json,
}

/// One kind of request that passes.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Method.
    pub method: &'static str,
    /// Path behind `/_db/NAME`; `{name}` stands for a name, `{id}` for a number.
    pub path: &'static str,
    /// Whether it passes in mode `ro` too.
    pub reads: bool,
    /// Parameters that may stand behind the path, each once.
    pub parameters: &'static [&'static str],
    /// What it carries.
    pub carries: Carries,
    /// Whether it may be sent again when its answer was lost: it changes nothing, not even a cursor. Of queries it holds in mode `ro` alone.
    pub repeats: bool,
    /// What it is for.
    pub why: &'static str,
}

impl Rule {
    /// Whether it makes or drops an index, which takes other rights than a write.
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
        parameters,
        carries: Carries::Nothing,
        repeats: true,
        why,
    }
}

const fn query(path: &'static str, why: &'static str) -> Rule {
    Rule {
        method: "POST",
        path,
        reads: true,
        parameters: &[],
        carries: Carries::Query,
        repeats: true,
        why,
    }
}

const fn cursor(method: &'static str, path: &'static str, why: &'static str) -> Rule {
    let carries = Carries::Nothing;
    Rule { method, path, reads: true, parameters: &[], carries, repeats: false, why }
}

const fn writing(
    method: &'static str,
    path: &'static str,
    parameters: &'static [&'static str],
    carries: Carries,
    why: &'static str,
) -> Rule {
    Rule { method, path, reads: false, parameters, carries, repeats: false, why }
}

const fn looking(path: &'static str, why: &'static str) -> Rule {
    Rule {
        method: "GET",
        path,
        reads: false,
        parameters: &[],
        carries: Carries::Nothing,
        repeats: true,
        why,
    }
}

/// Every request that passes; all others are refused.
pub const RULES: &[Rule] = &[
    reading("/", &[], "a driver looks who answers"),
    reading("/_api/version", &["details"], "release and features"),
    reading("/_api/database/current", &[], "whether the database is there, and how it is sharded"),
    reading("/_admin/server/role", &[], "single server or coordinator"),
    reading("/_admin/server/availability", &[], "whether it takes requests"),
    reading("/_api/collection", &["excludeSystem"], "collections"),
    reading("/_api/collection/{name}", &[], "one collection"),
    reading("/_api/collection/{name}/properties", &[], "its validation and sharding"),
    reading("/_api/collection/{name}/count", &[], "how many documents it has"),
    reading("/_api/collection/{name}/revision", &[], "whether it has changed"),
    reading("/_api/index", &["collection", "withHidden", "withStats"], "indexes of a collection"),
    reading("/_api/index/{name}/{id}", &[], "one index"),
    reading("/_api/view", &[], "views"),
    reading("/_api/view/{name}", &[], "one view"),
    reading("/_api/view/{name}/properties", &[], "its links"),
    reading("/_api/analyzer", &[], "analyzers"),
    reading("/_api/analyzer/{name}", &[], "one analyzer"),
    reading("/_api/gharial", &[], "graphs"),
    reading("/_api/gharial/{name}", &[], "one graph"),
    query("/_api/cursor", "a query; in mode ro one that reads"),
    query("/_api/explain", "the plan of a query; in mode ro of one that reads"),
    cursor("POST", "/_api/cursor/{id}", "the next rows of a query"),
    cursor("POST", "/_api/cursor/{id}/{id}", "the same rows again"),
    cursor("PUT", "/_api/cursor/{id}", "the next rows, in the older form"),
    cursor("DELETE", "/_api/cursor/{id}", "the end of a cursor"),
    looking("/_api/transaction", "running stream transactions"),
    looking("/_api/transaction/{id}", "what became of one"),
    writing("POST", "/_api/transaction/begin", &[], Carries::Json, "a stream transaction begins"),
    writing("PUT", "/_api/transaction/{id}", &[], Carries::Nothing, "its commit"),
    writing("DELETE", "/_api/transaction/{id}", &[], Carries::Nothing, "its abort"),
    writing(
        "POST",
        "/_api/index",
        &["collection"],
        Carries::Json,
        "an index: of vectors once there are enough, of the ages of entries",
    ),
    writing("DELETE", "/_api/index/{name}/{id}", &[], Carries::Nothing, "one that is replaced"),
];

/// A part of ArangoDB's API that no mode passes.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// Beginnings of its paths.
    pub paths: &'static [&'static str],
    /// What it is.
    pub what: &'static str,
}

/// Parts of ArangoDB's API by what a refusal calls them; what stands in neither list is refused as well.
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
    Family { paths: &["/_api/job"], what: "requests that run on unwatched" },
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
        what: "documents by themselves (servers read and write them by queries)",
    },
    Family {
        paths: &["/_api/query", "/_api/query-cache", "/_api/query-plan-cache", "/_api/cursor"],
        what: "queries of others, and caches",
    },
    Family {
        paths: &["/_api/replication", "/_api/wal", "/_api/dump", "/_admin/backup"],
        what: "copies of the whole database",
    },
    Family { paths: &["/_admin", "/_api/cluster", "/_api/agency"], what: "administration" },
];

/// Headers that are refused, by how their names begin; what they would do cannot be seen in method, path and body.
pub const HEADERS_REFUSED: &[(&str, &str)] = &[
    ("x-http-method", "another method than the one in the first line"),
    ("x-method-override", "another method than the one in the first line"),
    ("x-original-", "another path than the one in the first line"),
    ("x-rewrite-", "another path than the one in the first line"),
    ("transfer-encoding", "a body without a stated length: send content-length alone"),
    ("content-encoding", "a compressed body: send it plain"),
    ("upgrade", "another protocol"),
    ("trailer", "headers behind the body"),
    ("x-arango-", "a feature of the database that no server of vctx asks for"),
];

/// Functions of AQL that no read may call, beside those of users (`GROUP::NAME`).
pub const CALLS_REFUSED: &[(&str, &str)] = &[
    ("APPLY", "calls a function whose name is data"),
    ("CALL", "calls a function whose name is data"),
    ("SLEEP", "keeps a thread of the database"),
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

    /// Whether it passes in that mode.
    pub fn passes(&self, mode: Mode) -> bool {
        match mode {
            Mode::Ro => self.reads,
            Mode::Rw => true,
        }
    }
}

/// The rule that lets a request pass, or why none does.
pub(super) fn rule_for(
    mode: Mode,
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
    for (at, (name, _)) in target.parameters.iter().enumerate() {
        let twice = target.parameters[..at].iter().any(|(other, _)| other == name);
        if twice || !rule.parameters.contains(name) {
            let text = "the path carries a parameter that its rule does not name, or one twice";
            return Err(Refusal::of(Reason::Path, text));
        }
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
        rule_for(mode, &method.parse().unwrap(), &Target::read(&uri)?)
    }

    #[test]
    fn a_request_has_one_rule_and_every_rule_can_be_met() {
        for (at, rule) in RULES.iter().enumerate() {
            let path = rule.path.replace("{name}", "messages").replace("{id}", "42");
            let found = judged(Mode::Rw, rule.method, &path).unwrap();
            assert_eq!(
                (found.method, found.path),
                (rule.method, rule.path),
                "the rule before {at}"
            );
            let below = format!("/_db/vctx{}", if path == "/" { "" } else { &path });
            assert_eq!(judged(Mode::Rw, rule.method, &below).is_ok(), path != "/", "{below}");
            assert_eq!(judged(Mode::Ro, rule.method, &path).is_ok(), rule.reads, "{path}");
            assert!(!rule.repeats || rule.method == "GET" || rule.carries == Carries::Query);
        }
    }

    #[test]
    fn what_no_rule_names_is_refused_by_its_family() {
        for (method, path, what) in [
            ("POST", "/_api/transaction", "JavaScript transactions"),
            ("DELETE", "/_api/transaction/write", "JavaScript transactions"),
            ("DELETE", "/_db/vctx/_api/cursor/1x", "queries of others"),
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
    fn parameters_are_named_and_stand_once() {
        assert!(judged(Mode::Ro, "GET", "/_api/index?collection=messages").is_ok());
        for path in [
            "/_api/index?collection=a&collection=b",
            "/_api/version?details=true&x=1",
            "/_api/collection/messages/count?details=true",
        ] {
            assert_eq!(judged(Mode::Ro, "GET", path).unwrap_err().reason, Reason::Path, "{path}");
        }
    }
}
