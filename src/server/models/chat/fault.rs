//! Classifies a chat model's faults: all faults of a class need the same reaction.

use vctx_core::error::{Code, Error};

/// Class of model faults that need the same reaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChatClass {
    /// The request is longer than the model's context; a shorter request may succeed.
    Overflow,
    /// The model server has too many requests; a later attempt may succeed.
    RateLimited,
    /// The model server is unreachable or failing; a later attempt may succeed.
    Unavailable,
    /// The connection ended in the middle of the answer.
    Cut,
    /// The answer took longer than allowed.
    Late,
    /// The model server refuses this request.
    Refused,
    /// The model server's reply is not a valid answer.
    Rubbish,
}

impl ChatClass {
    /// Returns the class name used in events, logs and metrics.
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

/// A fault in place of a model's complete answer.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct ChatFault {
    /// Class of the fault.
    pub class: ChatClass,
    /// Description of the fault. It leaves out the model server's own message, which may repeat
    /// memory text.
    pub message: String,
    /// Pause before the next attempt, if the model server requested one.
    pub retry_after_ms: Option<u64>,
    /// Text of the answer that was received before the fault.
    pub partial: String,
    /// Cause of the fault, for the log.
    #[source]
    pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl ChatFault {
    /// Makes a fault of the given class.
    pub(super) fn new(class: ChatClass, message: impl Into<String>) -> Self {
        Self {
            class,
            message: message.into(),
            retry_after_ms: None,
            partial: String::new(),
            source: None,
        }
    }

    /// Adds the cause of the fault.
    pub(super) fn caused_by(
        mut self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Returns whether the request may be repeated; this is only allowed if no part of an answer
    /// was received.
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
