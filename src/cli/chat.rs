//! `vctx chat`: a conversation with an agent at a terminal, which shows the agent's window after
//! each answer.

use std::io::{self, BufRead as _, IsTerminal as _};

use clap::Args;
use serde_json::Value;

use super::agent_run::{RunOptions, follow};
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

Each line of the input is a message. /window shows what the model sees; /quit or the end of the input ends the chat.";

/// Talk with an agent, and see its window after each answer
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Chat {
    /// The agent
    name: String,

    #[command(flatten)]
    how: RunOptions,

    #[command(flatten)]
    pub target: Target,
}

/// Length of the bar that shows the window, in characters.
const CELLS: usize = 60;

/// Runs `vctx chat`.
pub async fn run(chat: Chat) -> Result<(), Failure> {
    let client = chat.target.client();
    // If the agent does not exist, this request fails, and the command ends before the first
    // message.
    output::line(&picture(&client.state(&chat.name).await?))?;
    let at_terminal = io::stdin().is_terminal();
    loop {
        if at_terminal {
            output::piece("\n> ")?;
        }
        // Reading stdin may block this thread, because no other task runs while the user types.
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
    let body = chat.how.body(Some(text));
    follow(&chat.target, client, &chat.name, &body, &SystemIds.key()).await?;
    match chat.target.json {
        true => Ok(()),
        false => output::line(&picture(&client.state(&chat.name).await?)),
    }
}

/// Draws the window as one bar, and lists the tokens of its sections.
fn picture(told: &Value) -> String {
    let window = output::number(told, "/token_budget/max");
    let occupancy = output::number(told, "/tokens/occupancy");
    let sections = output::sections().filter_map(|section| {
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
