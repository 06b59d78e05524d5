//! What a run costs beside the model: the same run with no call, one and many, in turns with the floors, on a scripted model.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use serde_json::{Value, json};

use crate::Fault;
use crate::arguments::Options;
use crate::bench::program;
use crate::child::Process;
use crate::client::Client;
use crate::load::{Measured, Operation};
use crate::machine;
use crate::tools::echo;

/// Rounds over all measures.
const ROUNDS: u32 = 3;
/// Tool calls in the answer that has many.
const MANY: usize = 16;
/// Runs of one agent: its window grows by them, and with it what the model is sent.
const RUNS_PER_AGENT: usize = 16;
/// Window of the agents, in tokens: nothing is evicted.
const WINDOW: u64 = 131_072;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Echo,
    /// The model asked without vctx between, with a request as a run makes it.
    Model,
    /// A run whose answer has so many calls of a tool.
    Run {
        tool: &'static str,
        calls: usize,
    },
}

const CASES: [What; 7] = [
    What::Echo,
    What::Model,
    What::Run { tool: "", calls: 0 },
    What::Run { tool: "fetch_core", calls: 1 },
    What::Run { tool: "fetch_core", calls: MANY },
    What::Run { tool: "store_core", calls: 1 },
    What::Run { tool: "store_core", calls: MANY },
];

impl What {
    fn title(self) -> String {
        match self {
            Self::Echo => "echo: hyper, JSON parsed and written".to_owned(),
            Self::Model => "the model alone".to_owned(),
            Self::Run { calls: 0, .. } => "a run without a call".to_owned(),
            Self::Run { tool, calls } => format!("a run with {calls} × `{tool}`"),
        }
    }

    /// What the user says, by which the script knows its step.
    fn said(self) -> String {
        match self {
            Self::Run { tool, calls } => format!("please {tool} {calls} times."),
            Self::Echo | Self::Model => "please  0 times.".to_owned(),
        }
    }
}

/// Everything that is loaded.
struct Stage {
    echo: Process,
    model: Process,
    server: Process,
}

/// Measures and reports.
pub(crate) fn run(options: &Options) -> Result<(), Fault> {
    let folder = match &options.dir {
        Some(dir) => tempfile::tempdir_in(dir)?,
        None => tempfile::tempdir()?,
    };
    let load_before = machine::load_average();
    let stage = Stage::prepare(folder.path(), &program(options)?)?;
    let mut cases: Vec<(What, Measured)> =
        CASES.iter().map(|what| (*what, Measured::new(1))).collect();
    for round in 0..ROUNDS {
        for (what, measured) in &mut cases {
            eprintln!("round {} of {ROUNDS}: {}", round + 1, what.title());
            let operation = stage.operation(*what, round)?;
            let outcome = measured.run(options.time / ROUNDS, vec![operation]);
            outcome.map_err(|fault| {
                format!("{fault}\n--- the server said last ---\n{}", stage.server.tail())
            })?;
        }
    }
    stage.server.stop()?;
    stage.model.stop()?;
    stage.echo.stop()?;
    let text = report(options, &load_before, &machine::file_system(folder.path()), &cases);
    println!("{text}");
    if let Some(out) = &options.out {
        fs::write(out, &text).map_err(|e| format!("{}: {e}", out.display()))?;
    }
    Ok(())
}

/// The steps of the model: each answers what one of the cases says; whatever else comes is answered with a word.
fn script() -> String {
    let mut lines = String::new();
    for what in CASES {
        let What::Run { tool, calls } = what else { continue };
        let call = |number: usize| match tool {
            "store_core" => {
                json!({"name": tool, "arguments": {"block_id": "human", "content": format!("Likes harbour number {number}.")}})
            }
            _ => json!({"name": tool, "arguments": {}}),
        };
        let calls: Vec<Value> = (0..calls).map(call).collect();
        let text = if calls.is_empty() { "Done." } else { "" };
        let step = json!({"when": what.said(), "text": text, "calls": calls, "repeat": true});
        writeln!(lines, "{step}").expect("a text takes all");
    }
    lines
}

impl Stage {
    fn prepare(folder: &Path, program: &Path) -> Result<Self, Fault> {
        let place = |name: &str| -> Result<PathBuf, Fault> {
            let path = folder.join(name);
            fs::create_dir(&path)?;
            Ok(path)
        };
        let (echo_folder, model_folder, server_folder) =
            (place("echo")?, place("model")?, place("server")?);
        let echo_socket = echo_folder.join("echo.sock");
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("echo").arg("--socket").arg(&echo_socket);
        let echo = Process::start(command, &echo_folder, echo_socket, |_| Ok(true))?;
        let steps = model_folder.join("steps.jsonl");
        fs::write(&steps, script())?;
        let model_socket = model_folder.join("model.sock");
        let mut command = Command::new(program);
        command.arg("scripted-model").arg("--socket").arg(&model_socket).arg("--script").arg(steps);
        let model = Process::start(command, &model_folder, model_socket.clone(), |client| {
            Ok(client.call("GET", "/healthz", "", b"")?.status == 200)
        })?;
        let socket = server_folder.join("vctx.sock");
        let mut command = Command::new(program);
        command.arg("serve").arg("--socket").arg(&socket);
        command.arg("--data-dir").arg(server_folder.join("data"));
        command.env("VCTX_CHAT__SOCKET", &model_socket).env("VCTX_CHAT__MODEL", "scripted");
        let server = Process::start(command, &server_folder, socket, |client| {
            Ok(client.call("GET", "/readyz", "", b"")?.status == 200)
        })?;
        Ok(Self { echo, model, server })
    }

