//! What can go wrong between here and the database, by what may be done next.

use std::fmt;

use arangors::ClientError;

use vctx_core::error::{Code, Error};

/// A failed request.
#[derive(Debug)]
pub struct Fault {
    /// What may be done next.
    pub kind: FaultKind,
    /// For the log.
    pub message: String,
}

/// What may be done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// Nothing was sent: may be repeated.
    Unreachable,
    /// It may have been done: look at the idempotency key before anything else.
    Lost,
    /// The database answered with an error.
    Arango {
        /// HTTP status.
        status: u16,
        /// `errorNum`.
        num: u16,
    },
    /// The answer made no sense.
    Garbage,
}

impl Fault {
    /// A fault of that kind.
    pub(super) fn new(kind: FaultKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// The kind of an answer that is an error. 502 and 504 are not the database's: what stands before it lost its answer, so the request may
    /// have been done.
    pub(super) fn answered(status: u16, num: u16, message: impl Into<String>) -> Self {
        match status {
            502 | 504 => Self::new(FaultKind::Lost, message),
            _ => Self::new(FaultKind::Arango { status, num }, message),
        }
    }

    /// Another writer was faster: 1200 (write-write conflict or stale revision), 1210 (unique value taken), 18, 28, 29 (locks).
    pub fn raced(&self) -> bool {
        matches!(self.kind, FaultKind::Arango { num: 1200 | 1210 | 18 | 28 | 29, .. })
    }

    /// A unique value is taken by what is committed: 1210.
    pub fn taken(&self) -> bool {
        matches!(self.kind, FaultKind::Arango { num: 1210, .. })
    }

    /// The database takes no writes, whatever is written: 1004 (read-only), 1104 (its disk is full), 1305 (its disk fails), 2 (so the engine
    /// answers the first write that failed).
    pub fn refuses_writes(&self) -> bool {
        matches!(self.kind, FaultKind::Arango { num: 2 | 1004 | 1104 | 1305, .. })
    }

    /// Whether the same request may succeed a moment later: the socket is silent, or the database starts, stops or is overloaded
    /// (30, 38, 1429, 1495, 1496, 21003, 21004 of the manual's error list), or a transaction went with a restart (1654, 1655).
    pub fn passing(&self) -> bool {
        match self.kind {
            FaultKind::Unreachable | FaultKind::Lost => true,
            FaultKind::Arango { num, status } => {
                matches!(
                    num,
                    30 | 38 | 1429 | 1465 | 1478 | 1495 | 1496 | 1654 | 1655 | 21003 | 21004
                ) || status == 503
            }
            FaultKind::Garbage => false,
        }
    }
}

/// Prefixes by which our client marks network faults in the texts of arangors' errors, which keep no types.
pub(super) const UNREACHABLE: &str = "unreachable: ";
pub(super) const LOST: &str = "lost: ";
pub(super) const GARBAGE: &str = "garbage: ";

impl From<ClientError> for Fault {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Arango(e) => {
                let num = e.error_num();
                Self::answered(e.code(), num, format!("database error {num}"))
            }
            ClientError::HttpClient(text) => {
                let kind = if text.starts_with(UNREACHABLE) {
                    FaultKind::Unreachable
                } else if text.starts_with(LOST) {
                    FaultKind::Lost
                } else {
                    FaultKind::Garbage
                };
                Self::new(kind, text)
            }
            ClientError::Serde(e) => Self::new(
                FaultKind::Garbage,
                format!("answer not understood at column {}", e.column()),
            ),
            ClientError::InvalidServer(text) => {
                Self::new(FaultKind::Garbage, format!("no ArangoDB there: {text}"))
            }
            ClientError::InsufficientPermission { operation, .. } => {
                Self::new(FaultKind::Arango { status: 403, num: 11 }, operation)
            }
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Fault {}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        let (code, text) = match fault.kind {
            FaultKind::Unreachable | FaultKind::Lost => (
                Code::StoreUnavailable,
                "the database does not answer on its socket: try again with the same key",
            ),
            FaultKind::Arango { status: 503, .. } => (
                Code::StoreUnavailable,
                "the database is overloaded or stopping: try again with the same key",
            ),
            FaultKind::Arango { num: 1004 | 1104 | 1305, .. } => (
                Code::StoreUnavailable,
                "the database takes no writes (its disk, its licence, or a write concern; the embedded engine until it is started anew): see \
                 its log, then try again with the same key",
            ),
            FaultKind::Arango { status: 401 | 403, .. } => (
                Code::StoreRefused,
                "the database refused the server's credentials: check ARANGO_USER and its grants",
            ),
            FaultKind::Arango { .. } | FaultKind::Garbage => {
                (Code::StoreRefused, "the database refused a request: see the server's log")
            }
        };
        Self::new(code, text).caused_by(fault)
    }
}
