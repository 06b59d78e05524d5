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
use super::reply::answer;
use vctx_core::error::Result;
use vctx_core::tools::schema_of;

/// One row in the table of routes.
pub(super) struct Route {
    pub(super) method: Method,
    pub(super) path: &'static str,
    pub(super) summary: &'static str,
    /// Header and query parameters in OpenAPI format; the path itself names the path parameters.
    pub(super) parameters: Vec<Value>,
    /// JSON schema of the request body.
    pub(super) body: Option<Value>,
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
        Self { method, path, summary, parameters: Vec::new(), body: None, always: false, handler }
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
        let read = move |caller: Caller| async move { answer(handler(caller).await) };
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
            own_task(&Arc::clone(&caller.front), handler(caller, body)).await
        };
        Self::new(method, path, summary, write)
    }

    pub(super) fn body(self, schema: Value) -> Self {
        Self { body: Some(schema), ..self }
    }

    pub(super) fn body_of<T: JsonSchema>(self) -> Self {
        self.body(schema_of::<T>())
    }

    pub(super) fn always(self) -> Self {
        Self { always: true, ..self }
    }

    pub(super) fn header(mut self, name: &str) -> Self {
        self.parameters.push(json!({"name": name, "in": "header", "schema": {"type": "string"}}));
        self
    }

    /// Adds an idempotency key to the route's description.
    pub(super) fn keyed(self) -> Self {
        self.header("Idempotency-Key")
    }

    /// Adds an idempotency key and a revision guard to the route's description.
    pub(super) fn guarded(self) -> Self {
        self.keyed().header("If-Match")
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
            json!({"type": "integer", "minimum": 1, "default": 1}),
        )
        .limit(json!({"type": "integer", "minimum": 1, "maximum": limit_max}))
    }

    pub(super) fn limit(self, schema: Value) -> Self {
        self.query("limit", "maximum number of items in one answer", schema)
    }
}
