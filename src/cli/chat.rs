//! `vctx chat`: a conversation with an agent at a terminal, which shows the agent's window after
//! each answer.

use std::io::{self, BufRead as _, IsTerminal as _};

use clap::Args;
use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;
use serde_json::Value;

use super::agent_run::{RunOptions, follow};
use crate::agent::AGENT_WINDOW_TOKENS;
use crate::exit::{Exit, Failure};
use crate::output;
use crate::search;
use crate::target::Target;
use crate::whose::Whose;
use vctx_base::ids::{Ids as _, SystemIds};
use vctx_client::{Client, NewAgent};
use vctx_core::text::nearest;

const EXAMPLES: &str = "\
Examples:
  vctx chat ada
  vctx chat ada --tools store_core,search_recall
  vctx chat ada --tools all
  printf 'My name is Ada.\\nWhat is my name?\\n' | vctx chat ada

Each line of the input is a message; an agent that does not exist is created. At a terminal, lines can be edited, the arrow keys
bring back what was said before, Ctrl-C ends an answer and keeps what came of it, and Ctrl-D ends the chat. /help lists the commands.";

const HELP: &str = "\
/window          what the model sees
/search WORDS    messages and documents, without asking the model
/help            this list
/quit            end the chat, as Ctrl-D does
//TEXT           the message /TEXT";

/// The commands of a chat, for suggestions.
const COMMANDS: [&str; 5] = ["/window", "/search", "/help", "/quit", "/exit"];
/// Number of messages of the user that the arrow keys bring back at first.
const HISTORY_MESSAGES: u64 = 100;

/// Talk with an agent, and see its window after each answer
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Chat {
    #[command(flatten)]
    whose: Whose,

    #[command(flatten)]
    how: RunOptions,

    #[command(flatten)]
    pub target: Target,
}

/// Length of the bar that shows the window, in characters.
const CELLS: usize = 60;

