//! Tests that an unreachable database does not affect the agents of the other databases.

use std::collections::BTreeMap;

use serde_json::json;

use super::{WHY, World, in_their_places, listed, moved, open, settled, stands};
use crate::outside::needs_an_engine_of_its_own;
use crate::talk::{Agent, said};

#[cfg_attr(not(feature = "long-tests"), ignore = "long: `cargo it` runs it")]
#[tokio::test(flavor = "multi_thread")]
async fn a_place_that_is_away_keeps_nobody_from_the_others() {
    if needs_an_engine_of_its_own(WHY) {
        return;
    }
    let world = World::begun().await;
    let mut tuning = world.tuning();
    tuning.environment.push(("VCTX_CONVEYANCE__PROBE_MS".into(), "500".into()));
    let server = world.server_with("vctx.sock", &tuning).await;
    let wire = world.here.wire("vctx.sock");
    let mut at: BTreeMap<String, Agent> = BTreeMap::new();
    for n in 0..40 {
        let agent = Agent::create(wire.again(), &format!("a{n}"), 4096, "Serve.").await;
        at.insert(listed(&wire).await[&agent.name].clone(), agent);
        if at.len() == 2 {
            break;
        }
    }
    let (near, far) = (&at["home"], &at["east"]);
    near.append("user", "Here.").await;
    far.append("user", "There.").await;
    for text in ["failed", "not checked", "given up", "stands still", "unreachable", "no answer"] {
        server.expect(text);
    }
    world.two.kill();
    near.append("user", "Still here.").await;
    let asked = json!({"message": "Anybody?", "role": "user"});
    // Each of these calls waits for the database as long as a call may take.
    let (lists, moves) = (wire.again(), wire.again());
    let path = format!("{}/move", near.path());
    let body = json!({"to": "east"}).to_string();
    let (appended, told, moved_away) = tokio::join!(
        far.tool("append_fifo", &asked, "anybody", "*"),
        lists.get("/v1/agents"),
        moves.call("POST", &path, &[], body),
    );
    appended.refused(503, "STORE_UNAVAILABLE");
    let told = told.ok();
    assert_eq!(told["places_away"], json!(["east"]), "{told}");
    // A failed move leaves the agent unchanged and usable.
    assert_eq!(moved_away.status, 503, "{}", moved_away.text);
    let told = stands(&wire, "silent").await;
    assert!(told["reason"].as_str().is_some_and(|why| !why.is_empty()), "{told}");
    let metrics = world.here.wire("vctx-metrics.sock").get("/metrics").await.text;
    assert!(metrics.contains("vctx_place_up{place=\"east\"} 0"), "{metrics}");
    near.append("user", "Still writable.").await;
    // A new server starts although only one of the databases is reachable.
    let late =
        world.here.server("late.sock", "engine.sock", "engine-ro.sock", &world.tuning()).await;
    late.expect("a database is not ready");
    late.expect("a job failed");
    let late = Agent::at(world.here.wire("late.sock"), &near.name);
    late.append("user", "Here as well.").await;
    let far_late = Agent::at(world.here.wire("late.sock"), &far.name);
    far_late.wire.get(&far_late.path()).await.refused(503, "NOT_READY");

    let _again = world.there.engine().await;
    open(&late.wire).await;
    stands(&wire, "open").await;
    far.tool("append_fifo", &asked, "anybody", "*").await.ok();
    assert_eq!(said(&far_late.messages().await).len(), 2);
    settled(&world).await;
    assert_eq!(moved(&wire, &near.name, "east").await["moved"], true);
    assert_eq!(said(&late.messages().await).len(), 4);
    in_their_places(&world, &wire).await;
    drop(world.one);
}
