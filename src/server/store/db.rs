//! Connects to the database twice, once for reads and once for writes. Reads and writes have
//! separate sockets, users and connection pools.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arangors::client::ClientExt as _;
use arangors::{AqlQuery, Database, GenericConnection};
use http::{HeaderValue, Method, Request};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::fault::{Fault, FaultKind, Result};
use super::heads::Heads;
use super::query::Query;
use super::together::Together;
use super::transaction::Leftovers;
use super::uds::UdsClient;
use crate::store::limits::BATCH_ROWS;
use vctx_base::endpoint::{Credentials, Endpoint};
use vctx_base::metric;
use vctx_core::trust::Scope;

/// Maximum number of batches in the result of one query.
const BATCHES_MAX: usize = 1_000;

/// Sockets and credentials for the connections to a database, and the database's name.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Socket for reads.
    pub ro: Endpoint,
    /// Socket for writes.
    pub rw: Endpoint,
    /// Credentials of the user for reads.
    pub ro_credentials: Credentials,
    /// Credentials of the user for writes.
    pub rw_credentials: Credentials,
    /// Name of the database.
    pub database: String,
    /// Whether a write waits until its data is on disk.
    pub sync: bool,
}

/// A connection to one database. [`Ro`], [`Rw`] and [`Admin`] each contain such a connection.
pub(super) struct Link {
    pub(super) database: Database<UdsClient>,
    name: String,
}

/// The connection for reads; its type has no methods that write.
pub struct Ro {
    link: Link,
}

/// The connection for writes.
pub struct Rw {
    pub(super) link: Arc<Link>,
    /// Changes that share requests.
    pub(super) together: Arc<Together>,
    pub(super) sync: bool,
    /// Heads of ledgers that no checkpoint has signed yet.
    pub heads: Heads,
    /// Open transactions that may belong to dead servers.
    pub leftovers: tokio::sync::Mutex<Leftovers>,
}

/// An administrator's connection, for setup and self-checks.
pub struct Admin {
    link: Link,
    /// Connection of the separate user that creates and drops indexes, if one is configured.
    definer: Option<Link>,
}

/// A raw request to the database.
pub struct DatabaseRequest<'a> {
    /// HTTP method.
    pub method: Method,
    /// Path of the request: relative to the database, or relative to the root of the database
    /// server if the path begins with a slash.
    pub path: &'a str,
    /// Additional headers of this request.
    pub headers: &'a [(&'a str, &'a str)],
    /// JSON body of the request, if any.
    pub body: Option<&'a Value>,
}

/// The database's answer, with any status.
#[derive(Clone, Debug)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// Value of the header `Server`.
    pub server: Option<String>,
    /// Time that the request waited in the database's queue, in seconds
    /// (`x-arango-queue-time-seconds`).
    pub queue_s: Option<f64>,
    /// Body of the answer. A body that is not JSON becomes a JSON string.
    pub body: Value,
}

impl Answer {
    /// Returns the answer's `errorNum`, or 0 if it has none.
    pub fn num(&self) -> u16 {
        num_of(&self.body)
    }

    /// Returns whether the answer is a refusal with the given status and error number.
    pub fn is(&self, status: u16, num: u16) -> bool {
        (self.status, self.num()) == (status, num)
    }

    /// Returns whether the status is a success.
    pub fn is_ok(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

impl fmt::Display for Answer {
    /// Writes the status; for a refusal also the error number and message.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.num() {
            0 => write!(f, "{}", self.status),
            num => {
                let words = self.body["errorMessage"].as_str().unwrap_or_default();
                f.write_str(format!("{}/{num} {words}", self.status).trim_end())
            }
        }
    }
}

impl Link {
    async fn connect(endpoint: &Endpoint, who: &Credentials, database: &str) -> Result<Self> {
        type Connection = GenericConnection<UdsClient>;
        let connection =
            Connection::establish_basic_auth(&endpoint.url(), &who.user, &who.password).await?;
        let handle = connection.db(database).await?;
        Ok(Self { database: handle, name: database.to_owned() })
    }

