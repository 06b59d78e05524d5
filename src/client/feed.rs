//! Follows the changes of an agent's memory, and continues after a break where the feed was.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, header};
use http_body_util::{BodyExt as _, Full};
use serde_json::Value;
use tokio::time::timeout;

use super::api::{Client, agent_path, escaped, is_connection_fault, pause, understood};
use super::connection::{connect, whole_body};
use super::problem::Problem;
use vctx_base::clock;
use vctx_base::sse::Events;

/// Maximum length of one message of a feed, in bytes.
const MESSAGE_BYTES_MAX: usize = 4 << 20;

/// Pause before a feed that the server has ended is continued.
const CONTINUE_PAUSE: Duration = Duration::from_millis(500);

/// Where a feed is.
#[derive(Debug, Default)]
struct Progress {
    /// The last change, as `after` of the next request.
    at: Option<String>,
    /// Whether the server has answered.
    has_met: bool,
    /// Number of failures since the last message.
    attempts: u32,
}

/// How a stream ended.
enum StreamEnd {
    /// The caller, or the end of the feed, ends the feed.
    Final(String),
    /// The feed continues with the next request.
    Continued,
}

impl Client {
    /// Follows an agent's changes after the given one, and passes each message to the caller: a
    /// `start`, and each `change`. Continues until `on_message` returns `false`, the agent is
    /// forgotten, or, without `wait`, there is no further change; returns the reason. After a
    /// break, tries again for the client's patience.
    pub async fn changes(
        &self,
        agent: &str,
        after: Option<&str>,
        wait: bool,
        on_message: &mut (dyn FnMut(&Value) -> bool + Send),
    ) -> Result<String, Problem> {
        let mut progress = Progress { at: after.map(str::to_owned), ..Progress::default() };
        let mut failed_at = clock::now();
        loop {
            match self.stream(agent, &mut progress, wait, on_message).await {
                Ok(StreamEnd::Final(reason)) => return Ok(reason),
                Ok(StreamEnd::Continued) => tokio::time::sleep(CONTINUE_PAUSE).await,
                Err(problem) => {
                    if progress.attempts == 0 {
                        failed_at = clock::now();
                    }
                    progress.attempts += 1;
                    let settings = self.settings();
                    let pause = pause(progress.attempts);
                    let is_patient = match progress.has_met {
                        true => failed_at.elapsed() + pause < settings.patience,
                        false => progress.attempts < settings.attempts_max,
                    };
                    if !is_patient || !may_pass(&problem) {
                        return Err(problem);
                    }
                    tokio::time::sleep(pause).await;
                }
            }
        }
    }

    async fn stream(
        &self,
        agent: &str,
        progress: &mut Progress,
        wait: bool,
        on_message: &mut (dyn FnMut(&Value) -> bool + Send),
    ) -> Result<StreamEnd, Problem> {
        let settings = self.settings();
        let late = |_| Problem::unanswered(format!("no answer within {:?}", settings.deadline));
        let lost = |e: hyper::Error| Problem::unanswered(format!("the connection broke: {e}"));
        let mut path = format!("{}/changes?wait={wait}", agent_path(agent));
        if let Some(at) = &progress.at {
            path += &format!("&after={}", escaped(at));
        }
        let mut sender = timeout(settings.deadline, connect(settings)).await.map_err(late)??;
        let request = Request::builder()
            .method(Method::GET)
            .uri(path)
            .header(header::HOST, "vctx")
            .header(header::ACCEPT, "text/event-stream")
            .body(Full::<Bytes>::default())
            .map_err(|e| Problem::garbled(format!("the request cannot be made: {e}")))?;
        let answer = timeout(settings.deadline, sender.send_request(request)).await;
        let (head, mut body) = answer.map_err(late)?.map_err(lost)?.into_parts();
        if !head.status.is_success() {
            let body = whole_body(body, settings.answer_bytes_max).await?;
            understood(&http::Response::from_parts(head, body))?;
            return Err(Problem::garbled("the answer is no feed".into()));
        }
        let (mut events, mut length) = (Events::default(), 0);
        while let Some(frame) = timeout(settings.deadline, body.frame()).await.map_err(late)? {
            let Ok(bytes) = frame.map_err(lost)?.into_data() else { continue };
            length += bytes.len();
            if length > MESSAGE_BYTES_MAX {
                let text = format!("a message is longer than {MESSAGE_BYTES_MAX} bytes");
                return Err(Problem::garbled(text));
            }
            for data in events.push(&bytes) {
                length = 0;
                let message: Value = serde_json::from_str(&data)
                    .map_err(|e| Problem::garbled(format!("a message is not JSON: {e}")))?;
                if let Some(end) = progress.took(&message, on_message) {
                    return Ok(end);
                }
            }
        }
        Err(Problem::unanswered("the feed was cut off".into()))
    }
}

impl Progress {
    /// Takes one message; returns whether the stream ends with it.
    fn took(
        &mut self,
        message: &Value,
        on_message: &mut (dyn FnMut(&Value) -> bool + Send),
    ) -> Option<StreamEnd> {
        if message["feed"] == "end" {
            let reason = message["reason"].as_str().unwrap_or_default();
            return Some(match reason {
                "forgotten" | "caught_up" => StreamEnd::Final(reason.to_owned()),
                _ => StreamEnd::Continued,
            });
        }
        let is_first = !std::mem::replace(&mut self.has_met, true);
        let is_change = message["feed"] == "change";
        self.attempts = 0;
        if let Some(at) = message["at"].as_str() {
            self.at = Some(at.to_owned());
        }
        let goes_on = (!is_change && !is_first) || on_message(message);
        (!goes_on).then(|| StreamEnd::Final("closed".into()))
    }
}

/// Whether the next request can succeed. Before a feed begins, the server may be starting.
fn may_pass(problem: &Problem) -> bool {
    is_connection_fault(problem) || problem.is_passing()
}
