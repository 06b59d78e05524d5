//! Spans of the steps of a call; at the end of each step, its duration is logged at DEBUG.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use tracing::{Instrument as _, Span};

use vctx_base::clock;
use vctx_core::policy::{Stage, Stages};

/// Runs a step of a call in a span of its own.
pub(super) async fn step<T>(name: &'static str, work: impl Future<Output = T>) -> T {
    let Some(open) = Open::begin(name) else { return work.await };
    let done = work.instrument(open.span.clone()).await;
    open.end();
    done
}

/// Runs a step of a call that does not wait.
pub(super) fn step_at_once<T>(name: &'static str, work: impl FnOnce() -> T) -> T {
    let Some(open) = Open::begin(name) else { return work() };
    let done = open.span.in_scope(work);
    open.end();
    done
}

/// A step that has begun.
struct Open {
    span: Span,
    begun: Instant,
}

impl Open {
    /// Begins a step; `None` if the log's filter excludes steps.
    fn begin(name: &'static str) -> Option<Self> {
        let span = tracing::debug_span!("step", step = name);
        (!span.is_disabled()).then(|| Self { span, begun: clock::now() })
    }

    fn end(self) {
        let duration_us = u64::try_from(self.begun.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.span.in_scope(|| tracing::debug!(duration_us, "step ended"));
    }
}

/// Spans of the stages of a decision. The last stage ends when this value is dropped.
#[derive(Default)]
pub(super) struct StageSpans(Mutex<Option<Open>>);

impl StageSpans {
    fn replace(&self, next: Option<Open>) {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(before) = std::mem::replace(&mut *open, next) {
            before.end();
        }
    }
}

impl Stages for StageSpans {
    fn begins(&self, stage: Stage) {
        self.replace(None);
        self.replace(Open::begin(stage.text()));
    }
}

impl Drop for StageSpans {
    fn drop(&mut self) {
        self.replace(None);
    }
}
