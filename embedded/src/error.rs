//! The error type of the engine, and the table of ArangoDB's error numbers, names, HTTP statuses
//! and messages.

use std::fmt;

use crate::value::Value;

/// An error with an error number of ArangoDB.
#[derive(Clone, Debug)]
pub struct Error {
    /// The error's row in the table of ArangoDB's errors.
    pub code: Code,
    /// The message. Callers may see it, so it never contains document content or credentials.
    pub message: String,
    /// An HTTP status that replaces the default status of the error (for example 412 for error 1200
    /// after a failed precondition).
    pub status: Option<u16>,
    /// Additional attributes of the error answer (for example `_id`, `_key`, `_rev` after a failed
    /// precondition).
    pub extra: Option<Box<Value>>,
}

/// The result type of the engine.
pub type Result<T> = std::result::Result<T, Error>;

macro_rules! codes {
    ($($name:ident = $num:literal, $status:literal, $text:literal;)*) => {
        /// ArangoDB's error numbers that the engine can return (from `errors.dat` of 3.12).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Code { $(#[doc = $text] $name,)* }

        impl Code {
            /// The error number, which answers show as `errorNum`.
            pub fn num(self) -> u32 { match self { $(Self::$name => $num,)* } }
            /// Default HTTP status (ArangoDB's source maps error numbers to statuses).
            pub fn status(self) -> u16 { match self { $(Self::$name => $status,)* } }
            /// ArangoDB's standard text of the error.
            pub fn text(self) -> &'static str { match self { $(Self::$name => $text,)* } }
            /// All errors in the table, for documents and tests.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];
        }
    };
}

