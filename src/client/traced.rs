//! Lets the requests of a piece of work belong to the trace of a caller.

use http::request::Builder;
use tracing::Instrument as _;

use vctx_base::trace_context::TraceContext;

tokio::task_local! {
    /// The trace to which the requests of the current work belong.
    static TRACE: TraceContext;
}

/// Does work whose requests to the server belong to the given trace, if any. The work is in a box,
/// since both ways would hold it.
pub fn traced<F: Future>(
    context: Option<TraceContext>,
    work: F,
) -> impl Future<Output = F::Output> {
    let work = Box::pin(work);
    async move {
        match context {
            Some(context) => {
                let span = context.span();
                TRACE.scope(context, work.instrument(span)).await
            }
            None => work.await,
        }
    }
}

/// Adds the headers of the current trace to a request.
pub(super) fn with_trace(request: Builder) -> Builder {
    let add = |request: Builder, (name, value)| request.header(name, value);
    let traced =
        |context: &TraceContext| context.headers().map(|(n, v)| (n, v.to_owned())).collect();
    let headers: Vec<(&str, String)> = TRACE.try_with(traced).unwrap_or_default();
    headers.into_iter().fold(request, add)
}
