//! The calls of the outer contract, typed as far as their callers need it; everything else stays the JSON that was answered.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, header};
use http_body_util::Full;
use serde_json::{Value, json};

use super::connection::{Answer, Connection, Settings};
use super::problem::{Fault, Problem};
use vctx_base::ids::{Ids as _, SystemIds};

/// Messages asked for at once; the server may answer fewer and says where to go on.
pub const MESSAGES_PER_PAGE_MAX: u64 = 200;

/// Pause before the first repeated attempt; it doubles with each and up to half of it is added by chance.
const RETRY_PAUSE: Duration = Duration::from_millis(20);

/// Longest request this client sends, in bytes; the server's own limit is lower.
const REQUEST_BYTES_MAX: usize = 64 << 20;

/// What makes a writing call safe to repeat and safe from overwriting.
#[derive(Debug, Clone)]
pub struct Write {
    /// The same for every repetition of one call.
    pub key: String,
    /// The revision the call builds on; `"*"` is the caller's explicit "any"; `None` sends none.
    pub revision: Option<String>,
}

impl Write {
    /// A write with a fresh key that builds on any revision.
    pub fn any() -> Write {
        Write { key: SystemIds.key(), revision: Some("*".into()) }
    }

    /// A write with a fresh key and the given revision, if any.
    pub fn new(revision: Option<String>) -> Write {
        Write { key: SystemIds.key(), revision }
    }
}

/// An agent to be made.
#[derive(Debug, Clone)]
pub struct NewAgent {
    /// Tokens of the window.
    pub context_window: u64,
    /// The system text, if it is not to be the server's own.
    pub system: Option<String>,
    /// `o200k_base` or `cl100k_base`, if it is not to be the server's own.
    pub encoding: Option<String>,
}

/// What an append answered, beside the whole answer.
#[derive(Debug, Clone)]
pub struct Appended {
    /// Sequence number given to the message.
    pub seq: u64,
    /// True when the answer was stored by an earlier attempt with the same key.
    pub replayed: bool,
    /// The whole answer.
    pub answer: Value,
}

/// A server behind its socket.
pub struct Client {
    connection: Connection,
}

impl Client {
    /// A client that connects with its first call.
    pub fn new(settings: Settings) -> Client {
        Client { connection: Connection::new(settings) }
    }

    /// The socket this client talks to.
    pub fn socket(&self) -> &Path {
        &self.connection.settings.socket
    }

    /// What this client keeps to.
    pub(super) fn settings(&self) -> &Settings {
        &self.connection.settings
    }

    /// Creates an agent, or finds it with the same configuration; answers its state.
    pub async fn create_agent(&self, agent: &str, new: &NewAgent) -> Result<Value, Problem> {
        let mut body = json!({"context_window": new.context_window});
        for (name, value) in [("system", &new.system), ("encoding", &new.encoding)] {
            if let Some(value) = value {
                body[name] = json!(value);
            }
        }
        self.json(Method::PUT, &agent_path(agent), Some(&body), None).await
    }

    /// Changes window, system text or encoding; answers the state.
    pub async fn patch_agent(
        &self,
        agent: &str,
        change: &Value,
        write: &Write,
    ) -> Result<Value, Problem> {
        self.json(Method::PATCH, &agent_path(agent), Some(change), Some(write)).await
    }

    /// All agents.
    pub async fn agents(&self) -> Result<Vec<Value>, Problem> {
        let answer = self.get("/v1/agents").await?;
        match answer.get("agents").and_then(Value::as_array) {
            Some(agents) => Ok(agents.clone()),
            None => Err(Problem::garbled("the answer has no list of agents".into())),
        }
    }

    /// An agent's state: revision, blocks, queue, summary, budget, tokens, chain.
    pub async fn state(&self, agent: &str) -> Result<Value, Problem> {
        self.get(&agent_path(agent)).await
    }

    /// The rendered window with its manifest.
    pub async fn context(&self, agent: &str) -> Result<Value, Problem> {
        self.get(&format!("{}/context", agent_path(agent))).await
    }

    /// The score of an agent's session, or of its whole life, with every count it comes from.
    pub async fn conveyance(&self, agent: &str, of: &str) -> Result<Value, Problem> {
        self.get(&format!("{}/conveyance?of={of}", agent_path(agent))).await
    }

    /// A page of messages from `from_seq` on, and where the next page begins.
    pub async fn messages(
        &self,
        agent: &str,
        from_seq: u64,
        limit: u64,
    ) -> Result<(Vec<Value>, Option<u64>), Problem> {
        let path = format!("{}/messages?from_seq={from_seq}&limit={limit}", agent_path(agent));
        let mut answer = self.get(&path).await?;
        let next = answer.get("next_seq").and_then(Value::as_u64);
        let Some(Value::Array(messages)) = answer.get_mut("messages").map(Value::take) else {
            return Err(Problem::garbled("the answer has no list of messages".into()));
        };
        match next {
            Some(next) if next <= from_seq => {
                Err(Problem::garbled(format!("the page after {from_seq} begins at {next}")))
            }
            next => Ok((messages, next)),
        }
    }

