//! Tests the vector index of the archive: its creation, its results, and searches without it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use serde_json::{Value, json};

use super::{circle, eager, index_becomes, ingest, search, texts, walk};
use crate::database::Database;
use crate::home::Home;
use crate::liar::{Liar, Told};
use crate::one_transaction::Stage;
use crate::talk::Agent;

#[tokio::test(flavor = "multi_thread")]
async fn the_index_is_asked_with_the_cells_of_the_call_or_the_stored_ones_and_its_score_stands() {
    let stage = Stage::new(&eager()).await;
    let ada = stage.agent("ada", 8192).await;
    ingest(&ada, &circle("c", 0, 120, "cosine"), "*").await.ok();
    index_becomes(&ada, "ready").await;
    let database = stage.home.database();
    let stored = measured(&database).await["nProbe"].clone();
    // A stored attribute with the same name as the score (`similarity`) does not replace the score.
    let spoiled =
        "FOR d IN archival_docs UPDATE d WITH { similarity: 99 } IN archival_docs RETURN 1";
    assert_eq!(database.rows(spoiled, json!({})).await.len(), 120);
    let told = |cells: u32| (cells > 32).then(|| json!({"nProbe": 32}));
    for (arguments, cells) in [
        (json!({"query_vector": [1, 0], "limit": 1, "nProbe": 3}), json!(3)),
        (json!({"query_vector": [1, 0], "limit": 1, "nProbe": 32}), json!(32)),
        (json!({"query_vector": [1, 0], "limit": 1, "nProbe": 33}), json!(33)),
        (json!({"query_vector": [1, 0], "limit": 1}), stored.clone()),
    ] {
        stage.reads.clear();
        let body = search(&ada, arguments).await.ok();
        let result = &body["result"];
        assert_eq!((&result["plan"], &result["nProbe"]), (&json!("vector"), &cells), "{body}");
        let beyond = told(cells.as_u64().expect("cells") as u32);
        assert_eq!(result.get("beyond_slo"), beyond.as_ref(), "{body}");
        let similarity = result["results"][0]["similarity"].as_f64().expect("a score");
        assert!((similarity - 1.0).abs() < 1e-6, "{body}");
        assert!(result["results"][0].get("embedding").is_none());
        let asked: Vec<Value> = stage
            .reads
            .record()
            .iter()
            .filter(|e| {
                e.request["query"].as_str().is_some_and(|q| q.contains("APPROX_NEAR_COSINE"))
            })
            .map(|e| e.request["bindVars"]["n_probe"].clone())
            .collect();
        assert_eq!(asked, [cells]);
    }
}

