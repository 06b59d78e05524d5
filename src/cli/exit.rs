//! Exit codes of sysexits(3), and the error type of commands, which suggests a next step.

use std::fmt;
use std::io;

use serde_json::{Map, Value, json};

use vctx_client::{Fault, Problem};

/// Exit codes, as in sysexits(3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// The command line or an argument is wrong.
    Usage = 64,
    /// The data are wrong, or a verification failed.
    Data = 65,
    /// An input file is missing.
    NoInput = 66,
    /// What the command names does not exist: an agent, a block, a document, a prompt.
    NotFound = 67,
    /// The server or database does not answer.
    Unavailable = 69,
    /// A fault of this program.
    Internal = 70,
    /// An output file or directory cannot be created.
    CannotCreate = 73,
    /// The failure is temporary; the same command may succeed later.
    TryAgain = 75,
    /// The memory does not allow this in its present state: a revision, a name or the window.
    Refused = 76,
    /// The caller is not allowed to do this.
    Permission = 77,
    /// The configuration is wrong.
    Configuration = 78,
}

/// The reason why a command failed.
#[derive(Debug)]
pub struct Failure {
    pub exit: Exit,
    /// Error code in upper case, for programs.
    pub code: String,
    /// Description of the fault, for the user.
    pub message: String,
    /// Suggested next step.
    pub next: Option<String>,
    /// Further fields of the server's problem details, if any, such as `required_headroom`, `_rev`
    /// or `changed`.
    pub problem: Map<String, Value>,
}

impl Failure {
    /// Returns a failure without a suggested next step.
    pub fn new(exit: Exit, code: &str, message: impl Into<String>) -> Failure {
        Failure {
            exit,
            code: code.into(),
            message: message.into(),
            next: None,
            problem: Map::new(),
        }
    }

    /// Returns a failure because the command line is wrong.
    pub fn usage(message: impl Into<String>) -> Failure {
        Failure::new(Exit::Usage, "USAGE", message)
    }

    /// Returns a failure because the data are wrong or a verification failed.
    pub fn data(message: impl Into<String>) -> Failure {
        Failure::new(Exit::Data, "DATA", message)
    }

    /// Returns a failure because of a fault of this program.
    pub fn internal(message: impl Into<String>) -> Failure {
        Failure::new(Exit::Internal, "INTERNAL", message)
    }

    /// Returns a failure because an input could not be read.
    pub fn reading(what: impl fmt::Display, error: &io::Error) -> Failure {
        Failure::new(
            of_io(error, Exit::NoInput),
            "NO_INPUT",
            format!("cannot read {what}: {error}"),
        )
    }

    /// Returns a failure because an output could not be written.
    pub fn writing(what: impl fmt::Display, error: &io::Error) -> Failure {
        // A temporary file beside the output has a name that says nothing to the user.
        let why = match error.kind() {
            io::ErrorKind::NotFound => "its directory does not exist".to_owned(),
            _ => error.to_string(),
        };
        let exit = of_io(error, Exit::CannotCreate);
        Failure::new(exit, "CANNOT_CREATE", format!("cannot write {what}: {why}"))
    }

    /// Returns a failure for a problem that the client reports. If the problem is temporary, the
    /// suggested step names the key with which the user can repeat the call.
    pub fn repeatable(problem: Problem, what: &str, key: &str) -> Failure {
        let passing = problem.is_passing();
        let failure = Failure::from(problem);
        match passing {
            true => failure.next(format!("repeat the {what} with --key {key}")),
            false => failure,
        }
    }

    /// Adds the suggested next step to a failure.
    pub fn next(mut self, step: impl Into<String>) -> Failure {
        self.next = Some(step.into());
        self
    }

    /// Prints the failure on stderr: two lines for people, or one JSON object for programs.
    pub fn tell(&self, as_json: bool) {
        if as_json {
            let mut told = json!({"error": self.message, "code": self.code, "next": self.next, "exit": self.exit as u8});
            if !self.problem.is_empty() {
                told["problem"] = Value::Object(self.problem.clone());
            }
            eprintln!("{told}");
            return;
        }
        eprintln!("vctx: {}: {}", self.code, self.message);
        if let Some(next) = &self.next {
            eprintln!("  next: {next}");
        }
    }
}

fn of_io(error: &io::Error, otherwise: Exit) -> Exit {
    match error.kind() {
        io::ErrorKind::PermissionDenied => Exit::Permission,
        _ => otherwise,
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Failure {
        let exit = match problem.fault {
            Fault::Unreachable => Exit::Unavailable,
            Fault::Unanswered => Exit::TryAgain,
            Fault::Garbled => Exit::Internal,
            Fault::Refused(401 | 403) => Exit::Permission,
            Fault::Refused(_) if problem.is_passing() => Exit::TryAgain,
            Fault::Refused(_) if problem.code == "LEDGER_CONTRADICTED" => Exit::Data,
            Fault::Refused(500..) => Exit::Internal,
            Fault::Refused(404 | 410) => Exit::NotFound,
            Fault::Refused(409 | 412 | 422) => Exit::Refused,
            Fault::Refused(_) => Exit::Usage,
        };
        Failure {
            exit,
            code: problem.code,
            message: problem.detail,
            next: problem.next,
            problem: problem.fields,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_answer_has_its_exit_code() {
        for (status, code, exit) in [
            (400, "INVALID_ARGUMENT", 64),
            (404, "AGENT_NOT_FOUND", 67),
            (410, "AGENT_FORGOTTEN", 67),
            (409, "IDEMPOTENCY_KEY_REUSED", 76),
            (409, "LEDGER_CONTRADICTED", 65),
            (413, "BODY_TOO_LARGE", 64),
            (422, "TOKEN_BUDGET_EXCEEDED", 76),
            (428, "PRECONDITION_REQUIRED", 64),
            (409, "CONFLICT", 75),
            (409, "AGENT_MOVING", 75),
            (409, "MOVE_BUSY", 75),
            (403, "FORBIDDEN", 77),
            (412, "REVISION_STALE", 76),
            (500, "INTERNAL", 70),
            (503, "STORE_UNAVAILABLE", 75),
            (504, "TIMEOUT", 75),
        ] {
            let problem = Problem::refused(status, &json!({"error": code}), None);
            assert_eq!(Failure::from(problem).exit as u8, exit, "{status} {code}");
        }
        assert_eq!(Failure::from(Problem::refused(418, &Value::Null, None)).exit as u8, 64);
    }
}
