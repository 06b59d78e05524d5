//! Streams the events of a run over one connection; a call with the same key resumes a broken
//! stream.

use bytes::Bytes;
use http::{Method, Request, header};
use http_body_util::{BodyExt as _, Full};
use serde_json::Value;
use tokio::time::timeout;

use super::api::{Client, agent_path, understood};
use super::connection::{connect, whole_body};
use super::problem::Problem;
use vctx_base::sse::Events;

impl Client {
    /// Runs an agent and passes each event of the run to the caller; returns the final event. The
    /// client's deadline applies to the wait between two pieces of the stream.
    pub async fn run(
        &self,
        agent: &str,
        body: &Value,
        key: &str,
        on_event: &mut (dyn FnMut(&Value) + Send),
    ) -> Result<Value, Problem> {
        let settings = self.settings();
        let late = |_| Problem::unanswered(format!("no answer within {:?}", settings.deadline));
        let lost = |e: hyper::Error| Problem::unanswered(format!("the connection broke: {e}"));
        let mut sender = connect(settings).await?;
        let request = Request::builder()
            .method(Method::POST)
            .uri(format!("{}/runs", agent_path(agent)))
            .header(header::HOST, "vctx")
            .header(header::ACCEPT, "text/event-stream")
            .header(header::CONTENT_TYPE, "application/json")
            .header("idempotency-key", key)
            .body(Full::new(Bytes::from(body.to_string())))
            .map_err(|e| Problem::garbled(format!("the request cannot be made: {e}")))?;
        let answer = timeout(settings.deadline, sender.send_request(request)).await;
        let (head, mut body) = answer.map_err(late)?.map_err(lost)?.into_parts();
        if !head.status.is_success() {
            let body = whole_body(body, settings.answer_bytes_max).await?;
            return understood(&http::Response::from_parts(head, body));
        }
        let mut events = Events::default();
        loop {
            let frame = timeout(settings.deadline, body.frame()).await.map_err(late)?;
            let Some(frame) = frame else {
                return Err(Problem::unanswered(
                    "the run's stream ended without its last event".into(),
                ));
            };
            let Ok(bytes) = frame.map_err(lost)?.into_data() else { continue };
            for data in events.push(&bytes) {
                let event: Value = serde_json::from_str(&data)
                    .map_err(|e| Problem::garbled(format!("an event is not JSON: {e}")))?;
                match event["type"].as_str() {
                    Some("end") => return Ok(event["end"].clone()),
                    Some("error") => {
                        let problem = &event["problem"];
                        let status = problem["status"].as_u64().unwrap_or(500);
                        let status = u16::try_from(status).unwrap_or(500);
                        return Err(Problem::refused(status, problem, None));
                    }
                    _ => on_event(&event),
                }
            }
        }
    }
}
