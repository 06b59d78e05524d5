//! The two ways to the database: one that reads, one that writes, each with its own socket, user and pool.

use std::collections::HashMap;

use arangors::client::ClientExt as _;
use arangors::{AqlQuery, Database, GenericConnection};
use http::{Method, Request};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::endpoint::Endpoint;
use super::fault::{Fault, FaultKind};
use super::query::Query;
use super::uds::UdsClient;
use crate::limits::{BATCH_ROWS, BATCHES_MAX};
use crate::meters;
use crate::policy::Scope;

/// How the store is reached.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Socket for reads.
    pub ro: Endpoint,
    /// Socket for writes.
    pub rw: Endpoint,
    /// Who reads.
    pub ro_credentials: Credentials,
    /// Who writes.
    pub rw_credentials: Credentials,
    /// Database name.
    pub database: String,
    /// Whether a write waits for the disk.
    pub sync: bool,
}

/// A user and a password; printed without the password.
#[derive(Clone)]
pub struct Credentials {
    /// User.
    pub user: String,
    /// Password.
    pub password: String,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Credentials({})", self.user)
    }
}

/// What both ways share.
pub(super) struct Link {
    pub(super) database: Database<UdsClient>,
    name: String,
}

/// Reads. There is no way from here to a write.
pub struct Ro {
    link: Link,
}

/// Writes.
pub struct Rw {
    pub(super) link: Link,
    pub(super) sync: bool,
}

/// Administration, used by setup and by the checks at the start.
pub struct Admin {
    link: Link,
}

impl Link {
    async fn connect(
        endpoint: &Endpoint,
        who: &Credentials,
        database: &str,
    ) -> Result<Self, Fault> {
        type Connection = GenericConnection<UdsClient>;
        let connection =
            Connection::establish_basic_auth(&endpoint.url(), &who.user, &who.password).await?;
        let handle = connection.db(database).await?;
        Ok(Self { database: handle, name: database.to_owned() })
    }

    /// All rows of a query; further batches are fetched with POST, since arangors uses PUT, which 4.x has dropped.
    pub(super) async fn rows<R: DeserializeOwned>(
        &self,
        query: Query,
        binds: Binds,
    ) -> Result<Vec<R>, Fault> {
        let request =
            AqlQuery::builder().query(query.text).bind_vars(binds.0).batch_size(BATCH_ROWS).build();
        let first = self.database.aql_query_batch::<R>(request).await?;
        let mut rows = first.result;
        let mut next = if first.more { first.id } else { None };
        for _ in 0..BATCHES_MAX {
            let Some(id) = next.take() else { return Ok(rows) };
            let (_, answer) = self.call(Method::POST, &format!("_api/cursor/{id}"), None).await?;
            let batch: Vec<R> = serde_json::from_value(answer["result"].clone()).map_err(|e| {
                Fault::new(FaultKind::Garbage, format!("batch not understood: {e}"))
            })?;
            rows.extend(batch);
            next = (answer["hasMore"] == true).then(|| id.clone());
        }
        Err(Fault::new(
            FaultKind::Garbage,
            format!("more than {BATCHES_MAX} batches from {}", query.name),
        ))
    }

    /// A raw request: status and JSON of the answer; an error envelope is a fault.
    pub(super) async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<(u16, Value), Fault> {
        self.call_as(&self.database.session(), method, path, body).await
    }

    async fn unnamed(&self, path: &str) -> Result<(u16, Value), Fault> {
        let mut session = (*self.database.session()).clone();
        session.headers().clear();
        self.call_as(&session, Method::GET, path, None).await
    }

