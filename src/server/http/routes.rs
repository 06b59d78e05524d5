//! The table of all routes of the HTTP API, used by the router, the API description and the
//! contract test.

use std::sync::Arc;

use axum::Router;
use axum::body::HttpBody as _;
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::answers::counted;
use super::caller::{Front, crowded, overloaded};
use super::described::Bodies;
use super::openapi::openapi;
use super::problem::IntoProblem as _;
use super::reply::json_answer;
use super::route::{Answers, Route};
use super::weights::WEIGHTS;
use super::{agents, changes, exports, forget, openai, operator, prompts, runs};
use crate::agent_loop::Processor;
use crate::executor::{
    AGENTS_PAGE, EVENTS_PAGE, Executor, MESSAGES_PAGE, SESSIONS_PAGE, SearchUser,
};
use crate::limits::{DOCUMENT_PAGE, DOCUMENTS_PAGE, QUARANTINE_PAGE};
use vctx_base::crowd::Crowd;
use vctx_core::anthropic::messages_options;
use vctx_core::dialect::{Dialect, Format};
use vctx_core::error::{Code, Error};
use vctx_core::limits::{
    HISTORY_PAGE, NAME_BYTES_MAX, PROMPTS_PAGE, TRACE_AROUND, TRACE_DEPTH, TRACE_LIMIT,
};
use vctx_core::openai::{DropinSettings, chat_options, responses_options};
use vctx_core::tools::{
    Access, AppendMessages, BuildContext, Forget, NewAgent, PatchAgent, PostEvent, PutSchedule,
    ReleaseTainted, RenameAgent,
};
use vctx_core::trust::Follow;

/// Description of the parameter `originals`.
const ORIGINALS: &str =
    "whether items in quarantine have their texts, with which their digests can be computed";

/// The common path pattern of all tools; the API description lists each tool under its own path.
pub(super) const TOOL: &str = "/v1/agents/{agent}/tools/{tool}";

/// The path that serves the API description.
pub(super) const DESCRIPTION: &str = "/v1/openapi.json";

/// Returns every route.
pub(super) fn routes() -> Vec<Route> {
    let bodies = Bodies::read();
    let mut routes = agent_routes(&bodies);
    routes.extend(proof_routes(&bodies));
    routes.extend(openai_routes(&bodies));
    routes.extend(anthropic_routes(&bodies));
    routes.extend(server_routes());
    routes
}

