//! HTTP routes of an agent: its tools, state and lists.

use axum::body::Body;
use axum::http::StatusCode;
use axum::response::Response;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::body::object;
use super::caller::{Caller, check_operator};
use super::envelope::{call, called, envelope, required_key};
use super::query::Query;
use super::reply::{json_answer, made_answer, noted, refusal_told, told, with_etag};
use crate::executor::{CallRequest, DocumentsPage, SearchUser, Span};
use crate::store::NamedDocuments;
use vctx_core::dialect::{check_tool, understood};
use vctx_core::error::{Error, Result};
use vctx_core::ledger::note::Head;
use vctx_core::limits::{TRACE_AROUND, TRACE_DEPTH, TRACE_LIMIT};
use vctx_core::tools::{
    AppendMessages, BuildContext, Call, NewAgent, PatchAgent, PostEvent, PutSchedule,
    ReleaseTainted, RenameAgent, Tool, decode_as, told_answer,
};
use vctx_core::trust::{Follow, TraceQuery};

/// Length of an event's timestamp in bytes (`2026-01-31T12:00:00.000Z`).
pub(super) const MOMENT_BYTES_MAX: usize = 24;
/// Number of hex digits of the hash of a ledger's entry.
pub(super) const HASH_DIGITS: usize = 64;

pub(super) async fn list(caller: Caller) -> Result<Value> {
    let query = caller.query("user, after and limit")?;
    let (user, after) = (query.text("user"), query.text("after").unwrap_or_default());
    caller.executor().agents(&caller.principal, user, after, query.number("limit")?).await
}

pub(super) async fn create(caller: Caller, body: Body) -> Result<Response> {
    let (body, _room) = object(body).await?;
    let body: NewAgent = decode_as(body)?;
    let (principal, name) = (&caller.principal, &caller.given);
    let (made, state) = noted(caller.executor().create_named(principal, name, body).await)?;
    Ok(made_answer(made, &state))
}

pub(super) async fn state(caller: Caller) -> Result<Value> {
    caller.executor().state(&caller.principal, &caller.agent).await
}

pub(super) async fn change(caller: Caller, body: Body) -> Result<Response> {
    let decode = |map| Ok(Call::from(decode_as::<PatchAgent>(map)?.checked()?).into());
    let (executor, principal, agent) = (caller.executor(), &caller.principal, &caller.agent);
    let (body, _room) = object(body).await?;
    let reply = called(&caller, body, decode).await?;
    let mut state = noted(executor.state(principal, agent).await)?;
    state["replayed"] = reply["replayed"].clone();
    Ok(with_etag(StatusCode::OK, &state))
}

pub(super) async fn rename(caller: Caller, body: Body) -> Result<Response> {
    let (mut arguments, _room) = object(body).await?;
    let (key, guard) = envelope(&caller.headers, &mut arguments)?;
    let rename = decode_as::<RenameAgent>(arguments.clone())?.checked()?;
    let whose = (caller.principal.clone(), caller.agent.clone());
    let request = CallRequest::internal(whose, rename.clone(), []);
    let request = CallRequest { arguments, key, guard, ..request };
    let reply = noted(caller.executor().rename(&request, &rename).await)?;
    let (executor, principal) = (caller.executor(), &caller.principal);
    let mut state = noted(executor.state(principal, &caller.agent).await)?;
    state["replayed"] = reply["replayed"].clone();
    Ok(with_etag(StatusCode::OK, &state))
}

/// Body of `POST /v1/agents/{agent}/clone`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewClone {
    /// Name of the clone.
    agent: String,
}

pub(super) async fn clone(caller: Caller, body: Body) -> Result<Response> {
    let (mut arguments, _room) = object(body).await?;
    let key = required_key(&caller.headers, &mut arguments)?;
    let NewClone { agent: name } = decode_as(arguments)?;
    let (principal, agent) = (&caller.principal, &caller.agent);
    let cloned = caller.executor().clone_agent(principal, agent, &name, &key).await;
    let (made, state) = noted(cloned)?;
    Ok(made_answer(made, &state))
}

pub(super) async fn tool(caller: Caller, body: Body) -> Result<Response> {
    let answered = answered(&caller, body).await;
    match (caller.wants_text(), answered) {
        (false, answered) => Ok(with_etag(StatusCode::OK, &answered?)),
        (true, Ok(answer)) => Ok(told(told_answer(&caller.item, &answer), &answer)),
        (true, Err(error)) => Ok(refusal_told(error)),
    }
}

async fn answered(caller: &Caller, body: Body) -> Result<Value> {
    check_tool(&caller.item)?;
    let (arguments, _room) = object(body).await?;
    called(caller, arguments, |map| understood(&caller.item, map)).await
}

