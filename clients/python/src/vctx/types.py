"""The shapes of answers, as far as they are promised; what a newer server adds is there all the same."""

from collections.abc import Mapping, Sequence
from typing import Any, Generic, Literal, TypedDict, TypeVar

Role = Literal["user", "assistant", "system", "tool"]
EventClass = Literal["user", "system", "user_interaction", "scheduled"]
Relation = Literal["around", "cites", "cited_by", "derived_from", "derived", "links", "summary", "logged", "copies"]
Json = dict[str, Any]


class Tokens(TypedDict, total=False):
    """What the window holds, by section, in tokens."""

    system: int
    working: int
    fifo: int
    summary: int
    notices: int
    tools: int
    free: int
    occupancy: int


class Heartbeat(TypedDict, total=False):
    """What the server says of chains of heartbeats (docs/reference/heartbeat.md)."""

    opportunity: bool
    tokens_remaining: int
    chain_depth: int
    duration_ms: int
    chain: str
    granted: bool
    terminated_reason: str
    closed_by: str
    refused: str
    retry_after_ms: int
    last_ended: Json


class Receipt(TypedDict, total=False):
    """The position of a message in the agent's chain of digests."""

    seq: int
    digest: str
    chain: str


R = TypeVar("R")


class Answer(TypedDict, Generic[R], total=False):
    """A tool's answer."""

    result: R
    _rev: str
    agent_rev: str
    version: int
    token_estimate: int
    tokens: Tokens
    pressure: Literal["ok", "warning", "flush"]
    heartbeat: Heartbeat
    flush: Json | None
    receipt: Receipt
    replayed: bool
    idempotency_key: str


class Stored(TypedDict, total=False):
    """Result of `store_core`."""

    block_id: str
    _rev: str
    token_estimate: int


class Fetched(TypedDict, total=False):
    """Result of `fetch_core`."""

    block_id: str
    content: str
    _rev: str
    token_estimate: int
    role: str
    pinned: bool
    blocks: list[Json]


class Appended(TypedDict, total=False):
    """Result of `append_fifo` and of a posted event."""

    message_id: str
    token_estimate: int
    cited: int


class Labels(TypedDict, total=False):
    """User, session, tags and metadata of a message or document; as conditions of a search, all of them must hold."""

    user: str
    session: str
    tags: Sequence[str]
    metadata: Mapping[str, str]


class ArchiveFilter(TypedDict, total=False):
    """Conditions on the passages of a search."""

    source: str
    doc_id: str
    doc_id_prefix: str
    labels: Labels
    freshness_after: str


class NewMessage(TypedDict, total=False):
    """One of several messages to append; `content` and `role` must be there."""

    content: str
    role: Role
    name: str
    tool_calls: list[Json]
    tool_call_id: str
    said_at: str
    labels: Labels


class AppendedMessage(TypedDict):
    """One of several messages that were appended."""

    message_id: str
    seq: int
    token_estimate: int


class Evicted(TypedDict, total=False):
    """Result of `evict_fifo`."""

    evicted_count: int
    new_summary_tokens: int
    after_occupancy: int


class Written(TypedDict, total=False):
    """Result of `write_recall`."""

    inserted_ids: list[str]
    total_tokens: int


class Found(TypedDict, total=False):
    """Result of a search or a trace: one page."""

    results: list[Json]
    next_page_token: str | None
    tokens_added: int
    total: int
    proposals: list[Json]
    plan: str
    more: bool


class Ingested(TypedDict, total=False):
    """Result of `ingest_archival`."""

    doc_id: str
    inserted: int
    replaced: int
    unchanged: bool
    chunk_ids: list[str]
    vector_index_used: bool
    _rev: str | None


class Passage(TypedDict, total=False):
    """A passage of an archived document, as it was given."""

    chunk_id: str
    index: int
    text: str


class Document(TypedDict, total=False):
    """A document of the archive; `next_index` is null after its last passage."""

    doc_id: str
    _rev: str
    chunks: int
    provenance: Json
    labels: Labels
    created_at: str
    updated_at: str
    passages: list[Passage] | None
    tokens: int
    next_index: int | None