    /// Returns all rows of a query. Rows are parsed directly from the database's answer, since
    /// arangors would first build a map of them, which is slow for long answers. Further batches
    /// are fetched with POST, since arangors would use PUT, which ArangoDB 4.x no longer accepts.
    pub(super) async fn rows<R: DeserializeOwned>(
        &self,
        query: Query,
        binds: Binds,
    ) -> Result<Vec<R>> {
        self.rows_within(None, query, binds).await
    }

    /// Returns all rows of a query, run inside the given transaction, if any.
    async fn rows_within<R: DeserializeOwned>(
        &self,
        transaction: Option<&str>,
        query: Query,
        binds: Binds,
    ) -> Result<Vec<R>> {
        let request = AqlQuery::builder()
            .query(query.statement())
            .bind_vars(binds.0)
            .batch_size(BATCH_ROWS)
            .build();
        let request = serde_json::to_string(&request)
            .map_err(|e| Fault::new(FaultKind::Garbage, e.to_string()))?;
        let first: Batch<R> = self.batch("_api/cursor", request, transaction).await?;
        let (mut rows, mut next) = (first.result, first.id.filter(|_| first.has_more));
        for _ in 0..BATCHES_MAX {
            let Some(id) = next.take() else { return Ok(rows) };
            let path = format!("_api/cursor/{id}");
            let batch = self.batch(&path, String::new(), transaction).await?;
            rows.extend(batch.result);
            next = Some(id).filter(|_| batch.has_more);
        }
        Err(Fault::new(
            FaultKind::Garbage,
            format!("more than {BATCHES_MAX} batches from {}", query.name),
        ))
    }

    /// Begins a read-only transaction. All its queries see one snapshot. The database ends the
    /// transaction after a minute without requests.
    pub(super) async fn begin(&self, collections: &[&str]) -> Result<String> {
        let body = json!({"collections": {"read": collections}, "allowImplicit": false});
        let path = "_api/transaction/begin";
        let (_, answer) = self.call(Method::POST, path, Some(&body)).await?;
        let id = answer["result"]["id"].as_str().map(str::to_owned);
        id.ok_or_else(|| Fault::new(FaultKind::Garbage, "the answer has no transaction id"))
    }

    /// Returns all rows of a query, run inside a transaction.
    pub(super) async fn rows_inside<R: DeserializeOwned>(
        &self,
        transaction: &str,
        query: Query,
        binds: Binds,
    ) -> Result<Vec<R>> {
        self.rows_within(Some(transaction), query, binds).await
    }

    /// Ends a read-only transaction.
    pub(super) async fn end(&self, transaction: &str) -> Result<()> {
        let path = format!("_api/transaction/{transaction}");
        self.call(Method::DELETE, &path, None).await.map(|_| ())
    }

    async fn batch<R: DeserializeOwned>(
        &self,
        path: &str,
        body: String,
        transaction: Option<&str>,
    ) -> Result<Batch<R>> {
        let mut request = self.request(Method::POST, path, body)?;
        if let Some(id) = transaction {
            let id = HeaderValue::from_str(id)
                .map_err(|e| Fault::new(FaultKind::Garbage, e.to_string()))?;
            request.headers_mut().insert("x-arango-trx-id", id);
        }
        let response = self.database.session().query(request).await?;
        let status = response.status().as_u16();
        let text = response.into_body();
        if status >= 400 {
            // The database's error message is left out of the fault, since faults are logged and
            // the message may contain values of the query.
            let num = num_of(&answer_of(status, &text)?);
            let message = format!("database error {num}");
            return Err(Fault::answered(status, num, message));
        }
        serde_json::from_str(&text).map_err(|e| {
            let why = format!("answer not understood at column {}", e.column());
            Fault::new(FaultKind::Garbage, why)
        })
    }

    fn request(&self, method: Method, path: &str, body: String) -> Result<Request<String>> {
        let garbage = |why: String| Fault::new(FaultKind::Garbage, why);
        let url = self.database.url().join(path).map_err(|e| garbage(e.to_string()))?;
        let request = Request::builder().method(method).uri(url.as_str()).body(body);
        request.map_err(|e| garbage(e.to_string()))
    }

    /// Sends a raw request, and returns the answer's status and JSON; an error answer becomes a
    /// fault.
    pub(super) async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<(u16, Value)> {
        self.call_as(&self.database.session(), method, path, body).await
    }