fn agent_routes(bodies: &Bodies) -> Vec<Route> {
    let made = Answers { made: true, ..Answers::default() };
    let under_way = Answers { under_way: true, ..Answers::default() };
    let lines = Answers { lines: true, ..Answers::default() };
    let stream = Answers { stream: true, ..Answers::default() };
    let told = Answers { told: true, ..Answers::default() };
    let feed = Answers { feed: true, ..Answers::default() };
    vec![
        Route::read("/v1/agents", "List agents by name", agents::list)
            .query("user", "only the agents of this person", bodies.text("label"))
            .query("after", "`next` of the page before", json!({"type": "string", "maxLength": NAME_BYTES_MAX, "pattern": "^(([A-Za-z0-9_.-]*[A-Za-z0-9_-][A-Za-z0-9_.-]*|[.]{3,})(@[1-9][0-9]{0,2})?)?$"}))
            .limit(bounded((AGENTS_PAGE.0, 1, AGENTS_PAGE.1))),
        Route::write(Method::PUT, "/v1/agents/{agent}", "Create an agent (idempotent)", agents::create).body_of::<NewAgent>().answers(made),
        Route::read("/v1/agents/{agent}", "State of an agent", agents::state),
        Route::write(Method::PATCH, "/v1/agents/{agent}", "Change window, system text, encoding, limits of heartbeats, or the tools that a model sees", agents::change)
            .body_of::<PatchAgent>().access(Access::Write),
        Route::write(Method::DELETE, "/v1/agents/{agent}", "Delete an agent: the same as `forget` with `all`", forget::delete)
            .access(Access::Write).answers(under_way),
        Route::write(Method::POST, "/v1/agents/{agent}/rename", "Give an agent a new name; its earlier names still reach it, and no other agent gets one of them", agents::rename)
            .body_of::<RenameAgent>().access(Access::Write),
        Route::write(Method::POST, "/v1/agents/{agent}/clone", "Make another agent with the agent's memory, and a ledger of its own", agents::clone)
            .body_of::<agents::NewClone>().keyed().answers(made),
        Route::write(Method::POST, TOOL, "Call a tool; with `Accept: text/plain` the answer is the text that a model reads", agents::tool)
            .body(object())
            .answers(told),
        Route::read("/v1/agents/{agent}/archive", "The documents of the archive by name; with `texts`, a document that is too long for the list has null for its passages", agents::documents)
            .query("prefix", "beginning of their names", bodies.text("document_part"))
            .query("after", "`next` of the previous page", bodies.text("document_part"))
            .limit(bounded((DOCUMENTS_PAGE.0, 1, DOCUMENTS_PAGE.1)))
            .query("reverse", "whether the names come in reverse order", json!({"type": "boolean"}))
            .query("texts", "whether each document has its passages; then the limit is at most 100", json!({"type": "boolean"}))
            .query("tokens", "whether each document has the number of tokens of its passages; then the limit is at most 100", json!({"type": "boolean"}))
            .query("originals", ORIGINALS, json!({"type": "boolean"})),
        Route::read("/v1/agents/{agent}/archive/{doc_id}", "A document of the archive with its passages, in their order", agents::document)
            .query("from_index", "first passage of the page, counted from 0", json!({"type": "integer", "minimum": 0, "maximum": u64::MAX, "default": 0}))
            .limit(bounded((DOCUMENT_PAGE.0, 1, DOCUMENT_PAGE.1)))
            .query("originals", ORIGINALS, json!({"type": "boolean"})),
        Route::write(Method::DELETE, "/v1/agents/{agent}/archive/{doc_id}", "Remove a document from the archive, with its chunks, vectors and edges", agents::remove_document)
            .access(Access::Write),
        Route::read("/v1/agents/{agent}/schedules", "The schedules of an agent", agents::schedules),
        Route::write(Method::PUT, "/v1/agents/{agent}/schedules/{name}", "Make a schedule that puts events into the queue, or change it (idempotent)", agents::put_schedule)
            .body_of::<PutSchedule>().answers(made),
        Route::read("/v1/agents/{agent}/schedules/{name}", "One schedule: its next moment and its last result", agents::schedule),
        Route::write(Method::DELETE, "/v1/agents/{agent}/schedules/{name}", "Remove a schedule", agents::remove_schedule),
        Route::write(Method::POST, "/v1/agents/{agent}/events", "Put one event into the queue", agents::post_event)
            .body_of::<PostEvent>().access(Access::Post),
        Route::read("/v1/agents/{agent}/events", "The events of an agent, oldest first: numbers and ids, never text", agents::events)
            .query("from_ts", "`next_ts` of the previous page", json!({"type": "string", "maxLength": agents::MOMENT_BYTES_MAX, "pattern": "^[0-9TZ:.-]*$"}))
            .limit(bounded(EVENTS_PAGE)),
        Route::new(Method::GET, "/v1/agents/{agent}/changes", "Every change of the memory, as server-sent events: numbers and ids, never text", changes::changes)
            .query("after", "`at` of the last change that the caller knows, or its number; 0 for all changes; by default, only new changes", json!({"type": "string", "pattern": format!("^(0|[1-9][0-9]{{0,18}}([.][0-9a-f]{{{}}})?)$", agents::HASH_DIGITS)}))
            .query("wait", "whether the answer continues with new changes", json!({"type": "boolean", "default": true}))
            .header(changes::LAST_EVENT_ID, json!({"type": "string", "description": "`id` of the last message, instead of `after`", "pattern": format!("^(0|[1-9][0-9]{{0,18}}([.][0-9a-f]{{{}}})?)$", agents::HASH_DIGITS)}))
            .answers(feed),
        Route::read("/v1/agents/{agent}/context", "The rendered window with its receipt", agents::context)
            .query("signed", "whether the receipt contains a signed head of the agent's ledger", json!({"type": "boolean"})),
        Route::write(Method::POST, "/v1/agents/{agent}/context", "Build a context for a question: what the memory and the given documents say about it, in a bounded number of tokens", agents::build_context)
            .body_of::<BuildContext>(),
        Route::new(Method::POST, "/v1/agents/{agent}/runs", "Run the configured model from an event until it yields; with `Accept: text/event-stream` the answer is a stream of events", runs::run)
            .body_of::<runs::NewRun>().keyed().answers(stream),
        Route::read("/v1/agents/{agent}/messages", "All messages ever appended, in order", agents::messages)
            .page("from_seq", MESSAGES_PAGE.1)
            .query("session", "only the messages with this session", bodies.text("label"))
            .query("originals", ORIGINALS, json!({"type": "boolean"})),
        Route::read("/v1/agents/{agent}/sessions", "The sessions of an agent by name, with the number and the time of their messages", agents::sessions)
            .query("after", "`next` of the previous page", bodies.text("label_part"))
            .limit(bounded((SESSIONS_PAGE.0, 1, SESSIONS_PAGE.1))),
        Route::write(Method::POST, "/v1/users/{user}/search", "Search all agents of a person: messages and documents, the best results of all agents first", agents::search_user)
            .body_of::<SearchUser>(),
        Route::write(Method::POST, "/v1/agents/{agent}/messages", "Append messages to the queue in one write: as many as fit into the part of the window that an eviction leaves; `rest` counts the others", agents::append)
            .body_of::<AppendMessages>().access(Access::Post),
        Route::read("/v1/ledgers", "The public key of the server's checkpoints, and the agents that have a signed ledger but are not in the database", agents::ledgers),
        Route::read("/v1/agents/{agent}/ledger", "All rows of an agent, compared with the digests in its ledger", agents::ledger)
            .query("signed", "whether the answer contains a signed head of the ledger", json!({"type": "boolean"}))
            .query("head", "number and hash of an entry that was signed before, which is also compared", json!({"type": "string", "pattern": format!("^[1-9][0-9]{{0,18}}[.][0-9a-f]{{{}}}$", agents::HASH_DIGITS)})),
        Route::write(Method::POST, "/v1/agents/{agent}/ledger", "Accept the core as it is in the database, with an entry that says so, after its ledger contradicted it", agents::accept)
            .body_of::<agents::AcceptCore>(),
        Route::read("/v1/agents/{agent}/quarantine", "The tainted items: position, rules and length of each; with `id`, one item and its text", agents::quarantine)
            .query("id", "one item instead of the list", bodies.text("item"))
            .query("after", "`next` of the previous page", json!({"type": "string", "pattern": "^(m[.][0-9]{1,19}|p[.][A-Za-z0-9]*)?$"}))
            .limit(bounded((QUARANTINE_PAGE.0, 1, QUARANTINE_PAGE.1))),
        Route::write(Method::POST, "/v1/agents/{agent}/quarantine", "Release a tainted item from quarantine, or hold it back again", agents::release)
            .body_of::<ReleaseTainted>().access(Access::Post),
        Route::write(Method::POST, "/v1/agents/{agent}/forget", "Forget messages, a document, everything that contains a text, or the whole agent; with `dry_run`, only report what would be removed", forget::forget)
            .body_of::<Forget>().access(Access::Write).answers(under_way),
        Route::read("/v1/agents/{agent}/forget", "The manifests of all forget operations: positions and digests, never text", forget::list),
        Route::write(Method::GET, "/v1/agents/{agent}/export", "The whole agent at one moment, as lines of JSON (docs/how-to/export.md)", exports::export)
            .answers(lines),
        Route::new(Method::POST, "/v1/agents/{agent}/import", "Create an agent from an export; the whole file is checked before the first write, and a repeated import changes nothing", exports::import)
            .body_of_lines().answers(made),
        Route::write(Method::POST, "/v1/agents/{agent}/move", "Move an agent to another database; reads continue during the move, and writes wait (docs/how-to/several-databases.md)", operator::move_agent)
            .body(json!({"type": "object", "required": ["to"], "additionalProperties": false, "properties": {"to": {"type": "string"}}})),
    ]
}

