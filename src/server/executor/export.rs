//! An agent goes into a file: everything that it is, of one moment, and the file is whole before the first byte leaves.

use std::fs::File;
use std::io::{BufWriter, Seek as _, Write as _};
use std::path::Path;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::executor::{Executor, no_agent, patience};
use crate::store::{Broken, Dump, FaultKind, Row, SCHEMA};
use vctx_core::error::{Code, Error, Result};
use vctx_core::limits::{EXPORT_BYTES_MAX, EXPORT_ROWS_MAX, EXPORT_TRIES_MAX};
use vctx_core::memory::export::{Header, Part, Tally, line_of};
use vctx_core::policy::{Principal, Scope, admit};

/// A file of an agent that lies on no path: it goes with its handle.
pub struct Exported {
    /// The file, at its beginning.
    pub file: File,
    /// Its bytes.
    pub bytes: u64,
    /// A place among the exports of this server.
    place: OwnedSemaphorePermit,
}

impl Exported {
    /// The file and the place that it takes until both are dropped.
    pub fn parts(self) -> (File, OwnedSemaphorePermit) {
        (self.file, self.place)
    }
}

/// A file without a name in a directory, or in the system's own where that one cannot be written.
pub(super) fn spool(directory: Option<&Path>) -> Result<File> {
    let made = directory.map(tempfile::tempfile_in);
    let made = made.and_then(|made| made.ok()).map_or_else(tempfile::tempfile, Ok);
    made.map_err(|e| disk(e, "cannot make a file to work in: look at the server's data directory"))
}

pub(super) fn disk(error: std::io::Error, text: &str) -> Error {
    Error::new(Code::Internal, text).caused_by(error)
}

/// A place among the exports and imports of this server.
pub(super) fn place(places: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit> {
    Arc::clone(places).try_acquire_owned().map_err(|_| {
        let text = "as many exports and imports are under way as may be: try again later";
        Error::new(Code::Overloaded, text)
    })
}

/// Lines on their way into a file.
pub(super) struct Lines {
    file: BufWriter<File>,
    bytes: u64,
    tally: Tally,
}

impl Lines {
    pub(super) fn begun(file: File, header: &Header) -> Result<Self> {
        let line = header.line();
        let mut lines = Self { file: BufWriter::new(file), bytes: 0, tally: Tally::begun(&line) };
        lines.write(&line)?;
        Ok(lines)
    }

    fn write(&mut self, line: &str) -> Result<()> {
        self.bytes += line.len() as u64 + 1;
        if self.bytes > EXPORT_BYTES_MAX {
            let text =
                format!("the agent takes more than the {EXPORT_BYTES_MAX} bytes of an export");
            return Err(Error::new(Code::BodyTooLarge, text));
        }
        let written =
            self.file.write_all(line.as_bytes()).and_then(|()| self.file.write_all(b"\n"));
        written.map_err(|e| disk(e, "the disk of the server took no more: make room on it"))
    }

    pub(super) fn row(&mut self, part: Part, row: &Row) -> Result<()> {
        let line = line_of(part, row);
        if self.tally.rows() >= EXPORT_ROWS_MAX {
            let text = format!("the agent has more than the {EXPORT_ROWS_MAX} rows of an export");
            return Err(Error::new(Code::BodyTooLarge, text));
        }
        self.tally.row(part, &line);
        self.write(&line)
    }

    fn finished(mut self, chain_head: &str) -> Result<(File, u64, Tally)> {
        let trailer = self.tally.trailer(chain_head);
        self.write(&trailer)?;
        let text = "the disk of the server took no more: make room on it";
        let mut file = self.file.into_inner().map_err(|e| disk(e.into_error(), text))?;
        file.rewind().map_err(|e| disk(e, text))?;
        Ok((file, self.bytes, self.tally))
    }
}

impl Executor {
    /// Everything that an agent is, as a file.
    pub async fn export(&self, principal: &Principal, agent: &str) -> Result<Exported> {
        let scope = admit(principal, agent)?;
        let place = place(&self.exports)?;
        let mut faults = 0;
        for _ in 0..EXPORT_TRIES_MAX {
            match self.exported(&scope).await {
                Ok((file, bytes, tally, left)) => {
                    tracing::info!(
                        agent = scope.key(),
                        rows = tally.rows(),
                        bytes,
                        left,
                        "exported"
                    );
                    return Ok(Exported { file, bytes, place });
                }
                // The state that was read from is lost with its transaction: another one is as good.
                Err(Broken::Store(fault)) if lost(fault.kind) => {
                    self.pause(fault, &mut faults, patience()).await?;
                }
                Err(broken) => return Err(broken.into()),
            }
        }
        let text = "the database let go of what was read each time: try again in a moment";
        Err(Error::new(Code::StoreUnavailable, text))
    }

    pub(super) async fn exported(
        &self,
        scope: &Scope,
    ) -> std::result::Result<(File, u64, Tally, u64), Broken> {
        let mut dump = Dump::begin(&self.ro, &self.rw, scope).await?;
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
        let header = Header::new(scope.agent(), &opened.owner.sealed_as, SCHEMA, vector);
        let mut lines = Lines::begun(spool(self.spool.as_deref())?, &header)?;
        lines.row(Part::Core, core)?;
        let mut sink = |part: Part, row: Row| lines.row(part, &row);
        let left = dump.rest(&opened, &mut sink).await?;
        let (file, bytes, tally) = lines.finished(&opened.chain_head)?;
        Ok((file, bytes, tally, left))
    }
}

/// A transaction that is not there any more (1654, 1655), or a connection.
pub(super) fn lost(kind: FaultKind) -> bool {
    matches!(
        kind,
        FaultKind::Unreachable | FaultKind::Lost | FaultKind::Arango { num: 1654 | 1655, .. }
    )
}
