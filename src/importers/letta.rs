//! Imports agent files of Letta (`.af`): blocks become blocks, messages become recall entries,
//! files and passages become archived documents.
//!
//! Two formats of agent files are supported: one with `agents`, `blocks` and `files` at the top
//! level, and an older one for a single agent with `core_memory`. An agent file has no archival
//! passages; the list of passages from Letta's API is imported as a separate file.

use std::path::Path;

use serde_json::{Map, Value};

use super::plan::{Entry, Plan, day};
use super::read::{Choice, count, is_empty, json_of, maybe, objects, text, text_of, too_many};
use vctx_cli::exit::Failure;
use vctx_core::memory::Labels;

/// Attributes of an agent file that the import reads or reports as skipped.
const FILE: &[&str] = &[
    "agents",
    "blocks",
    "files",
    "groups",
    "sources",
    "tools",
    "mcp_servers",
    "metadata",
    "created_at",
    "passages",
];
/// Attributes of an agent file that contain no memory and are reported as skipped.
const FILE_LEFT: &[&str] = &["groups", "sources", "tools", "mcp_servers"];
/// Attributes of an agent that the import reads. The other attributes are configuration and are
/// reported as skipped.
const AGENT: &[&str] = &[
    "id",
    "name",
    "system",
    "description",
    "block_ids",
    "memory_blocks",
    "core_memory",
    "messages",
    "passages",
    "in_context_message_ids",
    "in_context_message_indices",
    "files_agents",
    "created_at",
    "updated_at",
    "version",
];
/// Attributes of a block that the import reads, or ignores because they do not matter for the
/// block's text.
const BLOCK: &[&str] = &[
    "id",
    "label",
    "value",
    "description",
    "limit",
    "created_at",
    "updated_at",
    "is_template",
    "template_name",
    "template_id",
    "base_template_id",
    "preserve_on_migration",
    "project_id",
    "deployment_id",
    "entity_id",
    "hidden",
];
/// Attributes of a passage that the import reads, or ignores because they do not matter for the
/// passage's text.
const PASSAGE: &[&str] = &[
    "id",
    "text",
    "created_at",
    "updated_at",
    "tags",
    "metadata",
    "metadata_",
    "embedding",
    "embedding_config",
    "archive_id",
    "source_id",
    "file_id",
    "file_name",
    "organization_id",
    "created_by_id",
    "last_updated_by_id",
];

const BLOCKS: &str = "memory blocks";
const MESSAGES: &str = "messages";
const FILES: &str = "files";
const PASSAGES: &str = "archival passages";

/// Reads an agent file into the plan.
pub(super) fn read(path: &Path, choice: &Choice, plan: &mut Plan) -> Result<(), Failure> {
    let whole = json_of(path, &text_of(path)?)?;
    let place = path.display().to_string();
    match whole {
        Value::Array(_) => {
            passages(&Map::from_iter([("passages".to_owned(), whole)]), &place, choice, plan)
        }
        Value::Object(file) if file.contains_key("agents") => new_file(&file, &place, choice, plan),
        Value::Object(agent) if agent.contains_key("core_memory") => {
            old_file(&agent, &place, choice, plan)
        }
        _ => Err(Failure::data(format!(
            "{place} is no agent file: it has neither `agents` nor `core_memory`"
        ))),
    }
}

fn new_file(
    file: &Map<String, Value>,
    place: &str,
    choice: &Choice,
    plan: &mut Plan,
) -> Result<(), Failure> {
    choice.check(file, FILE, place, plan)?;
    let agents = objects(file, "agents", place)?;
    let agent = chosen(&agents, place, choice)?;
    for name in FILE_LEFT {
        if let Some(value) = file.get(*name).filter(|value| !is_empty(value)) {
            plan.left(*name, count(value), "contains no memory: vctx stores no tools and servers");
        }
    }
    let wanted: Vec<&str> = agent
        .get("block_ids")
        .and_then(Value::as_array)
        .map_or_else(Vec::new, |ids| ids.iter().filter_map(Value::as_str).collect());
    for block in objects(file, "blocks", place)? {
        match text(block, "id", place) {
            Ok(id) if !wanted.contains(&id) => plan.left(BLOCKS, 1, "belong to another agent"),
            _ => one_block(block, place, choice, plan)?,
        }
    }
    for block in objects(agent, "memory_blocks", place)? {
        one_block(block, place, choice, plan)?;
    }
    about(agent, plan);
    messages(agent, place, plan)?;
    files(file, place, plan)?;
    passages(file, place, choice, plan)?;
    passages(agent, place, choice, plan)
}

