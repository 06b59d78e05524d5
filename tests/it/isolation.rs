//! Tests isolation with agents of several tenants that have nearly the same memories: no path,
//! tool, token, key or id shows one agent's data to the caller of another agent.

use std::collections::BTreeSet;

use aho_corasick::AhoCorasick;
use serde_json::{Value, json};

use crate::archival::{eager, index_becomes};
use crate::home::{Home, Process, Tuning};
use crate::isolation_cases::{Asked, Names, Own, requests};
use crate::keeper::{Keeper, nobody, plant, rows, secrets};
use crate::line::Line;
use crate::talk::Agent;
use crate::wire::Answer;

/// The fields that the agent list shows of each agent of a tenant: names, figures and the head of
/// the hash chain, but no text.
const LISTED: [&str; 9] = [
    "_rev",
    "agent",
    "chain",
    "context_window",
    "encoding",
    "queue",
    "updated_at",
    "user",
    "version",
];

/// All agents of the test, their servers and their database.
struct Stage {
    home: Home,
    _engine: Process,
    servers: Vec<Process>,
    keepers: Vec<Keeper>,
}

/// Creates two agents of one tenant, and an agent of another tenant with the name of the first
/// agent. The second agent uses a server that compares vectors one by one, without an index.
async fn stage() -> Stage {
    let home = Home::new();
    let engine = home.engine().await;
    let mut acme = eager();
    acme.environment.push(("VCTX_SERVER__TENANT".into(), "acme".into()));
    let mut servers = Vec::new();
    for (socket, tuning) in
        [("vctx.sock", eager()), ("exact.sock", Tuning::default()), ("acme.sock", acme)]
    {
        servers.push(home.server(socket, "engine.sock", "engine-ro.sock", &tuning).await);
    }
    let mut keepers = Vec::new();
    for (socket, name, scope) in [
        ("vctx.sock", "ada", "ada"),
        ("exact.sock", "bob", "bob"),
        ("acme.sock", "ada", "acme:ada"),
    ] {
        keepers.push(plant(&home, socket, name, scope).await);
    }
    keepers[1].metrics = "exact-metrics.sock";
    index_becomes(&keepers[0].agent, "ready").await;
    let database = home.database();
    for keeper in &mut keepers {
        let query = "FOR d IN archival_docs FILTER d.agent_id == @scope AND d.doc_id == @doc_id AND d.index == 3
            RETURN d.embedding";
        let binds = json!({"scope": keeper.scope, "doc_id": keeper.names.doc_id});
        keeper.names.vector = database.row(query, binds).await;
        keeper.names.revision = keeper.agent.revision().await;
    }
    Stage { home, _engine: engine, servers, keepers }
}

/// Returns the content of an answer without the names that the request contained.
fn told(answer: &Answer, names: &Names) -> Value {
    let mut detail = answer.body["detail"].to_string();
    for text in names.texts() {
        detail = detail.replace(text, "?");
    }
    let result = &answer.body["result"];
    let results = result["results"].as_array().into_iter().flatten();
    let ids: Vec<&Value> = results.map(|r| &r["id"]).collect();
    json!({"status": answer.status, "error": answer.code(), "field": answer.body["field"], "detail": detail, "found": ids,
        "replayed": answer.body["replayed"], "plan": result["plan"], "k_actual": result["k_actual"], "total": result["total"],
        "post_filter_dropped": result["post_filter_dropped"]})
}

/// Returns the whole answer as text: status line, headers, body.
fn everything(answer: &Answer) -> String {
    let headers: String = answer
        .headers
        .iter()
        .map(|(n, v)| format!("{n}: {}\n", String::from_utf8_lossy(v.as_bytes())))
        .collect();
    format!("{headers}\n{}", answer.text)
}

async fn send(keeper: &Keeper, asked: &Asked) -> Answer {
    let headers: Vec<(&str, &str)> = asked.headers.iter().map(|(n, v)| (*n, v.as_str())).collect();
    keeper.agent.wire.call(asked.method, &asked.path, &headers, asked.body.clone()).await
}