    /// What an entry of the memory is joined to. `asked`: names and values of the query beside `from`.
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

    /// A past prompt, put together again.
    pub async fn prompt(&self, agent: &str, turn: u64) -> Result<Value, Problem> {
        self.get(&format!("{}/prompts/{turn}", agent_path(agent))).await
    }

    /// A page of prompts from a turn on, and where the next page begins.
    pub async fn prompts(
        &self,
        agent: &str,
        from_turn: u64,
        limit: u64,
    ) -> Result<(Vec<Value>, Option<u64>), Problem> {
        let path = format!("{}/prompts?from_turn={from_turn}&limit={limit}", agent_path(agent));
        let mut answer = self.get(&path).await?;
        let next = answer.get("next_turn").and_then(Value::as_u64);
        let Some(Value::Array(prompts)) = answer.get_mut("prompts").map(Value::take) else {
            return Err(Problem::garbled("the answer has no list of prompts".into()));
        };
        match next {
            Some(next) if next <= from_turn => {
                Err(Problem::garbled(format!("the page after {from_turn} begins at {next}")))
            }
            next => Ok((prompts, next)),
        }
    }

    /// The life of a fact, or the reasons of a prompt. `asked`: names and values of the query.
    pub async fn why(&self, agent: &str, asked: &[(&str, String)]) -> Result<Value, Problem> {
        let pairs: Vec<String> =
            asked.iter().map(|(name, value)| format!("{name}={}", escaped(value))).collect();
        self.get(&format!("{}/why?{}", agent_path(agent), pairs.join("&"))).await
    }

    /// A page of copies of an agent's texts from a version on, and where the next page begins.
    pub async fn history(
        &self,
        agent: &str,
        from_version: u64,
        limit: u64,
    ) -> Result<(Vec<Value>, Option<u64>), Problem> {
        let path =
            format!("{}/history?from_version={from_version}&limit={limit}", agent_path(agent));
        let mut answer = self.get(&path).await?;
        let next = answer.get("next_version").and_then(Value::as_u64);
        let Some(Value::Array(versions)) = answer.get_mut("versions").map(Value::take) else {
            return Err(Problem::garbled("the answer has no list of versions".into()));
        };
        match next {
            Some(next) if next <= from_version => {
                Err(Problem::garbled(format!("the page after {from_version} begins at {next}")))
            }
            next => Ok((versions, next)),
        }
    }

    /// A page of events from a moment on (empty: the first), and the moment the next page begins with.
    pub async fn events(
        &self,
        agent: &str,
        from_ts: &str,
        limit: u64,
    ) -> Result<(Vec<Value>, Option<String>), Problem> {
        let path = format!("{}/events?from_ts={from_ts}&limit={limit}", agent_path(agent));
        let mut answer = self.get(&path).await?;
        let next = answer.get("next_ts").and_then(Value::as_str).map(str::to_owned);
        let Some(Value::Array(events)) = answer.get_mut("events").map(Value::take) else {
            return Err(Problem::garbled("the answer has no list of events".into()));
        };
        match next {
            Some(next) if next.as_str() <= from_ts => {
                Err(Problem::garbled(format!("the page after {from_ts} begins at {next}")))
            }
            next => Ok((events, next)),
        }
    }

    /// A page of what is tainted in an agent's memory, behind the `next` of the page before.
    pub async fn quarantine(&self, agent: &str, after: &str) -> Result<Value, Problem> {
        let path = format!("{}/quarantine?after={}", agent_path(agent), escaped(after));
        self.get(&path).await
    }

    /// One tainted item with its text.
    pub async fn quarantined(&self, agent: &str, id: &str) -> Result<Value, Problem> {
        self.get(&format!("{}/quarantine?id={}", agent_path(agent), escaped(id))).await
    }

    /// Releases a tainted item, or holds it back again.
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

    /// Forgets what `asked` names, or tells what would go; answers the manifest, of what is under way too: ask again with the same key.
    pub async fn forget(
        &self,
        agent: &str,
        asked: &Value,
        write: &Write,
    ) -> Result<Value, Problem> {
        let path = format!("{}/forget", agent_path(agent));
        self.json(Method::POST, &path, Some(asked), Some(write)).await
    }

    /// The manifests of what was forgotten of an agent.
    pub async fn forgettings(&self, agent: &str) -> Result<Value, Problem> {
        self.get(&format!("{}/forget", agent_path(agent))).await
    }

