//! Why a model gave no answer, by what can be done about it.

use vctx_core::error::{Code, Error};

/// What can be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChatClass {
    /// The request was longer than the model's context: ask with less.
    Overflow,
    /// Too many requests: wait.
    RateLimited,
    /// Nobody listens, or the server fails: try later.
    Unavailable,
    /// The answer ended in the middle.
    Cut,
    /// It took longer than allowed.
    Late,
    /// The server does not take this request.
    Refused,
    /// What came is no answer.
    Rubbish,
}

impl ChatClass {
    /// As events, logs and metrics name it.
    pub fn text(self) -> &'static str {
        match self {
            Self::Overflow => "overflow",
            Self::RateLimited => "rate_limited",
            Self::Unavailable => "unavailable",
            Self::Cut => "cut",
            Self::Late => "late",
            Self::Refused => "refused",
            Self::Rubbish => "rubbish",
        }
    }
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct ChatFault {
    /// What can be done.
    pub class: ChatClass,
    /// What was wrong; none of the server's own words, which may repeat what was said.
    pub message: String,
    /// When to ask again, where the server says so.
    pub retry_after_ms: Option<u64>,
    /// Text that was told already when it broke.
    pub partial: String,
    /// For the log.
    #[source]
    pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl ChatFault {
    /// A fault of a class.
    pub(super) fn new(class: ChatClass, message: impl Into<String>) -> Self {
        Self {
            class,
            message: message.into(),
            retry_after_ms: None,
            partial: String::new(),
            source: None,
        }
    }

    /// The same, with its cause.
    pub(super) fn caused_by(
        mut self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Whether the same request may succeed a moment later; nothing of the answer may have been told.
    pub(super) fn passing(&self) -> bool {
        let class = matches!(
            self.class,
            ChatClass::RateLimited | ChatClass::Unavailable | ChatClass::Cut | ChatClass::Rubbish
        );
        class && self.partial.is_empty()
    }
}

impl From<ChatFault> for Error {
    fn from(fault: ChatFault) -> Self {
        let error = Self::new(Code::ModelUnavailable, fault.message.clone())
            .with("class", fault.class.text());
        let error = match fault.retry_after_ms {
            Some(ms) => error.with("retry_after_ms", ms),
            None => error,
        };
        error.caused_by(fault)
    }
}
