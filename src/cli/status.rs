//! `vctx status` and `vctx stop`: show and stop the server of a data directory.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::args;
use crate::exit::{Exit, Failure};
use crate::output;
use vctx_base::clock;
use vctx_client::serving::{Serving, serving};
use vctx_client::{Client, Problem, Settings, paths};

/// Longest wait for a server to end, in milliseconds; a server ends its running calls first.
const STOP_MS_MAX: u64 = 60_000;
/// Pause between two looks whether the server has ended, in milliseconds.
const STOP_LOOK_MS: u64 = 50;
/// Longest wait for the answer to a look at the server's state, in milliseconds.
const STATUS_MS_MAX: u64 = 5_000;

const STATUS_HELP: &str = "\
Every command finds the server of a data directory by the link server.sock in it, whatever the environment of the command.
Ends with 0 if a server is ready, and with 69 if none is.

Examples:
  vctx status                               the server of the default data directory
  vctx status --data-dir ./memory --json";

const STOP_HELP: &str = "\
The server ends its running calls, and then itself. Its memory stays. An MCP client starts a server again when it needs one.

Examples:
  vctx stop                                 the server of the default data directory
  vctx stop --data-dir ./memory";

/// Show which server serves the memory, and what it sends to models
#[derive(Debug, Args)]
#[command(after_help = STATUS_HELP)]
pub struct Status {
    /// Data directory of the server [default: $XDG_STATE_HOME/vctx]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,

    /// Answer in JSON, including errors
    #[arg(long)]
    pub json: bool,
}

/// Stop the server of a data directory
#[derive(Debug, Args)]
#[command(after_help = STOP_HELP)]
pub struct Stop {
    /// Data directory of the server [default: $XDG_STATE_HOME/vctx]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,

    /// Answer in JSON, including errors
    #[arg(long)]
    pub json: bool,
}

fn directory(given: Option<PathBuf>) -> PathBuf {
    args::absolute(given.unwrap_or_else(paths::default_data_dir))
}

fn found(directory: &Path) -> Result<Serving, Failure> {
    serving(directory).ok_or_else(|| {
        let none = format!("no server serves the memory in {}", directory.display());
        Failure::from(Problem::unreachable(none)).next("start it with: vctx serve")
    })
}

/// Runs `vctx status`.
pub async fn status(asked: Status) -> Result<(), Failure> {
    let directory = directory(asked.data_dir);
    let server = found(&directory)?;
    let deadline = Duration::from_millis(STATUS_MS_MAX);
    let settings = Settings { deadline, attempts_max: 1, ..Settings::new(&server.socket) };
    let told = json!({"data_dir": directory, "socket": server.socket, "pid": server.pid});
    let (told, outcome) = match Client::new(settings).ready().await {
        Ok(ready) => (with(told, &json!({"ready": true, "models": ready["models"]})), Ok(())),
        Err(problem) => {
            let reason = problem.detail.clone();
            let told = with(told, &json!({"ready": false, "reason": reason}));
            (told, Err(Failure { exit: Exit::Unavailable, ..Failure::from(problem) }))
        }
    };
    output::told(asked.json, &told, picture)?;
    outcome
}

/// Runs `vctx stop`.
pub async fn stop(asked: Stop) -> Result<(), Failure> {
    let directory = directory(asked.data_dir);
    let server = found(&directory)?;
    let pid = server.pid;
    let cannot = |what: &dyn std::fmt::Display| {
        let text = format!("the server with the pid {pid} cannot be stopped: {what}");
        Failure::from(Problem::unreachable(text))
    };
    let process = Pid::from_raw(pid).ok_or_else(|| cannot(&"it has no pid"))?;
    kill_process(process, Signal::TERM).map_err(|error| cannot(&error))?;
    let until: Instant = clock::now() + Duration::from_millis(STOP_MS_MAX);
    while is_running(pid) {
        if clock::now() >= until {
            return Err(cannot(&format!("it still runs after {STOP_MS_MAX} ms")));
        }
        tokio::time::sleep(Duration::from_millis(STOP_LOOK_MS)).await;
    }
    let told = json!({"data_dir": directory, "socket": server.socket, "pid": pid, "stopped": true});
    output::told(asked.json, &told, |_| format!("stopped the server with the pid {pid}"))
}

/// Returns whether a process runs. A process that has ended stays a zombie (state `Z`, proc(5))
/// until its parent asks for its end.
fn is_running(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    // The name of the program is in parentheses and may contain any character.
    stat.is_ok_and(|stat| {
        let state = stat.rsplit_once(')').map(|(_, rest)| rest.trim_start().chars().next());
        !matches!(state.flatten(), Some('Z' | 'X'))
    })
}

fn with(mut told: Value, more: &Value) -> Value {
    for (name, value) in more.as_object().into_iter().flatten() {
        told[name.as_str()] = value.clone();
    }
    told
}

fn picture(told: &Value) -> String {
    let text = |name: &str| told[name].as_str().unwrap_or_default().to_owned();
    let state = match told["ready"] == true {
        true => "ready".to_owned(),
        false => format!("not ready: {}", text("reason")),
    };
    let mut lines = vec![
        format!("server     {state} (pid {})", told["pid"]),
        format!("socket     {}", text("socket")),
        format!("data       {}", text("data_dir")),
    ];
    for one in told["models"].as_array().into_iter().flatten() {
        let text = |name: &str| one[name].as_str().unwrap_or_default();
        let place = if one["remote"] == true { "another machine" } else { "this machine" };
        lines.push(format!(
            "{:<10} {} at {} ({place}) gets {}",
            text("section"),
            text("model"),
            text("server"),
            text("receives")
        ));
    }
    lines.join("\n")
}