pub(super) async fn document(caller: Caller) -> Result<Value> {
    let query = caller.query("from_index, limit and originals")?;
    let page = (query.number("from_index")?.unwrap_or(0), query.number("limit")?);
    let named = (caller.agent.as_str(), caller.item.as_str());
    let originals = flag(&query, "originals")?;
    caller.executor().document(&caller.principal, named, page, originals).await
}

pub(super) async fn documents(caller: Caller) -> Result<Value> {
    let query = caller.query("prefix, after, limit, reverse, texts, tokens and originals")?;
    let text = |name| query.text(name).unwrap_or_default().to_owned();
    let named = NamedDocuments {
        prefix: text("prefix"),
        after: text("after"),
        reverse: flag(&query, "reverse")?,
    };
    let (texts, tokens) = (flag(&query, "texts")?, flag(&query, "tokens")?);
    let page = DocumentsPage { named, limit: query.number("limit")?, texts, tokens };
    let originals = flag(&query, "originals")?;
    caller.executor().documents(&caller.principal, &caller.agent, &page, originals).await
}

/// Removes a document from the archive: `ingest_archival` with `delete`.
pub(super) async fn remove_document(caller: Caller, _body: Body) -> Result<Response> {
    let arguments = Map::from_iter([
        ("doc_id".to_owned(), Value::from(caller.item.as_str())),
        ("delete".to_owned(), true.into()),
    ]);
    let decode = |map| understood(Tool::IngestArchival.spec().name, map);
    Ok(with_etag(StatusCode::OK, &called(&caller, arguments, decode).await?))
}

pub(super) async fn append(caller: Caller, body: Body) -> Result<Response> {
    let decode = |map| Ok(Call::from(decode_as::<AppendMessages>(map)?.checked()?).into());
    call(&caller, body, decode).await
}

pub(super) async fn post_event(caller: Caller, body: Body) -> Result<Response> {
    let decode = |map| Ok(Call::from(decode_as::<PostEvent>(map)?.checked()?).into());
    call(&caller, body, decode).await
}

pub(super) async fn events(caller: Caller) -> Result<Value> {
    let query = caller.query("from_ts and limit")?;
    let from_ts = query.text("from_ts").unwrap_or_default();
    let known = |b: u8| b.is_ascii_digit() || b"-:.TZ".contains(&b);
    if from_ts.len() > MOMENT_BYTES_MAX || !from_ts.bytes().all(known) {
        return Err(Error::argument("from_ts", "use the `next_ts` of the previous page"));
    }
    let limit = query.number("limit")?;
    caller.executor().events(&caller.principal, &caller.agent, from_ts, limit).await
}

pub(super) async fn context(caller: Caller) -> Result<Value> {
    let prove = flag(&caller.query("signed")?, "signed")?;
    caller.executor().context(&caller.principal, &caller.agent, prove).await
}

/// Builds a context for a question.
pub(super) async fn build_context(caller: Caller, body: Body) -> Result<Response> {
    let (arguments, _room) = object(body).await?;
    let built = called(&caller, arguments, |map| {
        let call = Tool::BuildContext.decode(map)?;
        Ok(match call {
            Call::BuildContext(call) => {
                Call::from(BuildContext { with_messages: true, ..*call }).into()
            }
            call => call.into(),
        })
    });
    let mut answer = built.await?;
    let told = answer["result"].take();
    let mut told = if told.is_object() { told } else { json!({}) };
    told["agent"] = caller.principal.name_of(&caller.agent).into();
    told["_rev"] = answer["_rev"].take();
    told["tokens"] = answer["tokens"].take();
    Ok(with_etag(StatusCode::OK, &told))
}

pub(super) fn flag(query: &Query, name: &str) -> Result<bool> {
    match query.text(name) {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(_) => Err(Error::argument(name, "use true or false")),
    }
}

pub(super) async fn messages(caller: Caller) -> Result<Value> {
    let query = caller.query("from_seq, limit, session and originals")?;
    let (principal, agent) = (&caller.principal, &caller.agent);
    let page = (query.first("from_seq")?, query.number("limit")?);
    let originals = flag(&query, "originals")?;
    caller.executor().messages(principal, agent, query.text("session"), page, originals).await
}

pub(super) async fn sessions(caller: Caller) -> Result<Value> {
    let query = caller.query("after and limit")?;
    let after = query.text("after").unwrap_or_default();
    let limit = query.number("limit")?;
    caller.executor().sessions(&caller.principal, &caller.agent, after, limit).await
}

pub(super) async fn search_user(caller: Caller, body: Body) -> Result<Response> {
    let (body, _room) = object(body).await?;
    let asked: SearchUser = decode_as(body)?;
    let found = caller.executor().search_user(&caller.principal, &caller.item, &asked).await?;
    Ok(json_answer(StatusCode::OK, &found))
}

pub(super) async fn ledger(caller: Caller) -> Result<Value> {
    let query = caller.query("signed and head")?;
    let head = query.text("head").map(head).transpose()?;
    let prove = flag(&query, "signed")?;
    caller.executor().ledger(&caller.principal, &caller.agent, head, prove).await
}