fn old_file(
    agent: &Map<String, Value>,
    place: &str,
    choice: &Choice,
    plan: &mut Plan,
) -> Result<(), Failure> {
    for block in objects(agent, "core_memory", place)? {
        one_block(block, place, choice, plan)?;
    }
    about(agent, plan);
    messages(agent, place, plan)?;
    passages(agent, place, choice, plan)
}

/// Returns the only agent of the file, or the agent that the user selected.
fn chosen<'a>(
    agents: &[&'a Map<String, Value>],
    place: &str,
    choice: &Choice,
) -> Result<&'a Map<String, Value>, Failure> {
    let is = |agent: &Map<String, Value>, name: &str| {
        ["name", "id"].iter().any(|field| agent.get(*field).and_then(Value::as_str) == Some(name))
    };
    let found: Vec<_> = match &choice.only {
        Some(name) => agents.iter().filter(|agent| is(agent, name)).collect(),
        None => agents.iter().collect(),
    };
    match found.as_slice() {
        [one] => Ok(one),
        _ => {
            let names: Vec<String> =
                agents.iter().filter_map(|agent| maybe(agent, "name")).collect();
            let told = format!("{place} holds {} agents: {}", agents.len(), names.join(", "));
            Err(Failure::data(told).next("choose one with --only NAME (or its id)"))
        }
    }
}

/// Reads the system text and the window of an agent, and reports the attributes that contain no
/// memory.
fn about(agent: &Map<String, Value>, plan: &mut Plan) {
    plan.system = maybe(agent, "system");
    plan.window = agent.get("llm_config").and_then(|model| model["context_window"].as_u64());
    for (name, value) in agent {
        if !AGENT.contains(&name.as_str()) && !is_empty(value) {
            plan.left(
                format!("`{name}`"),
                count(value),
                "configuration of the other system, no memory",
            );
        }
    }
    if !agent.get("description").is_none_or(is_empty) {
        plan.left("`description`", 1, "configuration of the other system, no memory");
    }
}

fn one_block(
    block: &Map<String, Value>,
    place: &str,
    choice: &Choice,
    plan: &mut Plan,
) -> Result<(), Failure> {
    let label = text(block, "label", place)?;
    let place = format!("{place}: block {label}");
    let value = text(block, "value", &place)?;
    let known: Vec<&str> =
        BLOCK.iter().chain(&["read_only", "metadata", "metadata_"]).copied().collect();
    choice.check(block, &known, &place, plan)?;
    if block.get("read_only") == Some(&Value::Bool(true)) {
        plan.left(
            "`read_only` of blocks",
            1,
            "blocks of vctx are never read-only; the text is imported",
        );
    }
    for name in ["metadata", "metadata_"] {
        if block.get(name).is_some_and(|value| !is_empty(value)) {
            plan.left("`metadata` of blocks", 1, "blocks of vctx lack metadata; text is imported");
        }
    }
    let path = format!("letta/blocks/{label}");
    plan.block(BLOCKS, label, &path, value.to_owned(), maybe(block, "description"));
    Ok(())
}

fn messages(agent: &Map<String, Value>, place: &str, plan: &mut Plan) -> Result<(), Failure> {
    let system = maybe(agent, "system").unwrap_or_default();
    for (at, message) in objects(agent, "messages", place)?.into_iter().enumerate() {
        if plan.is_full() {
            return Err(too_many(place));
        }
        let place = format!("{place}: messages[{at}]");
        let role = match text(message, "role", &place)? {
            "user" => "user",
            "assistant" => "assistant",
            "system" => "system",
            "tool" | "function" => "tool",
            "approval" => {
                plan.left("approvals of tool calls", 1, "they have no messages");
                continue;
            }
            other => {
                return Err(Failure::data(format!("{place}: the role `{other}` is not known")));
            }
        };
        let content = message_text(message, role, &place, plan)?;
        if role == "system" && !system.is_empty() && content.starts_with(&system) {
            plan.left(
                "rendered system prompts",
                1,
                "made from system text and blocks, which are imported",
            );
            continue;
        }
        let (name, said_at) = (maybe(message, "name"), maybe(message, "created_at"));
        plan.entry(Entry {
            what: MESSAGES,
            role,
            content,
            name,
            said_at,
            labels: Labels::default(),
        });
    }
    Ok(())
}