class Session(TypedDict):
    """A session, with the number and the time of its messages."""

    session: str
    messages: int
    first_seq: int
    last_seq: int
    first_at: str
    last_at: str


class Sessions(TypedDict):
    """A page of sessions; `next` is null after the last one."""

    sessions: list[Session]
    next: str | None


class FoundOfUser(TypedDict, total=False):
    """What all agents of a person know, best first; each result names its agent."""

    agents: list[str]
    agents_left_out: bool
    recall: list[Json]
    archive: list[Json]


class Documents(TypedDict):
    """A page of documents; `next` is null after the last one."""

    documents: list[Document]
    next: str | None


class Beat(TypedDict, total=False):
    """Result of `record_heartbeat`."""

    chain_depth: int
    duration_ms: int
    terminated_reason: str


class Entry(TypedDict, total=False):
    """One entry for `write_recall`; `content` must be there."""

    content: str
    role: Role
    name: str
    said_at: str
    labels: Labels
    summary: bool


class Block(TypedDict, total=False):
    """A block of working memory."""

    id: str
    role: str
    content: str
    token_estimate: int
    pinned: bool


class State(TypedDict, total=False):
    """An agent's state."""

    agent: str
    _rev: str
    version: int
    context_window: int
    encoding: str
    form: str
    zone: str | None
    outbound: str
    engineer: str | None
    spending: Json
    user: str | None
    incarnation: int
    names: list[str]
    cloned: Json
    system: str
    working_blocks: list[Block]
    queue: Json
    summary: Json
    token_budget: Json
    notices: list[Json]
    chain: Json
    counters: Json
    heartbeat: Json
    archived: Json
    tokens: Tokens
    created_at: str
    updated_at: str
    replayed: bool


class Agents(TypedDict):
    """A page of the agents of the server's tenant; `next` is null after the last agent."""

    agents: list[Json]
    next: str | None


class ChatMessage(TypedDict, total=False):
    """A message of the rendered window, as chat endpoints take it."""

    role: str
    content: str
    name: str
    tool_calls: list[Json]
    tool_call_id: str


class Context(TypedDict, total=False):
    """The rendered window with its receipt."""

    agent: str
    _rev: str
    context_window: int
    messages: list[ChatMessage]
    tokens: Tokens
    manifest: Json
    context_digest: str


class Message(TypedDict, total=False):
    """A message as it was appended."""

    seq: int
    id: str
    kind: str
    copy_of: str | None
    role: str
    content: str
    meta: Json
    labels: Labels
    token_estimate: int
    created_at: str
    digest: str
    chain: str
    in_queue: bool
    evicted_batch_id: str | None


class Messages(TypedDict):
    """A page of messages."""

    messages: list[Message]
    next_seq: int | None


class Event(TypedDict, total=False):
    """What happened to a memory, in figures."""

    id: str
    type: str
    ts: str
    details: Json


class Events(TypedDict):
    """A page of events."""

    events: list[Event]
    next_ts: str | None


class Change(TypedDict, total=False):
    """A change of a memory, in figures: the event of the change, its number, and `at`, its place for `changes(after=…)`."""

    at: str
    n: int
    id: str
    type: str
    ts: str
    details: Json


class RunEnd(TypedDict, total=False):
    """What a run came to."""

    reason: str
    text: str
    client_calls: list[Json]
    usage: Json
    turns: int
    last_seq: int
    fault: str | None


class RunEvent(TypedDict, total=False):
    """What happens in a run: `turn`, `text`, `called`, `returned`, `waiting`, and at last `end`."""

    type: str
    n: int
    text: str
    id: str
    name: str
    ok: bool
    ms: int
    why: str
    end: RunEnd


class Prompts(TypedDict):
    """A page of prompts."""

    prompts: list[Json]
    next_turn: int | None


class History(TypedDict):
    """A page of copies of an agent's texts."""

    versions: list[Json]
    next_version: int | None