/// Reads a head of a ledger: number and hash of an entry, with a point between them.
pub(super) fn head(text: &str) -> Result<Head> {
    let is_hex = |byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let parsed = text.split_once('.').and_then(|(n, hash)| Some((n.parse().ok()?, hash)));
    match parsed.filter(|(n, hash)| *n > 0 && hash.len() == HASH_DIGITS && hash.bytes().all(is_hex))
    {
        Some((n, hash)) => Ok(Head { n, hash: hash.to_owned() }),
        None => Err(Error::argument("head", "give number and hash of an entry: NUMBER.HASH")),
    }
}

pub(super) async fn ledgers(caller: Caller) -> Result<Value> {
    caller.executor().ledgers(&caller.principal).await
}

pub(super) async fn history(caller: Caller) -> Result<Value> {
    let (from, limit) = caller.page("from_version")?;
    caller.executor().history(&caller.principal, &caller.agent, from, limit).await
}

pub(super) async fn conveyance(caller: Caller) -> Result<Value> {
    let span = match caller.query("of")?.text("of") {
        None | Some("session") => Span::Session,
        Some("life") => Span::Life,
        Some(_) => return Err(Error::argument("of", "use session or life")),
    };
    caller.executor().scores().of(&caller.principal, &caller.agent, span).await
}

/// Body of `POST /v1/agents/{agent}/ledger`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AcceptCore {
    /// What to accept as it is.
    accept: AcceptedRow,
    /// Revision of the core that the caller has looked at.
    #[serde(rename = "_rev")]
    rev: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum AcceptedRow {
    Core,
}

pub(super) async fn accept(caller: Caller, body: Body) -> Result<Response> {
    check_operator(caller.peer)?;
    let (body, _room) = object(body).await?;
    let AcceptCore { accept: AcceptedRow::Core, rev } = decode_as(body)?;
    let (principal, agent) = (&caller.principal, &caller.agent);
    let accepted = caller.executor().accept_core(principal, agent, &rev).await?;
    Ok(json_answer(StatusCode::OK, &accepted))
}

pub(super) async fn trace(caller: Caller) -> Result<Value> {
    let query = caller.query("from, follow, depth, around and limit")?;
    let names = query.text("follow").unwrap_or_default().split(',');
    let names = names.filter(|name| !name.is_empty());
    let follow = names.map(Follow::by_name).collect::<Result<Vec<_>>>()?;
    let number = |name, usual| query.number(name).map(|given| given.unwrap_or(usual));
    let (depth, around) = (number("depth", TRACE_DEPTH.0)?, number("around", TRACE_AROUND.0)?);
    let limit = number("limit", TRACE_LIMIT.0)?;
    let missing = || Error::argument("from", "is missing: say where the trace begins");
    let from = query.text("from").ok_or_else(missing)?;
    let checked = |start| TraceQuery::checked(start, &follow, depth, around, limit);
    caller.executor().traced(&caller.principal, &caller.agent, from, checked).await
}

pub(super) async fn quarantine(caller: Caller) -> Result<Value> {
    let query = caller.query("id, or after and limit")?;
    let (executor, principal, agent) = (caller.executor(), &caller.principal, &caller.agent);
    let (after, limit) = (query.text("after").unwrap_or_default(), query.number("limit")?);
    match query.text("id") {
        Some(id) => executor.quarantined(principal, agent, id).await,
        None => executor.quarantine(principal, agent, after, limit).await,
    }
}

pub(super) async fn release(caller: Caller, body: Body) -> Result<Response> {
    let decode = |map| Ok(Call::from(decode_as::<ReleaseTainted>(map)?).into());
    call(&caller, body, decode).await
}

pub(super) async fn schedules(caller: Caller) -> Result<Value> {
    caller.executor().schedules(&caller.principal, &caller.agent).await
}

pub(super) async fn schedule(caller: Caller) -> Result<Value> {
    caller.executor().schedule(&caller.principal, &caller.agent, &caller.item).await
}

pub(super) async fn put_schedule(caller: Caller, body: Body) -> Result<Response> {
    let (body, _room) = object(body).await?;
    let body: PutSchedule = decode_as(body)?;
    let (principal, agent, name) = (&caller.principal, &caller.agent, &caller.item);
    let put = caller.executor().put_schedule(principal, agent, name, body).await;
    let (made, schedule) = noted(put)?;
    Ok(made_answer(made, &schedule))
}

pub(super) async fn remove_schedule(caller: Caller, _body: Body) -> Result<Response> {
    let (principal, agent, name) = (&caller.principal, &caller.agent, &caller.item);
    let removed = noted(caller.executor().remove_schedule(principal, agent, name).await)?;
    Ok(with_etag(StatusCode::OK, &removed))
}
