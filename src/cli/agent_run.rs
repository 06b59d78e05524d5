//! `vctx agent run`: runs an agent once with the configured model, and prints the events of the run
//! as they happen.

use clap::Args;
use serde_json::{Value, json};

use crate::args;
use crate::exit::Failure;
use crate::output;
use crate::target::Target;
use crate::whose::Whose;
use vctx_base::ids::{Ids as _, SystemIds};
use vctx_client::Client;

/// Arguments of `vctx agent run`.
#[derive(Debug, Args)]
pub struct RunArguments {
    #[command(flatten)]
    whose: Whose,

    /// Message of the user: a text, @FILE, or - for stdin [default: run on the events in the queue]
    #[arg(long, short, value_name = "TEXT")]
    pub message: Option<String>,

    #[command(flatten)]
    pub how: RunOptions,

    /// Key of the run; the same key continues an interrupted run [default: a new key]
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,

    #[command(flatten)]
    pub target: Target,
}

/// Options of a run that several commands share.
#[derive(Debug, Clone, Args)]
pub struct RunOptions {
    /// When the run makes its next inference: only after a heartbeat request of the model (asked),
    /// or after every call to a memory tool until the model answers with text (always)
    #[arg(long, value_name = "WHO", default_value = "always", value_parser = ["asked", "always"])]
    pub beat: String,

    /// Names of the tools that the model sees, or `all` [default: the tools of the configuration,
    /// or five tools for a chat]
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub tools: Option<Vec<String>>,
}

impl RunOptions {
    /// Returns the request body of a run with the given input.
    pub fn body(&self, input: Option<&str>) -> Value {
        let mut body = json!({"beat": self.beat});
        if let Some(text) = input {
            body["input"] = text.into();
        }
        if let Some(tools) = &self.tools {
            body["tools"] = json!(tools);
        }
        body
    }
}

/// Runs `vctx agent run`.
pub async fn run(asked: RunArguments) -> Result<(), Failure> {
    let agent = asked.whose.agent()?;
    let text = asked.message.as_deref().map(args::text).transpose()?;
    let key = asked.key.unwrap_or_else(|| SystemIds.key());
    let body = asked.how.body(text.as_deref());
    follow(&asked.target, &asked.target.client(), &agent, &body, &key).await
}

/// Starts a run, and prints the run's events and the end of the run.
pub async fn follow(
    target: &Target,
    client: &Client,
    agent: &str,
    body: &Value,
    key: &str,
) -> Result<(), Failure> {
    let (mut printer, mut fault) = (RunPrinter::default(), None);
    let mut on_event = |event: &Value| {
        let shown =
            if target.json { output::line(&event.to_string()) } else { printer.tell(event) };
        if let Err(failure) = shown {
            fault.get_or_insert(failure);
        }
    };
    let end = client.run(agent, body, key, &mut on_event).await?;
    if let Some(failure) = fault {
        return Err(failure);
    }
    if target.json {
        return output::value(&json!({"type": "end", "end": end}));
    }
    printer.rest(&end)?;
    for warning in output::list(&end, "/warnings").iter().filter_map(Value::as_str) {
        output::line(&format!("warning: {}", output::printable(warning)))?;
    }
    output::line(&summary(&end))
}

/// Prints a run's events, and records whether text was printed.
#[derive(Debug, Default)]
struct RunPrinter {
    /// Whether the current output line contains text.
    in_text: bool,
    /// Whether any text of the run was printed.
    any_text: bool,
}

impl RunPrinter {
    /// Prints an event of a run: pieces of text as they arrive, and every other event on a separate
    /// line.
    fn tell(&mut self, event: &Value) -> Result<(), Failure> {
        let text = |name: &str| output::cell(event[name].as_str().unwrap_or_default(), 64);
        match event["type"].as_str().unwrap_or_default() {
            "text" => {
                (self.in_text, self.any_text) = (true, true);
                output::piece(&output::printable(event["text"].as_str().unwrap_or_default()))
            }
            "called" => {
                let arguments = output::cell(event["arguments"].as_str().unwrap_or_default(), 100);
                self.line(&format!("· {} {arguments}", text("name")))
            }
            "returned" if event["ok"] == false => self.line(&format!("  failed {}", text("error"))),
            "waiting" => self.line(&format!("· waiting {} ms: {}", event["ms"], text("why"))),
            _ => self.end_text(),
        }
    }

    /// Ends the current output line, if the line contains text.
    fn end_text(&mut self) -> Result<(), Failure> {
        if std::mem::take(&mut self.in_text) { output::line("") } else { Ok(()) }
    }

    fn line(&mut self, text: &str) -> Result<(), Failure> {
        self.end_text()?;
        output::line(text)
    }

    /// Prints the text of a run if no event contained any text. This happens if the run ended
    /// before the stream of events was opened.
    fn rest(&mut self, end: &Value) -> Result<(), Failure> {
        self.end_text()?;
        match end["text"].as_str() {
            Some(text) if !self.any_text && !text.is_empty() => {
                output::line(&output::printable(text))
            }
            _ => Ok(()),
        }
    }
}

/// Returns one line that says how a run ended.
fn summary(end: &Value) -> String {
    let calls = end["client_calls"].as_array().map_or(0, Vec::len);
    let fault = end["fault"].as_str().map(|fault| format!(" ({fault})")).unwrap_or_default();
    let calls = if calls > 0 { format!(", {calls} calls for you") } else { String::new() };
    format!(
        "── {}{fault} · {} turns · {} + {} tokens{calls}",
        output::field(end, "/reason"),
        output::number(end, "/turns"),
        output::number(end, "/usage/prompt"),
        output::number(end, "/usage/completion"),
    )
}
