//! What a client may attach to a conversation without a tool call: the agent's core and its rendered window, read only.

use rmcp::model::{ReadResourceResult, Resource, ResourceContents};
use serde_json::{Value, json};

use super::bridge::Bridge;
use crate::client::Problem;

/// Form of both.
const JSON: &str = "application/json";

enum Part {
    Core,
    Context,
}

fn uri(agent: &str, part: &Part) -> String {
    let name = match part {
        Part::Core => "core",
        Part::Context => "context",
    };
    format!("vctx://agent/{agent}/{name}")
}

/// The resources of an agent.
pub(super) fn listed(agent: &str) -> Vec<Resource> {
    let core = Resource::new(uri(agent, &Part::Core), "core")
        .with_title("Core memory")
        .with_description(
            "The blocks that stay in view, the summary of what left the window, and how full it is",
        )
        .with_mime_type(JSON);
    let context = Resource::new(uri(agent, &Part::Context), "context")
        .with_title("Rendered window")
        .with_description(
            "The window as chat messages, with tokens and the digest that proves what stood in it",
        )
        .with_mime_type(JSON);
    vec![core, context]
}

/// Reads a resource of the bridge's agent; none when there is no such resource. An agent that has not been made is empty.
pub(super) async fn read(
    bridge: &Bridge,
    asked: &str,
) -> Option<Result<ReadResourceResult, Problem>> {
    let agent = &bridge.settings.agent;
    let part = [Part::Core, Part::Context].into_iter().find(|part| uri(agent, part) == asked)?;
    let found = match part {
        Part::Core => bridge.state().await,
        Part::Context => bridge.window().await,
    };
    let value = match found {
        Ok(found) => {
            if let Some(shown) = &found {
                // Both show every block.
                bridge.shown(shown).await;
            }
            Ok(match part {
                Part::Core => core(agent, found),
                Part::Context => context(agent, found),
            })
        }
        Err(problem) => Err(problem),
    };
    Some(value.map(|value| {
        let contents = ResourceContents::text(value.to_string(), asked).with_mime_type(JSON);
        ReadResourceResult::new(vec![contents])
    }))
}

fn core(agent: &str, state: Option<Value>) -> Value {
    let Some(state) = state else {
        return json!({"agent": agent, "_rev": null, "blocks": [], "summary": "", "tokens": null});
    };
    json!({"agent": agent, "_rev": state["_rev"], "context_window": state["context_window"], "blocks": state["blocks"],
        "summary": state["summary"]["content"], "tokens": state["tokens"]})
}

fn context(agent: &str, window: Option<Value>) -> Value {
    window.unwrap_or_else(|| json!({"agent": agent, "_rev": null, "messages": [], "tokens": null}))
}