    async fn unnamed(&self, path: &str) -> Result<(u16, Value)> {
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
    ) -> Result<(u16, Value)> {
        let request = self.request(method, path, body.map(Value::to_string).unwrap_or_default())?;
        let response = session.raw(request).await?;
        let status = response.status().as_u16();
        let answer = answer_of(status, response.body())?;
        if status >= 400 {
            return Err(refused(status, &answer));
        }
        Ok((status, answer))
    }
}

/// One batch of rows, and the id of the cursor for the next batch.
#[derive(Deserialize)]
struct Batch<R> {
    result: Vec<R>,
    #[serde(default, rename = "hasMore")]
    has_more: bool,
    id: Option<String>,
}

fn answer_of(status: u16, text: &str) -> Result<Value> {
    if text.is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_str(text)
        .map_err(|_| Fault::new(FaultKind::Garbage, format!("status {status} without JSON")))
}

/// Converts an error answer of the database to a fault.
fn refused(status: u16, answer: &Value) -> Fault {
    let message = answer["errorMessage"].as_str().unwrap_or("no message").to_owned();
    Fault::answered(status, num_of(answer), message)
}

pub(super) fn num_of(answer: &Value) -> u16 {
    answer["errorNum"].as_u64().and_then(|n| u16::try_from(n).ok()).unwrap_or(0)
}

