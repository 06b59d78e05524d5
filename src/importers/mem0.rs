//! Imports memories of mem0 from an answer of `get_all` or from a list, in JSON or JSONL: each
//! memory becomes a recall entry.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Map, Value};

use super::plan::{Entry, Plan};
use super::read::{Choice, is_empty, json_of, lines_of, maybe, objects, text, text_of, too_many};
use vctx_cli::exit::Failure;
use vctx_core::memory::Labels;

/// Attributes of the file that the import reads, or ignores because they do not matter for the
/// memories.
const FILE: &[&str] = &[
    "results",
    "memories",
    "relations",
    "count",
    "total",
    "next",
    "previous",
    "page",
    "page_size",
];
/// Attributes of a memory that the import reads, or ignores because they do not matter for the
/// memory's text.
const MEMORY: &[&str] = &[
    "id",
    "memory",
    "hash",
    "user_id",
    "agent_id",
    "app_id",
    "run_id",
    "session_id",
    "actor_id",
    "role",
    "metadata",
    "categories",
    "created_at",
    "updated_at",
    "expiration_date",
    "immutable",
    "score",
    "event",
    "type",
    "owner",
    "organization",
    "structured_attributes",
    "internal_metadata",
    "deleted_at",
];
/// Attributes that may name the owner of a memory. If a memory has several of them, the first in
/// this order names the owner.
const OWNERS: &[&str] = &["user_id", "agent_id", "app_id", "run_id"];
/// Attributes that are appended to a memory's text, so that searches find their values.
const TOLD: &[&str] = &["categories", "metadata", "structured_attributes", "expiration_date"];

const MEMORIES: &str = "memories";
const RELATIONS: &str = "relations";

/// Reads a file of mem0 memories into the plan.
pub(super) fn read(path: &Path, choice: &Choice, plan: &mut Plan) -> Result<(), Failure> {
    let place = path.display().to_string();
    let whole = whole(path)?;
    choice.check(&whole, FILE, &place, plan)?;
    if whole.get("next").is_some_and(|next| !is_empty(next)) {
        let told = format!("{place} is one page of several: it has `next`");
        return Err(Failure::data(told).next("export all memories, e.g. with a larger page_size"));
    }
    let mut memories = objects(&whole, "results", &place)?;
    memories.extend(objects(&whole, "memories", &place)?);
    let memories = of_one(&memories, &place, choice, plan)?;
    for (at, memory) in memories.into_iter().enumerate() {
        if plan.is_full() {
            return Err(too_many(&place));
        }
        one(memory, &format!("{place}: memory {at}"), choice, plan)?;
    }
    for relation in objects(&whole, "relations", &place)? {
        let known = [
            "source",
            "relationship",
            "target",
            "relation",
            "destination",
            "source_type",
            "target_type",
        ];
        choice.check(relation, &known, &place, plan)?;
        let kind = text(relation, "relationship", &place)
            .or_else(|_| text(relation, "relation", &place))?;
        let to =
            text(relation, "target", &place).or_else(|_| text(relation, "destination", &place))?;
        let content = format!("{} {kind} {to}", text(relation, "source", &place)?);
        plan.entry(Entry {
            what: RELATIONS,
            role: "assistant",
            content,
            name: None,
            said_at: None,
            labels: Labels::default(),
        });
    }
    Ok(())
}

/// Converts a mem0 file of any format to an object with the attribute `results`.
fn whole(path: &Path) -> Result<Map<String, Value>, Failure> {
    let text = text_of(path)?;
    let lines = text.trim_start().starts_with('{') && serde_json::from_str::<Value>(&text).is_err();
    let results = match lines {
        true => Value::Array(
            lines_of(path, &text)?.into_iter().map(|(_, row)| Value::Object(row)).collect(),
        ),
        false => match json_of(path, &text)? {
            Value::Object(object) if object.contains_key("memory") => {
                Value::Array(vec![Value::Object(object)])
            }
            Value::Object(object)
                if ["results", "memories"].iter().any(|name| object.contains_key(*name)) =>
            {
                return Ok(object);
            }
            Value::Array(list) => Value::Array(list),
            _ => {
                let told = "is not an export of memories: it is not a list and has neither `results` nor `memories`";
                return Err(Failure::data(format!("{} {told}", path.display())));
            }
        },
    };
    Ok(Map::from_iter([("results".to_owned(), results)]))
}

