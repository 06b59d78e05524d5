//! Typed calls of the vctx API.
//!
//! An answer for which no caller needs a type is returned as plain JSON.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, header};
use http_body_util::Full;
use serde_json::{Value, json};

use super::connection::{Answer, Connection, Settings};
use super::problem::{Fault, Problem};
use super::traced::with_trace;
use vctx_base::clock;
use vctx_base::ids::{Ids as _, SystemIds};

/// Maximum number of messages that the client requests for one page; the server may return fewer,
/// with the position of the next page.
pub const MESSAGES_PER_PAGE_MAX: u64 = 200;

/// Pause before the first retry. The pause doubles with each retry; each time, a random time of up
/// to half of the pause is added.
const RETRY_PAUSE: Duration = Duration::from_millis(20);

/// Maximum size of a request that this client sends, in bytes; the server's own limit is lower.
const REQUEST_BYTES_MAX: usize = 64 << 20;

/// Idempotency key and revision of a writing call. The key makes the call safe to repeat; the
/// revision prevents the call from overwriting changes that the caller has not seen.
#[derive(Debug, Clone)]
pub struct Write {
    /// Idempotency key. All repetitions of one call have the same key.
    pub key: String,
    /// Revision that the call builds on; `"*"` accepts any revision; `None` sends no revision.
    pub revision: Option<String>,
}

impl Write {
    /// Returns a new idempotency key with `"*"`, for a write that accepts any revision.
    pub fn any() -> Write {
        Write { key: SystemIds.key(), revision: Some("*".into()) }
    }

    /// Returns a new idempotency key with the given revision, if any.
    pub fn new(revision: Option<String>) -> Write {
        Write { key: SystemIds.key(), revision }
    }
}

/// The receipt of an append, and the whole answer.
#[derive(Debug, Clone)]
pub struct Appended {
    /// Sequence number of the message.
    pub seq: u64,
    /// Whether the answer was stored by an earlier attempt with the same idempotency key.
    pub replayed: bool,
    /// The whole answer.
    pub answer: Value,
}

/// A client of a server on a Unix socket.
pub struct Client {
    connection: Connection,
}

impl Client {
    /// Creates a client, which connects to the server at its first call.
    pub fn new(settings: Settings) -> Client {
        Client { connection: Connection::new(settings) }
    }

    /// Returns the path of the server's socket.
    pub fn socket(&self) -> &Path {
        &self.connection.settings.socket
    }

    /// Returns the settings of this client.
    pub(super) fn settings(&self) -> &Settings {
        &self.connection.settings
    }

    /// Changes window, system text or encoding of an agent; returns the agent's state.
    pub async fn patch_agent(
        &self,
        agent: &str,
        change: &Value,
        write: &Write,
    ) -> Result<Value, Problem> {
        self.json(Method::PATCH, &agent_path(agent), Some(change), Some(write)).await
    }

    /// Returns all agents, page by page.
    pub async fn agents(&self) -> Result<Vec<Value>, Problem> {
        let (mut agents, mut path) = (Vec::new(), "/v1/agents".to_owned());
        loop {
            let mut answer = self.get(&path).await?;
            let page = listed(&mut answer, "agents")?;
            let Some(next) = answer["next"].as_str() else {
                agents.extend(page);
                return Ok(agents);
            };
            if page.is_empty() {
                return Err(Problem::garbled("an empty page of agents has a next page".into()));
            }
            agents.extend(page);
            path = format!("/v1/agents?after={next}");
        }
    }

    /// Returns an agent's state: revision, blocks, queue, summary, marks of the window, tokens,
    /// head of the hash chain.
    pub async fn state(&self, agent: &str) -> Result<Value, Problem> {
        self.get(&agent_path(agent)).await
    }

    /// Returns the rendered window of an agent, with a manifest of its contents.
    pub async fn context(&self, agent: &str) -> Result<Value, Problem> {
        self.get(&format!("{}/context", agent_path(agent))).await
    }

    /// Builds a context for a question: what the memory and the given documents say about it.
    pub async fn build_context(&self, agent: &str, body: &Value) -> Result<Value, Problem> {
        let path = format!("{}/context", agent_path(agent));
        self.json(Method::POST, &path, Some(body), None).await
    }

