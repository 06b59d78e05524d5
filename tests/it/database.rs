//! Sends raw AQL and raw requests to the database over the database's socket, as the user `root`,
//! without the vctx server.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::wire::{Answer, Wire};

/// A client that talks to the database directly.
pub(crate) struct Database {
    wire: Wire,
    pub(crate) name: String,
    authorization: String,
}

impl Database {
    pub(crate) fn new(socket: &Path, name: &str, user: &str, password: &str) -> Database {
        let authorization = format!("Basic {}", STANDARD.encode(format!("{user}:{password}")));
        Database { wire: Wire::new(socket), name: name.into(), authorization }
    }

    /// Creates the empty database.
    pub(crate) async fn make(&self) {
        let made = self.system("POST", "/_api/database", &json!({"name": self.name})).await;
        assert_eq!(made.status, 201, "{}", made.text);
    }

    /// Sends a request to the database `_system`, which manages users and databases.
    pub(crate) async fn system(&self, method: &str, path: &str, body: &Value) -> Answer {
        let headers = [("authorization", self.authorization.as_str())];
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.wire.call(method, path, &headers, body).await
    }

    /// Sends a request with a path below `/_db/NAME`.
    pub(crate) async fn call(&self, method: &str, path: &str, body: &Value) -> Answer {
        let path = format!("/_db/{}{path}", self.name);
        let headers =
            [("authorization", self.authorization.as_str()), ("content-type", "application/json")];
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.wire.call(method, &path, &headers, body).await
    }

    /// Sends a request with a path below `/_db/NAME` inside a stream transaction.
    pub(crate) async fn inside(&self, id: &str, method: &str, path: &str, body: &Value) -> Answer {
        let headers = [("authorization", self.authorization.as_str()), ("x-arango-trx-id", id)];
        self.wire
            .call(method, &format!("/_db/{}{path}", self.name), &headers, body.to_string())
            .await
    }

    /// Returns the beginning of the first line of a request with a path below `/_db/NAME`.
    pub(crate) fn line(&self, method: &str, path: &str) -> String {
        format!("{method} /_db/{}{path}", self.name)
    }

    /// Runs a query and returns all its rows, which must fit into one batch.
    pub(crate) async fn rows(&self, query: &str, binds: Value) -> Vec<Value> {
        let body = json!({"query": query, "bindVars": binds, "batchSize": 100_000});
        let answer = self.call("POST", "/_api/cursor", &body).await;
        assert_eq!(answer.status, 201, "{query}\n{}", answer.text);
        assert_eq!(answer.body["hasMore"], false, "{query}");
        answer.body["result"].as_array().expect("rows").clone()
    }

    /// Runs a query that returns exactly one row, and returns this row.
    pub(crate) async fn row(&self, query: &str, binds: Value) -> Value {
        let rows = self.rows(query, binds).await;
        assert_eq!(rows.len(), 1, "{query}: {rows:?}");
        rows.into_iter().next().expect("one row")
    }

    /// Returns the number of documents, over all agents, in each collection to which calls write.
    pub(crate) async fn counts(&self) -> Value {
        self.row(
            "RETURN { core: LENGTH(core_memory), messages: LENGTH(messages), recall: LENGTH(recall_log),
               idempotency: LENGTH(idempotency), versions: LENGTH(core_versions), events: LENGTH(memory_events) }",
            json!({}),
        )
        .await
    }

    /// Removes the ledger of an agent, as if an earlier program version had written the agent.
    pub(crate) async fn drop_ledger(&self, agent: &str) {
        let entries = "FOR e IN memory_events FILTER e.agent_id == @agent AND e.n != null
            REMOVE e IN memory_events RETURN 1";
        assert!(!self.rows(entries, json!({"agent": agent})).await.is_empty());
        let salt = "UPDATE @agent WITH { salt: null } IN core_memory
            OPTIONS { keepNull: false } RETURN 1";
        self.row(salt, json!({"agent": agent})).await;
    }

    /// Returns the running stream transactions.
    pub(crate) async fn open_transactions(&self) -> Vec<Value> {
        let answer = self.call("GET", "/_api/transaction", &Value::Null).await;
        answer.ok()["transactions"].as_array().expect("a list").clone()
    }
}