/// Returns the memories of the file's only owner, or of the owner that the user selected. Memories
/// of two owners are never merged without the user's decision.
fn of_one<'a>(
    memories: &[&'a Map<String, Value>],
    place: &str,
    choice: &Choice,
    plan: &mut Plan,
) -> Result<Vec<&'a Map<String, Value>>, Failure> {
    let owner = |memory: &Map<String, Value>| OWNERS.iter().find_map(|name| maybe(memory, name));
    let owners: BTreeSet<String> = memories.iter().filter_map(|memory| owner(memory)).collect();
    let Some(only) = &choice.only else {
        if owners.len() > 1 {
            let names: Vec<&str> = owners.iter().take(10).map(String::as_str).collect();
            let told = format!("{place} holds memories of {}: {}", owners.len(), names.join(", "));
            return Err(Failure::data(told).next("choose one with --only NAME"));
        }
        return Ok(memories.to_vec());
    };
    if !owners.contains(only) {
        return Err(Failure::data(format!("{place} holds no memories of {only}")));
    }
    let (own, others): (Vec<_>, Vec<_>) =
        memories.iter().copied().partition(|memory| owner(memory).as_ref() == Some(only));
    if !others.is_empty() {
        plan.left(MEMORIES, others.len() as u64, "of others than --only names");
    }
    Ok(own)
}

fn one(
    memory: &Map<String, Value>,
    place: &str,
    choice: &Choice,
    plan: &mut Plan,
) -> Result<(), Failure> {
    choice.check(memory, MEMORY, place, plan)?;
    let said = text(memory, "memory", place)?;
    if memory.get("deleted_at").is_some_and(|at| !is_empty(at)) {
        plan.left(MEMORIES, 1, "deleted there");
        return Ok(());
    }
    let told: Vec<String> = TOLD
        .iter()
        .filter_map(|name| {
            memory.get(*name).filter(|value| !is_empty(value)).map(|value| line(name, value))
        })
        .collect();
    let content = match told.is_empty() || said.trim().is_empty() {
        true => said.to_owned(),
        false => format!("{said}\n[{}]", told.join("; ")),
    };
    let role = match memory.get("role").and_then(Value::as_str) {
        Some("user") => "user",
        _ => "assistant",
    };
    let name = maybe(memory, "actor_id");
    let said_at = maybe(memory, "created_at");
    plan.entry(Entry { what: MEMORIES, role, content, name, said_at, labels: labels_of(memory) });
    Ok(())
}

/// Returns the user and the session of a memory, as far as labels can have them.
fn labels_of(memory: &Map<String, Value>) -> Labels {
    let fits = |text: &String| {
        Labels { user: Some(text.clone()), ..Labels::default() }.check("user").is_ok()
    };
    let one = |name: &str| maybe(memory, name).filter(fits);
    Labels {
        user: one("user_id"),
        session: one("run_id").or_else(|| one("session_id")),
        ..Labels::default()
    }
}