/// Returns every method and path in the server's OpenAPI description, and a path for every tool
/// that the server lists.
async fn listed(agent: &Agent) -> Vec<(String, String)> {
    let described = agent.wire.get("/v1/openapi.json").await.ok();
    let paths = described["paths"].as_object().expect("paths");
    let operations = |(path, methods): (&String, &Value)| {
        let methods: Vec<String> = methods.as_object().expect("methods").keys().cloned().collect();
        methods.into_iter().map(|method| (method, path.clone())).collect::<Vec<_>>()
    };
    let all: Vec<(String, String)> = paths.iter().flat_map(operations).collect();
    let tools = agent.wire.get("/v1/tools").await.ok();
    for tool in tools["tools"].as_array().expect("tools") {
        let path = format!("/v1/agents/{{agent}}/tools/{}", tool["name"].as_str().expect("a name"));
        assert!(all.contains(&("post".into(), path.clone())), "{path} is not described");
    }
    all
}

/// Checks that a request with the agent's own names has results. Otherwise the test would prove
/// nothing when a request with another agent's names has none.
fn assert_own(asked: &Asked, answer: &Answer) {
    let Some(own) = asked.own else { return };
    assert!(answer.status < 300, "{asked:?}: {}", answer.text);
    let found = answer.body["result"]["results"].as_array().is_some_and(|list| !list.is_empty());
    assert!(own != Own::Found || found, "{asked:?} finds nothing of one's own: {}", answer.text);
    let replayed = answer.body["replayed"] == true;
    assert!((own == Own::Replayed) == replayed, "{asked:?}: {}", answer.text);
}

/// Searches an answer for data of every other agent.
struct Watch {
    /// Secret texts and words of all agents except the caller.
    texts: Vec<String>,
    all: AhoCorasick,
}

impl Watch {
    /// Searches an answer. `sent` is the text of the request, which the answer may repeat.
    fn look(&self, asked: &str, sent: &str, answer: &str) {
        for found in self.all.find_overlapping_iter(answer) {
            let text = self.texts[found.pattern()].as_str();
            assert!(sent.contains(text), "{asked} tells of {text:?}: {answer}");
        }
    }
}

/// Sends all requests of one agent, with its own names and with those of all other agents. Returns
/// the query plans that the archive searches used.
async fn drive(stage: &Stage, at: usize) -> BTreeSet<String> {
    let (asker, database) = (&stage.keepers[at], stage.home.database());
    let others: Vec<&Keeper> = stage.keepers.iter().filter(|k| k.scope != asker.scope).collect();
    let mine = secrets(&rows(&database, asker.scope).await);
    let (mut before, mut theirs) = (Vec::new(), BTreeSet::new());
    for other in &others {
        let there = rows(&database, other.scope).await;
        assert!(there.values().all(|rows| !rows.is_empty()), "{} keeps too little", other.scope);
        theirs.extend(secrets(&there));
        before.push(there);
    }
    // Three kinds of text do not count as secrets: sentences without a secret word, because every
    // agent may have them; names that no agent has, because the requests of all agents contain
    // them; and the source that a tool of MemGPT's gives to documents.
    theirs.retain(|text| !text.contains(' ') || text.contains("quox"));
    theirs.retain(|text| !text.contains("quoxnobody") && text != "archival_memory");
    let secrets: Vec<String> = theirs.difference(&mine).cloned().collect();
    assert!(secrets.len() > 500, "only {} secrets", secrets.len());
    let words = others.iter().map(|k| k.names.word.clone());
    let texts: Vec<String> = secrets.into_iter().chain(words).collect();
    let watch = Watch { all: AhoCorasick::new(&texts).expect("few texts"), texts };
    assert!(watch.texts.iter().all(|text| watch.all.is_match(text)), "each leak is seen");

    let mut plans = BTreeSet::new();
    let mut paths = listed(&asker.agent).await;
    // An export contains everything that the caller sent, so the test requests the export before
    // the caller sends names of other agents.
    paths.sort_by_key(|(_, path)| !path.ends_with("/export"));
    for (method, path) in paths {
        let own = Names { revision: asker.agent.revision().await, ..asker.names.clone() };
        for asked in requests(&method, &path, &asker.agent.name, &own) {
            let answer = send(asker, &asked).await;
            assert_own(&asked, &answer);
            look(&watch, asker, &others, &asked, &answer);
            plans.extend(answer.body["result"]["plan"].as_str().map(str::to_owned));
        }
        for other in &others {
            let missing = nobody(&other.names);
            let foreign = requests(&method, &path, &asker.agent.name, &other.names);
            let nobodys = requests(&method, &path, &asker.agent.name, &missing);
            for (asked, unknown) in foreign.into_iter().zip(nobodys) {
                let (answer, control) = (send(asker, &asked).await, send(asker, &unknown).await);
                look(&watch, asker, &others, &asked, &answer);
                assert_ne!(answer.body["replayed"], true, "{asked:?}: {}", answer.text);
                if asked.alike {
                    let (answer, control) = (told(&answer, &other.names), told(&control, &missing));
                    assert_eq!(answer, control, "{asked:?}: forbidden and missing differ");
                }
            }
        }
    }
    asker.agent.done("record_heartbeat", &json!({"state": "yield"})).await;
    for (other, before) in others.iter().zip(before) {
        assert_eq!(rows(&database, other.scope).await, before, "{} was changed", other.scope);
    }
    let metrics = stage.home.wire(asker.metrics).get("/metrics").await;
    assert_eq!(metrics.status, 200);
    let of_all: Vec<&str> = stage.keepers.iter().map(|k| k.names.word.as_str()).collect();
    assert!(of_all.iter().all(|word| !metrics.text.contains(word)), "metrics tell of a word");
    plans
}

