//! Long documents are cut beside the loop that answers calls, so that no other call waits for them.

use std::sync::Arc;

use super::answer::stopped;
use super::executor::Executor;
use super::request::CallRequest;
use vctx_core::error::Result;
use vctx_core::memory::core::Core;
use vctx_core::policy::Answers;
use vctx_core::tools::Call;

impl Executor {
    /// Does in the background what a step would take long for. What must be asked for it first is asked by the step.
    pub(super) async fn prepare(
        &self,
        request: &CallRequest,
        core: &Core,
        answers: &Answers,
    ) -> Result<()> {
        let Call::IngestArchival(ingest) = &request.call else { return Ok(()) };
        // Without what stands in the archive nothing is cut yet.
        if answers.archive.is_none() || !ingest.is_long() {
            return Ok(());
        }
        let (ingest, alone) = (ingest.clone(), answers.alone.clone());
        let counter = Arc::clone(self.counters.of(core.encoding));
        let work = move || ingest.prepare(&*counter, alone.as_deref()).map(drop);
        // A fault is found again by the step, which answers it.
        tokio::task::spawn_blocking(work).await.map_err(stopped)?.or(Ok(()))
    }
}
