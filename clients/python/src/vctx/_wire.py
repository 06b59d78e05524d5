"""Requests and answers without sockets: what is sent, what an answer means, and what may be sent again."""

import json
import random
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

from ._problems import Conflict, EmbedderUnavailable, Garbled, NotReady, Overloaded, Problem, StoreUnavailable
from ._problems import Unanswered, Unreachable, refused

# Longest request and longest answer, in bytes.
REQUEST_BYTES_MAX = 64 << 20
ANSWER_BYTES_MAX = 64 << 20
# Seconds for which a call is repeated after its first failure, long enough for a restart of the
# server; and the same before the client has had any answer, when probably no server runs.
PATIENCE_S = 30.0
FIRST_PATIENCE_S = 1.0
# The pause before the second attempt, and the longest one. The pause doubles with each attempt, and
# a random part of at most half the pause is added.
PAUSE_S = 0.02
PAUSE_S_MAX = 0.5
# Longest pause that a server may request before the next attempt.
PAUSE_ASKED_S_MAX = 2.0
# The pause before a feed that the server has ended is continued.
FEED_PAUSE_S = 0.5
# Maximum seconds for one attempt, long enough for an explicit eviction that waits for a model.
TIMEOUT_S = 30.0
# Maximum seconds for a run, whose answer only comes at its end, after several inferences.
RUN_TIMEOUT_S = 600.0
# Maximum number of idle connections that one client keeps.
IDLE_MAX = 8

# Maximum number of messages in one call that appends several, and of bytes of their JSON if they are
# more than one.
APPENDED_MAX = 256
APPENDED_BYTES_MAX = 1 << 20

# Value by which a caller explicitly accepts any revision.
ANY = "*"


@dataclass(frozen=True)
class Request:
    """One request; sent again it is the same, key and revision included."""

    method: str
    path: str
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def key(self) -> str | None:
        """Its idempotency key."""
        return self.headers.get("Idempotency-Key")


