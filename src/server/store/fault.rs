//! Faults of database requests, classified by how the caller must react.

use std::fmt;

use arangors::ClientError;

use vctx_core::error::{Code, Error};

/// A database request that failed.
#[derive(Debug)]
pub struct Fault {
    /// Kind of the fault.
    pub kind: FaultKind,
    /// Description for the log.
    pub message: String,
}

/// Kind of fault; the caller reacts differently to each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The request was not sent, and may be repeated.
    Unreachable,
    /// The request may have been executed; before a repetition, the idempotency key must be
    /// checked.
    Lost,
    /// The database answered with an error.
    Arango {
        /// HTTP status.
        status: u16,
        /// ArangoDB's error number (`errorNum`).
        num: u16,
    },
    /// The answer could not be parsed.
    Garbage,
    /// The agent's ledger in the database is not the one that the servers wrote.
    Contradicted,
}

impl Fault {
    /// Makes a fault of the given kind.
    pub(super) fn new(kind: FaultKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// Makes the fault for an error answer. Statuses 502 and 504 come from a proxy that lost the
    /// database's answer, so the request may have been executed.
    pub(super) fn answered(status: u16, num: u16, message: impl Into<String>) -> Self {
        match status {
            502 | 504 => Self::new(FaultKind::Lost, message),
            _ => Self::new(FaultKind::Arango { status, num }, message),
        }
    }

    /// Returns whether the error number says that another writer was faster: 1200 (write-write
    /// conflict or stale revision), 1210 (unique value taken), 18, 28, 29 (locks).
    pub fn raced(&self) -> bool {
        matches!(self.kind, FaultKind::Arango { num: 1200 | 1210 | 18 | 28 | 29, .. })
    }

    /// Returns whether the row to be changed does not exist (error 1202).
    pub fn is_missing(&self) -> bool {
        matches!(self.kind, FaultKind::Arango { num: 1202, .. })
    }

    /// Returns whether a committed row already has the unique value of the row to be written (error
    /// 1210).
    pub fn is_duplicate(&self) -> bool {
        matches!(self.kind, FaultKind::Arango { num: 1210, .. })
    }

    /// Returns whether the database refused the request, so that nothing was written.
    pub(super) fn is_refusal(&self) -> bool {
        matches!(self.kind, FaultKind::Arango { status: ..500, .. })
    }

    /// Returns whether the error number says that the database accepts no writes at all: 1004
    /// (read-only), 1104 (disk full), 1305 (disk error), 2 (the engine's answer to the first failed
    /// write).
    pub fn refuses_writes(&self) -> bool {
        matches!(self.kind, FaultKind::Arango { num: 2 | 1004 | 1104 | 1305, .. })
    }

    /// Returns whether the error answer to a commit leaves it unknown whether the transaction was
    /// committed: the database failed while it wrote, and the written part may be durable.
    pub fn leaves_commit_open(&self) -> bool {
        !self.raced() && matches!(self.kind, FaultKind::Arango { status: 500.., .. })
    }

    /// Returns whether the fault may mean that a query returned too much: its answer is too long
    /// for the HTTP client, or the database had not enough memory for it (21003).
    pub fn too_large(&self) -> bool {
        matches!(self.kind, FaultKind::Lost | FaultKind::Arango { num: 21003, .. })
    }

    /// Returns whether a repeated request may succeed, which is so in three cases:
    /// - The socket does not answer.
    /// - The database is starting, stopping or overloaded (status 503, or 30, 38, 1429, 1465, 1478,
    ///   1495, 1496, 21003, 21004 of the manual's error list).
    /// - A restart ended the transaction (1654, 1655).
    pub fn passing(&self) -> bool {
        match self.kind {
            FaultKind::Unreachable | FaultKind::Lost => true,
            FaultKind::Arango { num, status } => {
                matches!(
                    num,
                    30 | 38 | 1429 | 1465 | 1478 | 1495 | 1496 | 1654 | 1655 | 21003 | 21004
                ) || status == 503
            }
            FaultKind::Garbage | FaultKind::Contradicted => false,
        }
    }
}

/// Prefixes with which the HTTP client marks network faults in arangors' error texts, since
/// arangors has no error types for them.
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
                Self::new(FaultKind::Garbage, format!("no ArangoDB on this socket: {text}"))
            }
            ClientError::InsufficientPermission { operation, .. } => {
                Self::new(FaultKind::Arango { status: 403, num: 11 }, operation)
            }
        }
    }
}

/// The result of a request to the database.
pub type Result<T> = std::result::Result<T, Fault>;

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
            FaultKind::Arango { num: 1004, .. } => (
                Code::StoreUnavailable,
                "the database takes no writes (its disk, its licence, or a write concern; the embedded engine until its disk has room again): see \
                 its log, then try again with the same key",
            ),
            FaultKind::Arango { num: 2 | 1104 | 1305, .. } => (
                Code::StoreUnavailable,
                "the database failed while it read or wrote (is its disk full?), so it is unknown whether a write of this call is stored: see its \
                 log, then try again with the same key, which never writes twice",
            ),
            FaultKind::Arango { status: 401 | 403, .. } => (
                Code::StoreRefused,
                "the database refused the credentials of vctx: check ARANGO_USER and its grants",
            ),
            FaultKind::Contradicted => {
                return Self::new(Code::LedgerContradicted, fault.message);
            }
            FaultKind::Arango { .. } | FaultKind::Garbage => {
                (Code::StoreRefused, "the database refused a request: see the log of vctx")
            }
        };
        Self::new(code, text).caused_by(fault)
    }
}
