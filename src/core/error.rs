//! The error type of the whole server: a code, a public message, and a cause for the log.

use std::fmt;

use serde_json::{Map, Value};

/// Result of a function that may fail with an [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error, classified by what the caller can do about it.
#[derive(Debug)]
pub struct Error {
    /// The error's code, from the table of all codes.
    pub code: Code,
    /// The error's message, which states the fault and the remedy. The message never contains
    /// credentials or text of a memory.
    pub message: String,
    /// Additional fields of errors with this code (`required_headroom`, `_rev`, `changed`, `field`,
    /// …).
    pub fields: Map<String, Value>,
    /// The cause of the error, for the log only.
    pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

macro_rules! codes {
    ($($name:ident = $text:literal, $status:literal, $title:literal;)*) => {
        /// An error code, which has a public name, an HTTP status and a title.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Code { $(#[doc = $title] $name,)* }

        impl Code {
            /// Returns the code as clients see it in the field `error`.
            pub fn text(self) -> &'static str { match self { $(Self::$name => $text,)* } }
            /// Returns the HTTP status of an answer with this code.
            pub fn status(self) -> u16 { match self { $(Self::$name => $status,)* } }
            /// Returns the title of the code: a short text that states the fault.
            pub fn title(self) -> &'static str { match self { $(Self::$name => $title,)* } }
            /// All codes.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];
        }
    };
}

codes! {
    InvalidArgument = "INVALID_ARGUMENT", 400, "an argument is wrong";
    InvalidJson = "INVALID_JSON", 400, "the body is not the JSON expected here";
    InvalidName = "INVALID_NAME", 400, "a name has a character or length that is not allowed";
    PageTokenInvalid = "PAGE_TOKEN_INVALID", 400, "the page token does not belong to this agent, tool and question";
    ModeUnavailable = "MODE_UNAVAILABLE", 400, "this search mode is not available";
    IdempotencyKeyRequired = "IDEMPOTENCY_KEY_REQUIRED", 400, "a writing call needs an idempotency key";
    Forbidden = "FORBIDDEN", 403, "this caller may not do this";
    SpendingCapped = "SPENDING_CAPPED", 403, "the agent has used its tokens of this day";
    AgentNotFound = "AGENT_NOT_FOUND", 404, "no such agent";
    PromptNotFound = "PROMPT_NOT_FOUND", 404, "no such prompt";
    ToolNotFound = "TOOL_NOT_FOUND", 404, "no such tool";
    DocumentNotFound = "DOCUMENT_NOT_FOUND", 404, "no such document in the archive";
    ScheduleNotFound = "SCHEDULE_NOT_FOUND", 404, "no such schedule";
    BlockNotFound = "BLOCK_NOT_FOUND", 404, "no such block";
    RouteNotFound = "ROUTE_NOT_FOUND", 404, "no such path";
    MethodNotAllowed = "METHOD_NOT_ALLOWED", 405, "this path has no such method";
    AgentExists = "AGENT_EXISTS", 409, "the agent exists with another configuration";
    AgentElsewhere = "AGENT_ELSEWHERE", 409, "the agent is in another database";
    AgentMoving = "AGENT_MOVING", 409, "the agent is being moved to another database";
    MoveBusy = "MOVE_BUSY", 409, "the agent cannot be moved at the moment";
    BlockExists = "BLOCK_EXISTS", 409, "there is a block of that name";
    IdempotencyKeyReused = "IDEMPOTENCY_KEY_REUSED", 409, "the idempotency key belongs to another call";
    RunBusy = "RUN_BUSY", 409, "another run of this agent is under way";
    RunLost = "RUN_LOST", 409, "the run has ended, or another server has taken it over";
    Conflict = "CONFLICT", 409, "at each attempt, another write changed the memory first";
    LedgerContradicted = "LEDGER_CONTRADICTED", 409, "the stored memory is not the one that its ledger describes";
    VectorSettingMismatch = "VECTOR_SETTING_MISMATCH", 409, "the database has vectors of another vector setting";
    AgentForgotten = "AGENT_FORGOTTEN", 410, "the agent was forgotten";
    ChangeUnknown = "CHANGE_UNKNOWN", 410, "the agent has no such change any more";
    PageExpired = "PAGE_EXPIRED", 410, "the result list of this page token is no longer kept";
    RevisionStale = "REVISION_STALE", 412, "the memory changed since the given revision";
    BodyTooLarge = "BODY_TOO_LARGE", 413, "the body is larger than allowed";
    TokenBudgetExceeded = "TOKEN_BUDGET_EXCEEDED", 422, "the window has no room for this";
    LateChunkingRequired = "LATE_CHUNKING_REQUIRED", 422, "the vectors of chunks must be made by late chunking";
    PinLimitExceeded = "PIN_LIMIT_EXCEEDED", 422, "pinned blocks may take a quarter of the window";
    TaintedContent = "TAINTED_CONTENT", 422, "tainted text needs a justification to enter the core";
    WindowTooSmall = "WINDOW_TOO_SMALL", 422, "the window is smaller than the texts that it must contain";
    PreconditionRequired = "PRECONDITION_REQUIRED", 428, "a writing call needs the revision it builds on";
    HeartbeatRateLimited = "HEARTBEAT_RATE_LIMITED", 429, "too many heartbeats in a second";
    HeartbeatCooldown = "HEARTBEAT_COOLDOWN", 429, "the last chain of heartbeats reached a limit a moment ago";
    Overloaded = "OVERLOADED", 503, "too many calls at once";
    StoreUnavailable = "STORE_UNAVAILABLE", 503, "the database does not answer";
    NotReady = "NOT_READY", 503, "the server is not ready";
    EmbedderUnavailable = "EMBEDDER_UNAVAILABLE", 503, "the embedder makes no vectors at the moment";
    ModelUnavailable = "MODEL_UNAVAILABLE", 503, "the model does not answer at the moment";
    Timeout = "TIMEOUT", 504, "the call took longer than allowed";
    DiskFull = "DISK_FULL", 507, "the disk of the server has too little room";
    StoreRefused = "STORE_REFUSED", 500, "the database refused the request";
    Internal = "INTERNAL", 500, "the server has an internal error";
}

impl Error {
    /// Returns an error with a message that states the fault and the remedy.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), fields: Map::new(), source: None }
    }

    /// Returns the error for a wrong argument; `field` is the argument's name.
    pub fn argument(field: &str, message: impl fmt::Display) -> Self {
        Self::new(Code::InvalidArgument, format!("{field}: {message}")).with("field", field)
    }

    /// Adds to the error a field that only errors with some codes have.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.fields.insert(name.into(), value.into());
        self
    }

    /// Adds the cause of the error, for the log.
    #[must_use]
    pub fn caused_by(
        mut self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Formats the error's message and all causes as one log line.
    pub fn chain(&self) -> String {
        let mut text = self.message.clone();
        let mut next = self.source.as_deref().map(|e| e as &dyn std::error::Error);
        while let Some(error) = next {
            text.push_str(": ");
            text.push_str(&error.to_string());
            next = error.source();
        }
        text
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code.text(), self.message)
    }
}

impl std::error::Error for Error {}
