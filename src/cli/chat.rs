//! `vctx chat`: a conversation with an agent at a terminal, with its window after each answer.

use std::io::{self, BufRead as _, IsTerminal as _};

use clap::Args;
use serde_json::Value;

use super::agent_run::{How, Told, summed_up};
use crate::exit::Failure;
use crate::output;
use crate::target::Target;
use vctx_base::ids::{Ids as _, SystemIds};
use vctx_client::Client;

const EXAMPLES: &str = "\
Examples:
  vctx chat ada
  vctx chat ada --tools store_core,search_recall
  vctx chat ada --tools all
  printf 'My name is Ada.\\nWhat is my name?\\n' | vctx chat ada

A line is a message; /window shows what the model sees, /quit (or the end of the input) leaves.";

/// Talk with an agent; its window is shown after each answer
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Chat {
    /// The agent
    name: String,

    #[command(flatten)]
    how: How,

    #[command(flatten)]
    pub target: Target,
}

/// Cells of the picture.
const CELLS: usize = 60;

/// Runs the command.
pub async fn run(chat: Chat) -> Result<(), Failure> {
    let client = chat.target.client();
    // Says at once if there is no such agent.
    output::line(&picture(&client.state(&chat.name).await?))?;
    let at_terminal = io::stdin().is_terminal();
    loop {
        if at_terminal {
            output::piece("\n> ")?;
        }
        // Nothing else happens while a person thinks.
        let mut line = String::new();
        let read = io::stdin().lock().read_line(&mut line);
        if read.map_err(|e| Failure::reading("stdin", &e))? == 0 {
            return Ok(());
        }
        match line.trim() {
            "" => {}
            "/quit" | "/exit" => return Ok(()),
            "/window" => {
                let context = client.context(&chat.name).await?;
                output::line(&super::context::rendered(&context))?;
            }
            text => say(&chat, &client, text).await?,
        }
    }
}

async fn say(chat: &Chat, client: &Client, text: &str) -> Result<(), Failure> {
    let (mut told, mut fault) = (Told::default(), None);
    let as_json = chat.target.json;
    let mut on_event = |event: &Value| {
        let shown = if as_json { output::line(&event.to_string()) } else { told.tell(event) };
        if let Err(failure) = shown {
            fault.get_or_insert(failure);
        }
    };
    let body = chat.how.body(Some(text));
    let end = client.run(&chat.name, &body, &SystemIds.key(), &mut on_event).await?;
    if let Some(failure) = fault {
        return Err(failure);
    }
    if as_json {
        return output::value(&serde_json::json!({"type": "end", "end": end}));
    }
    told.rest(&end)?;
    output::line(&summed_up(&end))?;
    output::line(&picture(&client.state(&chat.name).await?))
}

/// The window as one bar and its sections as numbers.
fn picture(told: &Value) -> String {
    let window = output::number(told, "/token_budget/max");
    let occupancy = output::number(told, "/tokens/occupancy");
    let sections = output::SECTIONS.iter().filter_map(|section| {
        let tokens = output::number(told, &format!("/tokens/{section}"));
        (tokens > 0).then(|| format!("{section} {tokens}"))
    });
    let sections: Vec<String> = sections.collect();
    format!(
        "[{}] {occupancy} of {window} · {}",
        output::bar(occupancy, window, CELLS),
        sections.join(" · "),
    )
}
