//! Tests a vctx server whose engine emulates other ArangoDB releases, or a coordinator: the
//! server's checks at its start, and the storage of messages.

use std::os::unix::net::UnixListener;

use arango_embedded::compat::{Release, Role};
use arango_embedded::http::{Auth, AuthSettings, Mode};
use arango_embedded::{Engine, Options};
use serde_json::Value;

use crate::home::{Home, PASSWORD, Tuning};
use crate::outside::needs_an_engine_of_its_own;
use crate::talk::Agent;

/// Runs an engine in the test process on the two sockets of a test directory, until the test ends.
pub(crate) fn engine(home: &Home, options: Options) {
    engine_as_told(home, Options { vector_index: true, ..options });
}

/// Like `engine`, but with vector indexes only if the options enable them.
pub(crate) fn engine_as_told(home: &Home, options: Options) {
    let options = Options { sync: false, ..options };
    let engine = Engine::open(&home.path("data"), options).expect("an engine");
    let settings = AuthSettings { root_password: PASSWORD.into(), jwt_secret: None };
    let auth = Auth::open(&engine, settings).expect("its users");
    for (name, mode) in [("engine.sock", Mode::ReadWrite), ("engine-ro.sock", Mode::ReadOnly)] {
        let listener = UnixListener::bind(home.path(name)).expect("a socket");
        let (engine, auth) = (engine.clone(), auth.clone());
        tokio::spawn(arango_embedded::http::serve(
            engine,
            listener,
            mode,
            auth,
            std::future::pending(),
        ));
    }
}

/// Starts a server on the engine, stores messages and verifies them.
async fn serves(options: Options) -> Value {
    let home = Home::new();
    engine(&home, options);
    let server =
        home.server("vctx.sock", "engine.sock", "engine-ro.sock", &Tuning::default()).await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "").await;
    for turn in 0..3 {
        ada.append("user", format!("Turn {turn}")).await;
    }
    assert_eq!(ada.messages().await.len(), 3);
    home.assert_verified("vctx.sock", "ada");
    let current = home.database().call("GET", "/_api/database/current", &Value::Null).await;
    drop(server);
    current.body["result"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_release_from_3_12_4_on_is_served() {
    if needs_an_engine_of_its_own("chooses its release") {
        return;
    }
    for release in Release::ALL {
        let current = serves(Options { release, ..Options::default() }).await;
        assert_eq!(current["sharding"], Value::Null, "{release}: a single server has no shards");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_coordinator_is_served_from_a_one_shard_database() {
    if needs_an_engine_of_its_own("chooses its role") {
        return;
    }
    let current = serves(Options { role: Role::Coordinator, ..Options::default() }).await;
    assert_eq!(current["sharding"], "single");
}
