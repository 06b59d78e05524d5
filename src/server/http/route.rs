//! Defines a route with its handler and its entry in the API description.

use std::sync::Arc;

use axum::body::Body;
use axum::handler::Handler;
use axum::http::Method;
use axum::response::Response;
use axum::routing::{MethodFilter, MethodRouter, on};
use schemars::JsonSchema;
use serde_json::{Value, json};

use super::caller::{Caller, Front, own_task};
use super::reply::{answer, noted};
use vctx_core::error::Result;
use vctx_core::limits::KEY_BYTES_MAX;
use vctx_core::tools::{Access, schema_of};

/// The forms of a route's answers, for the API description.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Answers {
    /// Whether the status is 201 if the call created something.
    pub(super) made: bool,
    /// Whether the status is 202 if the work continues after the answer.
    pub(super) under_way: bool,
    /// Whether the answer consists of lines of JSON.
    pub(super) lines: bool,
    /// Whether the answer may be a stream of events.
    pub(super) stream: bool,
    /// Whether the answer is always a stream of events.
    pub(super) feed: bool,
    /// Whether the answer may be the text that a model reads.
    pub(super) told: bool,
    /// Whether errors have OpenAI's format.
    pub(super) openai: bool,
    /// Whether errors have Anthropic's format.
    pub(super) anthropic: bool,
}

/// One row in the table of routes.
pub(super) struct Route {
    pub(super) method: Method,
    pub(super) path: &'static str,
    pub(super) summary: &'static str,
    /// Header and query parameters in OpenAPI format; the path itself names the path parameters.
    pub(super) parameters: Vec<Value>,
    /// JSON schema of the request body.
    pub(super) body: Option<Value>,
    /// Whether the body consists of lines of JSON.
    pub(super) takes_lines: bool,
    pub(super) answers: Answers,
    /// Whether the route answers even beyond the limit of concurrent calls.
    pub(super) always: bool,
    pub(super) handler: MethodRouter<Arc<Front>>,
}

impl Route {
    /// Makes a route with any axum handler.
    pub(super) fn new<H, T>(
        method: Method,
        path: &'static str,
        summary: &'static str,
        handler: H,
    ) -> Self
    where
        H: Handler<T, Arc<Front>>,
        T: 'static,
    {
        let filter = MethodFilter::try_from(method.clone()).expect("a method of HTTP");
        let handler = on(filter, handler);
        Self {
            method,
            path,
            summary,
            parameters: Vec::new(),
            body: None,
            takes_lines: false,
            answers: Answers::default(),
            always: false,
            handler,
        }
    }

    /// Makes a `GET` route whose handler only reads.
    pub(super) fn read<F>(
        path: &'static str,
        summary: &'static str,
        handler: impl Fn(Caller) -> F + Clone + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<Value>> + Send + 'static,
    {
        let read = move |caller: Caller| async move {
            let asker = caller.asker();
            answer(asker.explained(noted(handler(caller).await)).await)
        };
        Self::new(Method::GET, path, summary, read)
    }

    /// Makes a route whose work continues even if the client disconnects.
    pub(super) fn write<F>(
        method: Method,
        path: &'static str,
        summary: &'static str,
        handler: impl Fn(Caller, Body) -> F + Clone + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<Response>> + Send + 'static,
    {
        let write = move |caller: Caller, body: Body| async move {
            let asker = caller.asker();
            let work = handler(caller, body);
            own_task(&Arc::clone(&asker.front), async move { asker.explained(work.await).await })
                .await
        };
        Self::new(method, path, summary, write)
    }

    pub(super) fn body(self, schema: Value) -> Self {
        Self { body: Some(schema), ..self }
    }

    /// Describes a body of lines of JSON.
    pub(super) fn body_of_lines(self) -> Self {
        Self { takes_lines: true, ..self.body(json!({"type": "string"})) }
    }

    pub(super) fn body_of<T: JsonSchema>(self) -> Self {
        self.body(schema_of::<T>())
    }

    pub(super) fn always(self) -> Self {
        Self { always: true, ..self }
    }

    pub(super) fn answers(self, answers: Answers) -> Self {
        Self { answers, ..self }
    }

    pub(super) fn header(mut self, name: &str, schema: Value) -> Self {
        self.parameters.push(json!({"name": name, "in": "header", "schema": schema}));
        self
    }

    /// Adds an idempotency key, which the route requires, to the route's description.
    pub(super) fn keyed(self) -> Self {
        Self { parameters: [self.parameters, vec![key_header(true)]].concat(), ..self }
    }

    /// Adds to the route's description the headers that calls of this access have.
    pub(super) fn access(self, access: Access) -> Self {
        Self { parameters: [self.parameters, headers_of(access)].concat(), ..self }
    }

    pub(super) fn query(mut self, name: &str, description: &str, schema: Value) -> Self {
        self.parameters.push(
            json!({"name": name, "in": "query", "description": description, "schema": schema}),
        );
        self
    }

    /// Adds the page parameters of a list to the route's description: the first item and the
    /// maximum number of items.
    pub(super) fn page(self, from: &str, limit_max: u64) -> Self {
        self.query(
            from,
            "first of the list",
            json!({"type": "integer", "minimum": 1, "maximum": u64::MAX, "default": 1}),
        )
        .limit(json!({"type": "integer", "minimum": 1, "maximum": limit_max}))
    }

    pub(super) fn limit(self, schema: Value) -> Self {
        self.query("limit", "maximum number of items in one answer", schema)
    }
}

/// Returns the headers of calls with the given access, in OpenAPI format. An attribute
/// `idempotency_key` or `_rev` of the body may replace a header.
pub(super) fn headers_of(access: Access) -> Vec<Value> {
    match access {
        Access::Write => vec![key_header(true), guard_header(true)],
        Access::Post => vec![key_header(true), guard_header(false)],
        Access::Read | Access::Search | Access::Signal => {
            vec![key_header(false), guard_header(false)]
        }
    }
}

fn key_header(required: bool) -> Value {
    // At least one character besides blanks and quotation marks.
    let schema = json!({"type": "string", "minLength": 1, "maxLength": KEY_BYTES_MAX,
        "pattern": "^[\\t -~]*[!#-~][\\t -~]*$"});
    let description = "the same in every attempt of a call, and fresh in every other call";
    json!({"name": "Idempotency-Key", "in": "header", "required": required,
        "description": description, "schema": schema})
}

fn guard_header(required: bool) -> Value {
    let schema = json!({"type": "string", "maxLength": KEY_BYTES_MAX, "pattern": "^[\\t -~]*$"});
    let description = "the revision that the call builds on (`_rev` of an answer), `*` for any; \
                       an empty text if the archive must not have the document";
    json!({"name": "If-Match", "in": "header", "required": required,
        "description": description, "schema": schema})
}
