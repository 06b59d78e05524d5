//! The protocol on stdin and stdout, for clients that begin with `initialize` and for those that send everything with each request.

use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ErrorData, Implementation, ListResourcesResult,
    ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse,
    ServerCapabilities, ServerConfig,
};
use rmcp::service::{RequestContext, RoleServer, ServiceExt as _};
use rmcp::transport::stdio_pipes;
use serde_json::{Value, json};

use super::bridge::Bridge;
use super::catalog::{listed, shown};
use super::reply::{self, CAPTURE, KEY};
use super::resources;
use crate::tools::Tool;

/// What a model is told of the whole.
const INSTRUCTIONS: &str = "\
A memory that outlives the conversation. Blocks of core memory stay in view: read them with fetch_core, keep facts, preferences and \
plans there with store_core. Messages go into a queue with append_fifo; when the window fills, the oldest move to recall storage and \
nothing is lost: search_recall finds them by their words, and write_recall keeps there what may be needed later but not now. Documents \
go into the archive with ingest_archival, and search_archival finds their passages; an answer that rests on them says so in append_fifo by `cites`, and \
trace_memory follows what is joined: citations, sources, what was said around a message. Every answer says how full the window is and whether \
something was evicted. Key and revision of a call are kept for you. An error says what to do next.";

struct Handler {
    bridge: Bridge,
}

/// Serves one client until it closes stdin. Errors: what broke the protocol or the pipes, in a sentence.
pub async fn serve(bridge: Bridge) -> Result<(), String> {
    let running = Handler { bridge }.serve(stdio_pipes()).await;
    let running = match running {
        Ok(running) => running,
        // A client that leaves before it said anything is no fault.
        Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => return Err(error.to_string()),
    };
    running.waiting().await.map(drop).map_err(|error| error.to_string())
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_resources().build();
        let about =
            Implementation::new("vctx", env!("CARGO_PKG_VERSION")).with_title("vctx memory");
        ServerConfig::new(capabilities).with_server_info(about).with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(listed()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(shown) = shown(&request.name) else {
            let names: Vec<&str> = Tool::ALL.iter().map(|tool| tool.spec().name).collect();
            let text = format!("no tool of that name: use one of {}", names.join(", "));
            return Err(ErrorData::invalid_params(text, Some(json!({"tools": names}))));
        };
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
        let outcome = self.bridge.call(shown, arguments, key, capture).await;
        Ok(reply::result(outcome).into())
    }

    async fn list_resources(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(ListResourcesResult::with_all_items(resources::listed(&self.bridge.settings.agent)))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        match resources::read(&self.bridge, &request.uri).await {
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
