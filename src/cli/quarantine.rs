//! `vctx quarantine`: lists the tainted items of a memory, and releases items.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::exit::Failure;
use crate::output;
use crate::target::Target;
use crate::whose::Whose;
use vctx_base::ids::{Ids as _, SystemIds};
use vctx_client::Write;

const EXAMPLES: &str = "\
Text from tools, events, documents and other memories is tainted if it reads like an instruction to the model (docs/explanation/threat-model.md).
With [taint] mode = \"quarantine\", a search shows only the position, the rules and the length of a tainted item until the item is released.

Examples:
  vctx quarantine list ada
  vctx quarantine show ada 17
  vctx quarantine release ada archival_docs/0f3c9a
  vctx quarantine hold ada 17";

/// Maximum number of pages of the list of tainted items that the command reads.
const PAGES_MAX: usize = 1_000;

/// List the tainted items of a memory, and release them
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Quarantine {
    #[command(subcommand)]
    action: QuarantineAction,
}

#[derive(Debug, Subcommand)]
enum QuarantineAction {
    /// List the tainted items: position, rules, length
    List {
        #[command(flatten)]
        whose: Whose,
        #[command(flatten)]
        target: Target,
    },
    /// Show one item with its text
    Show(Item),
    /// Release an item, so that searches show it again
    Release(Item),
    /// Withdraw the release of an item, so that searches hide it again
    Hold(Item),
}

// `Item` has no doc comment, because a doc comment would replace the help texts of the actions.
#[derive(Debug, Args)]
#[command(allow_missing_positional = true)]
struct Item {
    #[command(flatten)]
    whose: Whose,
    /// Id of the item as shown by the list or a search, or the seq of a message
    id: String,
    #[command(flatten)]
    target: Target,
}

impl Quarantine {
    /// Returns the server and output options of the action.
    pub fn target(&self) -> &Target {
        match &self.action {
            QuarantineAction::List { target, .. } => target,
            QuarantineAction::Show(item)
            | QuarantineAction::Release(item)
            | QuarantineAction::Hold(item) => &item.target,
        }
    }
}

/// Runs `vctx quarantine`.
pub async fn run(quarantine: Quarantine) -> Result<(), Failure> {
    match quarantine.action {
        QuarantineAction::List { whose, target } => {
            let agent = whose.agent()?;
            let (mode, items) = all(&target, &agent).await?;
            match (target.json, items.is_empty()) {
                (true, _) => output::value(&json!({"mode": mode, "items": items})),
                (false, true) => output::line("nothing is tainted"),
                (false, false) => output::line(&format!("{}\nmode: {mode}", table(&items))),
            }
        }
        QuarantineAction::Show(Item { whose, id, target }) => {
            let agent = whose.agent()?;
            let item = target.client().quarantined(&agent, &id).await?;
            output::told(target.json, &item, item_text)
        }
        QuarantineAction::Release(item) => change(&item, false).await,
        QuarantineAction::Hold(item) => change(&item, true).await,
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

async fn change(Item { whose, id, target }: &Item, hold: bool) -> Result<(), Failure> {
    let write = Write { key: SystemIds.key(), revision: Some("*".into()) };
    let done = target.client().release(&whose.agent()?, id, hold, &write).await?;
    if target.json {
        return output::value(&done);
    }
    let state = if hold { "held back" } else { "released" };
    let already = if done["result"]["changed"] == true { "" } else { " already" };
    output::line(&format!("{} is {state}{already}", output::field(&done, "/result/id")))
}

fn item_text(item: &Value) -> String {
    let released = if item["released"] == true { "released" } else { "not released" };
    let (id, text) = (output::field(item, "/id"), output::field(item, "/text"));
    // Control characters of a tainted text must not reach the terminal.
    let text: String =
        text.chars().map(|c| if c.is_control() && c != '\n' { '\u{fffd}' } else { c }).collect();
    format!(
        "{id} ({}; {released}), {} characters\n\n{text}",
        output::texts(&item["rules"]),
        item["chars"]
    )
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
                output::texts(&item["rules"]),
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
        let text = item_text(&item);
        assert!(
            !text.contains('\u{1b}') && text.ends_with("b\nc") && text.contains("not released")
        );
    }
}
