//! Lists every database check with its stable name, occasions, doctor step, expected answer and
//! reason.

/// The steps of the doctor, in the order in which they run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// Checks of the database server at the configured socket.
    Server,
    /// Checks that create scratch collections, indexes and a view.
    Objects,
    /// Checks of vector indexes.
    Vectors,
    /// Checks of every query that the server uses.
    Queries,
    /// Checks of stream transactions.
    Transactions,
    /// Checks of users' rights.
    Rights,
    /// Checks of the database's refusals: status and error number.
    Errors,
    /// Read-only checks of a running deployment.
    Health,
    /// Removal of the scratch objects.
    Removal,
}

impl Step {
    /// Returns the name that the report uses for a doctor step.
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

/// Occasions on which a check runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// The check runs only in `vctx doctor`.
    Hand,
    /// The check runs before serving, every minute and in the doctor; the text is the check's name
    /// in logs and metrics.
    Always(&'static str),
    /// The check runs before serving and every minute, but not in the doctor, since the check
    /// concerns the server's own sockets.
    Serving(&'static str),
}

/// One check of the database or the server.
#[derive(Debug, PartialEq, Eq)]
pub struct Check {
    /// Permanent name of the check, used in reports and in `docs/reference/fidelity.md`.
    pub id: &'static str,
    /// The occasions on which the check runs.
    pub when: When,
    /// The doctor's step that runs the check.
    pub step: Step,
    /// The answer that a suitable database gives.
    pub expected: &'static str,
    /// The failure that the check prevents.
    pub why: &'static str,
}

/// Rows of `docs/reference/fidelity.md` whose behaviour was only inferred, each with the doctor's
/// check that measures this behaviour.
pub const INFERRED: &[(&str, &str)] = &[
    ("GET /", "server.root"),
    (
        "POST /_db/{}/_api/index?collection={} {fields, name, params.dimension, params.metric, params.nLists, type=vector}",
        "vectors.refusals",
    ),
    ("PUT /_db/{}/_api/transaction/{} in a stream transaction", "transactions.commit-header"),
];

/// Short name, used in the list below, for checks that only the doctor runs.
const HAND: When = When::Hand;

macro_rules! checks {
    ($($step:ident { $($constant:ident = $id:literal, $when:expr, $expected:literal, $why:literal;)* })*) => {
        $($(pub(crate) const $constant: &Check =
            &Check { id: $id, when: $when, step: Step::$step, expected: $expected, why: $why };)*)*

        /// All checks, in the order in which they run.
        pub const CHECKS: &[&Check] = &[$($($constant,)*)*];
    };
}

checks! {
    Server {
        REACHED = "server.reached", HAND, "the database answers on the socket and accepts these credentials", "nothing else can be asked";
        ROOT = "server.root", HAND, "GET / with the header Server: ArangoDB", "the driver requests `/` first, and stops if this header is missing";
        AVAILABILITY = "server.availability", HAND, "200, mode default", "a server that is read-only, starting or stopping refuses every write (1004, 503)";
        VERSION = "server.version", When::Always("version"), "3.12.4 to 3.12.10", "older releases have no vector index; newer releases are untested";
        STATUS = "server.status", HAND, "serverInfo.readOnly false", "a read-only server keeps nothing";
        ROLE = "server.role", HAND, "SINGLE or COORDINATOR, the same in both places", "the role of the server decides its write mode";
        LICENSE = "server.license", HAND, "diskUsage.status good or absent", "at the limit (100 GiB in the community edition) the server turns read-only, then stops";
        AUTH = "server.auth", When::Always("auth"), "401 without credentials", "anyone who reaches the socket would read every memory";
        TCP = "server.tcp", When::Always("uds"), "no TCP listener of arangod in this network namespace", "only the Unix socket may reach the database";
        ONE_SHARD = "server.one-shard", When::Always("one-shard"), "on a coordinator, the database has `sharding: single`", "no transaction is atomic over several DB-Servers";
        MODES = "server.modes", When::Serving("modes"), "only the server's users can reach the socket", "other users could call the server or replace the socket";
    }
    Objects {
        SCRATCH = "objects.scratch", HAND, "a database or collections that only this run uses", "checks write data, and your own data must not be touched";
        SETUP = "objects.setup", HAND, "the first run makes everything in arango-setup/, the second run makes nothing", "a start on an existing database must change nothing";
        COLLECTION = "objects.collection", HAND, "200; the second time 409/1207", "setup reads 1207 as `it exists`";
        SCHEMA_RULE = "objects.schema", HAND, "400/1620 for a document that the schema's rule refuses", "if the server's own checks miss a malformed row, the database must refuse it";
        UNIQUE = "objects.unique", HAND, "201 for a new index, 200 for the same index again; 409/1210 for a document with a value that is taken", "two messages must not get the same position";
        TTL = "objects.ttl", HAND, "201; a time in seconds", "if the database read the time in milliseconds, stored answers would never expire";
        VIEW = "objects.view", HAND, "201; the answer lists its links", "searches by words read the view";
        VIEW_LAG = "objects.view-lag", HAND, "a committed write shows within 15 s", "searches read rows of the last 15 s from the collection, and older rows only from the view";
        VIEW_TRANSACTION = "objects.view-transaction", HAND, "a write does not show in a view before its commit", "an aborted write must not be found";
        TOKENS = "objects.tokens", HAND, "crazi, fast, nosql, databas", "searches compare the tokens of the analyzer";
        KEYS = "objects.keys", HAND, "a key with every allowed character is returned unchanged", "keys are made of names that callers choose";
        PAGES = "objects.pages", HAND, "each key once, page by page", "an order that differs from the index would skip agents";
        BATCHES = "objects.batches", HAND, "5 rows in batches of 2 by POST", "the driver loses the last batch of a cursor, so the server fetches all batches itself";
    }
    Vectors {
        FLAG = "vectors.flag", When::Always("vector-flag"), "the vector index feature is on", "the feature is off by default in all of 3.12; without it, searches compare every vector";
        REFUSALS = "vectors.refusals", HAND, "the feature is refused before the definition", "at the start, one invalid definition shows whether the feature is on";
        EMPTY = "vectors.empty", HAND, "a vector index over an empty collection is refused or not ready", "an untrained index answers 1555";
        MADE = "vectors.made", HAND, "201 for nLists 2 over 64 vectors", "the server makes the archive's index this way";
        READY = "vectors.ready", HAND, "trainingState ready within 60 s", "until then searches compare every vector";
        WRONG = "vectors.wrong", HAND, "400 for a null vector and for another number of components; a document without a vector is accepted", "if the index refuses a write, a memory is lost";
        NODE = "vectors.node", HAND, "EnumerateNearVectorNode in the plan", "without it the query is an error, not a slow search";
        EXACT = "vectors.exact", HAND, "if all lists are read, the same ten results as a comparison one by one, for 50 vectors", "an index with other results misses memories";
        SHAPE = "vectors.shape", HAND, "500/1554 for a filter before LIMIT", "after this error number the server compares every vector";
        NEAR_TRANSACTION = "vectors.transaction", HAND, "a vector search inside a transaction answers", "ingests search for near passages while they write";
    }
    Queries {
        EXPLAINED = "queries.explained", HAND, "every query of the server has a plan", "a tool fails if its query is refused";
        NODES = "queries.nodes", HAND, "vector, view and traversal nodes where the text asks for them", "another plan means another answer or a scan";
        INDEXED = "queries.indexed", HAND, "no collection is scanned unless the query text says so", "a scan grows with the memories of all agents";
        RUN = "queries.run", HAND, "every query runs on seeded data without a warning", "a warning means a null in place of a value";
    }
    Transactions {
        BEGIN = "transactions.begin", HAND, "201, running, and listed while it runs", "in the list of running transactions, a server finds those of dead servers";
        READS = "transactions.reads", HAND, "a write is visible inside its transaction and not outside", "an eviction builds on what it has just written";
        CONFLICT = "transactions.conflict", HAND, "409/1200 for the second writer of a document", "after this error number the server computes the whole call again";
        ABORT = "transactions.abort", HAND, "the transaction is aborted, its writes are gone, and later requests get 410/1654 or 404/1655", "half an eviction would lose messages";
        COMMIT = "transactions.commit", HAND, "the transaction's status is committed, and its write is present", "a commit is believed only when the status says so";
        COMMIT_HEADER = "transactions.commit-header", HAND, "a commit request whose header names its own transaction commits the transaction", "the driver sends this header";
        UNDECLARED = "transactions.undeclared", HAND, "400/1652 for a write to a collection that the transaction does not name", "a write outside the transaction would not be undone";
        UNKNOWN = "transactions.unknown", HAND, "404/1655 for an unknown id", "no transaction survives a restart of the database";
        BUSY = "transactions.busy", HAND, "two concurrent requests are served in turn, or one gets 500/28", "no write of a transaction may be lost or doubled";
        IDLE = "transactions.idle", HAND, "an idle transaction is aborted; later requests are refused, and nothing is committed even if a late commit is answered with success", "the locks of a dead server must be released; the database may answer a late commit with success although it wrote nothing";
    }
    Rights {
        WRITER = "rights.writer", HAND, "writes documents with database ro and collections rw", "the server runs as this user";
        WRITER_DDL = "rights.writer-ddl", HAND, "403/11 for collections and indexes", "an attacker on the server cannot drop anything";
        READER = "rights.reader", HAND, "reads with database ro and collections ro", "searches run as this user";
        READER_WRITES = "rights.reader-writes", HAND, "403/11 for the whole query", "a search cannot change a memory";
        READ_SOCKET = "rights.read-socket", HAND, "401 or 403 for a write on the socket for reads", "an attacker on a search must not be able to write";
        APPLICATION = "rights.application", HAND, "the server's users log in: database ro, collections rw and ro", "a server whose users have too few rights does not start; users with too many rights can drop data";
        STRANGER = "rights.stranger", HAND, "401 for a wrong password and for a database without a grant", "a caller cannot find out whether a database exists";
    }
    Errors {
        DUPLICATE = "errors.duplicate", HAND, "409/1210 for a key that is taken", "an idempotency key can be used only once";
        MISSING = "errors.missing", HAND, "404/1202 for a document, 404/1203 for a collection", "the server treats the two errors differently";
        REVISION = "errors.revision", HAND, "412/1200 by If-Match, 409/1200 by a query", "a stale write must never go through";
        AFTER_WRITE = "errors.after-write", HAND, "400/1579", "no query of the server reads its own write";
        EXTRA_BIND = "errors.extra-bind", HAND, "400/1552", "a query text without @scope is then refused";
        MISSING_BIND = "errors.missing-bind", HAND, "400/1551", "a missing value must not become null";
        NO_LIST = "errors.no-list", HAND, "400/1563 for a FOR over null", "a missing list must not be read as an empty list";
        ORDER = "errors.order", HAND, "null < false < 0 < \"\" < []; a is not A", "conditions on attributes that may be missing depend on this order";
        NULLS = "errors.nulls", HAND, "an update with null stores null, or removes the attribute if keepNull is false", "a field that the server clears must be cleared in the database";
        ITEMS = "errors.items", HAND, "201 or 202 with the refusal inside the list", "the request for a list of documents succeeds although one document failed";
        KEY = "errors.key", HAND, "400/1221 for a key with a slash", "the server refuses such names before it sends them";
        INDEX_GONE = "errors.index", HAND, "404/1212 for a missing index", "an index that another server removed is no error";
        CURSOR_GONE = "errors.cursor", HAND, "404/1600 for a missing cursor", "the server requests a lost page again";
        WARNINGS = "errors.warnings", HAND, "400/1562 for a division by 0 with failOnWarning", "without this error, a null would be taken for a value in the doctor's report";
    }
    Health {
        H_SCHEMA = "health.schema", HAND, "the schema version of this program", "a database with another schema version gives wrong answers or none";
        H_OBJECTS = "health.objects", HAND, "every collection, index and view exists", "a missing index is a scan, a missing view finds nothing";
        H_VECTORS = "health.vectors", HAND, "every vector index ready, or none needed yet", "without a ready index, searches compare vectors one by one";
        H_VIEWS = "health.views", HAND, "views show all rows that their collections contained 15 s ago", "word searches would miss new texts";
        H_CLOCK = "health.clock", HAND, "the database's clock differs from this machine's clock by at most 2 s", "leases, schedules and retention compare the two";
        H_LICENSE = "health.license", HAND, "less than 80 % of the licence's size", "at the limit the database turns read-only";
        H_MODE = "health.mode", HAND, "availability 200, writes allowed", "a read-only database keeps nothing";
        H_QUEUE = "health.queue", HAND, "a request waits less than 1 s in the database's queue, and a new connection succeeds", "overload is answered with 503";
        H_METRICS = "health.metrics", HAND, "the database exports its metrics", "without them an overload is seen too late";
        H_RECALL = "health.recall", HAND, "no entry waits for its vector longer than 10 min", "a vector search misses old entries without a vector";
        H_MANIFESTS = "health.manifests", HAND, "no reindex has stopped", "during a reindex, old and new vectors both take space";
        H_RETENTION = "health.retention", HAND, "no text is due for removal by the retention policy", "expired text is still stored";
        H_SCHEDULES = "health.schedules", HAND, "nothing is due for longer than 1 min", "no server fires schedules, or all of them fail";
        H_RUNS = "health.runs", HAND, "no run or chain is past its lease for longer than 1 min", "an agent waits for a server that died";
        H_MOVES = "health.moves", HAND, "no move of an agent is interrupted for longer than 1 min", "a moving agent takes no writes";
        H_TRANSACTIONS = "health.transactions", HAND, "no stream transaction of a server stays open", "an open transaction keeps locks until its idle limit";
        H_RW = "health.writer", HAND, "the writing user: database ro, collections rw, no _system", "an attacker on the server cannot drop anything";
        H_RO = "health.reader", HAND, "the reading user: database ro, collections ro", "a search cannot change a memory";
        H_INDEX = "health.indexer", HAND, "the user for indexes: database rw, collections ro, rw where vectors are, no _system", "without this user no vector index is made, and every search compares vectors one by one";
        H_SCRATCH = "health.leftovers", HAND, "no scratch of a killed doctor", "scratch takes space, and its database users could log in";
    }
    Removal {
        REMOVED = "removal.scratch", HAND, "nothing of this run is left", "a doctor leaves nothing behind";
        LEFTOVERS = "removal.leftovers", HAND, "scratch of killed doctors is gone", "no other program removes it";
    }
}

/// Returns the checks that `vctx doctor` runs.
pub fn by_hand() -> impl Iterator<Item = &'static Check> {
    CHECKS.iter().copied().filter(|check| !matches!(check.when, When::Serving(_)))
}

/// Returns the `vctx doctor` check with the given name.
pub fn by_name(id: &str) -> Option<&'static Check> {
    by_hand().find(|check| check.id == id)
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
        assert!(INFERRED.iter().all(|(_, id)| by_name(id).is_some()));
    }
}
