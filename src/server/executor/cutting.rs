//! Splits long documents on a blocking thread, so that no other call waits.

use std::sync::Arc;

use super::executor::Executor;
use super::request::CallRequest;
use vctx_core::error::{Code, Error, Result};
use vctx_core::memory::core::Core;
use vctx_core::policy::Answers;
use vctx_core::tools::Call;

impl Executor {
    /// Splits a long document on a blocking thread before a step of the call needs the chunks. The
    /// splitting depends on the archive's state, so the function does nothing until this state is
    /// loaded.
    pub(super) async fn prepare(
        &self,
        request: &CallRequest,
        core: &Core,
        answers: &Answers,
    ) -> Result<()> {
        let Call::IngestArchival(ingest) = &request.call else { return Ok(()) };
        // Without the archive's state, the document cannot be split yet; a short document is not
        // split here.
        if answers.archive.is_none() || !ingest.is_long() {
            return Ok(());
        }
        let (ingest, alone) = (ingest.clone(), answers.alone.clone());
        let counter = Arc::clone(self.kernel.counters.of(core.encoding));
        let work = move || ingest.prepare(&*counter, alone.as_deref()).map(drop);
        // A splitting fault is ignored here, since the step itself will find and report the same
        // fault.
        tokio::task::spawn_blocking(work).await.map_err(stopped)?.or(Ok(()))
    }
}

/// Returns the error for a background computation that stopped without a result.
pub(super) fn stopped(error: tokio::task::JoinError) -> Error {
    Error::new(Code::Internal, "a computation stopped").caused_by(error)
}
