//! What went wrong with a call, told so that a person or a program knows the next step.

use std::fmt;

use serde_json::{Map, Value};

/// How far a failed call came, which decides whether it may be tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// No connection could be made: the server has seen nothing.
    Unreachable,
    /// The call was sent, or part of it, and no whole answer came: it may have had its effect. Same key again.
    Unanswered,
    /// The server answered with problem details.
    Refused(u16),
    /// The answer is not one this client understands.
    Garbled,
}

/// A failed call.
#[derive(Debug, Clone)]
pub struct Problem {
    /// How it failed.
    pub fault: Fault,
    /// The server's error code, or one of `UNREACHABLE`, `UNANSWERED`, `GARBLED`.
    pub code: String,
    /// What was wrong, in a sentence.
    pub detail: String,
    /// What to do about it, where that is known.
    pub next: Option<String>,
    /// Seconds to wait before the call is tried again, where the server said so.
    pub retry_after_s: Option<u64>,
    /// The problem details as the server sent them, with the code's own fields (`required_headroom`, `_rev`, …).
    pub fields: Map<String, Value>,
}

impl Problem {
    /// [`Fault::Unreachable`].
    pub(crate) fn unreachable(detail: String) -> Problem {
        let next = "is the server running? start it with: vctx serve";
        Problem::plain(Fault::Unreachable, "UNREACHABLE", detail, Some(next))
    }

    /// [`Fault::Unanswered`].
    pub(crate) fn unanswered(detail: String) -> Problem {
        let next = "the call may have had its effect: repeat it with the same idempotency key";
        Problem::plain(Fault::Unanswered, "UNANSWERED", detail, Some(next))
    }

    /// [`Fault::Garbled`].
    pub fn garbled(detail: String) -> Problem {
        Problem::plain(
            Fault::Garbled,
            "GARBLED",
            detail,
            Some("does another program listen on this socket?"),
        )
    }

    fn plain(fault: Fault, code: &str, detail: String, next: Option<&str>) -> Problem {
        Problem {
            fault,
            code: code.into(),
            detail,
            next: next.map(str::to_string),
            retry_after_s: None,
            fields: Map::new(),
        }
    }

    /// Reads problem details (RFC 9457); an answer without them keeps its status as the code.
    pub fn refused(status: u16, body: &Value, retry_after_s: Option<u64>) -> Problem {
        let text = |name: &str| body.get(name).and_then(Value::as_str);
        let code = text("error").map_or_else(|| format!("HTTP_{status}"), str::to_string);
        let detail = text("detail")
            .or(text("title"))
            .unwrap_or("the server refused the call without a reason")
            .to_string();
        let next = next_step(&code).map(str::to_string);
        let fields = body.as_object().cloned().unwrap_or_default();
        Problem { fault: Fault::Refused(status), code, detail, next, retry_after_s, fields }
    }

    /// Whether the same call with the same key can succeed later: nothing was wrong with the call itself.
    pub fn is_passing(&self) -> bool {
        match self.fault {
            Fault::Unreachable | Fault::Unanswered => true,
            Fault::Refused(429 | 502 | 503 | 504) => true,
            Fault::Refused(409) => {
                ["CONFLICT", "AGENT_MOVING", "MOVE_BUSY"].contains(&self.code.as_str())
            }
            Fault::Refused(_) | Fault::Garbled => false,
        }
    }

    /// The status of the answer, if one came.
    pub fn status(&self) -> Option<u16> {
        match self.fault {
            Fault::Refused(status) => Some(status),
            Fault::Unreachable | Fault::Unanswered | Fault::Garbled => None,
        }
    }
}

/// What a person at a command line does about an error code.
fn next_step(code: &str) -> Option<&'static str> {
    Some(match code {
        "AGENT_NOT_FOUND" => {
            "create the agent with: vctx agent create NAME, or list the agents with: vctx agent list"
        }
        "TOOL_NOT_FOUND" => "list the tools with: vctx tools",
        "BLOCK_NOT_FOUND" => "list the blocks with: vctx state --agent NAME",
        "AGENT_EXISTS" => "change an existing agent with: vctx agent patch NAME",
        "PRECONDITION_REQUIRED" => {
            "give the revision shown by vctx state with --rev, or --rev '*' to accept any"
        }
        "REVISION_STALE" => {
            "read the memory again with: vctx state, then repeat the call with the new revision"
        }
        "IDEMPOTENCY_KEY_REUSED" => "use a new --key for a new call",
        "IDEMPOTENCY_KEY_REQUIRED" => {
            "give a --key that is the same each time this call is repeated"
        }
        "TOKEN_BUDGET_EXCEEDED" => {
            "make room with: vctx tool evict_fifo, shorten the text, or widen the window"
        }
        "PIN_LIMIT_EXCEEDED" => {
            "unpin a block, or widen the window with: vctx agent patch NAME --window N"
        }
        "WINDOW_TOO_SMALL" => "give a larger --window or a shorter system text",
        "INVALID_ARGUMENT" => "read the schema of the tool with: vctx tools --format json-schema",
        "CONFLICT" | "OVERLOADED" | "TIMEOUT" => "repeat the call with the same key in a moment",
        "STORE_UNAVAILABLE" | "NOT_READY" => {
            "the server reconnects by itself: repeat the call, or look at its log"
        }
        "INTERNAL" | "STORE_REFUSED" => "look at the server's log",
        _ => return None,
    })
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.detail)?;
        match &self.next {
            Some(next) => write!(f, "\n  next: {next}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Problem {}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn problem_details_keep_code_reason_and_fields() {
        let body = json!({"title": "t", "detail": "short of 41 tokens", "error": "TOKEN_BUDGET_EXCEEDED", "required_headroom": 41});
        let problem = Problem::refused(422, &body, None);
        assert_eq!(
            (problem.code.as_str(), problem.detail.as_str()),
            ("TOKEN_BUDGET_EXCEEDED", "short of 41 tokens")
        );
        assert_eq!(problem.fields["required_headroom"], json!(41));
        assert!(problem.next.is_some() && !problem.is_passing());
    }

    #[test]
    fn only_what_passes_may_be_tried_again() {
        let conflict = Problem::refused(409, &json!({"error": "CONFLICT"}), Some(1));
        let reused = Problem::refused(409, &json!({"error": "IDEMPOTENCY_KEY_REUSED"}), None);
        assert!(conflict.is_passing() && !reused.is_passing());
        assert!(Problem::refused(503, &Value::Null, None).is_passing());
        assert!(!Problem::refused(500, &Value::Null, None).is_passing());
        assert!(Problem::unanswered(String::new()).is_passing());
    }

    #[test]
    fn an_answer_without_details_keeps_its_status() {
        assert_eq!(Problem::refused(418, &Value::Null, None).code, "HTTP_418");
    }
}
