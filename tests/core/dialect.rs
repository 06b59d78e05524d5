//! Tests dialects: their names, and the answers and refusals of Anthropic's memory tool.

use serde_json::{Map, Value, json};
use vctx_core::dialect::{Dialect, MEMORY, understood};

fn arguments(value: Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap()
}

fn refused(value: Value) -> String {
    let error = understood(MEMORY, arguments(value)).unwrap_err();
    error.fields["text"].as_str().unwrap().to_owned()
}

/// Returns the answer of the command `view` for a directory that contains the given blocks.
fn listing(path: &str, blocks: &[Value]) -> String {
    let view = arguments(json!({"command": "view", "path": path}));
    let wording = understood(MEMORY, view).unwrap().wording.unwrap();
    wording.answer_text(&arguments(json!({"blocks": blocks})))
}

#[test]
fn a_directory_is_listed_two_levels_deep() {
    let blocks = json!([
        {"block_id": "notes.txt", "bytes": 5632}, {"block_id": "a..b..c.md", "bytes": 1024}, {"block_id": "a..z", "bytes": 0},
        {"block_id": ".hidden", "bytes": 7}, {"block_id": "node_modules..x", "bytes": 3}, {"block_id": "a..-x2eh", "bytes": 1},
    ]);
    let blocks = blocks.as_array().unwrap();
    assert_eq!(
        listing("/memories/", blocks),
        "Here're the files and directories up to 2 levels deep in /memories, excluding hidden items and node_modules:\n\
         6.5K\t/memories\n1.0K\t/memories/a/\n1K\t/memories/a/b/\n0B\t/memories/a/z\n5.5K\t/memories/notes.txt"
    );
    let inside: Vec<Value> = blocks[1..3].to_vec();
    assert_eq!(
        listing("/memories/a", &inside).lines().skip(1).collect::<Vec<_>>(),
        ["1K\t/memories/a", "1K\t/memories/a/b/", "1K\t/memories/a/b/c.md", "0B\t/memories/a/z"]
    );
}

#[test]
fn sizes_are_for_people() {
    for (bytes, text) in [
        (0, "0B"),
        (1023, "1023B"),
        (1024, "1K"),
        (5632, "5.5K"),
        (1_258_291, "1.2M"),
        (2 << 20, "2M"),
    ] {
        let list = listing("/memories", &[json!({"block_id": "a", "bytes": bytes})]);
        assert_eq!(list.lines().nth(2), Some(&*format!("{text}\t/memories/a")), "{list}");
    }
}

#[test]
fn what_is_not_understood_is_told_by_name() {
    assert!(refused(json!({"command": "fly"})).contains("command"));
    assert!(
        refused(json!({"command": "create", "path": "/memories/a"}))
            .contains("file_text: is missing")
    );
    assert!(refused(json!({"command": "view", "path": "/memories/../a"})).contains("leads out"));
    assert!(refused(json!({"command": "view", "path": "/etc"})).contains("begin with /memories/"));
    assert!(refused(json!({"command": "delete", "path": "/memories"})).contains("stays as it is"));
    let needless = json!({"command": "delete", "path": "/memories/a", "old_str": "x"});
    assert!(refused(needless).contains("old_str: no argument of `delete`"));
    let long = json!({"command": "create", "path": format!("/memories/{}", "x".repeat(129)), "file_text": ""});
    assert!(refused(long).contains("at most 128"));
    let nulls = json!({"command": "view", "path": "/memories", "view_range": null, "file_text": null, "old_path": null});
    assert!(understood(MEMORY, arguments(nulls)).is_ok());
}

#[test]
fn a_dialect_names_what_it_offers() {
    for dialect in Dialect::ALL {
        let offered: Vec<&str> = dialect.tools().iter().map(|tool| tool.name).collect();
        assert_eq!(offered, dialect.names());
        assert!(dialect.chat_tools().iter().all(|name| offered.contains(name)), "{dialect:?}");
        assert_eq!(Dialect::by_name(dialect.text()).unwrap(), *dialect);
    }
    assert!(Dialect::by_name("klingon").is_err());
}
