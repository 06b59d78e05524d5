//! Traverses the named graph of a memory with plain AQL: from an agent to its evicted messages, and
//! from a passage to its source message.

use serde_json::{Value, json};

use crate::archival::{ingest, offer};
use crate::home::Home;
use crate::talk::Agent;

#[tokio::test(flavor = "multi_thread")]
async fn the_graph_leads_from_an_agent_to_its_log_and_from_a_passage_to_its_message() {
    let home = Home::new();
    let _server = home.serve().await;
    let database = home.database_inside();
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "Be brief.").await;
    let bob = Agent::create(home.wire("vctx.sock"), "bob", 8192, "Be brief.").await;
    let first = ada.append("user", "The almanac is on the shelf.").await;
    ada.append("assistant", "Noted.").await;
    bob.append("user", "Where is the almanac?").await;
    let message = first["result"]["message_id"].as_str().expect("an id").to_owned();
    let chunks = json!([{"text": "Low tide. ", "provenance": {"message_ids": [&message]}}, "High tide. ", "Slack water."]);
    ingest(&ada, &offer("tides.md", json!({"chunks": chunks})), "*").await.ok();
    for agent in [&ada, &bob] {
        agent.done("evict_fifo", &json!({"target_tokens": 0})).await;
    }

    let logged =
        "FOR v, e IN OUTBOUND @start GRAPH 'g_mem' SORT e.seq RETURN [v.agent_id, v.content]";
    let rows = database.rows(logged, json!({"start": "core_memory/ada"})).await;
    assert_eq!(rows, [json!(["ada", "The almanac is on the shelf."]), json!(["ada", "Noted."])]);

    let start = json!({"start": format!("messages/{message}")});
    let made = "FOR v IN INBOUND @start derived_from
        SORT v._id RETURN [PARSE_IDENTIFIER(v).collection, v.agent_id, v.text]";
    let summary = json!(["core_versions", "ada", null]);
    let passage = json!(["archival_docs", "ada", "Low tide. "]);
    assert_eq!(database.rows(made, start.clone()).await, [passage, summary]);
    // The query finds the agent of a passage; it follows one edge along its direction and another
    // against it.
    let owners = "FOR p IN archival_docs FILTER p.chunk_links.previous == null
        FOR v, e, path IN 2 ANY p derived_from, INBOUND recall_log
          FILTER PARSE_IDENTIFIER(v._id).collection == 'core_memory'
          RETURN [v.agent_id, path.vertices[*]._id == [p._id, @start, v._id]]";
    assert_eq!(database.rows(owners, start).await, [json!(["ada", true])]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_citation_leads_from_an_agent_to_a_passage_and_every_way_goes_by_an_index() {
    let home = Home::new();
    let _server = home.serve().await;
    let database = home.database_inside();
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "Be brief.").await;
    let answer = ada.append("assistant", "The tide turns at seven.").await;
    ada.append("user", "Thanks.").await;
    ingest(&ada, &offer("tides.md", json!({})), "*").await.ok();
    ada.done("evict_fifo", &json!({"target_tokens": 0})).await;
    let message = format!("messages/{}", answer["result"]["message_id"].as_str().expect("an id"));
    let passage =
        database.row("FOR d IN archival_docs FILTER d.index == 0 RETURN d._id", json!({})).await;
    let edge = json!({"_from": message, "_to": passage});
    let cited = database.call("POST", "/_api/gharial/g_mem/edge/cites", &edge).await;
    assert!(cited.status == 201 || cited.status == 202, "{}", cited.text);
    let passages = "FOR v, e, path IN 2 OUTBOUND 'core_memory/ada' GRAPH 'g_mem'
        FILTER PARSE_IDENTIFIER(v._id).collection == 'archival_docs' RETURN [path.vertices[1]._id, v.text]";
    assert_eq!(database.rows(passages, json!({})).await, [json!([message, "Low tide. "])]);

    // The test explains three queries. Two of them read rows in the order of time, and the third
    // goes from a message to its agent. Each plan must use an index and contain no sort.
    let explained = async |query: &str, binds: Value| -> Vec<Value> {
        let body = json!({"query": query, "bindVars": binds});
        let plan = database.call("POST", "/_api/explain", &body).await.ok();
        plan["plan"]["nodes"].as_array().expect("nodes").clone()
    };
    for (query, of, index) in [
        (
            "FOR m IN messages FILTER m.agent_id == @of SORT m.created_at RETURN m._key",
            "ada",
            "messages_by_time",
        ),
        (
            "FOR e IN recall_log FILTER e._from == @of SORT e.created_at RETURN e._to",
            "core_memory/ada",
            "recall_by_time",
        ),
        ("FOR e IN recall_log FILTER e._to == @of RETURN e._from", &message, "edge"),
    ] {
        let rows = database.rows(query, json!({"of": of})).await;
        assert_eq!(rows.len(), if index == "edge" { 1 } else { 2 }, "{query}");
        let nodes = explained(query, json!({"of": of})).await;
        let used = nodes.iter().find(|node| node["type"] == "IndexNode").expect("an index");
        assert_eq!(used["indexes"][0]["name"], index, "{query}");
        for other in ["EnumerateCollectionNode", "SortNode"] {
            assert!(nodes.iter().all(|node| node["type"] != other), "{other} in {query}");
        }
    }
}
