//! Measures the time of a run that is not spent in the model. The scripted model makes no, one or
//! many tool calls.

use std::fmt::Write as _;
use std::fs;
use std::process::Command;
use std::time::Instant;

use serde_json::{Value, json};

use crate::Fault;
use crate::agent::Agent;
use crate::calls::append_body;
use crate::child::{Process, answers};
use crate::client::Client;
use crate::echo;
use crate::load::{Measured, Operation};
use crate::options::Options;
use crate::session::{Session, program};

/// Number of rounds; each round makes every measurement once.
const ROUNDS: u32 = 3;
/// Number of tool calls in the case with many calls.
const MANY: usize = 16;
/// Number of runs after which a new agent is used, because each run adds messages to the agent's
/// window and thus to the requests to the model.
const RUNS_PER_AGENT: usize = 16;
/// Size of the agents' windows in tokens, so large that no message is evicted.
const WINDOW: u64 = 131_072;

/// A kind of measured request or run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TurnTarget {
    Echo,
    /// A request that the benchmark sends directly to the model. It is about as large as the
    /// requests of a run.
    Model,
    /// A run in which the model makes the given number of tool calls.
    Run {
        tool: &'static str,
        calls: usize,
    },
}

const CASES: [TurnTarget; 7] = [
    TurnTarget::Echo,
    TurnTarget::Model,
    TurnTarget::Run { tool: "", calls: 0 },
    TurnTarget::Run { tool: "fetch_core", calls: 1 },
    TurnTarget::Run { tool: "fetch_core", calls: MANY },
    TurnTarget::Run { tool: "store_core", calls: 1 },
    TurnTarget::Run { tool: "store_core", calls: MANY },
];

impl TurnTarget {
    fn title(self) -> String {
        match self {
            Self::Echo => "echo: hyper, JSON parsed and written".to_owned(),
            Self::Model => "the model alone".to_owned(),
            Self::Run { calls: 0, .. } => "a run without a call".to_owned(),
            Self::Run { tool, calls } => format!("a run with {calls} × `{tool}`"),
        }
    }

    /// Returns the user's message, by which the scripted model selects its step.
    fn message(self) -> String {
        match self {
            Self::Run { tool, calls } => format!("please {tool} {calls} times."),
            Self::Echo | Self::Model => "please  0 times.".to_owned(),
        }
    }
}

/// The processes that take part in the measurement.
struct TurnProcesses {
    echo: Process,
    model: Process,
    server: Process,
}

/// Measures all cases and prints the report.
pub(crate) fn run(options: &Options) -> Result<(), Fault> {
    let session = Session::begin(&options.common)?;
    let processes = TurnProcesses::prepare(&session, options)?;
    let mut cases = CASES.map(|target| (target, Measured::new(1)));
    for round in 0..ROUNDS {
        for (target, measured) in &mut cases {
            eprintln!("round {} of {ROUNDS}: {}", round + 1, target.title());
            let operation = processes.operation(*target, round)?;
            let outcome = measured.run(options.common.time / ROUNDS, vec![operation]);
            outcome.map_err(|fault| {
                format!("{fault}\n--- end of the server's log ---\n{}", processes.server.tail())
            })?;
        }
    }
    for process in [processes.server, processes.model, processes.echo] {
        process.stop()?;
    }
    let head = session.head("Cost of a run in addition to the model");
    let text = report(head, options.common.time.as_secs_f64(), &cases);
    session.publish(&text, &text)
}

/// Returns the scripted model's script, with one step for the user's message of each case.
fn script() -> String {
    let mut lines = String::new();
    for target in CASES {
        let TurnTarget::Run { tool, calls } = target else { continue };
        let call = |number: usize| match tool {
            "store_core" => {
                json!({"name": tool, "arguments": {"block_id": "human", "content": format!("Likes harbour number {number}.")}})
            }
            _ => json!({"name": tool, "arguments": {}}),
        };
        let calls: Vec<Value> = (0..calls).map(call).collect();
        let text = if calls.is_empty() { "Done." } else { "" };
        let step = json!({"when": target.message(), "text": text, "calls": calls, "repeat": true});
        writeln!(lines, "{step}").expect("a String takes everything");
    }
    lines
}

