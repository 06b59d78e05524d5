//! The two ways to the database: one that reads, one that writes, each with its own socket, user and pool.

use std::collections::HashMap;

use arangors::client::ClientExt as _;
use arangors::{AqlQuery, Database, GenericConnection};
use http::{HeaderValue, Method, Request};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::fault::{Fault, FaultKind};
use super::query::Query;
use super::uds::UdsClient;
use vctx_base::endpoint::{Credentials, Endpoint};
use vctx_base::metric;
use vctx_core::limits::{BATCH_ROWS, BATCHES_MAX};
use vctx_core::policy::Scope;

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
    /// The way as the user who makes and drops indexes, where that is another.
    definer: Option<Link>,
}

/// A request of any kind.
pub struct Sent<'a> {
    /// Its method.
    pub method: Method,
    /// Relative to the database; from the root of the server with a slash in front.
    pub path: &'a str,
    /// Beside those of every request.
    pub headers: &'a [(&'a str, &'a str)],
    /// JSON.
    pub body: Option<&'a Value>,
}

/// An answer, whatever its status.
#[derive(Clone, Debug)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// The header `Server`.
    pub server: Option<String>,
    /// Seconds in the database's queue (`x-arango-queue-time-seconds`).
    pub queue_s: Option<f64>,
    /// The body; a text where it is no JSON.
    pub body: Value,
}

impl Answer {
    /// `errorNum`; 0 of a success.
    pub fn num(&self) -> u16 {
        num_of(&self.body)
    }

    /// Whether it is that refusal.
    pub fn is(&self, status: u16, num: u16) -> bool {
        (self.status, self.num()) == (status, num)
    }