    /// Returns the rendered window of an agent, with a signed head of the agent's ledger.
    pub async fn receipt(&self, agent: &str) -> Result<Value, Problem> {
        self.get(&format!("{}/context?signed=true", agent_path(agent))).await
    }

    /// Returns the score of an agent's session or of its whole life, with every count from which
    /// the score is computed.
    pub async fn conveyance(&self, agent: &str, of: &str) -> Result<Value, Problem> {
        self.get(&format!("{}/conveyance?of={of}", agent_path(agent))).await
    }

    /// Returns a page of a list, and the start of the next page. The arguments are the path of the
    /// list, the field of the answer that contains the list, and the name of the number by which
    /// the list is ordered.
    async fn page(
        &self,
        agent: &str,
        (path, name, number): (&str, &str, &str),
        (from, limit): (u64, u64),
        more: &str,
    ) -> Result<(Vec<Value>, Option<u64>), Problem> {
        let path = format!("{}/{path}?from_{number}={from}&limit={limit}{more}", agent_path(agent));
        let mut answer = self.get(&path).await?;
        let next = answer.get(format!("next_{number}")).and_then(Value::as_u64);
        let list = listed(&mut answer, name)?;
        match next {
            Some(next) if next <= from => {
                Err(Problem::garbled(format!("the page after {from} begins at {next}")))
            }
            next => Ok((list, next)),
        }
    }

    /// Returns the public key of the server's checkpoints, and the agents that have a signed ledger
    /// but are not in the database.
    pub async fn ledgers(&self) -> Result<Value, Problem> {
        self.get("/v1/ledgers").await
    }

    /// Returns the comparison of all rows of an agent with its ledger, and a signed head of the
    /// ledger. `kept` is a head that was signed before: number and hash of an entry.
    pub async fn ledger(&self, agent: &str, kept: Option<(u64, &str)>) -> Result<Value, Problem> {
        let mut path = format!("{}/ledger?signed=true", agent_path(agent));
        if let Some((n, hash)) = kept {
            path += &format!("&head={n}.{}", escaped(hash));
        }
        self.get(&path).await
    }

    /// Accepts an agent's core as it is in the database, with an entry of the ledger that says so,
    /// if the ledger contradicts the core. `rev` is the core's revision.
    pub async fn accept_core(&self, agent: &str, rev: &str) -> Result<Value, Problem> {
        let path = format!("{}/ledger", agent_path(agent));
        self.json(Method::POST, &path, Some(&json!({"accept": "core", "_rev": rev})), None).await
    }

    /// Returns a page of messages from `from_seq` on, and the start of the next page.
    pub async fn messages(
        &self,
        agent: &str,
        from_seq: u64,
        limit: u64,
    ) -> Result<(Vec<Value>, Option<u64>), Problem> {
        self.page(agent, ("messages", "messages", "seq"), (from_seq, limit), "").await
    }

    /// Returns a page of messages as [`Client::messages`] does, with the texts of messages in
    /// quarantine, so that the caller can compute their digests.
    pub async fn original_messages(
        &self,
        agent: &str,
        from_seq: u64,
        limit: u64,
    ) -> Result<(Vec<Value>, Option<u64>), Problem> {
        let whole = "&originals=true";
        self.page(agent, ("messages", "messages", "seq"), (from_seq, limit), whole).await
    }

    /// Returns the items that are linked to the item `from`. `asked` contains the other query
    /// parameters, as names and values.
    pub async fn trace(
        &self,
        agent: &str,
        from: &str,
        asked: &[(&str, String)],
    ) -> Result<Value, Problem> {
        let mut path = format!("{}/trace?from={}", agent_path(agent), escaped(from));
        for (name, value) in asked {
            path.push_str(&format!("&{name}={}", escaped(value)));
        }
        self.get(&path).await
    }

    /// Returns a rebuilt past prompt.
    pub async fn prompt(&self, agent: &str, turn: u64) -> Result<Value, Problem> {
        self.get(&format!("{}/prompts/{turn}", agent_path(agent))).await
    }