/// All callers of a tenant may list its agents, with names and figures, but without texts.
fn look(watch: &Watch, asker: &Keeper, others: &[&Keeper], asked: &Asked, answer: &Answer) {
    let what = format!("{} asks {} {} {}", asker.scope, asked.method, asked.path, asked.body);
    let headers: String =
        asked.headers.iter().map(|(_, v)| v.as_str()).collect::<Vec<_>>().join("\n");
    // A caller may give its own block the name of another agent's block; the name then appears in
    // the caller's own window.
    let adopted: Vec<&str> =
        others.iter().flat_map(|k| [k.names.block_id.as_str(), k.names.doc_id.as_str()]).collect();
    let mut shown = everything(answer);
    for name in &adopted {
        shown = shown.replace(name, "?");
    }
    let mut sent = format!("{headers}\n{}\n{}", asked.path, asked.body);
    if asked.path == "/v1/agents" {
        let listed = answer.body["agents"].as_array().expect("agents").iter();
        for row in listed {
            let mut known: Vec<&str> =
                row.as_object().expect("a row").keys().map(String::as_str).collect();
            known.sort_unstable();
            assert_eq!(known, LISTED, "what a tenant sees of each of its agents");
            let tenant = asker.scope.split_once(':').map(|(tenant, _)| format!("{tenant}:"));
            let scope =
                format!("{}{}", tenant.unwrap_or_default(), row["agent"].as_str().expect("a name"));
            assert!(
                others.iter().chain([&asker]).any(|k| k.scope == scope),
                "{scope} is of another tenant"
            );
            sent.push_str(&row.to_string());
        }
    }
    watch.look(&what, &sent, &shown);
}

