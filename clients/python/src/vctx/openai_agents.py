"""A session of the OpenAI Agents SDK that is kept in the log of an agent of vctx.

`VctxSession` implements the SDK's protocol `Session`. The agent that holds a session has the
session's id as its name.

- An item that is only a text of a user, an assistant or the system is stored as a message with this
  text, so that the server's searches, its window and its summary show it as it was said. Every
  other item is stored as a message whose content is the item's JSON and whose name is
  `openai-item`. Both come back as they were given, with their keys in the same order.
- What a tool returned has the role `tool`: the server treats it as text from outside, also if a
  rule puts it into quarantine. The session itself always reads the original text.
- `pop_item` and `clear_session` forget messages (docs/how-to/forget.md): their texts are removed
  from the server, with everything that was made from them. Their positions in the log stay, with
  the digests that prove that nothing else was changed.
- Messages that other programs append to the agent as user, assistant or system are items of the
  session, too. Tool calls and results that other programs append are not.

One item has at most 1 MiB of JSON. A call of `add_items` makes as few writes as its length allows,
in the order of the items; each write is atomic.
"""

import asyncio
import hashlib
import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar, cast

from agents.items import TResponseInputItem
from agents.memory import SessionSettings

from . import types as t
from ._client import Agent
from ._opened import Server, client_of, opened
from ._problems import Conflict, InvalidArgument, RevisionStale
from ._wire import ANY, advanced, fresh_key, pause_s

__all__ = ["VctxSession"]

# Window of a new session's agent, in tokens: the largest that the server allows, so that any item
# fits, and so that nothing has to be summarised for a window that the SDK does not use.
WINDOW_TOKENS = 4_000_000
SYSTEM = "This agent holds a session of the OpenAI Agents SDK."
# Name of messages whose content is the JSON of an item.
ITEM_NAME = "openai-item"
# Name of the block that says where in the log the session begins.
BLOCK = "session"
# Names that the server accepts for agents.
AGENT_NAME = re.compile(r"[A-Za-z0-9_.-]{0,127}[A-Za-z0-9_-][A-Za-z0-9_.-]{0,127}")
AGENT_NAME_MAX = 128
# Maximum number of messages in one page of the log, and smallest number that a search for the
# newest items reads.
PAGE_MESSAGES = 1_000
PAGE_MESSAGES_MIN = 16
# Maximum number of bytes of messages in one write; the server's limit is 2 MiB, including the rest
# of the request.
WRITE_BYTES_MAX = 1_500_000
# Number of messages that one call forgets, and maximum number of calls until the server has
# forgotten them.
FORGOTTEN_MAX = 256
FORGET_CALLS_MAX = 100
# Maximum number of attempts of a change that other programs overtake.
TRIES_MAX = 32

T = TypeVar("T")