    /// Returns a page of the recorded prompts, starting with the prompt of the given number, and
    /// the start of the next page.
    pub async fn prompts(
        &self,
        agent: &str,
        from_turn: u64,
        limit: u64,
    ) -> Result<(Vec<Value>, Option<u64>), Problem> {
        self.page(agent, ("prompts", "prompts", "turn"), (from_turn, limit), "").await
    }

    /// Returns the history of a fact, or the reasons for a prompt's contents. `asked` contains the
    /// query parameters, as names and values.
    pub async fn why(&self, agent: &str, asked: &[(&str, String)]) -> Result<Value, Problem> {
        let pairs: Vec<String> =
            asked.iter().map(|(name, value)| format!("{name}={}", escaped(value))).collect();
        self.get(&format!("{}/why?{}", agent_path(agent), pairs.join("&"))).await
    }

    /// Returns a page of the stored versions of an agent's core, starting with the given version,
    /// and the start of the next page.
    pub async fn history(
        &self,
        agent: &str,
        from_version: u64,
        limit: u64,
    ) -> Result<(Vec<Value>, Option<u64>), Problem> {
        self.page(agent, ("history", "versions", "version"), (from_version, limit), "").await
    }

    /// Returns a page of events, starting at the given time, and the start time of the next page.
    /// With an empty time, the page starts with the first event.
    pub async fn events(
        &self,
        agent: &str,
        from_ts: &str,
        limit: u64,
    ) -> Result<(Vec<Value>, Option<String>), Problem> {
        let path = format!("{}/events?from_ts={from_ts}&limit={limit}", agent_path(agent));
        let mut answer = self.get(&path).await?;
        let next = answer.get("next_ts").and_then(Value::as_str).map(str::to_owned);
        let events = listed(&mut answer, "events")?;
        match next {
            Some(next) if next.as_str() <= from_ts => {
                Err(Problem::garbled(format!("the page after {from_ts} begins at {next}")))
            }
            next => Ok((events, next)),
        }
    }

    /// Returns a page of the tainted items of an agent's memory. `after` is the field `next` of the
    /// previous page.
    pub async fn quarantine(&self, agent: &str, after: &str) -> Result<Value, Problem> {
        let path = format!("{}/quarantine?after={}", agent_path(agent), escaped(after));
        self.get(&path).await
    }

    /// Returns one tainted item with its text.
    pub async fn quarantined(&self, agent: &str, id: &str) -> Result<Value, Problem> {
        self.get(&format!("{}/quarantine?id={}", agent_path(agent), escaped(id))).await
    }

    /// Releases a tainted item, or withdraws the release of an item.
    pub async fn release(
        &self,
        agent: &str,
        id: &str,
        hold: bool,
        write: &Write,
    ) -> Result<Value, Problem> {
        let body = serde_json::json!({"id": id, "hold": hold});
        let path = format!("{}/quarantine", agent_path(agent));
        self.json(Method::POST, &path, Some(&body), Some(write)).await
    }

    /// Forgets the data that `asked` names, and returns the manifest. If `asked` requests a
    /// preview, forgets nothing and returns the preview. If the manifest says that the forget
    /// operation is still in progress, the caller repeats the call with the same key.
    pub async fn forget(
        &self,
        agent: &str,
        asked: &Value,
        write: &Write,
    ) -> Result<Value, Problem> {
        let path = format!("{}/forget", agent_path(agent));
        self.json(Method::POST, &path, Some(asked), Some(write)).await
    }

    /// Returns the manifests of an agent's forget operations.
    pub async fn forgettings(&self, agent: &str) -> Result<Value, Problem> {
        self.get(&format!("{}/forget", agent_path(agent))).await
    }

    /// Returns all schedules of an agent.
    pub async fn schedules(&self, agent: &str) -> Result<Vec<Value>, Problem> {
        let mut answer = self.get(&format!("{}/schedules", agent_path(agent))).await?;
        listed(&mut answer, "schedules")
    }

    /// Creates a schedule, or changes the schedule with this name; returns the new state of the
    /// schedule.
    pub async fn put_schedule(
        &self,
        agent: &str,
        name: &str,
        schedule: &Value,
    ) -> Result<Value, Problem> {
        self.json(Method::PUT, &schedule_path(agent, name), Some(schedule), None).await
    }