/// Bind variables of a query.
#[derive(Clone)]
pub(super) struct Binds(pub(super) HashMap<&'static str, Value>);

/// Makes the bind variables of a query: `binds!(scope; name, name = value)`. In place of the scope,
/// `none` marks a query without a scope; the query's file says why the query needs no scope.
macro_rules! binds {
    (@ $name:ident) => { (stringify!($name), serde_json::json!($name)) };
    (@ $name:ident = $value:expr) => { (stringify!($name), serde_json::json!($value)) };
    (none; $($name:ident $(= $value:expr)?),*) => {
        crate::store::db::Binds::unscoped([$(crate::store::db::binds!(@ $name $(= $value)?)),*])
    };
    ($scope:expr; $($name:ident $(= $value:expr)?),*) => {
        crate::store::db::Binds::of($scope, [$(crate::store::db::binds!(@ $name $(= $value)?)),*])
    };
}
pub(super) use binds;

impl Binds {
    /// Returns bind variables with a scope. The database refuses a query that does not use the
    /// scope (error 1552).
    pub(super) fn of<const N: usize>(scope: &Scope, pairs: [(&'static str, Value); N]) -> Self {
        let mut binds = HashMap::from(pairs);
        binds.insert("scope", scope.key().into());
        Self(binds)
    }

    /// Returns bind variables for a query without a scope. The comment in the query's `.aql` file
    /// says why the query needs no scope.
    pub(super) fn unscoped<const N: usize>(pairs: [(&'static str, Value); N]) -> Self {
        Self(HashMap::from(pairs))
    }
}

/// Returns the row of a query that always returns a row; a missing row is a fault.
pub(super) fn must<R>(row: Option<R>, query: Query) -> Result<R> {
    let none = || Fault::new(FaultKind::Garbage, format!("no row from {}", query.name));
    row.ok_or_else(none)
}

impl Ro {
    /// Connects to the read socket.
    pub async fn connect(settings: &Settings) -> Result<Self> {
        let link =
            Link::connect(&settings.ro, &settings.ro_credentials, &settings.database).await?;
        Ok(Self { link })
    }

    /// Sends a query to the read socket, and returns all its rows.
    pub(super) async fn rows<R: DeserializeOwned>(
        &self,
        query: Query,
        binds: Binds,
    ) -> Result<Vec<R>> {
        metrics::counter!(metric::STORE_TRIPS, "socket" => "ro").increment(1);
        self.link.rows(query, binds).await
    }

    /// Returns the first row of a query, if any.
    pub(super) async fn row<R: DeserializeOwned>(
        &self,
        query: Query,
        binds: Binds,
    ) -> Result<Option<R>> {
        Ok(self.rows(query, binds).await?.into_iter().next())
    }

    /// Returns the underlying connection, for a read-only transaction.
    pub(super) fn link(&self) -> &Link {
        &self.link
    }

    /// Sends a request to a path, and returns the JSON of the answer. The request does not use the
    /// types of arangors, since arangors has no type for vector indexes.
    pub(super) async fn call(&self, method: Method, path: &str) -> Result<Value> {
        self.link.call(method, path, None).await.map(|(_, answer)| answer)
    }

    /// Checks whether the database answers on the read socket.
    pub async fn ping(&self) -> Result<()> {
        self.link.call(Method::GET, "_api/version", None).await.map(|_| ())
    }
}

impl Rw {
    /// Connects to the write socket.
    pub async fn connect(settings: &Settings) -> Result<Self> {
        let link = Arc::new(
            Link::connect(&settings.rw, &settings.rw_credentials, &settings.database).await?,
        );
        Ok(Self {
            together: Together::new(Arc::clone(&link)),
            link,
            sync: settings.sync,
            heads: Heads::default(),
            leftovers: tokio::sync::Mutex::default(),
        })
    }

    /// Checks whether the database answers on the write socket.
    pub async fn ping(&self) -> Result<()> {
        self.link.call(Method::GET, "_api/version", None).await.map(|_| ())
    }
}

impl Admin {
    /// Connects to one database as an administrator.
    pub async fn connect(endpoint: &Endpoint, who: &Credentials, database: &str) -> Result<Self> {
        Ok(Self { link: Link::connect(endpoint, who, database).await?, definer: None })
    }

    /// Adds the connection of a separate database user, with which `define` creates and drops
    /// indexes.
    pub async fn defining_as(
        self,
        endpoint: &Endpoint,
        who: &Credentials,
        database: &str,
    ) -> Result<Self> {
        let definer = Some(Link::connect(endpoint, who, database).await?);
        Ok(Self { definer, ..self })
    }

    /// Creates or drops an index: as the separate user for indexes if one is configured, otherwise
    /// as the administrator.
    pub async fn define(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<(u16, Value)> {
        self.definer.as_ref().unwrap_or(&self.link).call(method, path, body).await
    }

    /// Sends a raw request to this database. Setup needs it to send definitions exactly as written
    /// in `arango-setup/`. arangors has no types for schemas, inverted and vector indexes, current
    /// views, wildcard grants and version details.
    pub async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<(u16, Value)> {
        self.link.call(method, path, body).await
    }

    /// Sends a request, and returns the answer whatever its status; only a missing answer is a
    /// fault.
    pub async fn exchange(&self, request: DatabaseRequest<'_>) -> Result<Answer> {
        let body = request.body.map(Value::to_string).unwrap_or_default();
        let mut raw = self.link.request(request.method, request.path, body)?;
        for (name, value) in request.headers {
            let garbage = |e: &dyn std::error::Error| Fault::new(FaultKind::Garbage, e.to_string());
            let name = http::HeaderName::from_bytes(name.as_bytes()).map_err(|e| garbage(&e))?;
            let value = HeaderValue::from_str(value).map_err(|e| garbage(&e))?;
            raw.headers_mut().insert(name, value);
        }
        let response = self.link.database.session().raw(raw).await?;
        let header =
            |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
        let server = header("server").map(str::to_owned);
        let queue_s = header("x-arango-queue-time-seconds").and_then(|value| value.parse().ok());
        let status = response.status().as_u16();
        let text = response.into_body();
        let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
        Ok(Answer { status, server, queue_s, body })
    }

    /// Sends a request without additional headers, and returns the answer whatever its status.
    pub async fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Answer> {
        self.exchange(DatabaseRequest { method, path, headers: &[], body }).await
    }

    /// Sends a request without credentials, to check that the database refuses it.
    pub async fn call_unnamed(&self, path: &str) -> Result<(u16, Value)> {
        self.link.unnamed(path).await
    }

    /// Returns all rows of a query.
    pub(super) async fn rows<R: DeserializeOwned>(
        &self,
        query: Query,
        binds: Binds,
    ) -> Result<Vec<R>> {
        self.link.rows(query, binds).await
    }

    /// Returns the database's name.
    pub fn database(&self) -> &str {
        &self.link.name
    }

    /// Returns a field of an answer as text, for reports.
    pub fn field(answer: &Value, name: &str) -> String {
        answer
            .get(name)
            .map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_owned))
            .unwrap_or_default()
    }
}