    /// Whether it is a success.
    pub fn is_ok(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Status, and number and words of a refusal.
    pub fn told(&self) -> String {
        match self.num() {
            0 => self.status.to_string(),
            num => {
                let words = self.body["errorMessage"].as_str().unwrap_or_default();
                format!("{}/{num} {words}", self.status).trim_end().to_owned()
            }
        }
    }
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

    /// All rows of a query. arangors would read the answer into a map first and into rows then, which for a long one costs more than all the
    /// rest of the way; further batches are fetched with POST, since it uses PUT, which 4.x has dropped.
    pub(super) async fn rows<R: DeserializeOwned>(
        &self,
        query: Query,
        binds: Binds,
    ) -> Result<Vec<R>, Fault> {
        self.rows_within(None, query, binds).await
    }

    /// The same inside a transaction that was begun here.
    async fn rows_within<R: DeserializeOwned>(
        &self,
        transaction: Option<&str>,
        query: Query,
        binds: Binds,
    ) -> Result<Vec<R>, Fault> {
        let request =
            AqlQuery::builder().query(query.text).bind_vars(binds.0).batch_size(BATCH_ROWS).build();
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

    /// Begins a transaction that only reads: everything in it sees one state. It ends by itself when it idles for a minute.
    pub(super) async fn begin(&self, collections: &[&str]) -> Result<String, Fault> {
        let body = json!({"collections": {"read": collections}, "allowImplicit": false});
        let path = "_api/transaction/begin";
        let (_, answer) = self.call(Method::POST, path, Some(&body)).await?;
        let id = answer["result"]["id"].as_str().map(str::to_owned);
        id.ok_or_else(|| Fault::new(FaultKind::Garbage, "a transaction without an id"))
    }

    /// All rows of a query inside such a transaction.
    pub(super) async fn rows_inside<R: DeserializeOwned>(
        &self,
        transaction: &str,
        query: Query,
        binds: Binds,
    ) -> Result<Vec<R>, Fault> {
        self.rows_within(Some(transaction), query, binds).await
    }

    /// Ends it.
    pub(super) async fn end(&self, transaction: &str) -> Result<(), Fault> {
        let path = format!("_api/transaction/{transaction}");
        self.call(Method::DELETE, &path, None).await.map(|_| ())
    }

    async fn batch<R: DeserializeOwned>(
        &self,
        path: &str,
        body: String,
        transaction: Option<&str>,
    ) -> Result<Batch<R>, Fault> {
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
            // The database's own words may hold values of the query, and a fault is logged.
            let num = num_of(&answer_of(status, &text)?);
            let message = format!("database error {num}");
            return Err(Fault::answered(status, num, message));
        }
        serde_json::from_str(&text).map_err(|e| {
            let why = format!("answer not understood at column {}", e.column());
            Fault::new(FaultKind::Garbage, why)
        })
    }

    fn request(&self, method: Method, path: &str, body: String) -> Result<Request<String>, Fault> {
        let garbage = |why: String| Fault::new(FaultKind::Garbage, why);
        let url = self.database.url().join(path).map_err(|e| garbage(e.to_string()))?;
        let request = Request::builder().method(method).uri(url.as_str()).body(body);
        request.map_err(|e| garbage(e.to_string()))
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

/// Rows of a cursor, and where its next ones are.
#[derive(Deserialize)]
struct Batch<R> {
    result: Vec<R>,
    #[serde(default, rename = "hasMore")]
    has_more: bool,
    id: Option<String>,
}

fn answer_of(status: u16, text: &str) -> Result<Value, Fault> {
    if text.is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_str(text)
        .map_err(|_| Fault::new(FaultKind::Garbage, format!("status {status} without JSON")))
}

/// The fault in an error envelope.
fn refused(status: u16, answer: &Value) -> Fault {
    let message = answer["errorMessage"].as_str().unwrap_or("no message").to_owned();
    Fault::answered(status, num_of(answer), message)
}

pub(super) fn num_of(answer: &Value) -> u16 {
    answer["errorNum"].as_u64().and_then(|n| u16::try_from(n).ok()).unwrap_or(0)
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
        metrics::counter!(metric::STORE_TRIPS, "socket" => "ro").increment(1);
        self.link.rows(query, binds).await
    }

    /// The way itself, for a transaction that only reads.
    pub(super) fn link(&self) -> &Link {
        &self.link
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
        Ok(Self { link: Link::connect(endpoint, who, database).await?, definer: None })
    }

    /// Has indexes made and dropped as another user.
    pub async fn defining_as(
        self,
        endpoint: &Endpoint,
        who: &Credentials,
        database: &str,
    ) -> Result<Self, Fault> {
        let definer = Some(Link::connect(endpoint, who, database).await?);
        Ok(Self { definer, ..self })
    }

    /// Makes or drops an index, as the user who may.
    pub async fn define(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<(u16, Value), Fault> {
        self.definer.as_ref().unwrap_or(&self.link).call(method, path, body).await
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

    /// A request and its answer of whatever status; a fault is only what is no answer.
    pub async fn exchange(&self, sent: Sent<'_>) -> Result<Answer, Fault> {
        let body = sent.body.map(Value::to_string).unwrap_or_default();
        let mut request = self.link.request(sent.method, sent.path, body)?;
        for (name, value) in sent.headers {
            let garbage = |e: &dyn std::error::Error| Fault::new(FaultKind::Garbage, e.to_string());
            let name = http::HeaderName::from_bytes(name.as_bytes()).map_err(|e| garbage(&e))?;
            let value = HeaderValue::from_str(value).map_err(|e| garbage(&e))?;
            request.headers_mut().insert(name, value);
        }
        let response = self.link.database.session().raw(request).await?;
        let header =
            |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
        let server = header("server").map(str::to_owned);
        let queue_s = header("x-arango-queue-time-seconds").and_then(|value| value.parse().ok());
        let status = response.status().as_u16();
        let text = response.into_body();
        let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
        Ok(Answer { status, server, queue_s, body })
    }

    /// The same without further headers.
    pub async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Answer, Fault> {
        self.exchange(Sent { method, path, headers: &[], body }).await
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