    /// Returns one schedule of an agent.
    pub async fn schedule(&self, agent: &str, name: &str) -> Result<Value, Problem> {
        self.get(&schedule_path(agent, name)).await
    }

    /// Deletes a schedule of an agent.
    pub async fn remove_schedule(&self, agent: &str, name: &str) -> Result<Value, Problem> {
        self.json(Method::DELETE, &schedule_path(agent, name), None, None).await
    }

    /// Returns the progress of the reindex.
    pub async fn reindex_status(&self) -> Result<Value, Problem> {
        self.get("/v1/reindex").await
    }

    /// Begins, stops or cancels a reindex, and returns the progress of the reindex. The field
    /// `action` of `asked` selects the action. A repeated request has no further effect.
    pub async fn reindex(&self, asked: &Value) -> Result<Value, Problem> {
        self.json(Method::POST, "/v1/reindex", Some(asked), None).await
    }

    /// Returns the databases that can store agents.
    pub async fn places(&self) -> Result<Value, Problem> {
        self.get("/v1/places").await
    }

    /// Moves an agent to another database; has no effect if the agent is already in that database.
    pub async fn move_agent(&self, agent: &str, to: &str) -> Result<Value, Problem> {
        let path = format!("{}/move", agent_path(agent));
        self.json(Method::POST, &path, Some(&json!({"to": to})), None).await
    }

    /// Returns the tools of a dialect in a format that the server supports (`json-schema`, …). The
    /// profile is `full` or `compact`; without one, the server chooses the format's usual profile.
    pub async fn tools(
        &self,
        dialect: &str,
        format: &str,
        profile: Option<&str>,
        strict: bool,
    ) -> Result<Value, Problem> {
        let (dialect, format) = (escaped(dialect), escaped(format));
        let profile = profile.map(|name| format!("&profile={}", escaped(name))).unwrap_or_default();
        let query = format!("dialect={dialect}&format={format}&strict={strict}{profile}");
        self.get(&format!("/v1/tools?{query}")).await
    }

    /// Makes one tool call.
    pub async fn tool(
        &self,
        agent: &str,
        tool: &str,
        arguments: &Value,
        write: &Write,
    ) -> Result<Value, Problem> {
        let path = format!("{}/tools/{}", agent_path(agent), escaped(tool));
        self.json(Method::POST, &path, Some(arguments), Some(write)).await
    }

    /// Appends a message, which is a text, or an object with `content` and optional other fields.
    pub async fn append(
        &self,
        agent: &str,
        role: &str,
        message: &Value,
        write: &Write,
    ) -> Result<Appended, Problem> {
        let answer = self
            .tool(agent, "append_fifo", &json!({"message": message, "role": role}), write)
            .await?;
        let seq = answer.pointer("/receipt/seq").and_then(Value::as_u64);
        let seq =
            seq.ok_or_else(|| Problem::garbled("the answer to an append has no receipt".into()))?;
        let replayed = answer.get("replayed").and_then(Value::as_bool).unwrap_or(false);
        Ok(Appended { seq, replayed, answer })
    }

    /// Asks the server once whether it is ready. If the server is not ready, the returned problem
    /// contains the reasons.
    pub async fn ready(&self) -> Result<Value, Problem> {
        let answer = self
            .connection
            .send(request(Method::GET, "/readyz", None, None)?, self.settings().deadline)
            .await?;
        understood(&answer)
    }

    /// Sends a GET request, and returns the body of the answer as text (for example the metrics).
    /// Makes only one attempt.
    pub async fn text(&self, path: &str) -> Result<String, Problem> {
        let answer = self
            .connection
            .send(request(Method::GET, path, None, None)?, self.settings().deadline)
            .await?;
        if !answer.status().is_success() {
            return Err(Problem::refused(answer.status().as_u16(), &Value::Null, None));
        }
        String::from_utf8(answer.into_body().to_vec())
            .map_err(|_| Problem::garbled("the answer is not UTF-8".into()))
    }

    pub(super) async fn get(&self, path: &str) -> Result<Value, Problem> {
        self.json(Method::GET, path, None, None).await
    }

