//! Tests that `vctx verify` checks tombstones and rows without an agent in each database.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{LOOK, PATIENCE, WHY, World, listed, moved, other};
use crate::forgotten::forgotten;
use crate::ledger::{put_back, signed};
use crate::outside::needs_an_engine_of_its_own;
use crate::signed::verified;
use crate::talk::Agent;

fn names(report: &Value, list: &str) -> Vec<String> {
    let list = report[list].as_array().unwrap_or_else(|| panic!("{report:#}"));
    list.iter().map(|one| one["agent"].as_str().expect("a name").to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn tombstones_and_strays_are_found_in_each_database() {
    if needs_an_engine_of_its_own(WHY) {
        return;
    }
    let world = World::begun().await;
    let server = world.server("vctx.sock").await;
    let wire = world.here.wire("vctx.sock");
    let socket = world.here.path("vctx.sock").display().to_string();
    let mut agents: BTreeMap<String, Vec<Agent>> = BTreeMap::new();
    for n in 0..40 {
        let agent = Agent::create(wire.again(), &format!("a{n}"), 4096, "Serve.").await;
        agent.append("user", "Good morning.").await;
        agents.entry(listed(&wire).await[&agent.name].clone()).or_default().push(agent);
        if agents.len() == 2 && agents.values().all(|some| some.len() > 2) {
            break;
        }
    }
    let databases = world.databases();
    let now = || verified(&world.here, &["--socket", &socket]);
    let (code, report) = now();
    assert_eq!((code, &report["places_away"]), (0, &json!([])), "{report:#}");
    let mut forgot = Vec::new();
    for (place, some) in &agents {
        signed(&some[0]).await;
        forgotten(&some[0], &json!({"all": true})).await;
        forgot.push((place.as_str(), &some[0].name));
        // The source has a record of the departure, which does not say what became of the agent.
        moved(&wire, &some[1].name, other(place)).await;
        // The next write after a move is signed.
        some[1].append("user", "Here now.").await;
        signed(&some[1]).await;
        let (code, report) = now();
        assert_eq!(code, 0, "{report:#}");
        forgotten(&some[1], &json!({"all": true})).await;
        forgot.push((other(place), &some[1].name));
        let (code, report) = now();
        assert_eq!(code, 0, "{report:#}");
    }
    for (place, name) in forgot {
        let database = &databases[place];
        let query = "FOR f IN forgets FILTER f.agent_id == @agent REMOVE f IN forgets RETURN OLD";
        let row = database.row(query, json!({"agent": name})).await;
        let (code, report) = now();
        assert_eq!((code, names(&report, "tombstones")), (65, vec![name.clone()]), "{report:#}");
        put_back(database, "forgets", row.as_object().expect("a tombstone")).await;
        assert_eq!(now().0, 0);
    }
    let stays = &agents["home"][2];
    for (place, name) in [("east", "zoe"), ("home", "zoe"), ("east", stays.name.as_str())] {
        // A row of an agent of one database is a stray in the other one.
        let query = "FOR m IN messages LIMIT 1 RETURN m";
        let row = databases[place].row(query, json!({})).await;
        let mut row = row.as_object().expect("a message").clone();
        row.insert("_key".into(), "stray".into());
        row.insert("agent_id".into(), name.into());
        put_back(&databases[place], "messages", &row).await;
        let (code, report) = now();
        let stray = &report["strays"][0];
        assert_eq!((code, names(&report, "strays")), (65, vec![name.to_owned()]), "{report:#}");
        assert_eq!((&stray["place"], &stray["rows"]), (&json!(place), &json!(1)), "{report:#}");
        let gone = "REMOVE 'stray' IN messages RETURN 1";
        databases[place].row(gone, json!({})).await;
        assert_eq!(now().0, 0);
    }
    // Without its core, an agent is missing in whichever database.
    for place in ["home", "east"] {
        let name = &agents[place][2].name;
        let query =
            "FOR c IN core_memory FILTER c._key == @agent REMOVE c IN core_memory RETURN OLD";
        let row = databases[place].row(query, json!({"agent": name})).await;
        let (code, report) = now();
        assert_eq!((code, names(&report, "missing")), (65, vec![name.clone()]), "{report:#}");
        put_back(&databases[place], "core_memory", row.as_object().expect("a core")).await;
        assert_eq!(now().0, 0);
    }
    for text in ["failed", "not checked", "given up", "stands still", "unreachable", "no answer"] {
        server.expect(text);
    }
    world.two.kill();
    let until = std::time::Instant::now() + PATIENCE;
    loop {
        let told = wire.get("/v1/ledgers").await;
        if told.status == 200 {
            let told = told.ok();
            assert_eq!(told["places_away"], json!(["east"]), "{told}");
            assert_eq!((&told["missing"], &told["tombstones"]), (&json!([]), &json!([])), "{told}");
            break;
        }
        assert!(std::time::Instant::now() < until, "{}", told.text);
        tokio::time::sleep(LOOK).await;
    }
    let (code, report) = now();
    assert_eq!((code, &report["places_away"]), (69, &json!(["east"])), "{report:#}");
}
