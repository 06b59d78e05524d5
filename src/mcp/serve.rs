//! Serves MCP on stdin and stdout or on a connection, for clients that begin with `initialize` and
//! for clients that send all state with each request.

use std::time::Duration;

use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ErrorData, GetPromptRequestParams, GetPromptResponse,
    Implementation, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
    ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse,
    ServerCapabilities, ServerConfig,
};
use rmcp::service::{RequestContext, RoleServer, ServiceExt as _};
use rmcp::transport::stdio_pipes;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};

use super::bridge::Bridge;
use super::catalog::listed;
use super::prompts::{self, instructions};
use super::reply::{self, CAPTURE, KEY};
use super::resources;
use super::transport::Lines;
use vctx_base::trace_context::{TRACEPARENT, TRACESTATE, TraceContext};
use vctx_client::traced;

struct Handler {
    bridge: Bridge,
}

/// Returns the trace to which a request belongs, according to its metadata.
fn trace_of(context: &RequestContext<RoleServer>) -> Option<TraceContext> {
    let text = |key| context.meta.get(key).and_then(Value::as_str);
    TraceContext::of(text(TRACEPARENT), text(TRACESTATE))
}

/// Serves one MCP client until it closes stdin. An error says in one sentence how the protocol or
/// the pipes failed.
pub async fn serve(bridge: Bridge) -> Result<(), String> {
    over(bridge, stdio_pipes(), None).await
}

/// Serves one MCP client over the two halves of a connection, until the client disconnects. `first`
/// is the longest wait for the client's first message.
pub(super) async fn over<R, W>(
    bridge: Bridge,
    halves: (R, W),
    first: Option<Duration>,
) -> Result<(), String>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let begun = (Handler { bridge }).serve(Lines::new(halves));
    let begun = match first {
        None => begun.await,
        Some(first) => match tokio::time::timeout(first, begun).await {
            Ok(begun) => begun,
            Err(_) => return Err(format!("no message within {} ms", first.as_millis())),
        },
    };
    let running = match begun {
        Ok(running) => running,
        // A client that disconnects before sending a message is no error.
        Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => return Err(error.to_string()),
    };
    running.waiting().await.map(drop).map_err(|error| error.to_string())
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_resources()
            .enable_prompts()
            .build();
        let about =
            Implementation::new("vctx", env!("CARGO_PKG_VERSION")).with_title("vctx memory");
        ServerConfig::new(capabilities)
            .with_server_info(about)
            .with_instructions(instructions(self.bridge.settings.dialect))
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let settings = &self.bridge.settings;
        Ok(ListToolsResult::with_all_items(listed(settings.dialect, settings.all_tools)))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let names = self.bridge.settings.dialect.names();
        if !names.contains(&&*request.name) {
            let text = format!("no tool of that name: use one of {}", names.join(", "));
            return Err(ErrorData::invalid_params(text, Some(json!({"tools": names}))));
        }
        let key = match context.meta.get(KEY) {
            None | Some(Value::Null) => None,
            Some(Value::String(key)) => Some(key.clone()),
            Some(_) => {
                return Err(ErrorData::invalid_params(
                    format!("_meta: {KEY} must be a text"),
                    None,
                ));
            }
        };
        let capture = match context.meta.get(CAPTURE) {
            None | Some(Value::Null | Value::Bool(false)) => None,
            Some(Value::Bool(true)) => Some(Value::Bool(true)),
            Some(Value::String(id)) => Some(json!({"tool_call_id": id})),
            Some(_) => {
                let text = format!("_meta: {CAPTURE} must be true or the id of a tool call");
                return Err(ErrorData::invalid_params(text, None));
            }
        };
        let arguments = request.arguments.unwrap_or_default();
        let trace = trace_of(&context);
        let outcome = traced(trace, self.bridge.call(&request.name, arguments, key, capture)).await;
        Ok(reply::result(&request.name, outcome).into())
    }

    async fn list_resources(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(ListResourcesResult::with_all_items(resources::listed(&self.bridge.settings.agent)))
    }

    async fn list_resource_templates(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let templates = resources::templates(&self.bridge.settings.agent);
        Ok(ListResourceTemplatesResult::with_all_items(templates))
    }

    async fn list_prompts(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Ok(ListPromptsResult::with_all_items(prompts::listed()))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let arguments = request.arguments.unwrap_or_default();
        let dialect = self.bridge.settings.dialect;
        match prompts::prompt(dialect, &request.name, &arguments) {
            Ok(result) => Ok(result.into()),
            Err(text) => Err(ErrorData::invalid_params(text, None)),
        }
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        match traced(trace_of(&context), resources::read(&self.bridge, &request.uri)).await {
            None => {
                Err(ErrorData::resource_not_found("no such resource: see resources/list", None))
            }
            Some(Ok(result)) => Ok(result.into()),
            Some(Err(problem)) => {
                Err(ErrorData::internal_error(problem.detail.clone(), Some(reply::data(&problem))))
            }
        }
    }
}