fn proof_routes(bodies: &Bodies) -> Vec<Route> {
    let follow: Vec<&str> = Follow::ALL.iter().map(|follow| follow.text()).collect();
    let names = follow.join("|");
    let follow = format!("some of {}, separated by commas; by default all", follow.join(", "));
    let mut trace = Route::read(
        "/v1/agents/{agent}/trace",
        "The items connected to an item of the memory, as a tree in a list",
        agents::trace,
    )
    .query(
        "from",
        "id of a message, passage or summary, the seq of a message, or `agent`",
        bodies.text("vertex"),
    )
    .query(
        "follow",
        &follow,
        json!({"type": "string", "pattern": format!("^,*({names})?(,+({names})?)*$")}),
    )
    .query("depth", "maximum number of edges from the start", bounded(TRACE_DEPTH))
    .query("around", "neighbours of a message", bounded(TRACE_AROUND))
    .limit(bounded(TRACE_LIMIT));
    trace.parameters[0]["required"] = true.into();
    vec![
        trace,
        Route::read("/v1/agents/{agent}/history", "Stored versions of system text, blocks and summary, one for each change", agents::history)
            .page("from_version", HISTORY_PAGE.1),
        Route::read("/v1/agents/{agent}/prompts", "Prompts that were sent to a model, in order: numbers, digests, and how each prompt ended", prompts::list)
            .page("from_turn", PROMPTS_PAGE.1),
        Route::write(Method::POST, "/v1/agents/{agent}/prompts", "Render the window as a request to a model, and record the request before it is sent", prompts::record)
            .body_of::<prompts::PromptBody>().keyed(),
        Route::read("/v1/agents/{agent}/prompts/{turn}", "A past prompt, rebuilt byte by byte and compared with its digests", prompts::replay),
        Route::write(Method::POST, "/v1/agents/{agent}/prompts/{turn}/answer", "Record the answer of the model: its message and the end of the prompt in one write", prompts::end)
            .body_of::<prompts::AnswerBody>().keyed(),
        Route::read("/v1/agents/{agent}/why", "The life of a fact: its source, its evictions, the prompts that showed it, and how it can return to the window; or the reasons for the content of a prompt", prompts::why)
            .query("text", "a fact, in words", bodies.text("query"))
            .query("turn", "a prompt instead", json!({"type": "integer", "minimum": 1, "maximum": u64::MAX}))
            .query("from_turn", "first prompt to read", json!({"type": "integer", "minimum": 1, "maximum": u64::MAX, "default": 1})),
        Route::read("/v1/agents/{agent}/conveyance", "The score of an agent's session (or life), with every count in its formula", agents::conveyance)
            .query("of", "the current session, or the whole life", json!({"enum": ["session", "life"], "default": "session"})),
    ]
}