/// Formats an attribute as `name: value`, with readable lists and objects.
fn line(name: &str, value: &Value) -> String {
    let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    match value {
        Value::Object(object) => {
            let parts: Vec<String> = object.iter().map(|(name, value)| line(name, value)).collect();
            parts.join("; ")
        }
        Value::Array(list) => {
            let parts: Vec<String> = list.iter().map(plain).collect();
            format!("{name}: {}", parts.join(", "))
        }
        other => format!("{name}: {}", plain(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::plan::Limits;
    use super::*;

    fn planned(file: &str, only: Option<&str>) -> Result<Plan, Failure> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("export.json");
        std::fs::write(&path, file).unwrap();
        let mut plan = Plan::new(Limits { block_bytes_max: 100 });
        let choice = Choice { only: only.map(str::to_owned), leave: Vec::new() };
        read(&path, &choice, &mut plan).map(|()| plan)
    }

    #[test]
    fn all_forms_say_the_same() {
        let one = r#"{"id": "1", "memory": "Likes tea", "user_id": "bea", "created_at": "2025-01-02T03:04:05", "metadata": null}"#;
        for file in [
            one.to_owned(),
            format!("[{one}]"),
            format!("{{\"results\": [{one}]}}"),
            format!("{one}\n{one}\n"),
        ] {
            let plan = planned(&file, None).unwrap();
            assert_eq!(plan.entries[0].content, "Likes tea", "{file}");
            assert_eq!(plan.entries[0].said_at.as_deref(), Some("2025-01-02T03:04:05"));
            assert_eq!(plan.entries[0].labels.user.as_deref(), Some("bea"));
        }
    }

    #[test]
    fn a_run_is_a_session_and_a_name_that_no_label_can_have_is_none() {
        let long = "x".repeat(300);
        let file = format!(
            r#"[{{"memory": "a", "user_id": "bea", "run_id": "r1"}}, {{"memory": "b", "user_id": "bea", "session_id": "s1"}},
            {{"memory": "c", "user_id": "bea", "run_id": "{long}"}}]"#
        );
        let plan = planned(&file, None).unwrap();
        let sessions: Vec<Option<&str>> =
            plan.entries.iter().map(|entry| entry.labels.session.as_deref()).collect();
        assert_eq!(sessions, [Some("r1"), Some("s1"), None]);
    }

    #[test]
    fn what_is_known_beside_the_text_stands_below_it() {
        let file = r#"[{"memory": "Likes tea", "categories": ["food", "home"], "metadata": {"sure": 1, "by": "Bea"}, "role": "user"}]"#;
        let plan = planned(file, None).unwrap();
        assert_eq!(
            plan.entries[0].content,
            "Likes tea\n[categories: food, home; sure: 1; by: Bea]"
        );
        assert_eq!(plan.entries[0].role, "user");
    }

    #[test]
    fn memories_of_two_people_are_one_only_when_asked() {
        let file = r#"[{"memory": "a", "user_id": "bea"}, {"memory": "b", "user_id": "leo"}, {"memory": "c", "user_id": "leo"}]"#;
        assert!(
            planned(file, None).unwrap_err().message.ends_with("holds memories of 2: bea, leo")
        );
        let plan = planned(file, Some("bea")).unwrap();
        assert_eq!((plan.entries.len(), plan.left[0].items), (1, 2));
        assert!(planned(file, Some("eve")).is_err());
    }

    #[test]
    fn pages_and_what_is_not_known_are_refused() {
        for (file, told) in [
            (r#"{"results": [], "next": "http://x?page=2"}"#, "is one page of several"),
            (r#"{"results": [], "professional": {"a": 1}}"#, "`professional` is not known"),
            (r#"[{"memory": "a", "mood": "glad"}]"#, "`mood` is not known"),
            (r#"[{"text": "a"}]"#, "`text` is not known"),
            (r#"{"professional": {"a": 1}}"#, "is not an export of memories"),
        ] {
            let fault = planned(file, None).unwrap_err().message;
            assert!(fault.contains(told), "{fault}");
        }
    }

    #[test]
    fn relations_are_entries_too() {
        let file = r#"{"results": [], "relations": [{"source": "bea", "relationship": "sails_to", "target": "elba"}]}"#;
        assert_eq!(planned(file, None).unwrap().entries[0].content, "bea sails_to elba");
    }
}