    /// All schedules of an agent.
    pub async fn schedules(&self, agent: &str) -> Result<Vec<Value>, Problem> {
        let mut answer = self.get(&format!("{}/schedules", agent_path(agent))).await?;
        match answer.get_mut("schedules").map(Value::take) {
            Some(Value::Array(schedules)) => Ok(schedules),
            _ => Err(Problem::garbled("the answer has no list of schedules".into())),
        }
    }

    /// Makes a schedule, or changes the one of that name; answers it as it is then.
    pub async fn put_schedule(
        &self,
        agent: &str,
        name: &str,
        schedule: &Value,
    ) -> Result<Value, Problem> {
        self.json(Method::PUT, &schedule_path(agent, name), Some(schedule), None).await
    }

    /// One schedule of an agent.
    pub async fn schedule(&self, agent: &str, name: &str) -> Result<Value, Problem> {
        self.get(&schedule_path(agent, name)).await
    }

    /// Takes a schedule away.
    pub async fn remove_schedule(&self, agent: &str, name: &str) -> Result<Value, Problem> {
        self.json(Method::DELETE, &schedule_path(agent, name), None, None).await
    }

    /// How a change of all vectors stands.
    pub async fn reindex_status(&self) -> Result<Value, Problem> {
        self.get("/v1/reindex").await
    }

    /// Begins, stops or gives up a change of all vectors (`action`); doing it twice changes nothing. Answers how it stands then.
    pub async fn reindex(&self, asked: &Value) -> Result<Value, Problem> {
        self.json(Method::POST, "/v1/reindex", Some(asked), None).await
    }

    /// The databases that agents can be in.
    pub async fn places(&self) -> Result<Value, Problem> {
        self.get("/v1/places").await
    }

    /// Moves an agent to another of them; one that is there stays.
    pub async fn move_agent(&self, agent: &str, to: &str) -> Result<Value, Problem> {
        let path = format!("{}/move", agent_path(agent));
        self.json(Method::POST, &path, Some(&json!({"to": to})), None).await
    }

    /// The tools of a dialect in a format the server knows (`json-schema`, …).
    pub async fn tools(&self, dialect: &str, format: &str, strict: bool) -> Result<Value, Problem> {
        let (dialect, format) = (escaped(dialect), escaped(format));
        self.get(&format!("/v1/tools?dialect={dialect}&format={format}&strict={strict}")).await
    }

    /// One tool call.
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

    /// Appends a message: a text, or an object with `content` and what else belongs to it.
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

    /// Readiness: one attempt, and the reasons when the server is not ready.
    pub async fn ready(&self) -> Result<Value, Problem> {
        let answer = self.connection.send(request(Method::GET, "/readyz", None, None)?).await?;
        understood(&answer)
    }

    /// A text, as the metrics socket answers it: one attempt.
    pub async fn text(&self, path: &str) -> Result<String, Problem> {
        let answer = self.connection.send(request(Method::GET, path, None, None)?).await?;
        if !answer.status().is_success() {
            return Err(Problem::refused(answer.status().as_u16(), &Value::Null, None));
        }
        String::from_utf8(answer.into_body().to_vec())
            .map_err(|_| Problem::garbled("the answer is not UTF-8".into()))
    }

    async fn get(&self, path: &str) -> Result<Value, Problem> {
        self.json(Method::GET, path, None, None).await
    }

    /// Sends a call, again with the same key while the connection fails, up to the bound.
    async fn json(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        write: Option<&Write>,
    ) -> Result<Value, Problem> {
        let body = body.map(|body| Bytes::from(body.to_string()));
        let mut attempt = 1;
        loop {
            let request = request(method.clone(), path, body.clone(), write)?;
            match self.connection.send(request).await {
                Ok(answer) => return understood(&answer),
                Err(problem)
                    if attempt < self.connection.settings.attempts_max
                        && is_connection_fault(&problem) =>
                {
                    tokio::time::sleep(pause(attempt)).await;
                    attempt += 1;
                }
                Err(problem) => return Err(problem),
            }
        }
    }
}

fn is_connection_fault(problem: &Problem) -> bool {
    matches!(problem.fault, Fault::Unreachable | Fault::Unanswered)
}

/// The pause before attempt `attempt + 1`: doubling, with up to half as much again by chance.
fn pause(attempt: u32) -> Duration {
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

/// A name as one segment of a path: everything beyond RFC 3986's unreserved characters in percent form.
fn escaped(name: &str) -> String {
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
    let mut builder = Request::builder()
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
        let detail = format!("the key or the revision cannot stand in a header: {error}");
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

#[cfg(test)]
mod tests;