fn openai_routes(bodies: &Bodies) -> Vec<Route> {
    let (chat_further, responses_further) = (chat_options(), responses_options());
    let chat = bodies.of_form("chat", &chat_further);
    let responses = bodies.of_form("responses", &responses_further);
    let compact = bodies.of_form("compact", &[]);
    let answers = Answers { openai: true, stream: true, ..Answers::default() };
    let whole = Answers { stream: false, ..answers };
    let agent =
        json!({"type": "string", "description": "the agent, if neither path nor model names one"});
    let chat_summary = "Answer a conversation in the chat format; the client sends the whole history each time, and the server finds the new messages";
    let responses_summary = "Answer a conversation in the responses format; the client sends the whole history, or the new messages and the id of the last answer";
    let compact_summary = "Make an item that stands for a conversation which the memory already has, for clients that shorten their history; nothing is written, and no model is asked";
    vec![
        Route::new(Method::POST, "/v1/chat/completions", chat_summary, openai::chat)
            .body(chat.clone())
            .header(openai::AGENT, agent.clone())
            .answers(answers),
        Route::new(Method::POST, "/v1/responses", responses_summary, openai::responses)
            .body(responses.clone())
            .header(openai::AGENT, agent.clone())
            .answers(answers),
        Route::new(Method::POST, "/v1/agents/{agent}/chat/completions", chat_summary, openai::chat)
            .body(chat)
            .answers(answers),
        Route::new(
            Method::POST,
            "/v1/agents/{agent}/responses",
            responses_summary,
            openai::responses,
        )
        .body(responses)
        .answers(answers),
        Route::new(Method::POST, "/v1/responses/compact", compact_summary, openai::compact)
            .body(compact.clone())
            .header(openai::AGENT, agent)
            .answers(whole),
        Route::new(
            Method::POST,
            "/v1/agents/{agent}/responses/compact",
            compact_summary,
            openai::compact,
        )
        .body(compact)
        .answers(whole),
        Route::new(
            Method::POST,
            "/v1/embeddings",
            "Vectors of texts, made by the server's embedder; nothing is stored",
            openai::embeddings,
        )
        .body(bodies.of_form("embeddings", &[]))
        .answers(whole),
        Route::new(
            Method::GET,
            "/v1/models",
            "The model of the server, its embedder, and each agent as a model",
            openai::models,
        )
        .answers(whole),
    ]
}

fn anthropic_routes(bodies: &Bodies) -> Vec<Route> {
    let body = bodies.of_form("messages", &messages_options());
    let answers = Answers { anthropic: true, stream: true, ..Answers::default() };
    let agent =
        json!({"type": "string", "description": "the agent, if neither path nor model names one"});
    let summary = "Answer a conversation in the format of Anthropic's messages API; the client sends the whole history each time, and the server finds the new messages";
    let path = "/v1/agents/{agent}/anthropic/v1/messages";
    let mut counted = body.clone();
    counted["required"] = json!(["model", "messages"]);
    let count_summary = "Estimate the tokens of a conversation as the client sends it, in the encoding of the agent; the window that the model gets may have fewer";
    let count_path = "/v1/agents/{agent}/anthropic/v1/messages/count_tokens";
    let whole = Answers { stream: false, ..answers };
    vec![
        Route::new(Method::POST, "/v1/messages", summary, openai::messages)
            .body(body.clone())
            .header(openai::AGENT, agent.clone())
            .answers(answers),
        Route::new(Method::POST, path, summary, openai::messages).body(body).answers(answers),
        Route::new(Method::POST, "/v1/messages/count_tokens", count_summary, openai::count_tokens)
            .body(counted.clone())
            .header(openai::AGENT, agent)
            .answers(whole),
        Route::new(Method::POST, count_path, count_summary, openai::count_tokens)
            .body(counted)
            .answers(whole),
    ]
}

