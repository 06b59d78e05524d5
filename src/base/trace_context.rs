//! The trace context of a request (W3C Trace Context): the ids with which a caller finds the log
//! lines of its request again.

use tracing::Span;

/// Header, and key in the metadata of MCP, with the ids of a trace and of the caller's span.
pub const TRACEPARENT: &str = "traceparent";
/// Header, and key in the metadata of MCP, with data of tracing systems about the trace.
pub const TRACESTATE: &str = "tracestate";

/// Maximum length of a `tracestate` that is passed on, in bytes; the standard asks for at least as
/// many.
const TRACESTATE_BYTES_MAX: usize = 512;
/// Length of a `traceparent` of version 00, in bytes.
const TRACEPARENT_BYTES: usize = 55;

/// The trace context of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceContext {
    traceparent: String,
    tracestate: Option<String>,
}

impl TraceContext {
    /// Returns the trace context that a request names; `None` without a valid `traceparent`. The
    /// standard asks a server to ignore an invalid context.
    pub fn of(traceparent: Option<&str>, tracestate: Option<&str>) -> Option<Self> {
        let traceparent = traceparent.filter(|text| is_traceparent(text))?.to_owned();
        let visible = |text: &&str| {
            text.len() <= TRACESTATE_BYTES_MAX && text.bytes().all(|b| matches!(b, b' '..=b'~'))
        };
        let tracestate = tracestate.filter(visible).filter(|text| !text.trim().is_empty());
        Some(Self { traceparent, tracestate: tracestate.map(str::to_owned) })
    }

    /// Returns the headers of a request that belongs to the trace.
    pub fn headers(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let state = self.tracestate.as_deref().map(|state| (TRACESTATE, state));
        [(TRACEPARENT, self.traceparent.as_str())].into_iter().chain(state)
    }

    /// Returns a span for the work on the request. The log lines inside of it have the ids.
    pub fn span(&self) -> Span {
        let (trace_id, parent_id) = (&self.traceparent[3..35], &self.traceparent[36..52]);
        tracing::info_span!("request", trace_id, parent_id)
    }
}

/// Whether a text is a valid `traceparent`: version, trace id, span id and flags, in lower-case hex
/// digits. A later version may have further fields.
fn is_traceparent(text: &str) -> bool {
    let fields: Vec<&str> = text.splitn(5, '-').collect();
    let [version, trace, span, flags, rest @ ..] = fields.as_slice() else { return false };
    let hex = |field: &str, digits: usize| {
        field.len() == digits && field.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    };
    let named = |field: &str| field.bytes().any(|b| b != b'0');
    hex(version, 2)
        && *version != "ff"
        && hex(trace, 32)
        && named(trace)
        && hex(span, 16)
        && named(span)
        && hex(flags, 2)
        && (rest.is_empty() || *version != "00")
        && text.len() <= TRACEPARENT_BYTES + TRACESTATE_BYTES_MAX
        && text.bytes().all(|b| matches!(b, b'!'..=b'~'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALID: &str = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01";

    #[test]
    fn only_a_valid_parent_makes_a_context() {
        for (parent, valid) in [
            (VALID.to_owned(), true),
            (VALID.replace("-01", "-00"), true),
            (format!("01{}-more", &VALID[2..]), true),
            (format!("{VALID}-more"), false),
            (format!("ff{}", &VALID[2..]), false),
            (VALID.to_uppercase(), false),
            (VALID.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32)), false),
            (VALID.replace("00f067aa0ba902b7", &"0".repeat(16)), false),
            (VALID.replace("-01", ""), false),
            (VALID.replace("-01", "-1"), false),
            (VALID.replace("0af7", "0äf"), false),
            (format!("01{}-{}", &VALID[2..], "x".repeat(TRACESTATE_BYTES_MAX)), false),
            (format!("01{}-mo\nre", &VALID[2..]), false),
            (String::new(), false),
        ] {
            assert_eq!(TraceContext::of(Some(&parent), None).is_some(), valid, "{parent:?}");
        }
        assert_eq!(TraceContext::of(None, Some("a=b")), None);
    }

    #[test]
    fn a_state_goes_along_if_a_header_can_hold_it() {
        let headers = |state: &str| -> Vec<String> {
            let context = TraceContext::of(Some(VALID), Some(state)).unwrap();
            context.headers().map(|(name, value)| format!("{name}: {value}")).collect()
        };
        let parent = format!("traceparent: {VALID}");
        assert_eq!(headers("a=b,c=d"), [parent.clone(), "tracestate: a=b,c=d".to_owned()]);
        let long = "x".repeat(TRACESTATE_BYTES_MAX + 1);
        for odd in ["", " ", "a=b\r\nif-match: *", "a=ä", long.as_str()] {
            assert_eq!(headers(odd), [parent.as_str()], "{odd:?}");
        }
    }
}
