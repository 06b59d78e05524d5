//! Tests that names, clones and agents made again are found in each database.

use serde_json::{Value, json};

use super::{WHY, World, listed, moved};
use crate::again::{delete, rename, repeated};
use crate::cloned::clone;
use crate::outside::needs_an_engine_of_its_own;
use crate::talk::{Agent, said};

#[tokio::test(flavor = "multi_thread")]
async fn a_name_leads_to_its_agent_in_any_database() {
    if needs_an_engine_of_its_own(WHY) {
        return;
    }
    let world = World::begun().await;
    let (_one, _two) = (world.server("vctx.sock").await, world.server("b.sock").await);
    let wire = world.here.wire("vctx.sock");
    let mut ada = None;
    for n in 0..40 {
        let agent = Agent::create(wire.again(), &format!("a{n}"), 4096, "Serve.").await;
        if listed(&wire).await[&agent.name] == "east" {
            ada = Some(agent);
            break;
        }
    }
    let ada = ada.expect("an agent in the second database");
    ada.append("user", "Said in the east.").await;
    rename(&ada, "robert", "the-rename", "*").await.ok();
    let taken = Agent::create(wire.again(), "bea", 4096, "Serve.").await;
    rename(&taken, "robert", "another", "*").await.refused(409, "AGENT_EXISTS");
    let robert = Agent::at(world.here.wire("b.sock"), "robert");
    let state = repeated(async || robert.wire.get(&robert.path()).await).await.ok();
    assert_eq!(state["names"], json!([ada.name, "robert"]));
    robert.append("user", "Said to Robert.").await;
    moved(&wire, "robert", "home").await;
    assert_eq!(listed(&wire).await["robert"], "home");
    assert_eq!(robert.state().await["names"], state["names"], "the names move along");
    let texts = ["Said in the east.", "Said to Robert."].map(|text| ("user".into(), text.into()));
    assert_eq!(said(&ada.messages().await), texts);
    world.here.assert_verified("b.sock", "robert");
    assert_eq!(clone(&ada, "eve", "the-clone").await.status, 201);
    assert_eq!(listed(&wire).await["eve"], "home");
    let eve = Agent::at(world.here.wire("b.sock"), "eve");
    assert_eq!(said(&eve.messages().await), texts);
    world.here.assert_verified("vctx.sock", "eve");

    delete(&robert, "the-end", "*").await.ok();
    let refused = wire.put("/v1/agents/robert", &json!({"context_window": 4096})).await;
    assert_eq!(refused.refused(410, "AGENT_FORGOTTEN")["incarnation"], 2);
    let again = json!({"context_window": 4096, "system": "Serve.", "incarnation": 2});
    assert_eq!(wire.put("/v1/agents/robert", &again).await.status, 201);
    let made = repeated(async || robert.wire.get(&robert.path()).await).await.ok();
    assert_eq!((&made["agent_id"], &made["names"]), (&json!("robert@2"), &Value::Null));
    robert.append("user", "Another Robert.").await;
    moved(&wire, "robert", "east").await;
    assert_eq!(said(&robert.messages().await), [("user".into(), "Another Robert.".into())]);
    world.here.assert_verified("b.sock", "robert");
    ada.wire.get(&ada.path()).await.refused(404, "AGENT_NOT_FOUND");
    let tombstone = wire.get(&format!("{}@1/forget", ada.path())).await.ok();
    assert_eq!(tombstone["forgettings"].as_array().map(Vec::len), Some(1), "{tombstone}");
}