/// Returns the text of a message: its text parts and its tool calls.
fn message_text(
    message: &Map<String, Value>,
    role: &str,
    place: &str,
    plan: &mut Plan,
) -> Result<String, Failure> {
    let mut lines = Vec::new();
    match message.get("content") {
        None | Some(Value::Null) => {}
        Some(Value::String(text)) => lines.push(unpacked(text, role)),
        Some(Value::Array(parts)) => {
            for part in parts {
                lines.extend(part_of(part, role, place, plan)?);
            }
        }
        Some(_) => {
            return Err(Failure::data(format!("{place}: `content` must be a text or a list")));
        }
    }
    for call in objects(message, "tool_calls", place)? {
        let function = call.get("function").and_then(Value::as_object).unwrap_or(call);
        let name = text(function, "name", place)?;
        let arguments = function.get("arguments").and_then(Value::as_str).unwrap_or("{}");
        lines.push(called(name, arguments));
    }
    lines.retain(|line| !line.is_empty());
    Ok(lines.join("\n"))
}

fn part_of(
    part: &Value,
    role: &str,
    place: &str,
    plan: &mut Plan,
) -> Result<Option<String>, Failure> {
    let text = |name: &str| part[name].as_str().unwrap_or_default().to_owned();
    Ok(match part["type"].as_str().unwrap_or_default() {
        "text" => Some(unpacked(&text("text"), role)),
        "tool_call" => Some(called(&text("name"), &part["input"].to_string())),
        "tool_return" => Some(text("content")),
        "reasoning" | "redacted_reasoning" | "omitted_reasoning" | "summarized_reasoning" => {
            plan.left("reasoning of the model", 1, "never sent to the model or the user");
            None
        }
        "image" => {
            plan.left("images", 1, "vctx keeps texts");
            None
        }
        other => return Err(Failure::data(format!("{place}: the part `{other}` is not known"))),
    })
}

/// Extracts the user's text from the JSON envelope that older Letta versions put around messages.
fn unpacked(text: &str, role: &str) -> String {
    if role == "user" && text.starts_with('{') {
        let envelope = serde_json::from_str::<Value>(text).unwrap_or_default();
        if envelope["type"] == "user_message"
            && let Some(said) = envelope["message"].as_str()
        {
            return said.to_owned();
        }
    }
    text.to_owned()
}

/// Formats a tool call as a line. A call to `send_message` becomes the assistant's text, because it
/// is a message to the user.
fn called(name: &str, arguments: &str) -> String {
    if name == "send_message" {
        let given = serde_json::from_str::<Value>(arguments).unwrap_or_default();
        if let Some(said) = given["message"].as_str() {
            return said.to_owned();
        }
    }
    format!("[called {name} {arguments}]")
}

fn files(file: &Map<String, Value>, place: &str, plan: &mut Plan) -> Result<(), Failure> {
    for row in objects(file, "files", place)? {
        let name = maybe(row, "original_file_name").or_else(|| maybe(row, "file_name"));
        let Some(name) = name else {
            return Err(Failure::data(format!("{place}: a file has no name")));
        };
        let Some(content) = maybe(row, "content") else {
            plan.left(FILES, 1, "the agent file does not contain the text of the file");
            continue;
        };
        let fresh = maybe(row, "file_last_modified_date").as_deref().and_then(day);
        plan.document(FILES, &format!("letta/files/{name}"), &content, Map::new(), fresh);
    }
    Ok(())
}