class VctxSession:
    """A conversation of the OpenAI Agents SDK on a server of vctx.

    `server` is a client, which stays open, or the path of a socket. `agent` is the name of the
    agent that holds the session; by default it is the session's id, or a digest of an id that is no
    name of an agent.
    """

    session_settings: SessionSettings | None = None

    def __init__(
        self,
        session_id: str,
        server: Server = None,
        *,
        agent: str | None = None,
        context_window: int = WINDOW_TOKENS,
        session_settings: SessionSettings | None = None,
    ) -> None:
        self.session_id = session_id
        self.session_settings = session_settings if session_settings is not None else SessionSettings()
        self._client = client_of(server)
        self._owns_client = self._client is not server
        self._name = agent if agent is not None else agent_name(session_id)
        self._context_window = context_window
        self._agent: Agent | None = None
        # One call at a time: a call whose task was cancelled still ends in its thread before the
        # next one begins.
        self._turn = threading.Lock()

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """All items, or the newest `limit` items, oldest first; a negative limit means all."""
        if limit is None and self.session_settings is not None:
            limit = self.session_settings.limit
        return await self._in_turn(lambda log: log.items(limit))

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Appends items."""
        rows = [message_of(cast(dict[str, Any], item)) for item in items]
        await self._in_turn(lambda log: log.append(rows))

    async def pop_item(self) -> TResponseInputItem | None:
        """Removes the newest item from the server and returns it; nothing if there is none."""
        return await self._in_turn(lambda log: log.pop())

    async def clear_session(self) -> None:
        """Removes all items from the server."""
        await self._in_turn(lambda log: log.clear())

    def close(self) -> None:
        """Closes the connections, unless the session was made with a client; another call opens a new one."""
        if self._owns_client:
            self._client.close()

    async def _in_turn(self, work: "Callable[[Log], T]") -> T:
        def worked() -> T:
            with self._turn:
                if self._agent is None:
                    self._agent = opened(self._client, self._name, self._context_window, SYSTEM)
                return work(Log(self._agent))

        return await asyncio.to_thread(worked)


class Log:
    """The items of a session in the log of its agent."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    def append(self, rows: Sequence[t.NewMessage]) -> None:
        """Appends messages in as few writes as their length allows."""
        for part in in_parts(rows):
            self._agent.append_messages(part)

    def items(self, limit: int | None) -> list[TResponseInputItem]:
        """The newest items, oldest first."""
        begin, _, end, _ = self._extent()
        if limit is None or limit < 0:
            return [item for _, item in self._between(begin, end)]
        return [item for _, item in self._newest(begin, end, limit)]

    def pop(self) -> TResponseInputItem | None:
        """Forgets the newest item, unless another program changed the agent since the item was read; then reads again."""
        for attempt in range(1, TRIES_MAX + 1):
            begin, _, end, rev = self._extent()
            newest = self._newest(begin, end, 1)
            if not newest:
                return None
            seq, item = newest[0]
            try:
                self._forget([seq], rev)
            except RevisionStale as problem:
                # Another program forgets or appends, in several steps.
                time.sleep(pause_s(attempt, problem))
                continue
            return item
        raise Conflict(f"the session was changed during each of {TRIES_MAX} attempts to pop an item")

    def clear(self) -> None:
        """Lets the session begin behind its last message, then forgets the messages before.

        The block names the messages that are still to be forgotten, so that a repetition goes on
        after a failure.
        """
        forget_from, begin = self._begin_at_end()
        for start in range(forget_from, begin, FORGOTTEN_MAX):
            self._forget_rows(start, min(start + FORGOTTEN_MAX, begin))
        for _ in range(TRIES_MAX):
            newer, forgotten, _, rev = self._extent()
            if forgotten >= begin or self._note(newer, begin, rev):
                return
        raise Conflict(f"the session was changed during each of {TRIES_MAX} attempts to clear it")

    def _begin_at_end(self) -> tuple[int, int]:
        """Moves the session's beginning to the end of the log; gives the range of messages to forget."""
        for _ in range(TRIES_MAX):
            begin, forgotten, end, rev = self._extent()
            if begin == end or self._note(end, forgotten, rev):
                return forgotten, end
        raise Conflict(f"the session was changed during each of {TRIES_MAX} attempts to clear it")

    def _extent(self) -> tuple[int, int, int, str]:
        """Where the session begins, up to where the log is forgotten, where the log ends, and the revision that says so."""
        state = self._agent.state()
        end = int(state["queue"]["next_seq"])
        for block in state["working_blocks"]:
            if block["id"] == BLOCK:
                noted = json.loads(block["content"])
                return int(noted["begin"]), int(noted["forgotten"]), end, state["_rev"]
        return 1, 1, end, state["_rev"]

    def _note(self, begin: int, forgotten: int, rev: str) -> bool:
        """Writes the block; says whether the revision was still the newest."""
        try:
            self._agent.store_core(BLOCK, json.dumps({"begin": begin, "forgotten": forgotten}), rev=rev)
        except RevisionStale:
            return False
        return True

    def _newest(self, begin: int, end: int, count: int) -> list[tuple[int, TResponseInputItem]]:
        """The newest items with their positions, oldest first; reads backwards, since forgotten positions lie between."""
        found: list[tuple[int, TResponseInputItem]] = []
        size = min(max(count, PAGE_MESSAGES_MIN), PAGE_MESSAGES)
        while end > begin and len(found) < count:
            start = max(begin, end - size)
            found = self._between(start, end) + found
            end, size = start, PAGE_MESSAGES
        return found[max(len(found) - count, 0) :]

    def _between(self, start: int, end: int) -> list[tuple[int, TResponseInputItem]]:
        rows = ((row["seq"], item_of(row)) for row in self._rows(start, end))
        return [(seq, item) for seq, item in rows if item is not None]

    def _rows(self, start: int, end: int) -> Iterator[t.Message]:
        """The messages from one position to before another one, page after page."""
        following: int | None = start
        while following is not None and following < end:
            page = self._agent.messages(following, min(PAGE_MESSAGES, end - following), originals=True)
            rows, following = advanced(page, "messages", "next_seq", following)
            yield from (row for row in rows if row["seq"] < end)

    def _forget_rows(self, start: int, end: int) -> None:
        """Forgets the messages of a range, as far as no other program has."""
        for _ in range(TRIES_MAX):
            seqs = [row["seq"] for row in self._rows(start, end) if row["content"] is not None]
            if not seqs:
                return
            try:
                self._forget(seqs, ANY)
            except InvalidArgument:
                # Another program forgot them since they were read; if it did not, the next attempts
                # fail, too.
                continue
        raise Conflict(f"messages {start} to {end - 1} are not forgotten after {TRIES_MAX} attempts")

    def _forget(self, seqs: list[int], rev: str) -> None:
        key = fresh_key()
        for _ in range(FORGET_CALLS_MAX):
            if self._agent.forget(seqs=seqs, key=key, rev=rev)["state"] == "done":
                return
        raise Conflict(f"{len(seqs)} messages are not forgotten after {FORGET_CALLS_MAX} calls")


