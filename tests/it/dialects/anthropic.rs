//! Tests the dialect of Anthropic's memory tool: the exact words of answers and refusals.

use serde_json::{Value, json};

use super::{ada, text};
use crate::home::Home;
use crate::talk::{Agent, key};
use crate::wire::Answer;

async fn memory_call(agent: &Agent, arguments: Value) -> Answer {
    agent.tool("memory", &arguments, &key(), "*").await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_memory_tool_answers_in_the_words_of_its_documentation() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = ada(&home).await;
    let listing = "Here're the files and directories up to 2 levels deep in /memories, excluding hidden items and node_modules:";
    let call = |command: &str, rest: Value| {
        let mut call = json!({"command": command});
        call.as_object_mut().expect("a map").extend(rest.as_object().expect("a map").clone());
        call
    };
    let many = "tea\nmilk tea\nsugar";
    for (arguments, status, expected) in [
        (call("view", json!({"path": "/memories"})), 200, format!("{listing}\n0B\t/memories")),
        (
            call("create", json!({"path": "/memories/notes.txt", "file_text": "Hello World\nThis is line two"})),
            200,
            "File created successfully at: /memories/notes.txt".into(),
        ),
        (
            call("create", json!({"path": "/memories/notes.txt", "file_text": "x"})),
            409,
            "Error: File /memories/notes.txt already exists".into(),
        ),
        (
            call("view", json!({"path": "/memories/notes.txt"})),
            200,
            "Here's the content of /memories/notes.txt with line numbers:\n     1\tHello World\n     2\tThis is line two".into(),
        ),
        (
            call("view", json!({"path": "/memories/notes.txt", "view_range": [2, -1]})),
            200,
            "Here's the content of /memories/notes.txt with line numbers:\n     2\tThis is line two".into(),
        ),
        (
            call("view", json!({"path": "/memories/gone.txt"})),
            404,
            "The path /memories/gone.txt does not exist. Please provide a valid path.".into(),
        ),
        (
            call("str_replace", json!({"path": "/memories/notes.txt", "old_str": "line two", "new_str": "the end"})),
            200,
            "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n     1\tHello World\n     2\tThis is the end".into(),
        ),
        (
            call("str_replace", json!({"path": "/memories/notes.txt", "old_str": "nowhere", "new_str": "x"})),
            400,
            "No replacement was performed, old_str `nowhere` did not appear verbatim in /memories/notes.txt.".into(),
        ),
        (
            call("str_replace", json!({"path": "/memories/gone.txt", "old_str": "a", "new_str": "b"})),
            404,
            "Error: The path /memories/gone.txt does not exist. Please provide a valid path.".into(),
        ),
        (
            call("create", json!({"path": "/memories/a/many.txt", "file_text": many})),
            200,
            "File created successfully at: /memories/a/many.txt".into(),
        ),
        (
            call("str_replace", json!({"path": "/memories/a/many.txt", "old_str": "tea", "new_str": "x"})),
            400,
            "No replacement was performed. Multiple occurrences of old_str `tea` in lines: 1, 2. Please ensure it is unique".into(),
        ),
        (
            call("str_replace", json!({"path": "/memories/a", "old_str": "tea", "new_str": "x"})),
            404,
            "Error: The path /memories/a does not exist. Please provide a valid path.".into(),
        ),
        (
            call("insert", json!({"path": "/memories/a/many.txt", "insert_line": 3, "insert_text": "honey\n"})),
            200,
            "The file /memories/a/many.txt has been edited.".into(),
        ),
        (
            call("insert", json!({"path": "/memories/a/many.txt", "insert_line": 9, "insert_text": "x"})),
            400,
            "Error: Invalid `insert_line` parameter: 9. It should be within the range of lines of the file: [0, 4]".into(),
        ),
        (
            call("insert", json!({"path": "/memories/gone.txt", "insert_line": 0, "insert_text": "x"})),
            404,
            "Error: The path /memories/gone.txt does not exist".into(),
        ),
        (
            call("view", json!({"path": "/memories"})),
            200,
            format!("{listing}\n51B\t/memories\n24B\t/memories/a/\n24B\t/memories/a/many.txt\n27B\t/memories/notes.txt"),
        ),
        (
            call("rename", json!({"old_path": "/memories/a", "new_path": "/memories/b/c"})),
            200,
            "Successfully renamed /memories/a to /memories/b/c".into(),
        ),
        (
            call("rename", json!({"old_path": "/memories/notes.txt", "new_path": "/memories/b"})),
            409,
            "Error: The destination /memories/b already exists".into(),
        ),
        (
            call("rename", json!({"old_path": "/memories/gone.txt", "new_path": "/memories/x"})),
            404,
            "Error: The path /memories/gone.txt does not exist".into(),
        ),
        (
            call("view", json!({"path": "/memories/b/c/many.txt"})),
            200,
            "Here's the content of /memories/b/c/many.txt with line numbers:\n     1\ttea\n     2\tmilk tea\n     3\tsugar\n     4\thoney".into(),
        ),
        (call("delete", json!({"path": "/memories/b"})), 200, "Successfully deleted /memories/b".into()),
        (
            call("delete", json!({"path": "/memories/b"})),
            404,
            "Error: The path /memories/b does not exist".into(),
        ),
    ] {
        let answer = memory_call(&ada, arguments.clone()).await;
        assert_eq!((answer.status, text(&answer)), (status, expected), "{arguments}");
    }
    let blocks = ada.state().await["blocks"].clone();
    assert_eq!(blocks.as_array().map(Vec::len), Some(1), "{blocks:#}");
    assert_eq!(blocks[0]["id"], "notes.txt");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_leads_out_or_is_too_large_is_refused_and_changes_nothing() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = ada(&home).await;
    let before = ada.revision().await;
    for (path, told) in [
        ("/memories/../etc/passwd", "leads out of /memories"),
        ("/memories/a/../../etc", "leads out of /memories"),
        ("/memories/%2e%2e%2fetc", "leads out of /memories"),
        ("/memories/..\\etc", "leads out of /memories"),
        ("/etc/passwd", "begin with /memories/"),
        ("/memoriesx", "begin with /memories/"),
        ("/memories", "stays as it is"),
    ] {
        for command in [
            json!({"command": "create", "path": path, "file_text": "x"}),
            json!({"command": "delete", "path": path}),
            json!({"command": "rename", "old_path": path, "new_path": "/memories/x"}),
            json!({"command": "rename", "old_path": "/memories/x", "new_path": path}),
        ] {
            let answer = memory_call(&ada, command.clone()).await;
            let (code, text) = (answer.code().to_owned(), text(&answer));
            assert_eq!((answer.status, &*code), (400, "INVALID_ARGUMENT"), "{command}: {text}");
            assert!(text.starts_with("Error: ") && text.contains(told), "{command}: {text}");
        }
    }
    let long = json!({"command": "create", "path": format!("/memories/{}", "x".repeat(200)), "file_text": "x"});
    assert!(text(&memory_call(&ada, long).await).contains("at most 128"));
    let huge = json!({"command": "create", "path": "/memories/huge", "file_text": "word ".repeat(220_000)});
    let refused = memory_call(&ada, huge).await;
    assert_eq!(refused.code(), "INVALID_ARGUMENT");
    assert!(text(&refused).contains("split it"), "{}", text(&refused));
    let large = json!({"command": "create", "path": "/memories/large", "file_text": "word ".repeat(20_000)});
    let refused = memory_call(&ada, large).await;
    assert_eq!(refused.code(), "TOKEN_BUDGET_EXCEEDED");
    assert!(text(&refused).starts_with("Error: short of "), "{}", text(&refused));
    for number in 0..64 {
        let path = format!("/memories/many/{number}");
        memory_call(&ada, json!({"command": "create", "path": path, "file_text": ""})).await.ok();
    }
    let one_more = json!({"command": "create", "path": "/memories/one", "file_text": ""});
    assert!(text(&memory_call(&ada, one_more).await).contains("64 blocks already"));
    memory_call(&ada, json!({"command": "delete", "path": "/memories/many"})).await.ok();
    assert_eq!(ada.state().await["blocks"], json!([]));
    assert_ne!(ada.revision().await, before);
}
