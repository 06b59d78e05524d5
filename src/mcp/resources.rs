//! Read-only resources that a client may attach to a conversation without a tool call.
//!
//! Resources are the agent's core, summary and rendered window, single entries of recall storage,
//! and single passages of the archive.

use rmcp::model::{ReadResourceResult, Resource, ResourceContents, ResourceTemplate};
use serde_json::{Value, json};

use super::bridge::Bridge;
use vctx_client::Problem;

/// MIME type of all resources.
const JSON: &str = "application/json";

/// What a resource address refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Core,
    Summary,
    Context,
    /// The message at this position.
    Recall(u64),
    /// The archived passage that has this key.
    Archive(String),
}

fn prefix(agent: &str) -> String {
    format!("vctx://agent/{agent}/")
}

/// Parses a resource address of this agent.
fn part(agent: &str, asked: &str) -> Option<Part> {
    let rest = asked.strip_prefix(&prefix(agent))?;
    match rest {
        "core" => return Some(Part::Core),
        "summary" => return Some(Part::Summary),
        "context" => return Some(Part::Context),
        _ => {}
    }
    if let Some(seq) = rest.strip_prefix("recall/") {
        let plain = !seq.starts_with('0') && seq.bytes().all(|b| b.is_ascii_digit());
        return seq.parse().ok().filter(|_| plain).map(Part::Recall);
    }
    let key = rest.strip_prefix("archive/")?;
    let plain = !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric());
    plain.then(|| Part::Archive(key.to_owned()))
}

/// Returns the resources that every agent has.
pub(super) fn listed(agent: &str) -> Vec<Resource> {
    let resource = |name: &str, title: &str, description: &str| {
        Resource::new(format!("{}{name}", prefix(agent)), name)
            .with_title(title)
            .with_description(description)
            .with_mime_type(JSON)
    };
    vec![
        resource(
            "core",
            "Core memory",
            "The blocks that stay in view, the summary of what left the window, and how full it is",
        ),
        resource(
            "summary",
            "Summary",
            "The summary of all that left the window, with its revision",
        ),
        resource(
            "context",
            "Rendered window",
            "The window as chat messages, with token counts and the digest that proves its content",
        ),
    ]
}

/// Returns address templates for messages and passages, which are too many for a list.
pub(super) fn templates(agent: &str) -> Vec<ResourceTemplate> {
    let template = |rest: &str, name: &str, title: &str, description: &str| {
        ResourceTemplate::new(format!("{}{rest}", prefix(agent)), name)
            .with_title(title)
            .with_description(description)
            .with_mime_type(JSON)
    };
    vec![
        template(
            "recall/{seq}",
            "recall",
            "Message",
            "A message by its `seq`, in the window or evicted from it; searches show the `seq`",
        ),
        template(
            "archive/{key}",
            "archive",
            "Passage",
            "A passage of the archive by the part of its `id` after `archival_docs/`, with its document and position",
        ),
    ]
}

/// Reads a resource of the bridge's agent; `None` if there is no such resource. If the agent does
/// not exist yet, its core, summary and window are empty.
pub(super) async fn read(
    bridge: &Bridge,
    asked: &str,
) -> Option<Result<ReadResourceResult, Problem>> {
    let agent = &bridge.settings.agent;
    let value = match part(agent, asked)? {
        Part::Core => render_noted(bridge, bridge.state().await, |state| core(agent, state)).await,
        Part::Summary => bridge.state().await.map(|state| summary(agent, state)),
        Part::Context => {
            render_noted(bridge, bridge.window().await, |window| context(agent, window)).await
        }
        Part::Recall(seq) => bridge.message(seq).await.transpose()?,
        Part::Archive(key) => bridge.passage(&key).await.transpose()?,
    };
    Some(value.map(|value| {
        let contents = ResourceContents::text(value.to_string(), asked).with_mime_type(JSON);
        ReadResourceResult::new(vec![contents])
    }))
}

/// Renders a resource that shows every block, and lets the bridge record the revisions of all
/// blocks.
async fn render_noted(
    bridge: &Bridge,
    found: Result<Option<Value>, Problem>,
    tell: impl FnOnce(Option<Value>) -> Value,
) -> Result<Value, Problem> {
    let found = found?;
    if let Some(shown) = &found {
        bridge.note_all_blocks(shown).await;
    }
    Ok(tell(found))
}

fn core(agent: &str, state: Option<Value>) -> Value {
    let Some(state) = state else {
        return json!({"agent": agent, "_rev": null, "blocks": [], "summary": "", "tokens": null});
    };
    json!({"agent": agent, "_rev": state["_rev"], "context_window": state["context_window"], "blocks": state["blocks"],
        "summary": state["summary"]["content"], "tokens": state["tokens"]})
}

fn summary(agent: &str, state: Option<Value>) -> Value {
    let Some(state) = state else {
        return json!({"agent": agent, "_rev": null, "content": "", "revision": 0, "token_estimate": 0});
    };
    let summary = &state["summary"];
    json!({"agent": agent, "_rev": state["_rev"], "content": summary["content"], "revision": summary["revision"],
        "token_estimate": summary["token_estimate"]})
}

fn context(agent: &str, window: Option<Value>) -> Value {
    window.unwrap_or_else(|| json!({"agent": agent, "_rev": null, "messages": [], "tokens": null}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_means_one_thing_of_this_agent() {
        for (asked, expected) in [
            ("vctx://agent/ada/core", Some(Part::Core)),
            ("vctx://agent/ada/summary", Some(Part::Summary)),
            ("vctx://agent/ada/context", Some(Part::Context)),
            ("vctx://agent/ada/recall/17", Some(Part::Recall(17))),
            ("vctx://agent/ada/archive/0af3", Some(Part::Archive("0af3".into()))),
            ("vctx://agent/bob/core", None),
            ("vctx://agent/ada/recall/017", None),
            ("vctx://agent/ada/recall/-1", None),
            ("vctx://agent/ada/recall/", None),
            ("vctx://agent/ada/recall/99999999999999999999999", None),
            ("vctx://agent/ada/archive/", None),
            ("vctx://agent/ada/archive/../core", None),
            ("vctx://agent/ada/archive/a%2F", None),
            ("vctx://agent/ada/", None),
        ] {
            assert_eq!(part("ada", asked), expected, "{asked}");
        }
    }
}
