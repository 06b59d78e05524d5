//! Describes the failure of a call, with a next step for a person or a program.

use std::fmt;

use serde_json::{Map, Value};

/// The stage at which a call failed. It determines whether the call may be repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The connection failed, so the server has received no request.
    Unreachable,
    /// The client sent the call at least partly, but received no complete answer. The call may have
    /// had an effect, so a repetition must use the same key.
    Unanswered,
    /// The server refused the call. The value is the HTTP status of the answer.
    Refused(u16),
    /// The client cannot parse the answer.
    Garbled,
}

/// A failed call.
#[derive(Debug, Clone)]
pub struct Problem {
    /// The stage at which the call failed.
    pub fault: Fault,
    /// The server's error code, or one of `UNREACHABLE`, `UNANSWERED`, `GARBLED`.
    pub code: String,
    /// Description of the problem in one sentence.
    pub detail: String,
    /// Suggested next step, if known.
    pub next: Option<String>,
    /// Seconds to wait before a retry, if the server named a time.
    pub retry_after_s: Option<u64>,
    /// Problem details as sent by the server, with fields that depend on the error code
    /// (`required_headroom`, `_rev`, …).
    pub fields: Map<String, Value>,
}

impl Problem {
    /// Returns the problem of a call that failed with [`Fault::Unreachable`].
    pub fn unreachable(detail: String) -> Problem {
        let next = "is the server running? start it with: vctx serve";
        Problem::plain(Fault::Unreachable, "UNREACHABLE", detail, Some(next))
    }

    /// Returns the problem of a call that failed with [`Fault::Unanswered`].
    pub(crate) fn unanswered(detail: String) -> Problem {
        let next = "the call may have had its effect: repeat it with the same idempotency key";
        Problem::plain(Fault::Unanswered, "UNANSWERED", detail, Some(next))
    }

    /// Returns the problem of a call that failed with [`Fault::Garbled`].
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

    /// Reads problem details (RFC 9457). If the answer has none, the HTTP status becomes the error
    /// code.
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

    /// Whether the same call with the same key can succeed later, because the call itself is valid.
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

    /// Returns the HTTP status of the refusal, if the server refused the call.
    pub fn status(&self) -> Option<u16> {
        match self.fault {
            Fault::Refused(status) => Some(status),
            Fault::Unreachable | Fault::Unanswered | Fault::Garbled => None,
        }
    }
}

/// Returns the suggested next step for a person at a command line, by error code.
fn next_step(code: &str) -> Option<&'static str> {
    Some(match code {
        "AGENT_NOT_FOUND" => {
            "create the agent with: vctx agent create NAME, or list the agents with: vctx agent list"
        }
        "CHANGE_UNKNOWN" => {
            "read the memory with: vctx state NAME, and follow its changes without --after"
        }
        "PROMPT_NOT_FOUND" => "list the prompts with: vctx replay NAME",
        "SCHEDULE_NOT_FOUND" => "list the schedules with: vctx agent schedule list NAME",
        "MODEL_UNAVAILABLE" => {
            "name a model for the server (docs/how-to/models.md), or try again later"
        }
        "TOOL_NOT_FOUND" => "list the tools with: vctx tools",
        "BLOCK_NOT_FOUND" => "list the blocks with: vctx state NAME",
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
        "CONFLICT" | "OVERLOADED" | "TIMEOUT" => "repeat the call with the same key in a moment",
        "STORE_UNAVAILABLE" | "NOT_READY" => {
            "the server reconnects by itself: repeat the call, or look at the server's log"
        }
        "DISK_FULL" => "make room on the server's disk, and repeat the call",
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
