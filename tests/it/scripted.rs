//! Runs the program's scripted model as a process that records every request.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::home::{Home, Process, Tuning, command};

/// The process of a scripted model.
pub(crate) struct Scripted {
    _process: Process,
    socket: PathBuf,
    log: PathBuf,
}

impl Scripted {
    /// Starts a model that follows a built-in script, with additional arguments.
    pub(crate) async fn start(home: &Home, script: &str, arguments: &[&str]) -> Scripted {
        let (socket, log) = (home.path("model.sock"), home.path("model.jsonl"));
        let mut command = command(&Tuning::default());
        command.args(["scripted-model", "--script", script, "--socket"]).arg(&socket);
        command.arg("--log").arg(&log).args(arguments);
        let process = Process::start(home, "model", command);
        process.ready(std::slice::from_ref(&socket), None).await;
        Scripted { _process: process, socket, log }
    }

    /// Starts a model that follows the given steps.
    pub(crate) async fn steps(home: &Home, steps: &[Value]) -> Scripted {
        let file = home.path("steps.jsonl");
        let lines: Vec<String> = steps.iter().map(Value::to_string).collect();
        fs::write(&file, lines.join("\n")).expect("a script");
        Scripted::start(home, file.to_str().expect("a plain path"), &[]).await
    }

    /// Returns the environment variables of a server that uses this model.
    pub(crate) fn tuning(&self, tools: &[&str]) -> Tuning {
        let mut tuning = Tuning::variable("VCTX_CHAT__MODEL", "scripted");
        let socket = self.socket.to_str().expect("a plain path").to_owned();
        tuning.environment.push(("VCTX_CHAT__SOCKET".into(), socket));
        let list = format!("[{}]", tools.join(","));
        tuning.environment.push(("VCTX_CHAT__TOOLS".into(), list));
        tuning
    }

    /// Returns every request that the model received: `status`, `prompt_tokens`, `max_tokens` and
    /// the `request` itself.
    pub(crate) fn requests(&self) -> Vec<Value> {
        let text = fs::read_to_string(&self.log).expect("the model's log");
        // The last line of the log may be incomplete.
        let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        whole.map(|line| serde_json::from_str(line).expect("a JSON line")).collect()
    }
}
