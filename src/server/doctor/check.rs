//! Every check there is: its name for good, the step it belongs to, what is expected and why it matters.

/// The steps, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// What answers on the socket.
    Server,
    /// Scratch collections, indexes and a view.
    Objects,
    /// Vector indexes.
    Vectors,
    /// All queries of the server.
    Queries,
    /// Stream transactions.
    Transactions,
    /// What users may do.
    Rights,
    /// Statuses and numbers of refusals.
    Errors,
    /// A running deployment; reads only.
    Health,
    /// Scratch is gone again.
    Removal,
}

impl Step {
    /// What it is called.
    pub fn text(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Objects => "objects",
            Self::Vectors => "vectors",
            Self::Queries => "queries",
            Self::Transactions => "transactions",
            Self::Rights => "rights",
            Self::Errors => "errors",
            Self::Health => "health",
            Self::Removal => "removal",
        }
    }
}

/// One check.
#[derive(Debug, PartialEq, Eq)]
pub struct Check {
    /// Its name, for good: reports and `docs/reference/fidelity.md` name it.
    pub id: &'static str,
    /// Where it belongs.
    pub step: Step,
    /// What a database that the server can live on answers.
    pub expected: &'static str,
    /// What would go wrong otherwise.
    pub why: &'static str,
}

/// Rows of `docs/reference/fidelity.md` that are only inferred, each with the check that settles it.
pub const INFERRED: &[(&str, &str)] = &[
    ("GET /", "server.root"),
    (
        "POST /_db/{}/_api/index?collection={} {fields, name, params.dimension, params.metric, params.nLists, type=vector}",
        "vectors.refusals",
    ),
    ("PUT /_db/{}/_api/transaction/{} in a stream transaction", "transactions.commit-header"),
];

macro_rules! checks {
    ($($step:ident { $($constant:ident = $id:literal, $expected:literal, $why:literal;)* })*) => {
        $($(pub(super) const $constant: &Check =
            &Check { id: $id, step: Step::$step, expected: $expected, why: $why };)*)*

        /// All of them, in the order in which they are made.
        pub const CHECKS: &[&Check] = &[$($($constant,)*)*];
    };
}

