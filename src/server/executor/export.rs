//! Exports all rows of an agent, read from one snapshot of the database, to a file.
//!
//! The file is complete before its first byte is sent.

use std::fs::File;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::archive_index::ArchiveIndex;
use super::kernel::{Kernel, no_agent, patience};
use super::moving::Directory;
use super::working_file::WorkingFile;
use crate::executor::limits::EXPORT_TRIES_MAX;
use crate::limits::EXPORTS_AT_ONCE;
use crate::store::{Broken, Dump, FaultKind, Row, SCHEMA};
use vctx_core::error::{Code, Error, Result};
use vctx_core::ledger::note::HeadProof;
use vctx_core::limits::EXPORT_ROWS_MAX;
use vctx_core::memory::export::{Header, RowKind, Tally, checkpoint_line, line_of};
use vctx_core::trust::{Scope, numbered};

/// An exported file. It has no path, and is deleted when its handle is dropped.
pub struct Exported {
    /// The exported file, positioned at its beginning.
    pub file: File,
    /// Length of the file in bytes.
    pub bytes: u64,
    permit: OwnedSemaphorePermit,
}

impl Exported {
    /// Returns the file and the export's permit; the caller must keep the permit as long as it
    /// keeps the file.
    pub fn parts(self) -> (File, OwnedSemaphorePermit) {
        (self.file, self.permit)
    }
}

/// State shared by the exports and imports of one server.
pub(super) struct Exports {
    permits: Arc<Semaphore>,
    /// Directory for the temporary files of exports and imports; `None` means the system's
    /// directory for temporary files.
    pub(super) spool: Option<PathBuf>,
}

impl Default for Exports {
    fn default() -> Self {
        Self { permits: Arc::new(Semaphore::new(EXPORTS_AT_ONCE)), spool: None }
    }
}

impl Exports {
    /// Takes a permit for one export or import.
    pub(super) fn permit(&self) -> Result<OwnedSemaphorePermit> {
        Arc::clone(&self.permits).try_acquire_owned().map_err(|_| {
            let text = "the maximum number of exports and imports is under way: try again later";
            Error::new(Code::Overloaded, text)
        })
    }

    /// Creates an unnamed file in the configured directory. If this directory is not writable, uses
    /// the system's directory for temporary files.
    pub(super) fn file(&self) -> Result<File> {
        let made = self.spool.as_ref().map(tempfile::tempfile_in).and_then(|made| made.ok());
        made.map_or_else(tempfile::tempfile, Ok)
            .map_err(|e| disk(e, "cannot make a working file: check the server's data directory"))
    }
}

/// Handles exports, imports and moves of agents.
pub struct Transfers<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) archive: &'a Arc<ArchiveIndex>,
    pub(super) exports: &'a Exports,
    pub(super) directory: &'a Directory,
}

/// The error of an export that lost its database snapshot on every attempt.
pub(super) const READ_AGAIN: &str =
    "the database ended the reading transaction each time: try again in a moment";

pub(super) fn disk(error: std::io::Error, text: &str) -> Error {
    Error::new(Code::Internal, text).caused_by(error)
}

/// Writes lines to an export's file.
pub(super) struct Lines {
    file: WorkingFile,
    tally: Tally,
}

impl Lines {
    pub(super) fn begun(file: File, header: &Header) -> Result<Self> {
        let line = header.line();
        let mut lines = Self { file: WorkingFile::new(file), tally: Tally::begun(&line) };
        lines.write(&line)?;
        Ok(lines)
    }

    fn write(&mut self, line: &str) -> Result<()> {
        self.file.write(line.as_bytes()).and_then(|()| self.file.write(b"\n"))
    }

    pub(super) fn row(&mut self, part: RowKind, row: &Row) -> Result<()> {
        let line = line_of(part, row);
        if self.tally.rows() >= EXPORT_ROWS_MAX {
            let text = format!("the agent has more than the {EXPORT_ROWS_MAX} rows of an export");
            return Err(Error::new(Code::BodyTooLarge, text));
        }
        self.tally.row(part, &line);
        self.write(&line)
    }

    pub(super) fn finished(mut self, chain_head: &str) -> Result<(File, u64, Tally)> {
        let trailer = self.tally.trailer(chain_head);
        self.write(&trailer)?;
        let (file, bytes) = self.file.finish()?;
        Ok((file, bytes, self.tally))
    }
}

/// All rows of an agent in a working file, before the line about the signed head.
pub(super) struct Spooled {
    permit: OwnedSemaphorePermit,
    file: File,
    /// Length of the file in bytes.
    bytes: u64,
    tally: Tally,
    /// Number of rows that were left out.
    left: u64,
}