/// What a line of the input asks for.
#[derive(Debug, PartialEq, Eq)]
enum Line<'a> {
    Nothing,
    Quit,
    Help,
    Window,
    Search(&'a str),
    Unknown(&'a str),
    Say(&'a str),
}

impl<'a> Line<'a> {
    fn of(line: &'a str) -> Self {
        let line = line.trim();
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        match word {
            "" => Self::Nothing,
            "/quit" | "/exit" => Self::Quit,
            "/help" => Self::Help,
            "/window" => Self::Window,
            "/search" => Self::Search(rest.trim()),
            _ if word.starts_with("//") => Self::Say(&line[1..]),
            _ if word.starts_with('/') => Self::Unknown(word),
            _ => Self::Say(line),
        }
    }
}

/// Runs `vctx chat`.
pub async fn run(chat: Chat) -> Result<(), Failure> {
    let (client, agent) = (chat.target.client(), chat.whose.agent()?);
    let state = match client.state(&agent).await {
        Err(problem) if problem.code == "AGENT_NOT_FOUND" => {
            let made =
                client.create_agent(&agent, &NewAgent::with_window(AGENT_WINDOW_TOKENS)).await?;
            output::line(&format!(
                "the new agent {agent} has a window of {AGENT_WINDOW_TOKENS} tokens"
            ))?;
            made
        }
        state => state?,
    };
    output::line(&picture(&state))?;
    let mut input = Input::open(&client, &agent, &state).await?;
    while let Some(line) = input.line()? {
        if Line::of(&line) == Line::Quit {
            return Ok(());
        }
        match answer(&chat, &client, &agent, &line).await {
            // At a terminal the user sees the failure and can go on; a script must notice it.
            Err(failure) if input.is_terminal() => failure.tell(chat.target.json),
            answered => answered?,
        }
    }
    Ok(())
}

async fn answer(chat: &Chat, client: &Client, agent: &str, line: &str) -> Result<(), Failure> {
    match Line::of(line) {
        Line::Nothing | Line::Quit => Ok(()),
        Line::Help => output::line(HELP),
        Line::Window => {
            let context = client.context(agent).await?;
            output::line(&super::context::rendered(&context))
        }
        Line::Search("") => Err(Failure::usage("/search: give the words to search for")),
        Line::Search(words) => output::line(&search::listed(client, agent, words).await?),
        Line::Unknown(word) => {
            let near = nearest(word, COMMANDS);
            let failure = Failure::usage(format!("{word} is no command of the chat"));
            Err(failure.next(match near {
                Some(near) => format!("did you mean {near}? /{word} says {word} to the model"),
                None => format!("/help lists the commands; /{word} says {word} to the model"),
            }))
        }
        Line::Say(text) => say(chat, client, agent, text).await,
    }
}

/// Sends a message, and prints the answer until it ends or the user presses Ctrl-C.
async fn say(chat: &Chat, client: &Client, agent: &str, text: &str) -> Result<(), Failure> {
    let (body, key) = (chat.how.body(Some(text)), SystemIds.key());
    tokio::select! {
        // Dropping the run closes its connection, so that the server ends it.
        ended = tokio::signal::ctrl_c() => {
            ended.map_err(|error| Failure::internal(format!("no signals: {error}")))?;
            output::line("\n── ended; the memory keeps what was told")?;
        }
        followed = follow(&chat.target, client, agent, &body, &key) => followed?,
    }
    match chat.target.json {
        true => Ok(()),
        false => output::line(&picture(&client.state(agent).await?)),
    }
}

/// Where the lines of a chat come from.
enum Input {
    Terminal(Box<DefaultEditor>),
    Pipe,
}

impl Input {
    /// Opens the input. At a terminal, the history begins with what the user said before, so that
    /// nothing of a conversation lies in a file of the chat.
    async fn open(client: &Client, agent: &str, state: &Value) -> Result<Self, Failure> {
        if !io::stdin().is_terminal() {
            return Ok(Self::Pipe);
        }
        let broken = |error: ReadlineError| Failure::internal(format!("no terminal: {error}"));
        let mut editor = DefaultEditor::new().map_err(broken)?;
        let next = output::number(state, "/queue/next_seq");
        let from = next.saturating_sub(HISTORY_MESSAGES).max(1);
        let (messages, _) = client.messages(agent, from, HISTORY_MESSAGES).await?;
        for message in messages.iter().filter(|message| message["role"] == "user") {
            let text = message["content"].as_str().unwrap_or_default();
            if !text.is_empty() && !text.contains('\n') {
                editor.add_history_entry(text).map_err(broken)?;
            }
        }
        Ok(Self::Terminal(Box::new(editor)))
    }

    fn is_terminal(&self) -> bool {
        matches!(self, Self::Terminal(_))
    }

    /// Returns the next line; `None` at the end of the input. Waiting for a line may block this
    /// thread, because no other task runs while the user types.
    fn line(&mut self) -> Result<Option<String>, Failure> {
        let Self::Terminal(editor) = self else {
            let mut line = String::new();
            let read = io::stdin().lock().read_line(&mut line);
            let length = read.map_err(|error| Failure::reading("stdin", &error))?;
            return Ok((length > 0).then_some(line));
        };
        loop {
            match editor.readline("\n> ") {
                Ok(line) => {
                    editor.add_history_entry(&line).map_err(|error| {
                        Failure::internal(format!("the history takes no line: {error}"))
                    })?;
                    return Ok(Some(line));
                }
                Err(ReadlineError::Interrupted) => output::line("Ctrl-D or /quit ends the chat")?,
                Err(ReadlineError::Eof) => return Ok(None),
                Err(error) => {
                    let text = format!("cannot read the terminal: {error}");
                    return Err(Failure::new(Exit::NoInput, "NO_INPUT", text));
                }
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_command_or_a_message() {
        for (line, meant) in [
            ("  \n", Line::Nothing),
            ("/quit\n", Line::Quit),
            ("/search  pier 4 ", Line::Search("pier 4")),
            ("/search", Line::Search("")),
            ("/windows", Line::Unknown("/windows")),
            ("//etc/hosts is a file", Line::Say("/etc/hosts is a file")),
            ("Is 1/2 a half?", Line::Say("Is 1/2 a half?")),
        ] {
            assert_eq!(Line::of(line), meant, "{line}");
        }
    }
}