    /// Sends a call. If the connection fails, repeats the call with the same key, until the maximum
    /// number of attempts or the time limit of the call is reached.
    pub(super) async fn json(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        write: Option<&Write>,
    ) -> Result<Value, Problem> {
        let body = body.map(|body| Bytes::from(body.to_string()));
        let Settings { deadline, patience, attempts_max, .. } = *self.settings();
        let (mut attempt, begun) = (1, clock::now());
        loop {
            let left = patience.saturating_sub(begun.elapsed());
            let request = request(method.clone(), path, body.clone(), write)?;
            match self.connection.send(request, deadline.min(left)).await {
                Ok(answer) => return understood(&answer),
                Err(problem)
                    if attempt < attempts_max
                        && is_connection_fault(&problem)
                        && begun.elapsed() + pause(attempt) < patience =>
                {
                    tokio::time::sleep(pause(attempt)).await;
                    attempt += 1;
                }
                Err(problem) => return Err(problem),
            }
        }
    }
}

/// Removes a list from an answer and returns the list.
fn listed(answer: &mut Value, name: &str) -> Result<Vec<Value>, Problem> {
    match answer.get_mut(name).map(Value::take) {
        Some(Value::Array(list)) => Ok(list),
        _ => Err(Problem::garbled(format!("the answer has no list of {name}"))),
    }
}

pub(super) fn is_connection_fault(problem: &Problem) -> bool {
    matches!(problem.fault, Fault::Unreachable | Fault::Unanswered)
}

/// Returns the pause before attempt `attempt + 1`. The pause doubles with each attempt, and a
/// random addition of up to half of the pause is added.
pub(super) fn pause(attempt: u32) -> Duration {
    let base = RETRY_PAUSE * 2u32.saturating_pow(attempt.min(6) - 1);
    let half_us = u64::try_from(base.as_micros() / 2).unwrap_or(u64::MAX);
    base + Duration::from_micros(SystemIds.below(half_us.max(1)))
}

pub(super) fn agent_path(agent: &str) -> String {
    format!("/v1/agents/{}", escaped(agent))
}

fn schedule_path(agent: &str, name: &str) -> String {
    format!("{}/schedules/{}", agent_path(agent), escaped(name))
}

/// Encodes a name as one path segment: percent-encodes all characters except RFC 3986's unreserved
/// characters.
pub(super) fn escaped(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'_' | b'.' | b'-' | b'~' => {
                out.push(byte as char)
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

fn request(
    method: Method,
    path: &str,
    body: Option<Bytes>,
    write: Option<&Write>,
) -> Result<Request<Full<Bytes>>, Problem> {
    let body = body.unwrap_or_default();
    if body.len() > REQUEST_BYTES_MAX {
        return Err(Problem::refused(
            413,
            &json!({"error": "BODY_TOO_LARGE", "detail": "the call is longer than 64 MiB"}),
            None,
        ));
    }
    let mut builder = with_trace(Request::builder())
        .method(method)
        .uri(path)
        .header(header::HOST, "vctx")
        .header(header::ACCEPT, "application/json");
    if !body.is_empty() {
        builder = builder.header(header::CONTENT_TYPE, "application/json");
    }
    if let Some(write) = write {
        builder = builder.header("idempotency-key", &write.key);
        if let Some(revision) = &write.revision {
            builder = builder.header(header::IF_MATCH, revision);
        }
    }
    builder.body(Full::new(body)).map_err(|error| {
        let detail = format!("the key or the revision cannot be sent in a header: {error}");
        Problem::refused(400, &json!({"error": "INVALID_ARGUMENT", "detail": detail}), None)
    })
}

pub(super) fn understood(answer: &Answer) -> Result<Value, Problem> {
    let parsed = serde_json::from_slice::<Value>(answer.body());
    if answer.status().is_success() {
        return parsed
            .map_err(|error| Problem::garbled(format!("the answer is not JSON: {error}")));
    }
    let retry_after = answer
        .headers()
        .get(header::RETRY_AFTER)
        .and_then(|value| value.to_str().ok())
        .and_then(|text| text.parse().ok());
    Err(Problem::refused(answer.status().as_u16(), &parsed.unwrap_or(Value::Null), retry_after))
}