fn server_routes() -> Vec<Route> {
    let dialects: Vec<&str> = Dialect::ALL.iter().map(|dialect| dialect.text()).collect();
    let formats: Vec<&str> = Format::ALL.iter().map(|format| format.text()).collect();
    let description = || async { json_answer(StatusCode::OK, &openapi()) };
    let health = || async { json_answer(StatusCode::OK, &json!({"status": "ok"})) };
    vec![
        Route::read("/v1/reindex", "The progress of a reindex of the archive", operator::reindex_status),
        Route::write(Method::POST, "/v1/reindex", "Begin, continue, stop or cancel a change of all vectors to the configured next embedder; or train the index of the current vectors again", operator::reindex)
            .body_of::<operator::ReindexCall>(),
        Route::read("/v1/places", "The databases that agents can be in, and whether the server has reached each", operator::databases),
        Route::new(Method::GET, "/v1/tools", "Schemas of the tools, with the names of a dialect, in the format of a provider", operator::tools)
            .query("dialect", "names of the tools", json!({"enum": dialects, "default": "vctx"}))
            .query("format", "form of the schemas", json!({"enum": formats, "default": "json-schema"}))
            .query("strict", "schemas for strict mode", json!({"type": "boolean", "default": false}))
            .always(),
        Route::new(Method::GET, DESCRIPTION, "This description", description).always(),
        Route::new(Method::GET, "/healthz", "Whether the server lives", health).always(),
        Route::new(Method::GET, "/readyz", "Whether the server can answer calls, with reasons", operator::ready).always(),
    ]
}

fn object() -> Value {
    json!({"type": "object"})
}

/// Returns the JSON schema of an integer with a default and bounds.
fn bounded((usual, least, most): (u64, u64, u64)) -> Value {
    json!({"type": "integer", "minimum": least, "maximum": most, "default": usual})
}

/// Returns the router of one listener; all its callers belong to one tenant. Change feeds end when
/// `stopping` becomes true.
pub fn router(
    executor: Arc<Executor>,
    processor: Arc<Processor>,
    tenant: String,
    dropin: DropinSettings,
    stopping: watch::Receiver<bool>,
) -> Router {
    let front = Arc::new(Front::new(executor, processor, tenant, dropin, stopping));
    let shed = from_fn_with_state(Arc::clone(&front), shed);
    let mut router = Router::new();
    for route in routes() {
        let handler = match route.always {
            true => route.handler,
            false => route.handler.route_layer(shed.clone()),
        };
        router = router.route(route.path, handler);
    }
    router
        .fallback(|| async {
            Error::new(Code::RouteNotFound, "no such path: see GET /v1/openapi.json").into_problem()
        })
        .method_not_allowed_fallback(|| async {
            Error::new(
                Code::MethodNotAllowed,
                "this path has no such method: see GET /v1/openapi.json",
            )
            .into_problem()
        })
        .with_state(front)
}

/// Refuses a call beyond the limit of concurrent calls, since the call could only wait. Calls with
/// large answers wait until there is enough memory for them.
async fn shed(State(front): State<Arc<Front>>, request: Request, next: Next) -> Response {
    let crowd = request.extensions().get::<Arc<Crowd>>().map(Arc::clone);
    let path = (request.method() == Method::GET).then(|| request.uri().path().to_owned());
    let weight = match &path {
        Some(path) => WEIGHTS.admit(path).await.map(Some),
        None => Some(None),
    };
    let Some(_weight) = weight else {
        return overloaded("too many large calls at once: retry later");
    };
    let Ok(_permit) = Arc::clone(&front.in_flight).try_acquire_owned() else { return crowded() };
    let response = next.run(request).await;
    if let Some(path) = path.as_ref().filter(|_| response.status().is_success()) {
        WEIGHTS.note(path, response.body().size_hint().lower());
    }
    counted(response, crowd.as_deref()).await
}