codes! {
    Failed = 1, 500, "failed";
    SystemError = 2, 500, "system error";
    OutOfMemory = 3, 500, "out of memory";
    Internal = 4, 500, "internal error";
    NotImplemented = 9, 501, "not implemented";
    BadParameter = 10, 400, "bad parameter";
    Forbidden = 11, 403, "forbidden";
    CorruptedCsv = 13, 400, "corrupted csv";
    TypeError = 17, 400, "type error";
    LockTimeout = 18, 500, "timeout waiting to lock";
    Disabled = 21, 410, "resource not available";
    Locked = 28, 500, "locked";
    Deadlock = 29, 500, "deadlock detected";
    ShuttingDown = 30, 503, "shutdown in progress";
    OnlyEnterprise = 31, 501, "only enterprise version";
    ResourceLimit = 32, 500, "resource limit exceeded";
    StartingUp = 38, 503, "starting up";
    HttpUnauthorized = 401, 401, "unauthorized";
    HttpBadParameter = 400, 400, "bad parameter";
    HttpNotFound = 404, 404, "not found";
    HttpMethodNotAllowed = 405, 405, "method not supported";
    HttpTooLarge = 413, 413, "payload too large";
    HttpUriTooLong = 414, 414, "uri too long";
    HttpServerError = 500, 500, "internal server error";
    HttpServerNotImplemented = 501, 501, "not implemented";
    HttpCorruptedJson = 600, 400, "invalid JSON object";
    ReadOnly = 1004, 403, "read only";
    DuplicateIdentifier = 1005, 400, "duplicate identifier";
    Conflict = 1200, 409, "conflict";
    DocumentNotFound = 1202, 404, "document not found";
    DataSourceNotFound = 1203, 404, "collection or view not found";
    CollectionParameterMissing = 1204, 400, "parameter 'collection' not found";
    DocumentHandleBad = 1205, 400, "illegal document identifier";
    DuplicateName = 1207, 409, "duplicate name";
    IllegalName = 1208, 400, "illegal name";
    NoIndex = 1209, 500, "no suitable index known";
    UniqueConstraintViolated = 1210, 409, "unique constraint violated";
    IndexNotFound = 1212, 404, "index not found";
    CrossCollectionRequest = 1213, 400, "cross collection request not allowed";
    IndexHandleBad = 1214, 400, "illegal index identifier";
    DocumentTooLarge = 1216, 400, "document too large";
    CollectionTypeInvalid = 1218, 400, "collection type invalid";
    AttributeParserFailed = 1220, 400, "parsing attribute name definition failed";
    DocumentKeyBad = 1221, 400, "illegal document key";
    DocumentKeyUnexpected = 1222, 400, "unexpected document key";
    DocumentTypeInvalid = 1227, 400, "invalid document type";
    DatabaseNotFound = 1228, 404, "database not found";
    DatabaseNameInvalid = 1229, 400, "database name invalid";
    UseSystemDatabase = 1230, 403, "operation only allowed in system database";
    InvalidEdgeAttribute = 1233, 400, "edge attribute missing or invalid";
    ReplicationWriteConcernNotFulfilled = 1429, 503, "write concern not fulfilled";
    ClusterTimeout = 1457, 500, "timeout in cluster operation";
    ClusterMustNotSpecifyKey = 1466, 400, "must not specify _key for this collection";
    ClusterMustNotChangeShardingAttributes = 1469, 400, "must not change sharding attributes";
    ClusterUnsupported = 1470, 501, "operation unsupported in cluster";
    ClusterBackendUnavailable = 1478, 503, "A cluster backend which was required for the operation could not be reached";
    ClusterUnknownDistributeShardsLike = 1486, 500, "unknown prototype for distributeShardsLike";
    ClusterChainOfDistributeShardsLike = 1485, 500, "chain of distributeShardsLike references";
    ClusterLeadershipChallengeOngoing = 1495, 503, "leadership challenge is ongoing";
    ClusterNotLeader = 1496, 503, "not a leader";
    QueryKilled = 1500, 410, "query killed";
    QueryParse = 1501, 400, "syntax error";
    QueryEmpty = 1502, 400, "query is empty";
    QueryNumberOutOfRange = 1504, 400, "number out of range";
    QueryVariableNameInvalid = 1510, 400, "variable name has an invalid format";
    QueryVariableRedeclared = 1511, 400, "variable is assigned multiple times";
    QueryVariableNameUnknown = 1512, 400, "unknown variable";
    QueryTooManyCollections = 1522, 400, "too many collections/shards";
    QueryTooMuchNesting = 1524, 500, "too much nesting or too many objects";
    QueryInvalidOptionsAttribute = 1539, 400, "invalid options attribute";
    QueryFunctionNameUnknown = 1540, 400, "usage of unknown function";
    QueryFunctionArgumentNumberMismatch = 1541, 400, "invalid number of arguments";
    QueryFunctionArgumentTypeMismatch = 1542, 400, "invalid argument type";
    QueryInvalidRegex = 1543, 400, "invalid regex value";
    QueryBindParametersInvalid = 1550, 400, "invalid structure of bind parameters";
    QueryBindParameterMissing = 1551, 400, "no value specified for declared bind parameter";
    QueryBindParameterUndeclared = 1552, 400, "bind parameter was not declared in the query";
    QueryBindParameterType = 1553, 400, "bind parameter has an invalid value or type";
    QueryVectorSearchNotApplied = 1554, 500, "failed vector search";
    QueryVectorIndexNotReady = 1555, 500, "vector index not ready";
    QueryInvalidArithmeticValue = 1561, 400, "invalid arithmetic value";
    QueryDivisionByZero = 1562, 400, "division by zero";
    QueryArrayExpected = 1563, 400, "array expected";
    QueryCollectionUsedInExpression = 1568, 400, "collection used as expression operand";
    QueryFailCalled = 1569, 400, "FAIL() called";
    QueryGeoIndexMissing = 1570, 404, "no suitable geo index found for geo restriction";
    QueryFulltextIndexMissing = 1571, 404, "no suitable fulltext index found";
    QueryInvalidDateValue = 1572, 400, "invalid date value";
    QueryMultiModify = 1573, 400, "multi-modify query";
    QueryInvalidAggregateExpression = 1574, 500, "invalid aggregate expression";
    QueryCompileTimeOptions = 1575, 400, "query options must be readable at query compile time";
    QueryDnfComplexity = 1576, 500, "FILTER/PRUNE condition complexity is too high";
    QueryForcedIndexHintUnusable = 1577, 500, "could not use forced index hint";
    QueryDisallowedDynamicCall = 1578, 400, "disallowed dynamic call";
    QueryAccessAfterModification = 1579, 400, "access after data-modification";
    QueryNotEligibleForPlanCaching = 1584, 500, "query not eligible for plan caching";
    QueryNotFound = 1591, 404, "query not found";
    QueryUserAssert = 1593, 500, "assertion failed";
    QueryUserWarn = 1594, 500, "warning of the query";
    CursorNotFound = 1600, 404, "cursor not found";
    CursorBusy = 1601, 409, "cursor is busy";
    ValidationFailed = 1620, 400, "schema validation failed";
    ValidationBadParameter = 1621, 400, "invalid schema validation parameter";
    TransactionInternal = 1650, 500, "internal transaction error";
    TransactionNested = 1651, 400, "nested transactions detected";
    TransactionUnregisteredCollection = 1652, 400, "unregistered collection used in transaction";
    TransactionDisallowedOperation = 1653, 400, "disallowed operation inside transaction";
    TransactionAborted = 1654, 410, "transaction aborted";
    TransactionNotFound = 1655, 404, "transaction not found";
    UserInvalidName = 1700, 400, "invalid user name";
    UserDuplicate = 1702, 409, "duplicate user";
    UserNotFound = 1703, 404, "user not found";
    TaskNotFound = 1852, 404, "task not found";
    GraphInvalidGraph = 1901, 400, "invalid graph";
    GraphInvalidEdge = 1906, 400, "invalid edge";
    GraphCollectionMultiUse = 1920, 400, "multi use of edge collection in edge def";
    GraphCollectionUseInMultiGraphs = 1921, 400, "edge collection already used in edge def";
    GraphCreateMissingName = 1922, 400, "missing graph name";
    GraphCreateMalformedEdgeDefinition = 1923, 400, "malformed edge definition";
    GraphNotFound = 1924, 404, "graph not found";
    GraphDuplicate = 1925, 409, "graph already exists";
    GraphVertexColDoesNotExist = 1926, 404, "vertex collection does not exist or is not part of the graph";
    GraphWrongCollectionTypeVertex = 1927, 400, "collection not a vertex collection";
    GraphNotInOrphanCollection = 1928, 400, "collection is not in list of orphan collections";
    GraphEdgeCollectionNotUsed = 1930, 404, "edge collection not used in graph";
    GraphInternalDataCorrupt = 1935, 400, "internal graph data corrupt";
    GraphCreateMalformedOrphanList = 1936, 400, "malformed orphan collection list";
    GraphCollectionUsedInOrphans = 1938, 400, "collection used in orphans";
    GraphEdgeColDoesNotExist = 1939, 400, "edge collection does not exist or is not part of the graph";
    GraphEmpty = 1940, 400, "empty graph";
    GraphMustNotDropCollection = 1942, 500, "must not drop collection while part of graph";
    GraphReferencedVertexCollectionNotInGraph = 1947, 400, "referenced vertex collection not part of graph";
    GraphNegativeEdgeWeight = 1948, 500, "negative edge weight found";
    GraphNoVertexCollection = 1949, 400, "vertex collection not part of graph";
    QueueFull = 21003, 503, "queue is full";
    QueueTimeRequirementViolated = 21004, 412, "queue time requirement violated";
}

impl Error {
    /// Returns an error with ArangoDB's standard text.
    pub fn of(code: Code) -> Self {
        Self::new(code, code.text())
    }

    /// Returns an error with the caller's text.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), status: None, extra: None }
    }

    /// The error for a feature that the engine does not have: HTTP 501, errorNum 9.
    pub fn unsupported(feature: impl fmt::Display) -> Self {
        Self::new(Code::NotImplemented, format!("{feature} is not supported by arango-embedded"))
    }

    /// Returns the error with an HTTP status that replaces the default.
    #[must_use]
    pub fn with_status(mut self, status: u16) -> Self {
        self.status = Some(status);
        self
    }

    /// Returns the error with additional attributes for the error answer.
    #[must_use]
    pub fn with_extra(mut self, extra: Value) -> Self {
        self.extra = Some(Box::new(extra));
        self
    }

    /// Returns the HTTP status of the error's answer.
    pub fn status(&self) -> u16 {
        self.status.unwrap_or_else(|| self.code.status())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (errorNum {})", self.message, self.code.num())
    }
}

impl std::error::Error for Error {}
