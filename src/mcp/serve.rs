//! Serves MCP on stdin and stdout or on a connection, for clients that begin with `initialize` and
//! for clients that send all state with each request.

use std::time::Duration;

use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, DiscoverResult, ErrorData,
    GetPromptRequestParams, GetPromptResponse, Implementation, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    ReadResourceRequestParams, ReadResourceResponse, ServerCapabilities, ServerConfig,
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

/// Time in milliseconds for which a client may keep a list: an hour, as in the example of the
/// specification. The lists of a bridge never change, but a client may meet a newer bridge later.
const MCP_LIST_TTL_MS: u64 = 3_600_000;
/// Time in milliseconds for which a client may keep a resource that it read. Any call may change
/// the memory, and a forgotten text must not be shown again.
const MCP_RESOURCE_TTL_MS: u64 = 0;

struct Handler {
    bridge: Bridge,
}

/// Returns how long a client may keep a result, and who may share it. A version of the protocol
/// before 2026-07-28 does not have these fields, so its clients do not get them.
fn hints(
    context: &RequestContext<RoleServer>,
    ttl_ms: u64,
    scope: CacheScope,
) -> (Option<u64>, Option<CacheScope>) {
    let version = context.protocol_version().filter(|version| !version.has_initialize());
    version.map(|_| (ttl_ms, scope)).unzip()
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

    async fn discover(
        &self,
        _context: RequestContext<RoleServer>,
    ) -> Result<DiscoverResult, ErrorData> {
        let versions = self.supported_protocol_versions().into_owned();
        let result = DiscoverResult::from_server_info(versions, self.get_info());
        Ok(result.with_ttl_ms(MCP_LIST_TTL_MS).with_cache_scope(CacheScope::Public))
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let settings = &self.bridge.settings;
        let mut result =
            ListToolsResult::with_all_items(listed(settings.dialect, settings.all_tools));
        (result.ttl_ms, result.cache_scope) = hints(&context, MCP_LIST_TTL_MS, CacheScope::Public);
        Ok(result)
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
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let listed = resources::listed(&self.bridge.settings.agent);
        let mut result = ListResourcesResult::with_all_items(listed);
        // The addresses have the name of the agent.
        (result.ttl_ms, result.cache_scope) = hints(&context, MCP_LIST_TTL_MS, CacheScope::Private);
        Ok(result)
    }

    async fn list_resource_templates(
        &self,
        _page: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let templates = resources::templates(&self.bridge.settings.agent);
        let mut result = ListResourceTemplatesResult::with_all_items(templates);
        (result.ttl_ms, result.cache_scope) = hints(&context, MCP_LIST_TTL_MS, CacheScope::Private);
        Ok(result)
    }

    async fn list_prompts(
        &self,
        _page: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let mut result = ListPromptsResult::with_all_items(prompts::listed());
        (result.ttl_ms, result.cache_scope) = hints(&context, MCP_LIST_TTL_MS, CacheScope::Public);
        Ok(result)
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
            Some(Ok(mut result)) => {
                let scope = CacheScope::Private;
                (result.ttl_ms, result.cache_scope) = hints(&context, MCP_RESOURCE_TTL_MS, scope);
                Ok(result.into())
            }
            Some(Err(problem)) => {
                Err(ErrorData::internal_error(problem.detail.clone(), Some(reply::data(&problem))))
            }
        }
    }
}
