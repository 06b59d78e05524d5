//! One error for the whole server: a code that tells the caller what to do, a message that may be read outside, and a source for the log.

use std::fmt;

use serde_json::{Map, Value};

/// The result of everything that can fail in the server.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong, by what the caller can do about it.
#[derive(Debug)]
pub struct Error {
    /// The entry of the code table.
    pub code: Code,
    /// What was wrong and what to do; never memory text or credentials.
    pub message: String,
    /// The code's own fields (`required_headroom`, `_rev`, `changed`, `field`, …).
    pub fields: Map<String, Value>,
    /// For the log only.
    pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

macro_rules! codes {
    ($($name:ident = $text:literal, $status:literal, $title:literal;)*) => {
        /// Every error code: name outside, HTTP status, meaning.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Code { $(#[doc = $title] $name,)* }

        impl Code {
            /// The code as clients see it in `error`.
            pub fn text(self) -> &'static str { match self { $(Self::$name => $text,)* } }
            /// HTTP status of the answer.
            pub fn status(self) -> u16 { match self { $(Self::$name => $status,)* } }
            /// The short human title.
            pub fn title(self) -> &'static str { match self { $(Self::$name => $title,)* } }
            /// All codes, for lists and tests.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];
        }
    };
}

codes! {
    InvalidArgument = "INVALID_ARGUMENT", 400, "an argument is wrong";
    InvalidJson = "INVALID_JSON", 400, "the body is not the JSON expected here";
    InvalidName = "INVALID_NAME", 400, "a name has a character or length that is not allowed";
    PageTokenInvalid = "PAGE_TOKEN_INVALID", 400, "the page token is not one of this agent, tool and question";
    ModeUnavailable = "MODE_UNAVAILABLE", 400, "this way of searching is not available";
    IdempotencyKeyRequired = "IDEMPOTENCY_KEY_REQUIRED", 400, "a writing call needs an idempotency key";
    Forbidden = "FORBIDDEN", 403, "this caller may not do this";
    AgentNotFound = "AGENT_NOT_FOUND", 404, "no such agent";
    PromptNotFound = "PROMPT_NOT_FOUND", 404, "no such prompt";
    ToolNotFound = "TOOL_NOT_FOUND", 404, "no such tool";
    DocumentNotFound = "DOCUMENT_NOT_FOUND", 404, "no such document in the archive";
    ScheduleNotFound = "SCHEDULE_NOT_FOUND", 404, "no such schedule";
    BlockNotFound = "BLOCK_NOT_FOUND", 404, "no such block";
    RouteNotFound = "ROUTE_NOT_FOUND", 404, "no such path";
    MethodNotAllowed = "METHOD_NOT_ALLOWED", 405, "this path has no such method";
    AgentExists = "AGENT_EXISTS", 409, "the agent exists with another configuration";
    AgentElsewhere = "AGENT_ELSEWHERE", 409, "the agent is in another place";
    AgentMoving = "AGENT_MOVING", 409, "the agent is being moved to another place";
    MoveBusy = "MOVE_BUSY", 409, "the agent cannot be moved at the moment";
    BlockExists = "BLOCK_EXISTS", 409, "there is a block of that name";
    IdempotencyKeyReused = "IDEMPOTENCY_KEY_REUSED", 409, "the idempotency key belongs to another call";
    RunBusy = "RUN_BUSY", 409, "another run of this agent is under way";
    RunLost = "RUN_LOST", 409, "the run is over, or another server's by now";
    Conflict = "CONFLICT", 409, "other writers were faster each time";
    VectorSettingMismatch = "VECTOR_SETTING_MISMATCH", 409, "the database holds vectors of another kind";
    AgentForgotten = "AGENT_FORGOTTEN", 410, "the agent was forgotten, and its name is not used again";
    PageExpired = "PAGE_EXPIRED", 410, "the result list of this page token is no longer kept";
    RevisionStale = "REVISION_STALE", 412, "the memory changed since the given revision";
    BodyTooLarge = "BODY_TOO_LARGE", 413, "the body is larger than allowed";
    TokenBudgetExceeded = "TOKEN_BUDGET_EXCEEDED", 422, "the window has no room for this";
    LateChunkingRequired = "LATE_CHUNKING_REQUIRED", 422, "chunks must be embedded in the light of their document";
    PinLimitExceeded = "PIN_LIMIT_EXCEEDED", 422, "pinned blocks may take a quarter of the window";
    TaintedContent = "TAINTED_CONTENT", 422, "tainted text needs a justification to enter the core";
    WindowTooSmall = "WINDOW_TOO_SMALL", 422, "the window is smaller than what must stand in it";
    PreconditionRequired = "PRECONDITION_REQUIRED", 428, "a writing call needs the revision it builds on";
    HeartbeatRateLimited = "HEARTBEAT_RATE_LIMITED", 429, "too many heartbeats in a second";
    HeartbeatCooldown = "HEARTBEAT_COOLDOWN", 429, "the last chain of heartbeats reached a cap a moment ago";
    Overloaded = "OVERLOADED", 503, "too many calls at once";
    StoreUnavailable = "STORE_UNAVAILABLE", 503, "the database does not answer";
    NotReady = "NOT_READY", 503, "the server is not ready";
    EmbedderUnavailable = "EMBEDDER_UNAVAILABLE", 503, "the embedder makes no vectors at the moment";
    ModelUnavailable = "MODEL_UNAVAILABLE", 503, "the model does not answer at the moment";
    Timeout = "TIMEOUT", 504, "the call took longer than allowed";
    StoreRefused = "STORE_REFUSED", 500, "the database refused the request";
    Internal = "INTERNAL", 500, "the server made a mistake";
}

impl Error {
    /// An error with a message that says what was wrong and what to do.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), fields: Map::new(), source: None }
    }

    /// A wrong argument, by name.
    pub fn argument(field: &str, message: impl fmt::Display) -> Self {
        Self::new(Code::InvalidArgument, format!("{field}: {message}")).with("field", field)
    }

    /// The same error with one of the code's own fields.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.fields.insert(name.into(), value.into());
        self
    }

    /// The same error with its cause, for the log.
    #[must_use]
    pub fn caused_by(
        mut self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        self.source = Some(source.into());
        self
    }

    /// The message and all causes, for one log line.
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
