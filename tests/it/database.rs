//! The database from outside the server: raw AQL and raw paths over its own socket, as root.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::wire::{Answer, Wire};

/// A client of the database itself.
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

    /// Makes the database itself, and nothing in it.
    pub(crate) async fn make(&self) {
        let made = self.system("POST", "/_api/database", &json!({"name": self.name})).await;
        assert_eq!(made.status, 201, "{}", made.text);
    }

    /// A request to the database `_system`: users, databases.
    pub(crate) async fn system(&self, method: &str, path: &str, body: &Value) -> Answer {
        let headers = [("authorization", self.authorization.as_str())];
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.wire.call(method, path, &headers, body).await
    }

    /// A request below `/_db/NAME`.
    pub(crate) async fn call(&self, method: &str, path: &str, body: &Value) -> Answer {
        let path = format!("/_db/{}{path}", self.name);
        let headers =
            [("authorization", self.authorization.as_str()), ("content-type", "application/json")];
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.wire.call(method, &path, &headers, body).await
    }

    /// The same inside a stream transaction.
    pub(crate) async fn inside(&self, id: &str, method: &str, path: &str, body: &Value) -> Answer {
        let headers = [("authorization", self.authorization.as_str()), ("x-arango-trx-id", id)];
        self.wire
            .call(method, &format!("/_db/{}{path}", self.name), &headers, body.to_string())
            .await
    }

    /// The beginning of a request below `/_db/NAME`, as it stands in its first line.
    pub(crate) fn line(&self, method: &str, path: &str) -> String {
        format!("{method} /_db/{}{path}", self.name)
    }

    /// All rows of a query; tests ask for few enough to come in one batch.
    pub(crate) async fn rows(&self, query: &str, binds: Value) -> Vec<Value> {
        let body = json!({"query": query, "bindVars": binds, "batchSize": 100_000});
        let answer = self.call("POST", "/_api/cursor", &body).await;
        assert_eq!(answer.status, 201, "{query}\n{}", answer.text);
        assert_eq!(answer.body["hasMore"], false, "{query}");
        answer.body["result"].as_array().expect("rows").clone()
    }

    /// The only row of a query.
    pub(crate) async fn row(&self, query: &str, binds: Value) -> Value {
        let rows = self.rows(query, binds).await;
        assert_eq!(rows.len(), 1, "{query}: {rows:?}");
        rows.into_iter().next().expect("one row")
    }

    /// Documents of each collection that a call may write, whoever they belong to.
    pub(crate) async fn counts(&self) -> Value {
        self.row(
            "RETURN { core: LENGTH(core_memory), messages: LENGTH(messages), recall: LENGTH(recall_log),
               idempotency: LENGTH(idempotency), versions: LENGTH(core_versions), events: LENGTH(memory_events) }",
            json!({}),
        )
        .await
    }

    /// Running stream transactions.
    pub(crate) async fn open_transactions(&self) -> Vec<Value> {
        let answer = self.call("GET", "/_api/transaction", &Value::Null).await;
        answer.ok()["transactions"].as_array().expect("a list").clone()
    }
}