#[cfg_attr(not(feature = "long-tests"), ignore = "long: `cargo it` runs it")]
#[tokio::test(flavor = "multi_thread")]
async fn by_no_path_tool_token_key_or_id_does_one_see_anything_of_another() {
    let stage = stage().await;
    let mut plans = BTreeSet::new();
    for at in 0..stage.keepers.len() {
        plans.extend(drive(&stage, at).await);
    }
    assert!(plans.contains("exact") && plans.contains("vector"), "{plans:?}");
    for (edges, from) in [
        ("cites", "DOCUMENT(e._from).agent_id"),
        ("derived_from", "DOCUMENT(e._from).agent_id"),
        ("recall_log", "PARSE_KEY(e._from)"),
    ] {
        let query = format!("FOR e IN {edges} RETURN [{from}, DOCUMENT(e._to).agent_id]");
        let ends = stage.home.database().rows(&query, json!({})).await;
        assert!(ends.len() >= stage.keepers.len(), "{edges} is nearly empty");
        assert!(
            ends.iter().all(|pair| pair[0] == pair[1]),
            "an edge of {edges} from one to another"
        );
    }
    for server in &stage.servers {
        let said = server.said();
        for keeper in &stage.keepers {
            assert!(!said.contains(&format!("{} keeper", keeper.names.word)), "a text in a log");
            assert!(!said.contains(&keeper.names.key), "a key in a log");
        }
    }
    for (socket, agent) in [("vctx.sock", "ada"), ("exact.sock", "bob"), ("acme.sock", "ada")] {
        stage.home.assert_verified(socket, agent);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_of_another_tenant_is_answered_like_one_that_is_not_there() {
    let home = Home::new();
    let _engine = home.engine().await;
    let tenant = Tuning::variable("VCTX_SERVER__TENANT", "acme");
    let _acme = home.server("acme.sock", "engine.sock", "engine-ro.sock", &tenant).await;
    let _plain =
        home.server("vctx.sock", "engine.sock", "engine-ro.sock", &Tuning::default()).await;
    let eve = plant(&home, "acme.sock", "eve", "acme:eve").await;
    let database = home.database();
    let before = rows(&database, "acme:eve").await;
    let asker = Agent::at(home.wire("vctx.sock"), "eve");
    let missing = nobody(&eve.names);
    for (method, path) in listed(&asker).await {
        // The creation of an agent (PUT) is skipped: it succeeds, and creates an agent of the
        // caller's tenant that is separate from the other tenant's agent with the same name.
        if !path.contains("{agent}") || method == "put" {
            continue;
        }
        for [theirs, nobodys] in
            [["eve", "nobody"], ["acme:eve", "acme:nobody"], ["acme%3Aeve", "acme%3Anobody"]]
        {
            let foreign = requests(&method, &path, theirs, &eve.names);
            let unknown = requests(&method, &path, nobodys, &missing);
            for (asked, unknown) in foreign.into_iter().zip(unknown) {
                let keeper = Keeper {
                    agent: asker.again(),
                    metrics: eve.metrics,
                    scope: "eve",
                    names: missing.clone(),
                };
                let (answer, control) =
                    (send(&keeper, &asked).await, send(&keeper, &unknown).await);
                assert!(answer.status >= 400, "{asked:?}: {}", answer.text);
                let plain = |answer: &Answer, name: &str| {
                    let mut told = told(answer, &eve.names);
                    told["detail"] =
                        told["detail"].to_string().replace(&format!("/{name}"), "/?").into();
                    told
                };
                assert_eq!(plain(&answer, "eve"), plain(&control, "nobody"), "{asked:?}");
            }
        }
    }
    assert_eq!(rows(&database, "acme:eve").await, before);
    let list = asker.wire.get("/v1/agents").await.ok();
    assert_eq!(list["agents"], json!([]));
    let made = Agent::create(asker.wire.again(), "eve", 4096, "").await;
    let fresh = format!("{} {}", made.state().await, made.context().await);
    assert!(!fresh.contains(&eve.names.word), "{fresh}");
    assert_eq!(rows(&database, "acme:eve").await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_of_mcp_reads_no_resource_of_another_agent() {
    let home = Home::new();
    let _server = home.serve().await;
    for name in ["ada", "bob"] {
        plant(&home, "vctx.sock", name, if name == "ada" { "ada" } else { "bob" }).await;
    }
    let mut line = Line::initialized(&home, &["--agent", "ada"]).await;
    let listed = line.ask("resources/list", json!({})).await["result"]["resources"].clone();
    let listed = listed.as_array().expect("resources");
    assert!(listed.len() >= 2, "{listed:?}");
    for resource in listed {
        let uri = resource["uri"].as_str().expect("a uri");
        let own = line.ask("resources/read", json!({"uri": uri})).await.to_string();
        assert!(own.contains("quoxada") && !own.contains("quoxbob"), "{uri}: {own}");
        let mut ask = async |name: &str| {
            let uri = uri.replace("/ada/", &format!("/{name}/"));
            let answer = line.ask("resources/read", json!({"uri": uri})).await;
            assert!(answer["error"].is_object(), "{answer}");
            answer["error"].to_string().replace(name, "?")
        };
        assert_eq!(ask("bob").await, ask("nobody").await, "forbidden and missing differ");
    }
    line.leave().await;
}