/// Waits until the server has measured how many index lists a search needs, and returns the
/// measurement.
async fn measured(database: &Database) -> Value {
    for _ in 0..1_200 {
        let query = "FOR v IN vctx_meta FILTER v._key == 'vector' RETURN v.measured";
        let found = database.row(query, json!({})).await;
        if found.is_object() {
            return found;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("the index is never measured");
}

#[tokio::test(flavor = "multi_thread")]
async fn with_filters_first_the_index_gives_only_what_passes_them() {
    let mut tuning = eager();
    tuning.environment.push(("VCTX_ARCHIVE__FILTERS_FIRST".into(), "true".into()));
    let home = Home::new();
    let _server = home.serve_with("vctx.sock", &tuning).await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "").await;
    let bob = Agent::create(home.wire("vctx.sock"), "bob", 8192, "").await;
    ingest(&ada, &circle("c", 0, 90, "cosine"), "*").await.ok();
    ingest(&bob, &circle("b", 0, 90, "cosine"), "*").await.ok();
    ingest(&ada, &circle("d", 90, 90, "cosine"), "*").await.ok();
    index_becomes(&ada, "ready").await;
    let angle = 30.2_f64.to_radians();
    let query = json!([angle.cos(), angle.sin()]);
    let text = |r: &Value| r["text"].as_str().expect("a text").to_owned();
    let near: Vec<String> = [30, 31, 29].iter().map(|n| format!("Bearing {n:03}. ")).collect();
    let far: Vec<String> = (90..93).map(|n| format!("Bearing {n:03}. ")).collect();
    for (filter, wanted) in [
        (json!({}), &near),
        (json!({"doc_id": "c", "freshness_after": "2020-01-01"}), &near),
        (json!({"source": "d"}), &far),
        (json!({"source": "d", "doc_id": "d"}), &far),
    ] {
        let asked = json!({"query_vector": query, "limit": 3, "nProbe": 12, "filter": filter});
        let body = search(&ada, asked).await.ok();
        let result = &body["result"];
        let found: Vec<String> =
            result["results"].as_array().expect("a list").iter().map(text).collect();
        assert_eq!(&found, wanted, "{filter}: {body}");
        assert_eq!(result["post_filter_dropped"], 0, "{filter}: nothing is dropped behind it");
    }
    let asked = json!({"query_vector": query, "limit": 3, "nProbe": 12, "filter": {"doc_id": "b"}});
    assert_eq!(search(&ada, asked).await.ok()["result"]["k_actual"], 0, "it is bob's");
    let asked = json!({"query_vector": query, "limit": 3, "nProbe": 12});
    assert_eq!(search(&ada, asked).await.ok()["result"]["plan"], "vector_filters_first");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_index_gives_the_nearest_in_both_metrics_and_filters_come_behind_it() {
    for (metric, sign) in [("cosine", -1.0), ("l2", 1.0)] {
        let home = Home::new();
        let _server = home.serve_with("vctx.sock", &eager()).await;
        let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "").await;
        ingest(&ada, &circle("c", 0, 90, metric), "*").await.ok();
        ingest(&ada, &circle("d", 90, 90, metric), "*").await.ok();
        index_becomes(&ada, "ready").await;
        let angle = 30.2_f64.to_radians();
        let query = json!([angle.cos(), angle.sin()]);
        let asked = json!({"query_vector": query, "limit": 5, "nProbe": 32});
        let body = search(&ada, asked.clone()).await.ok();
        let result = &body["result"];
        assert_eq!((&result["plan"], &result["metric"]), (&json!("vector"), &json!(metric)));
        let wanted: Vec<String> =
            [30, 31, 29, 32, 28].iter().map(|n| format!("Bearing {n:03}. ")).collect();
        let found = walk(&ada, asked.clone()).await;
        let text = |r: &Value| r["text"].as_str().expect("a text").to_owned();
        assert_eq!(found.iter().map(text).collect::<Vec<_>>(), wanted, "{metric}");
        let scores: Vec<f64> =
            found.iter().map(|r| r["similarity"].as_f64().expect("a score")).collect();
        assert!(scores.windows(2).all(|pair| (pair[0] - pair[1]) * sign < 0.0), "{scores:?}");

        // The nearest chunks all belong to another document. The filter drops these chunks, and the
        // search continues after them.
        let mut of_d = asked;
        of_d["filter"] = json!({"source": "d"});
        let body = search(&ada, of_d.clone()).await.ok();
        let result = &body["result"];
        let found = walk(&ada, of_d).await;
        let wanted: Vec<String> = (90..95).map(|n| format!("Bearing {n:03}. ")).collect();
        assert_eq!(found.iter().map(text).collect::<Vec<_>>(), wanted, "{metric}");
        assert!(result["post_filter_dropped"].as_u64() > Some(0), "{body}");
        assert_eq!(result["k_actual"], 5);

        // Another agent's search reads the same vectors but returns none of them.
        let bob = Agent::create(ada.wire.again(), "bob", 8192, "").await;
        ingest(&bob, &circle("b", 200, 1, metric), "*").await.ok();
        let body = search(&bob, json!({"query_vector": query, "limit": 5})).await.ok();
        let result = &body["result"];
        assert_eq!((&result["k_actual"], &result["post_filter_dropped"]), (&json!(1), &json!(0)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_index_is_made_when_there_is_enough_and_then_serves() {
    let home = Home::new();
    let _server = home.serve_with("vctx.sock", &eager()).await;
    let database = home.database_inside();
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "").await;
    let bob = Agent::create(home.wire("vctx.sock"), "bob", 8192, "").await;
    assert_eq!(index_becomes(&ada, "none").await["search"], "exact");
    let done = ingest(&ada, &circle("c", 0, 60, "cosine"), "*").await.ok();
    assert_eq!(done["result"]["vector_index_used"], false);
    let query = json!([30_f64.to_radians().cos(), 30_f64.to_radians().sin()]);
    let body = search(&ada, json!({"query_vector": query, "limit": 3})).await.ok();
    assert_eq!(body["result"]["plan"], "exact", "before there is an index");
    ingest(&bob, &circle("c", 60, 60, "cosine"), "*").await.ok();
    let told = index_becomes(&ada, "ready").await;
    let setting =
        database.row("FOR v IN vctx_meta FILTER v._key == 'vector' RETURN v", json!({})).await;
    assert_eq!(setting["nLists"], told["nLists"], "what is stored is what is there");
    let indexes =
        database.call("GET", "/_api/index?collection=archival_docs", &Value::Null).await.ok();
    let index =
        indexes["indexes"].as_array().expect("a list").iter().find(|i| i["type"] == "vector");
    let params = &index.expect("the index")["params"];
    for name in ["metric", "dimension", "defaultNProbe", "nLists"] {
        assert_eq!(params[name], setting[name], "{name}");
    }
    let done = ingest(&ada, &circle("d", 200, 3, "cosine"), "*").await.ok();
    assert_eq!(done["result"]["vector_index_used"], true);
    let body = search(&ada, json!({"query_vector": query, "limit": 3, "nProbe": 4})).await.ok();
    let result = &body["result"];
    assert_eq!(result["plan"], "vector");
    let mut near = texts(result);
    near.sort_unstable();
    assert_eq!(near, ["Bearing 029. ", "Bearing 030. ", "Bearing 031. "]);
    // The search drops hits of the other agent, and continues until it has enough hits of the agent
    // that searches.
    let asked = json!({"query_vector": [-0.5, 0.866], "limit": 40, "explain": true});
    let found = walk(&ada, asked).await;
    assert_eq!(found.len(), 40);
    assert!(found.iter().all(|r| r["provenance"]["owner"] == "ada"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_that_is_gone_when_it_is_asked_is_done_without() {
    let home = Home::new();
    let _engine = home.engine().await;
    let gone = Arc::new(AtomicU16::new(0));
    let told = Arc::clone(&gone);
    // Instead of the database, this proxy answers the searches, with the error `told`. The test
    // tries every error that ArangoDB returns to a search whose index was dropped after planning or
    // is not usable.
    let _liar = Liar::instead(&home.path("liar.sock"), &home.path("engine.sock"), move |asked| {
        let num = told.load(Ordering::SeqCst);
        let near = asked.request["query"].as_str().is_some_and(|q| q.contains("APPROX_NEAR"));
        let (status, text) = if num == 1212 { (404, "index not found") } else { (500, "no index") };
        let body = json!({"error": true, "code": status, "errorNum": num, "errorMessage": text});
        (near && num != 0).then(|| Told::new(status, body))
    });
    let _server = home.server("vctx.sock", "engine.sock", "liar.sock", &eager()).await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "").await;
    ingest(&ada, &circle("c", 0, 120, "cosine"), "*").await.ok();
    index_becomes(&ada, "ready").await;
    let query = json!([30_f64.to_radians().cos(), 30_f64.to_radians().sin()]);
    // The search reads all lists, so that the index returns the same results as an exact
    // comparison.
    let near = || search(&ada, json!({"query_vector": query, "limit": 3, "nProbe": 32}));
    let served = near().await.ok();
    assert_eq!(served["result"]["plan"], "vector", "{served}");
    for num in [1212, 1554, 1555] {
        gone.store(num, Ordering::SeqCst);
        let body = near().await.ok();
        assert_eq!(body["result"]["plan"], "exact", "{num}: {body}");
        assert_eq!(texts(&body["result"]), texts(&served["result"]), "{num}");
        gone.store(0, Ordering::SeqCst);
        index_becomes(&ada, "ready").await;
        assert_eq!(near().await.ok()["result"]["plan"], "vector", "behind {num}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_who_may_not_make_an_index_is_served_one_by_one() {
    let home = Home::new();
    let _engine = home.engine().await;
    let mut tuning = eager();
    let _admin = home.server("admin.sock", "engine.sock", "engine-ro.sock", &tuning).await;
    let database = home.database();
    let name = &database.name;
    let least = format!("least-of-{name}");
    let made = json!({"user": least, "passwd": "least"});
    database.system("POST", "/_api/user", &made).await.ok();
    for (path, grant) in [("", "ro"), ("/*", "rw")] {
        let path = format!("/_api/user/{least}/database/{name}{path}");
        database.system("PUT", &path, &json!({"grant": grant})).await.ok();
    }
    tuning.environment.push(("ARANGO_USER".into(), least));
    tuning.environment.push(("ARANGO_PASSWORD".into(), "least".into()));
    let _server = home.server("vctx.sock", "engine.sock", "engine-ro.sock", &tuning).await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "").await;
    ingest(&ada, &circle("c", 0, 90, "l2"), "*").await.ok();
    let body = search(&ada, json!({"query_vector": [1, 0], "limit": 1})).await.ok();
    assert_eq!(body["result"]["plan"], "exact");
    for _ in 0..200 {
        let told = ada.wire.get("/readyz").await.ok()["vector_index"].clone();
        if told["reason"].as_str().is_some_and(|r| r.contains("may not make an index")) {
            assert_eq!(told["state"], "none");
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    panic!("readiness does not tell why there is no index");
}