checks! {
    Server {
        REACHED = "server.reached", "an answer on the socket, to these credentials", "nothing else can be asked";
        ROOT = "server.root", "GET / with the header Server: ArangoDB", "the driver asks for it before anything else and refuses to go on";
        AVAILABILITY = "server.availability", "200, mode default", "a server that only reads, starts or stops refuses every write (1004, 503)";
        VERSION = "server.version", "3.12.4 to 3.12.10", "older ones have no vector index, others were never tried";
        STATUS = "server.status", "serverInfo.readOnly false", "a read-only server keeps nothing";
        ROLE = "server.role", "SINGLE or COORDINATOR, the same in both places", "it decides how writes go";
        LICENSE = "server.license", "diskUsage.status good or absent", "at the limit (100 GiB in the community edition) the server turns read-only, then stops";
        AUTH = "server.auth", "401 without credentials", "whoever reaches the socket would read every memory";
        TCP = "server.tcp", "no TCP listener of arangod in this network namespace", "the database is to be reached by its socket alone";
        ONE_SHARD = "server.one-shard", "sharding single, on a coordinator", "no transaction is atomic over several DB-Servers";
    }
    Objects {
        SCRATCH = "objects.scratch", "a database or collections of this run alone", "probes write, and nothing of yours may be touched";
        SETUP = "objects.setup", "everything of arango-setup/ made once, nothing the second time", "a start on a database that is there must change nothing";
        COLLECTION = "objects.collection", "200; the second time 409/1207", "setup takes 1207 for `it is there`";
        SCHEMA_RULE = "objects.schema", "400/1620 for what the rule refuses", "the database is the last to notice a row that is none";
        UNIQUE = "objects.unique", "201 new, then 200 for the same; 409/1210 for a value that is taken", "the place of a message is taken once";
        TTL = "objects.ttl", "201; a time in seconds", "a thousandfold error would keep answers for ever";
        VIEW = "objects.view", "201; its links are told back", "the words of memories are found through it";
        VIEW_LAG = "objects.view-lag", "a committed write shows within 15 s", "searches look beside the view for what is younger than that, and no further";
        VIEW_TRANSACTION = "objects.view-transaction", "a write does not show in a view before its commit", "what is given up must not be found";
        TOKENS = "objects.tokens", "crazi, fast, nosql, databas", "words are compared by what the analyzer makes of them";
        KEYS = "objects.keys", "every character of a key comes back", "keys are made of names that callers choose";
        PAGES = "objects.pages", "each key once, page by page", "an order that differs from the index would skip agents";
        BATCHES = "objects.batches", "5 rows in batches of 2 by POST", "the driver loses the last batch, so the server fetches them itself";
    }
    Vectors {
        FLAG = "vectors.flag", "the vector index feature is on", "off by default in all of 3.12; nearness would be compared row by row";
        REFUSALS = "vectors.refusals", "the feature is refused before the definition", "one invalid definition tells at the start whether the feature is on";
        EMPTY = "vectors.empty", "an index on nothing is refused or not ready", "an index that is never trained answers 1555";
        MADE = "vectors.made", "201 for nLists 2 over 64 vectors", "the archive's index is made like this";
        READY = "vectors.ready", "trainingState ready within 60 s", "until then everything is compared one by one";
        WRONG = "vectors.wrong", "400 for null and for another length; without one it is taken", "a write that the index refuses is a memory that is not kept";
        NODE = "vectors.node", "EnumerateNearVectorNode in the plan", "without it the query is an error, not a slow search";
        EXACT = "vectors.exact", "all cells: the same ten as one by one, for 50 vectors", "an index that finds others forgets";
        SHAPE = "vectors.shape", "500/1554 for a filter before LIMIT", "the server turns to comparing one by one on that number";
        NEAR_TRANSACTION = "vectors.transaction", "a vector search inside a transaction answers", "ingests look for what is near while they write";
    }
    Queries {
        EXPLAINED = "queries.explained", "every query of the server has a plan", "a text that is refused is a tool that fails";
        NODES = "queries.nodes", "vector, view and traversal nodes where the text asks for them", "another plan means another answer or a scan";
        INDEXED = "queries.indexed", "no collection is scanned but where the text says so", "a scan grows with everybody's memories";
        RUN = "queries.run", "every query runs on seeded data without a warning", "a warning is a null where a value was meant";
    }
    Transactions {
        BEGIN = "transactions.begin", "201, running, and listed while it runs", "leftovers of dead servers are found by that list";
        READS = "transactions.reads", "its own write is read inside and not outside", "an eviction builds on what it has just written";
        CONFLICT = "transactions.conflict", "409/1200 for the second writer of a document", "the whole call is thought anew on that number";
        ABORT = "transactions.abort", "aborted; nothing of it is there; 410/1654 or 404/1655 after", "half an eviction would lose messages";
        COMMIT = "transactions.commit", "committed by its status, and its write is there", "a commit is believed only when the status says so";
        COMMIT_HEADER = "transactions.commit-header", "a commit that carries its own id as a header is a commit", "the driver sends it so";
        UNDECLARED = "transactions.undeclared", "400/1652 for a collection that was not named", "a write outside the transaction would not be undone";
        UNKNOWN = "transactions.unknown", "404/1655 for an id that is none", "after a restart of the database nothing survives";
        BUSY = "transactions.busy", "two requests at once are taken in turn, or one is 500/28", "nothing of a transaction is lost or written twice";
        IDLE = "transactions.idle", "aborted when idle; then refused, and not committed whatever a late commit is answered", "locks of a server that died must go, and a late commit may lie";
    }
    Rights {
        WRITER = "rights.writer", "writes documents with database ro and collections rw", "the server runs as this user";
        WRITER_DDL = "rights.writer-ddl", "403/11 for collections and indexes", "a server that is taken over cannot drop anything";
        READER = "rights.reader", "reads with database ro and collections ro", "searches run as this user";
        READER_WRITES = "rights.reader-writes", "403/11 for the whole query", "a search cannot change a memory";
        READ_SOCKET = "rights.read-socket", "401 or 403 for a write on the socket for reads", "a search that is taken over must not reach a way to write";
        APPLICATION = "rights.application", "the server's users log in: database ro, collections rw and ro", "a server with too few rights does not start, one with too many can drop";
        STRANGER = "rights.stranger", "401 for a wrong password and for a database without a grant", "unknown and forbidden look alike";
    }
    Errors {
        DUPLICATE = "errors.duplicate", "409/1210 for a key that is taken", "an idempotency key is taken once";
        MISSING = "errors.missing", "404/1202 for a document, 404/1203 for a collection", "both mean something else to the server";
        REVISION = "errors.revision", "412/1200 by If-Match, 409/1200 by a query", "a stale write must never go through";
        AFTER_WRITE = "errors.after-write", "400/1579", "a query that reads what it wrote is refused whole, so none of the server's does";
        EXTRA_BIND = "errors.extra-bind", "400/1552", "a text without @scope is refused by it";
        MISSING_BIND = "errors.missing-bind", "400/1551", "a value that is forgotten must not be null";
        NO_LIST = "errors.no-list", "400/1563 for a FOR over null", "a lost list must not be an empty one";
        ORDER = "errors.order", "null < false < 0 < \"\" < []; a is not A", "conditions on attributes that may be missing depend on it";
        NULLS = "errors.nulls", "null is stored, or removes with keepNull false", "a cleared field must be cleared";
        ITEMS = "errors.items", "201 or 202 with the refusal inside the list", "a list of documents succeeds although one of them failed";
        KEY = "errors.key", "400/1221 for a key with a slash", "such names are refused before they are sent";
        INDEX_GONE = "errors.index", "404/1212 for an index that is not there", "an index that another server took away is no fault";
        CURSOR_GONE = "errors.cursor", "404/1600 for a cursor that is not there", "a page that is lost is asked for anew";
        WARNINGS = "errors.warnings", "400/1562 for a division by 0 with failOnWarning", "without it a null would pass for a value in this report";
    }
    Health {
        H_SCHEMA = "health.schema", "the schema version of this program", "another one serves wrong answers or none";
        H_OBJECTS = "health.objects", "every collection, index and view is there", "a missing index is a scan, a missing view finds nothing";
        H_VECTORS = "health.vectors", "every vector index ready, or none needed yet", "searches compare one by one meanwhile";
        H_VIEWS = "health.views", "views show what their collections held 15 s ago", "what is written would not be found by words";
        H_CLOCK = "health.clock", "the database's clock within 2 s of this one", "leases, schedules and retention compare the two";
        H_LICENSE = "health.license", "less than 80 % of the licence's size", "at the limit the database turns read-only";
        H_MODE = "health.mode", "availability 200, writes allowed", "a read-only database keeps nothing";
        H_QUEUE = "health.queue", "less than 1 s in the database's queue; a free connection", "overload is answered with 503";
        H_METRICS = "health.metrics", "the database tells its metrics", "without them an overload is seen too late";
        H_RECALL = "health.recall", "no entry waits for its vector longer than 10 min", "what is old and not embedded is not found by meaning";
        H_MANIFESTS = "health.manifests", "no change of vectors stands still", "the old and the new vectors both take room meanwhile";
        H_RETENTION = "health.retention", "nothing is due by the policy of retention", "text that should be gone is still there";
        H_SCHEDULES = "health.schedules", "nothing is due for longer than 1 min", "no server fires, or all of them fail";
        H_RUNS = "health.runs", "no run or chain is past its lease for longer than 1 min", "an agent waits for a server that died";
        H_MOVES = "health.moves", "no move of an agent stands still for longer than 1 min", "an agent that is about to leave takes no writes";
        H_TRANSACTIONS = "health.transactions", "no stream transaction of ours stays open", "it keeps locks until it idles out";
        H_RW = "health.writer", "the writing user: database ro, collections rw, no _system", "a server that is taken over cannot drop anything";
        H_RO = "health.reader", "the reading user: database ro, collections ro", "a search cannot change a memory";
        H_INDEX = "health.indexer", "the user for indexes: database rw, collections ro, rw where vectors are, no _system", "without it every search compares one by one";
        H_SCRATCH = "health.leftovers", "no scratch of a doctor that died", "it takes room, and its users could log in";
    }
    Removal {
        REMOVED = "removal.scratch", "nothing of this run is left", "a doctor leaves nothing behind";
        LEFTOVERS = "removal.leftovers", "what doctors that died left behind is gone", "after a kill nobody else removes it";
    }
}

/// The check of a name.
pub fn named(id: &str) -> Option<&'static Check> {
    CHECKS.iter().copied().find(|check| check.id == id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_given_once_and_say_their_step() {
        for check in CHECKS {
            assert_eq!(CHECKS.iter().filter(|other| other.id == check.id).count(), 1, "{check:?}");
            assert!(check.id.starts_with(check.step.text()), "{check:?}");
            assert!(!check.expected.is_empty() && !check.why.is_empty(), "{check:?}");
        }
        assert!(CHECKS.is_sorted_by_key(|check| check.step));
        assert!(INFERRED.iter().all(|(_, id)| named(id).is_some()));
    }
}