@dataclass(frozen=True)
class Answer:
    """Status, headers (names in lower case) and the whole body."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def fresh_key() -> str:
    """A key that no other call has."""
    return str(uuid.uuid4())


def segment(name: str) -> str:
    """A name as one segment of a path."""
    return quote(name, safe="")


def with_query(path: str, query: Mapping[str, object]) -> str:
    """The path with what is not `None` behind it."""
    given = {name: str(value) for name, value in query.items() if value is not None}
    return f"{path}?{urlencode(given, quote_via=quote)}" if given else path


def given(**arguments: object) -> dict[str, Any]:
    """The arguments that are not `None`."""
    return {name: value for name, value in arguments.items() if value is not None}


def flag(value: bool | None) -> str | None:
    """A parameter of a query that is true or false."""
    return None if value is None else str(value).lower()


def slice_of(rows: Sequence[Any], start: int) -> Sequence[Any]:
    """The rows from `start` on that go into one call that appends several messages: at least one."""
    end, size = start, 0
    while end < len(rows) and end - start < APPENDED_MAX:
        size += len(json.dumps(rows[end], ensure_ascii=False).encode())
        if end > start and size > APPENDED_BYTES_MAX:
            break
        end += 1
    return rows[start:end]


def request(
    method: str,
    path: str,
    body: object = None,
    *,
    key: str | None = None,
    rev: str | None = None,
    label: str | None = None,
    accept: str = "application/json",
) -> Request:
    """A request with its headers. `rev`: a revision, `ANY`, or the empty text for what must be new."""
    headers = {"Host": "vctx", "Accept": accept}
    data = b""
    if isinstance(body, bytes):
        data = body
        headers["Content-Type"] = "application/x-ndjson"
    elif body is not None:
        data = json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
        headers["Content-Type"] = "application/json"
    if len(data) > REQUEST_BYTES_MAX:
        raise refused(413, {"error": "BODY_TOO_LARGE", "detail": "the call is longer than 64 MiB"}, None)
    if data or method in ("POST", "PUT", "PATCH"):
        headers["Content-Length"] = str(len(data))
    for name, value in (("Idempotency-Key", key), ("If-Match", rev), ("X-Vctx-Label", label)):
        if value is not None:
            headers[name] = _visible(name, value)
    return Request(method, path, data, headers)


def _visible(name: str, value: str) -> str:
    if all(" " <= letter <= "~" for letter in value):
        return value
    detail = f"{name}: use visible ASCII characters"
    raise refused(400, {"error": "INVALID_ARGUMENT", "detail": detail, "field": name.lower()}, None)


def understood(answer: Answer) -> Any:
    """The JSON of a good answer; otherwise raises what it says."""
    try:
        body = json.loads(answer.body)
    except ValueError:
        body = None
    if not 200 <= answer.status < 300:
        if _is_text(answer):
            text = answer.body.decode(errors="replace")
            body = {"error": answer.headers.get("x-vctx-error"), "detail": text, "system_message": text}
        raise refused(answer.status, body, _seconds(answer.headers.get("retry-after")))
    if not isinstance(body, dict):
        raise Garbled("the answer is no JSON object")
    return body


def understood_text(answer: Answer) -> Any:
    """The text of a good answer with its revisions, which are in headers; otherwise raises what the answer says."""
    if not 200 <= answer.status < 300:
        understood(answer)
    if not _is_text(answer):
        raise Garbled("the answer is no text")
    rev, agent_rev = answer.headers.get("etag", "").strip('"') or None, answer.headers.get("x-vctx-agent-rev")
    told = {"text": answer.body.decode(errors="replace"), "_rev": rev, "version": _number(answer.headers.get("x-vctx-version"))}
    return told if agent_rev is None else {**told, "agent_rev": agent_rev, "result": {"_rev": rev}}


def _is_text(answer: Answer) -> bool:
    return answer.headers.get("content-type", "").partition(";")[0].strip() == "text/plain"


def _seconds(text: str | None) -> float | None:
    return float(text) if text is not None and text.isascii() and text.isdigit() else None


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() else None


class Events:
    """Server-sent events out of the pieces in which they come: the data of each, as JSON."""

    def __init__(self) -> None:
        self._rest = b""

    def push(self, piece: bytes) -> list[dict[str, Any]]:
        """What is whole by now."""
        self._rest += piece
        if len(self._rest) > ANSWER_BYTES_MAX:
            raise Garbled(f"an event is longer than {ANSWER_BYTES_MAX} bytes")
        *whole, self._rest = self._rest.replace(b"\r\n", b"\n").split(b"\n\n")
        return [event for text in whole if (event := _event(text)) is not None]


def _event(text: bytes) -> dict[str, Any] | None:
    data = b"\n".join(line[5:].lstrip(b" ") for line in text.split(b"\n") if line.startswith(b"data:"))
    if not data:
        return None
    try:
        event = json.loads(data)
    except ValueError as error:
        raise Garbled("an event is not JSON") from error
    if not isinstance(event, dict):
        raise Garbled("an event is no JSON object")
    return event


def told(event: dict[str, Any]) -> dict[str, Any]:
    """An event of a run; one that tells of a failure is raised."""
    if event.get("type") != "error":
        return event
    problem = event.get("problem")
    status = problem.get("status") if isinstance(problem, dict) else None
    raise refused(status if isinstance(status, int) else 500, problem, None)


def is_final(event: dict[str, Any]) -> bool:
    """Whether a message of a feed ends it for good: the agent was forgotten, or there is no further change and the caller does not wait."""
    return event.get("feed") == "end" and event.get("reason") in ("forgotten", "caught_up")


def place(event: dict[str, Any]) -> str:
    """The place of a change in the feed of its agent."""
    at = event.get("at")
    if not isinstance(at, str):
        raise Garbled("a message of the feed has no place")
    return at


def may_continue(problem: Problem) -> bool:
    """Whether a feed can continue after this failure: the connection broke, or the server or the agent's database is not ready yet."""
    return may_repeat(problem) or problem.passing


def may_repeat(problem: Problem) -> bool:
    """Whether the client itself sends the same request again: nothing was answered, or the server said that it was busy."""
    busy = (Conflict, EmbedderUnavailable, NotReady, Overloaded, StoreUnavailable)
    return isinstance(problem, (Unreachable, Unanswered, *busy))


def pause_s(attempt: int, problem: Problem) -> float:
    """Seconds between an attempt (from 1) and the next one."""
    base: float = min(PAUSE_S * 2.0 ** (min(attempt, 16) - 1), PAUSE_S_MAX)
    asked = min(problem.retry_after_s or 0.0, PAUSE_ASKED_S_MAX)
    return max(base + random.uniform(0, base / 2), asked)


def is_lost(problem: Problem) -> bool:
    """Whether a call with this failure may have had its effect, or can have it later."""
    return problem.passing or (problem.status or 0) >= 500


def next_page(page: Mapping[str, Any], rows: str, next_name: str, since: Any) -> tuple[Iterable[Any], Any]:
    """Rows of a page and the opaque name of the next page; a page that leads to itself is refused, so that every walk ends."""
    found, following = page.get(rows), page.get(next_name)
    if not isinstance(found, list):
        raise Garbled(f"the answer has no list of {rows}")
    if following is not None and following == since:
        raise Garbled(f"the page after {since} leads to itself")
    return found, following


def advanced(page: Mapping[str, Any], rows: str, next_name: str, since: Any) -> tuple[Iterable[Any], Any]:
    """Rows of a page and where the next one begins; a page that does not go on is refused, so that every walk ends."""
    found, following = page.get(rows), page.get(next_name)
    if not isinstance(found, list):
        raise Garbled(f"the answer has no list of {rows}")
    if following is not None and not (type(following) is type(since) and following > since):
        raise Garbled(f"the page after {since} begins at {following}")
    return found, following
