//! The named graph of a memory, walked by somebody who knows nothing of the server: from an agent to what left its window, and from a
//! passage to the message it came from.

use serde_json::json;

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
    let passages = "FOR v IN INBOUND @start derived_from RETURN v.text";
    assert_eq!(database.rows(passages, start.clone()).await, [json!("Low tide. ")]);
    // Against one edge and along another: whose memory does a passage come from?
    let owners = "FOR p IN archival_docs FILTER p.chunk_links.previous == null
        FOR v, e, path IN 2 ANY p derived_from, INBOUND recall_log
          FILTER PARSE_IDENTIFIER(v._id).collection == 'core_memory'
          RETURN [v.agent_id, path.vertices[*]._id == [p._id, @start, v._id]]";
    assert_eq!(database.rows(owners, start).await, [json!(["ada", true])]);
}
