//! `vctx quarantine`: what is tainted in a memory, and what is told of it again.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::exit::Failure;
use crate::output;
use crate::target::Target;
use vctx_base::ids::{Ids as _, SystemIds};
use vctx_client::Write;

const EXAMPLES: &str = "\
Text from tools, events, documents and other memories that looks like an order to the model is marked (docs/explanation/threat-model.md). With
[taint] mode = \"quarantine\" a search tells only its place, its rules and its length until it is released.

Examples:
  vctx quarantine list ada
  vctx quarantine show ada 17
  vctx quarantine release ada archival_docs/0f3c9a
  vctx quarantine hold ada 17";

/// Pages of the list that are read at most.
const PAGES_MAX: usize = 1_000;

/// See what is tainted in a memory, and release it
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Quarantine {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List what is tainted: place, rules, length
    List {
        agent: String,
        #[command(flatten)]
        target: Target,
    },
    /// Show one item with its text
    Show {
        agent: String,
        /// Its id as the list or a search shows it, or the seq of a message
        id: String,
        #[command(flatten)]
        target: Target,
    },
    /// Let searches tell it again
    Release {
        agent: String,
        /// Its id as the list or a search shows it, or the seq of a message
        id: String,
        #[command(flatten)]
        target: Target,
    },
    /// Hold it back again
    Hold {
        agent: String,
        /// Its id as the list or a search shows it, or the seq of a message
        id: String,
        #[command(flatten)]
        target: Target,
    },
}

impl Quarantine {
    /// The server that is meant.
    pub fn target(&self) -> &Target {
        match &self.action {
            Action::List { target, .. }
            | Action::Show { target, .. }
            | Action::Release { target, .. }
            | Action::Hold { target, .. } => target,
        }
    }
}

/// Runs the command.
pub async fn run(asked: Quarantine) -> Result<(), Failure> {
    match asked.action {
        Action::List { agent, target } => {
            let (mode, items) = all(&target, &agent).await?;
            match (target.json, items.is_empty()) {
                (true, _) => output::value(&json!({"mode": mode, "items": items})),
                (false, true) => output::line("nothing is tainted"),
                (false, false) => output::line(&format!("{}\nmode: {mode}", table(&items))),
            }
        }
        Action::Show { agent, id, target } => {
            let item = target.client().quarantined(&agent, &id).await?;
            match target.json {
                true => output::value(&item),
                false => output::line(&shown(&item)),
            }
        }
        Action::Release { agent, id, target } => change(&target, &agent, &id, false).await,
        Action::Hold { agent, id, target } => change(&target, &agent, &id, true).await,
    }
}

async fn all(target: &Target, agent: &str) -> Result<(String, Vec<Value>), Failure> {
    let (client, mut items, mut after) = (target.client(), Vec::new(), String::new());
    for _ in 0..PAGES_MAX {
        let page = client.quarantine(agent, &after).await?;
        items.extend(page["items"].as_array().into_iter().flatten().cloned());
        match page["next"].as_str() {
            Some(next) => after = next.to_owned(),
            None => return Ok((output::field(&page, "/mode"), items)),
        }
    }
    Err(Failure::data(format!("more than {PAGES_MAX} pages of tainted items")))
}

async fn change(target: &Target, agent: &str, id: &str, hold: bool) -> Result<(), Failure> {
    let write = Write { key: SystemIds.key(), revision: Some("*".into()) };
    let done = target.client().release(agent, id, hold, &write).await?;
    if target.json {
        return output::value(&done);
    }
    let state = if hold { "held back" } else { "released" };
    let already = if done["result"]["changed"] == true { "" } else { " already" };
    output::line(&format!("{} is {state}{already}", output::field(&done, "/result/id")))
}

fn rules(item: &Value) -> String {
    let rules = item["rules"].as_array().into_iter().flatten().filter_map(Value::as_str);
    rules.collect::<Vec<_>>().join(", ")
}

fn shown(item: &Value) -> String {
    let released = if item["released"] == true { "released" } else { "not released" };
    let (id, text) = (output::field(item, "/id"), output::field(item, "/text"));
    // A terminal must not be led by what is shown.
    let text: String =
        text.chars().map(|c| if c.is_control() && c != '\n' { '\u{fffd}' } else { c }).collect();
    format!("{id} ({}; {released}), {} characters\n\n{text}", rules(item), item["chars"])
}

fn table(items: &[Value]) -> String {
    let rows: Vec<Vec<String>> = items
        .iter()
        .map(|item| {
            let place = match item["seq"].as_u64() {
                Some(seq) => format!("seq {seq}"),
                None => format!(
                    "{} {}",
                    output::field(item, "/doc_id"),
                    output::field(item, "/chunk_id")
                ),
            };
            vec![
                output::cell(&place, output::CELL_CHARS_MAX),
                output::field(item, "/chars"),
                rules(item),
                if item["released"] == true { "released" } else { "" }.into(),
                output::field(item, "/id"),
            ]
        })
        .collect();
    output::table(&["place", "characters", "rules", "", "id"], &[1], &rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_tells_places_and_rules_and_no_text_leads_a_terminal() {
        let items = [
            json!({"id": "messages/m1", "seq": 3, "chars": 90, "rules": ["secrecy", "tool_call"], "released": false}),
            json!({"id": "archival_docs/c1", "doc_id": "a.txt", "chunk_id": "0001", "chars": 7, "rules": ["hidden_text"], "released": true}),
        ];
        let text = table(&items);
        for part in
            ["seq 3", "90", "secrecy, tool_call", "a.txt 0001", "released", "archival_docs/c1"]
        {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        let item = json!({"id": "messages/m1", "chars": 4, "rules": ["secrecy"], "released": false, "text": "a\u{1b}[2Jb\nc"});
        let text = shown(&item);
        assert!(
            !text.contains('\u{1b}') && text.ends_with("b\nc") && text.contains("not released")
        );
    }
}
