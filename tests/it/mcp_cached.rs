//! Tests what MCP clients may keep of an answer: how long, for whom, and that a list is always the
//! same.

use serde_json::{Value, json};

use crate::home::{Home, Tuning};
use crate::line::Line;
use crate::talk::Agent;

/// The requests whose answers a client may keep, with the parameters, the maximum time in
/// milliseconds, and who may share the answer.
fn requests() -> [(&'static str, Value, u64, &'static str); 7] {
    let core = json!({"uri": "vctx://agent/ada/core"});
    let message = json!({"uri": "vctx://agent/ada/recall/1"});
    [
        ("tools/list", json!({}), 3_600_000, "public"),
        ("prompts/list", json!({}), 3_600_000, "public"),
        ("resources/list", json!({}), 3_600_000, "private"),
        ("resources/templates/list", json!({}), 3_600_000, "private"),
        // Any call changes the core, and a forgotten message must not be shown again.
        ("resources/read", core, 0, "private"),
        ("resources/read", message, 0, "private"),
        ("server/discover", json!({}), 3_600_000, "public"),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_says_how_long_and_for_whom_it_may_be_kept() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 4096, "").await;
    ada.append("user", "The boat lies in the harbour.").await;
    let mut line = Line::start(&home, &["--agent", "ada"], &Tuning::default());
    line.without_initialize("2026-07-28");
    for (method, params, ttl_ms, scope) in requests() {
        let answer = line.ask(method, params).await;
        let result = &answer["result"];
        let hints = (&result["ttlMs"], &result["cacheScope"], &result["resultType"]);
        assert_eq!(hints, (&json!(ttl_ms), &json!(scope), &json!("complete")), "{answer:#}");
        let shared = result.to_string();
        assert!(scope == "private" || !shared.contains("ada"), "{method} names the agent");
    }
    let called = line.tool("fetch_core", json!({})).await;
    assert!(called.get("ttlMs").is_none(), "a call is not kept: {called:#}");
    line.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_of_an_earlier_version_gets_no_field_that_it_does_not_know() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 4096, "").await;
    ada.append("user", "The boat lies in the harbour.").await;
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let mut line = Line::start(&home, &["--agent", "ada"], &Tuning::default());
        line.initialize(version).await;
        for (method, params, ..) in requests() {
            if method == "server/discover" {
                continue;
            }
            let result = line.ask(method, params).await["result"].clone();
            let mut names: Vec<&String> = result.as_object().expect("a result").keys().collect();
            names.retain(|name| *name != "_meta");
            let expected = match method {
                "tools/list" => "tools",
                "prompts/list" => "prompts",
                "resources/list" => "resources",
                "resources/templates/list" => "resourceTemplates",
                _ => "contents",
            };
            assert_eq!(names, [expected], "{version} {method}");
        }
        line.leave().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_has_the_same_order_in_every_bridge() {
    let home = Home::new();
    let _server = home.serve().await;
    let searches = [
        ("vctx", "search_recall"),
        ("memgpt", "conversation_search"),
        ("anthropic", "search_recall"),
        ("ues", "retrieve_from_ues"),
    ];
    for (dialect, search) in searches {
        let mut all: Vec<Vec<String>> = Vec::new();
        for _ in 0..3 {
            let arguments = ["--agent", "ada", "--all-tools", "--dialect", dialect];
            let mut line = Line::start(&home, &arguments, &Tuning::default());
            line.without_initialize("2026-07-28");
            let mut lists = Vec::new();
            for method in ["tools/list", "prompts/list", "resources/list"] {
                for _ in 0..2 {
                    lists.push(line.ask(method, json!({})).await["result"].to_string());
                }
                // A call does not change the lists.
                line.tool(search, json!({"query": "boat"})).await;
            }
            all.push(lists);
            line.leave().await;
        }
        assert!(all.iter().all(|lists| lists[0] == lists[1] && *lists == all[0]), "{dialect}");
        assert!(all[0][0].len() > 1_000, "{dialect}");
    }
}