def agent_name(session_id: str) -> str:
    """The name of the agent that holds a session."""
    if len(session_id) <= AGENT_NAME_MAX and AGENT_NAME.fullmatch(session_id):
        return session_id
    return f"session-{hashlib.sha256(session_id.encode()).hexdigest()}"


def message_of(item: dict[str, Any]) -> t.NewMessage:
    """The message that holds an item."""
    role, content = item.get("role"), item.get("content")
    if list(item) == ["content", "role"] and role in ("user", "assistant", "system") and isinstance(content, str) and content:
        if is_text(content):
            return {"role": role, "content": content}
    text = json.dumps(item, ensure_ascii=False)
    # JSON can name what UTF-8 cannot hold: half of a surrogate pair.
    return {"role": role_of(item), "content": text if is_text(text) else json.dumps(item), "name": ITEM_NAME}


def item_of(row: t.Message) -> TResponseInputItem | None:
    """The item that a message holds; nothing if it holds none."""
    content, meta = row["content"], row["meta"] or {}
    if row["kind"] != "turn" or content is None:
        return None
    if meta.get("name") == ITEM_NAME:
        return cast(TResponseInputItem, json.loads(content))
    if row["role"] == "tool" or meta.get("tool_calls"):
        return None
    return cast(TResponseInputItem, {"content": content, "role": row["role"]})


def role_of(item: dict[str, Any]) -> t.Role:
    """Who speaks in an item: what holds a tool's output is text from outside."""
    role = item.get("role")
    if role in ("user", "assistant", "system"):
        return cast(t.Role, role)
    if role == "developer":
        return "system"
    from_outside = str(item.get("type")).endswith("_output") or "output" in item or "results" in item
    return "tool" if from_outside or role == "tool" else "assistant"


def is_text(text: str) -> bool:
    """Whether UTF-8 can hold a text."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def in_parts(rows: Sequence[t.NewMessage]) -> Iterator[list[t.NewMessage]]:
    """The messages in order, in parts of at most `WRITE_BYTES_MAX` bytes, or of one message."""
    part: list[t.NewMessage] = []
    room = WRITE_BYTES_MAX
    for row in rows:
        size = len(json.dumps(row, ensure_ascii=False).encode())
        if part and size > room:
            yield part
            part, room = [], WRITE_BYTES_MAX
        part.append(row)
        room -= size
    if part:
        yield part