    fn operation(&self, what: What, round: u32) -> Result<Operation, Fault> {
        match what {
            What::Echo => echo(&self.echo.socket, 0),
            What::Model => self.model_alone(),
            What::Run { tool, calls } => {
                self.runs(what, format!("agent-{tool}-{calls}-{round}"), calls)
            }
        }
    }

    /// Asks the model as a server does: about as many bytes, streamed.
    fn model_alone(&self) -> Result<Operation, Fault> {
        let mut client = Client::connect(&self.model.socket)?;
        let said = What::Model.said();
        let earlier = (0..RUNS_PER_AGENT).flat_map(|_| {
            [
                json!({"role": "user", "content": said}),
                json!({"role": "assistant", "content": "Done."}),
            ]
        });
        let messages: Vec<Value> =
            std::iter::once(json!({"role": "system", "content": "You are a bench."}))
                .chain(earlier)
                .chain([json!({"role": "user", "content": said})])
                .collect();
        let body = json!({"model": "scripted", "messages": messages}).to_string();
        Ok(Box::new(move || {
            let begun = Instant::now();
            let answer = client.call("POST", "/v1/chat/completions", "", body.as_bytes())?;
            let took = begun.elapsed();
            match answer.status {
                200 => Ok(took),
                status => Err(format!("the model answered {status}").into()),
            }
        }))
    }

    fn runs(&self, what: What, name: String, calls: usize) -> Result<Operation, Fault> {
        let mut client = Client::connect(&self.server.socket)?;
        let tools = json!(["fetch_core", "store_core"]);
        let body = json!({"input": what.said(), "tools": tools}).to_string();
        let mut number = 0;
        Ok(Box::new(move || {
            let agent = format!("{name}-{}", number / RUNS_PER_AGENT);
            if number % RUNS_PER_AGENT == 0 {
                let made =
                    json!({"context_window": WINDOW, "system": "You are a bench."}).to_string();
                let answer =
                    client.call("PUT", &format!("/v1/agents/{agent}"), "", made.as_bytes())?;
                if answer.status != 201 {
                    return Err(format!("an agent: {}", answer.status).into());
                }
            }
            number += 1;
            let headers = format!("idempotency-key: run-{number}\r\n");
            let begun = Instant::now();
            let answer = client.call(
                "POST",
                &format!("/v1/agents/{agent}/runs"),
                &headers,
                body.as_bytes(),
            )?;
            let took = begun.elapsed();
            let end: Value = serde_json::from_slice(answer.body)?;
            // What the user said, the answers and each result stand in the queue: so many calls were made. What only reads is answered by a
            // further turn.
            let turns = end["turns"].as_u64().unwrap_or(0);
            let each = 1 + turns + calls as u64;
            let last = if turns == 1 { 2 } else { each };
            let answered = ((number - 1) % RUNS_PER_AGENT) as u64 * each + last;
            match (answer.status, end["reason"].as_str(), end["last_seq"].as_u64()) {
                (200, Some("yield"), Some(seq)) if seq == answered => Ok(took),
                (status, ..) => Err(format!("a run answered {status}: {end}").into()),
            }
        }))
    }
}

fn report(options: &Options, load_before: &str, disk: &str, cases: &[(What, Measured)]) -> String {
    let mut text = String::from("# What a run costs beside the model\n\n");
    let mut line = |row: String| {
        text.push_str(&row);
        text.push('\n');
    };
    line(format!("- Machine: {}; {}", machine::hardware(), machine::kernel()));
    let commit = options.commit.clone().unwrap_or_else(machine::commit);
    line(format!("- Data on {disk}; commit {commit}; scheduling: {}", machine::scheduling()));
    line(format!("- Load average: {load_before} before, {} after", machine::load_average()));
    if machine::busy(load_before) {
        line("- **The machine was busy before this began**".to_owned());
    }
    line(format!(
        "- {ROUNDS} rounds in turns, {:.1} s each over all rounds; one client; the model is `vctx scripted-model` on a socket of its own, which answers at once; every write is durable, on \
         the embedded engine in the server's process; an agent makes {RUNS_PER_AGENT} runs, then the next one begins with an empty queue",
        options.time.as_secs_f64()
    ));
    line("\n| What | p50 µs | p99 µs | calls |\n|---|---|---|---|".to_owned());
    for (what, measured) in cases {
        let (p50, p99) = (measured.micros(0.5), measured.micros(0.99));
        line(format!("| {} | {p50:.0} | {p99:.0} | {} |", what.title(), measured.calls()));
    }
    let p50 = |what: What| {
        let found = cases.iter().find(|(one, _)| *one == what);
        found.map_or(f64::NAN, |(_, measured)| measured.micros(0.5))
    };
    let (floor, none) = (p50(What::Echo), p50(What::Run { tool: "", calls: 0 }));
    line("\n| Beside the model | p50 µs | echoes |\n|---|---|---|".to_owned());
    let turn = none - p50(What::Model);
    line(format!(
        "| a turn: all that a run without a call does but the model | {turn:.0} | {:.1} |",
        turn / floor
    ));
    for tool in ["fetch_core", "store_core"] {
        let (one, many) = (p50(What::Run { tool, calls: 1 }), p50(What::Run { tool, calls: MANY }));
        let each = (many - one) / (MANY - 1) as f64;
        line(format!(
            "| each further `{tool}`, its result in the queue | {each:.0} | {:.1} |",
            each / floor
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_case_has_a_step_that_no_other_says() {
        let steps: Vec<Value> =
            script().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(steps.len(), CASES.len() - 2);
        for step in &steps {
            let said = step["when"].as_str().unwrap();
            let fitting =
                steps.iter().filter(|other| said.contains(other["when"].as_str().unwrap()));
            assert_eq!(fitting.count(), 1, "{said}");
        }
        assert_eq!(steps[2]["calls"].as_array().unwrap().len(), MANY);
    }
}