impl TurnProcesses {
    fn prepare(session: &Session<'_>, options: &Options) -> Result<Self, Fault> {
        let program = program(options.vctx.as_deref(), "vctx")?;
        let echo = echo::start(&session.subfolder("echo")?)?;
        let folder = session.subfolder("model")?;
        let (steps, socket) = (folder.join("steps.jsonl"), folder.join("model.sock"));
        fs::write(&steps, script())?;
        let mut command = Command::new(&program);
        command.arg("scripted-model").arg("--socket").arg(&socket).arg("--script").arg(steps);
        let chat = socket.to_string_lossy().into_owned();
        let model = Process::start(command, &folder, socket, answers("/healthz", ""))?;
        let settings = [("VCTX_CHAT__SOCKET", chat.as_str()), ("VCTX_CHAT__MODEL", "scripted")];
        let server = Process::server(&program, &session.subfolder("server")?, &settings)?;
        Ok(Self { echo, model, server })
    }

    fn operation(&self, target: TurnTarget, round: u32) -> Result<Operation, Fault> {
        match target {
            TurnTarget::Echo => echo::calls(&self.echo.socket, append_body(0)),
            TurnTarget::Model => self.model_alone(),
            TurnTarget::Run { tool, calls } => {
                self.runs(target, format!("agent-{tool}-{calls}-{round}"), calls)
            }
        }
    }

    /// Returns a function that sends a request directly to the scripted model. The request is about
    /// as long as a request of the server.
    fn model_alone(&self) -> Result<Operation, Fault> {
        let mut client = Client::connect(&self.model.socket)?;
        let said = TurnTarget::Model.message();
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

    fn runs(&self, target: TurnTarget, name: String, calls: usize) -> Result<Operation, Fault> {
        let (mut client, socket) =
            (Client::connect(&self.server.socket)?, self.server.socket.clone());
        let tools = json!(["fetch_core", "store_core"]);
        let body = json!({"input": target.message(), "tools": tools}).to_string();
        let mut number = 0;
        Ok(Box::new(move || {
            let agent = format!("{name}-{}", number / RUNS_PER_AGENT);
            if number % RUNS_PER_AGENT == 0 {
                Agent::connect(&socket, &agent)?.create(WINDOW)?;
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
            // The number of messages in the queue proves that all tool calls were made: the user's
            // message, the model's messages, and one result for each call.
            let turns = end["turns"].as_u64().unwrap_or(0);
            let each = 1 + turns + calls as u64;
            let last = if turns == 1 { 2 } else { each };
            let expected = ((number - 1) % RUNS_PER_AGENT) as u64 * each + last;
            match (answer.status, end["reason"].as_str(), end["last_seq"].as_u64()) {
                (200, Some("yield"), Some(seq)) if seq == expected => Ok(took),
                (status, ..) => Err(format!("a run answered {status}: {end}").into()),
            }
        }))
    }
}

fn report(head: String, seconds: f64, cases: &[(TurnTarget, Measured)]) -> String {
    let mut text = head;
    let mut line = |row: String| {
        text.push_str(&row);
        text.push('\n');
    };
    line(format!(
        "- {ROUNDS} rounds in turns, {seconds:.1} s for each row over all rounds; one client; the model \
         is `vctx scripted-model` on a socket of its own, which answers immediately; every write is \
         durable, on the embedded engine in the server's process; after {RUNS_PER_AGENT} runs a new \
         agent begins with an empty queue"
    ));
    line("\n| What | p50 µs | p99 µs | calls |\n|---|---|---|---|".to_owned());
    for (target, measured) in cases {
        let (p50, p99) = (measured.micros(0.5), measured.micros(0.99));
        line(format!("| {} | {p50:.0} | {p99:.0} | {} |", target.title(), measured.calls()));
    }
    let p50 = |target: TurnTarget| {
        let found = cases.iter().find(|(one, _)| *one == target);
        found.map_or(f64::NAN, |(_, measured)| measured.micros(0.5))
    };
    let (floor, none) = (p50(TurnTarget::Echo), p50(TurnTarget::Run { tool: "", calls: 0 }));
    line("\n| Besides the model | p50 µs | echoes |\n|---|---|---|".to_owned());
    let turn = none - p50(TurnTarget::Model);
    line(format!(
        "| a turn: a run without a call, less the model | {turn:.0} | {:.1} |",
        turn / floor
    ));
    for tool in ["fetch_core", "store_core"] {
        let (one, many) =
            (p50(TurnTarget::Run { tool, calls: 1 }), p50(TurnTarget::Run { tool, calls: MANY }));
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
    fn each_case_has_its_own_step() {
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
