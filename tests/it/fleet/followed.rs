//! Tests that the change feed of an agent that moves to another database continues there.

use std::collections::BTreeSet;

use serde_json::json;

use super::{WHY, World, listed, moved, other};
use crate::changes::Feed;
use crate::outside::needs_an_engine_of_its_own;
use crate::talk::Agent;

#[tokio::test(flavor = "multi_thread")]
async fn a_feed_continues_in_the_database_to_which_its_agent_moves() {
    if needs_an_engine_of_its_own(WHY) {
        return;
    }
    let world = World::begun().await;
    let _server = world.server("vctx.sock").await;
    let (wire, socket) = (world.here.wire("vctx.sock"), world.here.path("vctx.sock"));
    let ada = Agent::create(wire.again(), "ada", 4096, "Serve.").await;
    ada.append("user", "Before the move.").await;
    let (mut feed, start) = Feed::begun(&socket, "ada", "?after=0").await;
    assert_eq!(start.id, "0");
    let place = listed(&wire).await["ada"].clone();
    assert_eq!(moved(&wire, "ada", other(&place)).await["moved"], true);
    ada.append("user", "After the move.").await;
    let (mut seen, mut last) = (Vec::new(), start.id);
    let end = loop {
        let message = feed.next().await.expect("a last message");
        if message.name == "end" {
            break message;
        }
        last.clone_from(&message.id);
        seen.push(message);
    };
    assert_eq!(end.data["reason"], "moved", "{end:?}");
    let rest = Feed::open(&socket, "ada", "?wait=false", Some(&last)).await;
    let mut rest = rest.unwrap_or_else(|refused| panic!("{refused:?}"));
    while let Some(message) = rest.next().await {
        if message.name == "change" {
            seen.push(message);
        }
    }
    let numbers: Vec<u64> = seen.iter().filter_map(|one| one.data["n"].as_u64()).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>(), "{seen:?}");
    let tools = seen.iter().filter(|one| one.data["details"]["tool"] == "append_fifo");
    let versions: BTreeSet<String> =
        tools.map(|one| one.data["details"]["version_after"].to_string()).collect();
    assert_eq!(versions.len(), 2, "{seen:?}");
    assert_eq!(
        seen.last().map(|one| one.data["details"]["tool"].clone()),
        Some(json!("append_fifo"))
    );
}