fn passages(
    holder: &Map<String, Value>,
    place: &str,
    choice: &Choice,
    plan: &mut Plan,
) -> Result<(), Failure> {
    for (at, passage) in objects(holder, "passages", place)?.into_iter().enumerate() {
        if plan.is_full() {
            return Err(too_many(place));
        }
        let place = format!("{place}: passages[{at}]");
        choice.check(passage, PASSAGE, &place, plan)?;
        let words = text(passage, "text", &place)?;
        let id = maybe(passage, "id").unwrap_or_else(|| vctx_core::memory::receipt::sha256(words));
        let mut provenance = Map::new();
        for name in ["tags", "metadata", "metadata_", "file_name", "created_at"] {
            if let Some(value) = passage.get(name).filter(|value| !is_empty(value)) {
                provenance.insert(name.trim_end_matches('_').into(), value.clone());
            }
        }
        let fresh = maybe(passage, "created_at").as_deref().and_then(day);
        plan.document(PASSAGES, &format!("letta/passages/{id}"), words, provenance, fresh);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::plan::Limits;
    use super::*;
    use serde_json::json;

    fn planned(file: Value, choice: &Choice) -> Result<Plan, Failure> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.af");
        std::fs::write(&path, file.to_string()).unwrap();
        let mut plan = Plan::new(Limits { block_bytes_max: 100 });
        read(&path, choice, &mut plan).map(|()| plan)
    }

    fn agent(name: &str, messages: Value) -> Value {
        json!({"name": name, "system": "Be kind.", "block_ids": ["block-0"], "messages": messages,
            "llm_config": {"context_window": 9000}, "tool_rules": [{"a": 1}]})
    }

    #[test]
    fn what_was_said_is_what_people_would_read() {
        let messages = json!([
            {"role": "system", "content": [{"type": "text", "text": "Be kind.\n<memory_blocks>…"}]},
            {"role": "user", "content": "{\"type\": \"user_message\", \"message\": \"Hi\", \"time\": \"t\"}", "created_at": "2025-01-02T03:04:05Z"},
            {"role": "assistant", "content": [{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "Well."}],
                "tool_calls": [{"id": "c", "function": {"name": "send_message", "arguments": "{\"message\": \"Hello!\"}"}}]},
            {"role": "tool", "content": null, "tool_call_id": "c"},
        ]);
        let file = json!({"agents": [agent("sam", messages)], "blocks": [
            {"id": "block-0", "label": "human", "value": "Bea", "read_only": true},
            {"id": "block-9", "label": "other", "value": "x"}]});
        let plan = planned(file, &Choice::default()).unwrap();
        let said: Vec<(&str, &str)> =
            plan.entries.iter().map(|e| (e.role, e.content.as_str())).collect();
        assert_eq!(said, [("user", "Hi"), ("assistant", "Well.\nHello!")]);
        assert_eq!(plan.entries[0].said_at.as_deref(), Some("2025-01-02T03:04:05Z"));
        assert_eq!(
            (plan.blocks.len(), plan.window, plan.system.as_deref()),
            (1, Some(9000), Some("Be kind."))
        );
        let left: Vec<&str> = plan.left.iter().map(|left| left.what.as_str()).collect();
        assert_eq!(
            left,
            [
                "`read_only` of blocks",
                BLOCKS,
                "`llm_config`",
                "`tool_rules`",
                "rendered system prompts",
                "reasoning of the model",
                MESSAGES
            ]
        );
    }

    #[test]
    fn what_is_not_known_is_refused_by_its_name() {
        let fault = |file: Value| planned(file, &Choice::default()).unwrap_err().message;
        assert!(fault(json!({"a": 1})).contains("neither `agents` nor `core_memory`"));
        assert!(
            fault(json!({"agents": [agent("a", json!([]))], "archives": [1]}))
                .contains("`archives` is not known")
        );
        assert!(
            fault(json!({"agents": [agent("a", json!([{"role": "narrator"}]))]}))
                .contains("`narrator`")
        );
        let two = json!({"agents": [agent("a", json!([])), agent("b", json!([]))]});
        assert!(fault(two.clone()).contains("holds 2 agents: a, b"));
        let choice = Choice { only: Some("b".into()), leave: Vec::new() };
        planned(two, &choice).unwrap();
    }

    #[test]
    fn the_older_shape_and_a_list_of_passages_are_read() {
        let old = json!({"name": "o", "core_memory": [{"label": "persona", "value": "I am o.", "limit": 5}],
            "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]});
        let plan = planned(old, &Choice::default()).unwrap();
        assert_eq!((plan.blocks.len(), plan.entries.len()), (1, 1));
        let list = json!([{"id": "p-1", "text": "The boat is blue.", "tags": ["boat"], "created_at": "2025-02-03T00:00:00Z"}]);
        let plan = planned(list, &Choice::default()).unwrap();
        assert_eq!(plan.documents[0].id, "letta/passages/p-1");
        assert_eq!(
            (plan.documents[0].fresh.as_deref(), &plan.documents[0].provenance["tags"]),
            (Some("2025-02-03"), &json!(["boat"]))
        );
    }
}