    async fn call_as(
        &self,
        session: &UdsClient,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<(u16, Value), Fault> {
        let url = self
            .database
            .url()
            .join(path)
            .map_err(|e| Fault::new(FaultKind::Garbage, e.to_string()))?;
        let body = body.map(Value::to_string).unwrap_or_default();
        let request = Request::builder().method(method).uri(url.as_str()).body(body);
        let request = request.map_err(|e| Fault::new(FaultKind::Garbage, e.to_string()))?;
        let response = session.raw(request).await?;
        let status = response.status().as_u16();
        let text = response.into_body();
        let answer: Value = if text.is_empty() {
            Value::Null
        } else {
            serde_json::from_str(&text).map_err(|_| {
                Fault::new(FaultKind::Garbage, format!("status {status} without JSON"))
            })?
        };
        if status >= 400 {
            let num = answer["errorNum"].as_u64().and_then(|n| u16::try_from(n).ok()).unwrap_or(0);
            let message = answer["errorMessage"].as_str().unwrap_or("no message").to_owned();
            return Err(Fault::new(FaultKind::Arango { status, num }, message));
        }
        Ok((status, answer))
    }
}

/// Bind variables of a query.
pub(super) struct Binds(pub(super) HashMap<&'static str, Value>);

impl Binds {
    /// The binds of a scoped query: the scope is always among them, and a text that does not declare it is refused (1552).
    pub(super) fn of<const N: usize>(scope: &Scope, pairs: [(&'static str, Value); N]) -> Self {
        let mut binds = HashMap::from(pairs);
        binds.insert("scope", scope.key().into());
        Self(binds)
    }

    /// The same with further ones.
    pub(super) fn and<const N: usize>(mut self, pairs: [(&'static str, Value); N]) -> Self {
        self.0.extend(pairs);
        self
    }

    /// The binds of a query that has no scope, because its file says why.
    pub(super) fn unscoped<const N: usize>(pairs: [(&'static str, Value); N]) -> Self {
        Self(HashMap::from(pairs))
    }
}

impl Ro {
    /// Connects to the socket for reads.
    pub async fn connect(settings: &Settings) -> Result<Self, Fault> {
        let link =
            Link::connect(&settings.ro, &settings.ro_credentials, &settings.database).await?;
        Ok(Self { link })
    }

    /// All rows of a query on the socket for reads.
    pub(super) async fn rows<R: DeserializeOwned>(
        &self,
        query: Query,
        binds: Binds,
    ) -> Result<Vec<R>, Fault> {
        metrics::counter!(meters::STORE_TRIPS, "socket" => "ro").increment(1);
        self.link.rows(query, binds).await
    }

    /// What a path answers. Raw, because arangors has no type for vector indexes.
    pub(super) async fn call(&self, method: Method, path: &str) -> Result<Value, Fault> {
        self.link.call(method, path, None).await.map(|(_, answer)| answer)
    }

    /// Whether the database answers.
    pub async fn ping(&self) -> Result<(), Fault> {
        self.link.call(Method::GET, "_api/version", None).await.map(|_| ())
    }
}

impl Rw {
    /// Connects to the socket for writes.
    pub async fn connect(settings: &Settings) -> Result<Self, Fault> {
        let link =
            Link::connect(&settings.rw, &settings.rw_credentials, &settings.database).await?;
        Ok(Self { link, sync: settings.sync })
    }

    /// Whether the database answers.
    pub async fn ping(&self) -> Result<(), Fault> {
        self.link.call(Method::GET, "_api/version", None).await.map(|_| ())
    }
}

impl Admin {
    /// Connects to one database as an administrator.
    pub async fn connect(
        endpoint: &Endpoint,
        who: &Credentials,
        database: &str,
    ) -> Result<Self, Fault> {
        Ok(Self { link: Link::connect(endpoint, who, database).await? })
    }

    /// A request relative to this database. Raw, because setup data is sent as it is written in `arango-setup/`, and
    /// arangors has no type for schemas, inverted and vector indexes, current views, wildcard grants and version details.
    pub async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<(u16, Value), Fault> {
        self.link.call(method, path, body).await
    }

    /// The same without credentials, to see that they are asked for.
    pub async fn call_unnamed(&self, path: &str) -> Result<(u16, Value), Fault> {
        self.link.unnamed(path).await
    }

    /// All rows of a query.
    pub(super) async fn rows<R: DeserializeOwned>(
        &self,
        query: Query,
        binds: Binds,
    ) -> Result<Vec<R>, Fault> {
        self.link.rows(query, binds).await
    }

    /// Name of the database.
    pub fn database(&self) -> &str {
        &self.link.name
    }

    /// Attributes of an answer as text, for reports.
    pub fn field(answer: &Value, name: &str) -> String {
        answer
            .get(name)
            .map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_owned))
            .unwrap_or_default()
    }
}
