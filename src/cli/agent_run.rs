//! `vctx agent run`: one run of the configured model, told as it happens.

use clap::Args;
use serde_json::{Value, json};

use crate::args;
use crate::exit::Failure;
use crate::output;
use crate::target::Target;
use vctx_base::ids::{Ids as _, SystemIds};

/// What a run is asked to do.
#[derive(Debug, Args)]
pub struct RunArguments {
    /// The agent
    pub name: String,

    /// What the user says: a text, @FILE, or - for stdin; without it the run begins with what is there
    #[arg(long, short, value_name = "TEXT")]
    pub message: Option<String>,

    #[command(flatten)]
    pub how: How,

    /// The run's key: the same one goes on with a run that was cut off [default: a fresh one]
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,

    #[command(flatten)]
    pub target: Target,
}

/// How a run goes.
#[derive(Debug, Clone, Args)]
pub struct How {
    /// Whether the model asks for its next inference by a heartbeat, or the server goes on after every memory tool until there is text
    #[arg(long, value_name = "WHO", default_value = "always", value_parser = ["asked", "always"])]
    pub beat: String,

    /// Tools that are offered, by name, or `all` [default: those of the configuration, or five for a chat]
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub tools: Option<Vec<String>>,
}

impl How {
    /// The body of a run with this input.
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

/// Runs the command.
pub async fn run(asked: RunArguments) -> Result<(), Failure> {
    let text = asked.message.as_deref().map(args::text).transpose()?;
    let key = asked.key.unwrap_or_else(|| SystemIds.key());
    let (as_json, mut fault) = (asked.target.json, None);
    let mut told = Told::default();
    let mut on_event = |event: &Value| {
        let shown = if as_json { output::line(&event.to_string()) } else { told.tell(event) };
        if let Err(failure) = shown {
            fault.get_or_insert(failure);
        }
    };
    let body = asked.how.body(text.as_deref());
    let end = asked.target.client().run(&asked.name, &body, &key, &mut on_event).await?;
    if let Some(failure) = fault {
        return Err(failure);
    }
    if as_json {
        return output::value(&json!({"type": "end", "end": end}));
    }
    told.rest(&end)?;
    output::line(&summed_up(&end))
}

/// What was shown of a run.
#[derive(Debug, Default)]
pub struct Told {
    /// Whether the cursor stands behind text.
    in_text: bool,
    /// Whether any text came.
    any_text: bool,
}

impl Told {
    /// Shows an event: text as it comes, everything else on a line of its own.
    pub fn tell(&mut self, event: &Value) -> Result<(), Failure> {
        let text = |name: &str| output::cell(event[name].as_str().unwrap_or_default(), 64);
        match event["type"].as_str().unwrap_or_default() {
            "text" => {
                (self.in_text, self.any_text) = (true, true);
                output::piece(&output::printable(event["text"].as_str().unwrap_or_default()))
            }
            "called" => self.line(&format!("· {}", text("name"))),
            "returned" if event["ok"] == false => self.line("  failed"),
            "waiting" => self.line(&format!("· waiting {} ms: {}", event["ms"], text("why"))),
            _ => self.end_text(),
        }
    }

    /// Ends the line of a text.
    fn end_text(&mut self) -> Result<(), Failure> {
        if std::mem::take(&mut self.in_text) { output::line("") } else { Ok(()) }
    }

    fn line(&mut self, text: &str) -> Result<(), Failure> {
        self.end_text()?;
        output::line(text)
    }

    /// The text of a run that was over before, whose events nobody told.
    pub fn rest(&mut self, end: &Value) -> Result<(), Failure> {
        self.end_text()?;
        match end["text"].as_str() {
            Some(text) if !self.any_text && !text.is_empty() => {
                output::line(&output::printable(text))
            }
            _ => Ok(()),
        }
    }
}

/// One line about an end.
pub fn summed_up(end: &Value) -> String {
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