impl Spooled {
    /// Returns the digest of the file's lines before the trailer.
    pub(super) fn digest(&self) -> String {
        self.tally.file()
    }
}

impl Transfers<'_> {
    /// Writes all rows of an agent to a working file. `begin` is awaited before the snapshot
    /// begins, and what it returns is dropped when the snapshot has begun.
    pub(super) async fn spooled_export<T, F: Future<Output = Result<T>>>(
        &self,
        scope: &Scope,
        begin: impl Fn() -> F,
    ) -> Result<Spooled> {
        let permit = self.exports.permit()?;
        let read = || self.exported(scope, &begin);
        let (file, bytes, tally, left) = self.read_again(READ_AGAIN, read).await?;
        Ok(Spooled { permit, file, bytes, tally, left })
    }

    /// Finishes an export: appends a line about the signed head of the agent's ledger, if there is
    /// one. The head must be signed before the snapshot of the export began.
    pub(super) fn export(
        &self,
        scope: &Scope,
        spooled: Spooled,
        signed: Option<&HeadProof>,
    ) -> Result<Exported> {
        let Spooled { permit, mut file, mut bytes, tally, left } = spooled;
        if let Some(proof) = signed {
            let line = format!("{}\n", checkpoint_line(&json!(proof)));
            let text = "cannot write a working file: check the server's data directory";
            let mut append = || {
                file.seek(SeekFrom::End(0))?;
                file.write_all(line.as_bytes())?;
                file.rewind()
            };
            append().map_err(|error| disk(error, text))?;
            bytes += line.len() as u64;
        }
        tracing::info!(agent = scope.key(), rows = tally.rows(), bytes, left, "exported");
        Ok(Exported { file, bytes, permit })
    }

    /// Reads from the database in a transaction, and repeats the whole read if the transaction was
    /// lost. Each attempt reads a new snapshot; any snapshot is suitable. `text` is the error
    /// message if the last attempt fails.
    pub(super) async fn read_again<T, F: Future<Output = std::result::Result<T, Broken>>>(
        &self,
        text: &str,
        read: impl Fn() -> F,
    ) -> Result<T> {
        let mut faults = 0;
        for _ in 0..EXPORT_TRIES_MAX {
            match read().await {
                Err(Broken::Store(fault)) if lost(fault.kind) => {
                    self.kernel.pause(fault, &mut faults, patience()).await?;
                }
                read => return Ok(read?),
            }
        }
        Err(Error::new(Code::StoreUnavailable, text))
    }

    /// Reads all rows of an agent from one snapshot into a working file. Returns the file, its
    /// length in bytes, the counts, and the number of rows that were left out.
    pub(super) async fn exported<T, F: Future<Output = Result<T>>>(
        &self,
        scope: &Scope,
        begin: &impl Fn() -> F,
    ) -> std::result::Result<(File, u64, Tally, u64), Broken> {
        let begun = begin().await?;
        let mut dump = Dump::begin(&self.kernel.ro, &self.kernel.rw, scope).await?;
        drop(begun);
        let done = self.spooled(scope, &mut dump).await;
        dump.end().await;
        done
    }

    async fn spooled(
        &self,
        scope: &Scope,
        dump: &mut Dump<'_>,
    ) -> std::result::Result<(File, u64, Tally, u64), Broken> {
        let opened = dump.open().await?;
        let Some(core) = &opened.core else { return Err(no_agent().into()) };
        let documents = core["archived"]["documents"].as_u64().unwrap_or(0);
        let vector = opened.owner.vector.clone().filter(|_| documents > 0);
        let (name, _) = numbered(scope.agent());
        let header = Header::new(name, &opened.owner.sealed_as, SCHEMA, vector);
        let mut lines = Lines::begun(self.exports.file()?, &header)?;
        lines.row(RowKind::Core, core)?;
        let mut sink = |part: RowKind, row: Row| lines.row(part, &row);
        let left = dump.rest(&opened, &mut sink).await?;
        let (file, bytes, tally) = lines.finished(&opened.chain_head)?;
        Ok((file, bytes, tally, left))
    }
}

/// Returns whether a fault means that the transaction no longer exists (1654, 1655) or that the
/// connection was lost.
fn lost(kind: FaultKind) -> bool {
    matches!(
        kind,
        FaultKind::Unreachable | FaultKind::Lost | FaultKind::Arango { num: 1654 | 1655, .. }
    )
}
