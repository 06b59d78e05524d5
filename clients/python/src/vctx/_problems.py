"""Errors of a call: one exception for each error code of the server, and three for calls without an answer."""

from collections.abc import Mapping
from typing import Any, ClassVar


class Problem(Exception):
    """A failed call.

    `code` is the server's error code or one of `UNREACHABLE`, `UNANSWERED`, `GARBLED`; `fields` are the problem details as they were
    sent (RFC 9457), with the code's own fields. `key` is the idempotency key that the call was made with, if it had one: the same call
    with the same key happens once.
    """

    CODE: ClassVar[str] = ""
    PASSING: ClassVar[bool] = False

    def __init__(
        self,
        detail: str,
        *,
        code: str | None = None,
        status: int | None = None,
        fields: Mapping[str, Any] | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        self.code = code or self.CODE
        self.detail = detail
        self.status = status
        self.fields: dict[str, Any] = dict(fields or {})
        self.retry_after_s = retry_after_s
        self.key: str | None = None
        super().__init__(f"{self.code}: {detail}")

    @property
    def passing(self) -> bool:
        """Whether the same call with the same key can succeed later, because the call itself was valid."""
        return self.PASSING or self.status in (429, 502, 503, 504)

    @property
    def system_message(self) -> str:
        """The text for a model."""
        told = self.fields.get("system_message")
        return told if isinstance(told, str) else f"Error {self.code}: {self.detail}."


class Unreachable(Problem):
    """No connection could be made: the server received nothing. Is it running? `vctx serve` starts it."""

    CODE = "UNREACHABLE"
    PASSING = True


class Unanswered(Problem):
    """The call was sent, at least in part, without a complete answer: it may have had its effect. Repeat it with the same key."""

    CODE = "UNANSWERED"
    PASSING = True


class Garbled(Problem):
    """This client does not understand the answer: does another program listen on this socket?"""

    CODE = "GARBLED"


class Refused(Problem):
    """The server answered with problem details. Unknown codes use this class."""


class InvalidArgument(Refused):
    """An argument is wrong."""

    CODE = "INVALID_ARGUMENT"

    @property
    def field(self) -> str | None:
        """The argument."""
        return _text(self.fields.get("field"))


class InvalidJson(Refused):
    """The body is not the JSON expected here."""

    CODE = "INVALID_JSON"


class InvalidName(Refused):
    """A name has a character or length that is not allowed."""

    CODE = "INVALID_NAME"


class PageTokenInvalid(Refused):
    """The page token does not belong to this agent, tool and question."""

    CODE = "PAGE_TOKEN_INVALID"


class ModeUnavailable(Refused):
    """This search mode is not available."""

    CODE = "MODE_UNAVAILABLE"


class IdempotencyKeyRequired(Refused):
    """A writing call needs an idempotency key."""

    CODE = "IDEMPOTENCY_KEY_REQUIRED"


class Forbidden(Refused):
    """This caller may not do this."""

    CODE = "FORBIDDEN"


class AgentNotFound(Refused):
    """No such agent."""

    CODE = "AGENT_NOT_FOUND"


class ToolNotFound(Refused):
    """No such tool."""

    CODE = "TOOL_NOT_FOUND"


class DocumentNotFound(Refused):
    """No such document in the archive."""

    CODE = "DOCUMENT_NOT_FOUND"


class BlockNotFound(Refused):
    """No such block."""

    CODE = "BLOCK_NOT_FOUND"


class PromptNotFound(Refused):
    """No such prompt."""

    CODE = "PROMPT_NOT_FOUND"


class ScheduleNotFound(Refused):
    """No such schedule."""

    CODE = "SCHEDULE_NOT_FOUND"


class RouteNotFound(Refused):
    """No such path."""

    CODE = "ROUTE_NOT_FOUND"


class MethodNotAllowed(Refused):
    """This path has no such method."""

    CODE = "METHOD_NOT_ALLOWED"


class AgentForgotten(Refused):
    """The agent of this name was forgotten completely; a new agent of the name needs the given `incarnation`."""

    CODE = "AGENT_FORGOTTEN"

    @property
    def incarnation(self) -> int | None:
        """The number with which `create` makes a new agent of the name."""
        return _number(self.fields.get("incarnation"))


class AgentExists(Refused):
    """The agent exists with another configuration."""

    CODE = "AGENT_EXISTS"


class AgentElsewhere(Refused):
    """The agent is in another database."""

    CODE = "AGENT_ELSEWHERE"


class AgentMoving(Refused):
    """The agent is being moved to another database."""

    CODE = "AGENT_MOVING"
    PASSING = True


class MoveBusy(Refused):
    """The agent cannot be moved at the moment."""

    CODE = "MOVE_BUSY"


class LedgerContradicted(Refused):
    """Somebody changed the memory in the database: see `vctx verify`."""

    CODE = "LEDGER_CONTRADICTED"


class BlockExists(Refused):
    """A block of that name exists already."""

    CODE = "BLOCK_EXISTS"


class IdempotencyKeyReused(Refused):
    """The idempotency key belongs to another call."""

    CODE = "IDEMPOTENCY_KEY_REUSED"


class Conflict(Refused):
    """Other writers changed the memory at every attempt."""

    CODE = "CONFLICT"
    PASSING = True


class RunBusy(Refused):
    """Another run of this agent is active."""

    CODE = "RUN_BUSY"


class RunLost(Refused):
    """The run has ended, or belongs to another server now."""

    CODE = "RUN_LOST"


class VectorSettingMismatch(Refused):
    """The database holds vectors of another kind."""

    CODE = "VECTOR_SETTING_MISMATCH"


class ChangeUnknown(Refused):
    """The agent has no such change any more: read the memory again, and follow its changes from now on."""

    CODE = "CHANGE_UNKNOWN"


class PageExpired(Refused):
    """The result list of this page token is no longer kept."""

    CODE = "PAGE_EXPIRED"


class RevisionStale(Refused):
    """The memory changed since the given revision: read the changes, then decide again."""

    CODE = "REVISION_STALE"

    @property
    def rev(self) -> str | None:
        """The newest revision."""
        return _text(self.fields.get("_rev"))

    @property
    def changed(self) -> list[str]:
        """What changed: `block:NAME`, `queue`, `summary`, `agent`, or `unknown`."""
        return [name for name in self.fields.get("changed") or [] if isinstance(name, str)]


class BodyTooLarge(Refused):
    """The body is larger than allowed."""

    CODE = "BODY_TOO_LARGE"


class TokenBudgetExceeded(Refused):
    """The window has no room for this."""

    CODE = "TOKEN_BUDGET_EXCEEDED"

    @property
    def required_headroom(self) -> int | None:
        """Tokens that are missing."""
        return _number(self.fields.get("required_headroom"))


class TaintedContent(Refused):
    """Tainted text needs a justification to enter the core."""

    CODE = "TAINTED_CONTENT"

    @property
    def rules(self) -> list[str]:
        """The rules that the text meets."""
        return [rule for rule in self.fields.get("rules") or [] if isinstance(rule, str)]


class LateChunkingRequired(Refused):
    """Chunks must be embedded with their whole document as context."""

    CODE = "LATE_CHUNKING_REQUIRED"


class SpendingCapped(Refused):
    """The agent has used its tokens of this day (UTC)."""

    CODE = "SPENDING_CAPPED"


class PinLimitExceeded(Refused):
    """Pinned blocks may take a quarter of the window."""

    CODE = "PIN_LIMIT_EXCEEDED"


class WindowTooSmall(Refused):
    """The window is smaller than its fixed content."""

    CODE = "WINDOW_TOO_SMALL"


class PreconditionRequired(Refused):
    """A writing call needs the revision it builds on."""

    CODE = "PRECONDITION_REQUIRED"


class HeartbeatRateLimited(Refused):
    """Too many heartbeats in a second."""

    CODE = "HEARTBEAT_RATE_LIMITED"

    @property
    def retry_after_ms(self) -> int | None:
        """When a beat will be granted."""
        return _number(self.fields.get("retry_after_ms"))


class HeartbeatCooldown(Refused):
    """The last chain of heartbeats reached a cap a moment ago."""

    CODE = "HEARTBEAT_COOLDOWN"

    @property
    def retry_after_ms(self) -> int | None:
        """When a beat will be granted."""
        return _number(self.fields.get("retry_after_ms"))


class Overloaded(Refused):
    """Too many calls at once."""

    CODE = "OVERLOADED"


class StoreUnavailable(Refused):
    """The database does not answer."""

    CODE = "STORE_UNAVAILABLE"


class NotReady(Refused):
    """The server is not ready."""

    CODE = "NOT_READY"


class EmbedderUnavailable(Refused):
    """The embedder makes no vectors at the moment."""

    CODE = "EMBEDDER_UNAVAILABLE"


class ModelUnavailable(Refused):
    """The model does not answer at the moment."""

    CODE = "MODEL_UNAVAILABLE"


class Timeout(Refused):
    """The call took longer than the server allows."""

    CODE = "TIMEOUT"


class DiskFull(Refused):
    """The disk of the server has too little room."""

    CODE = "DISK_FULL"


class StoreRefused(Refused):
    """The database refused the request."""

    CODE = "STORE_REFUSED"


class Internal(Refused):
    """The server made a mistake."""

    CODE = "INTERNAL"


CODES: dict[str, type[Refused]] = {kind.CODE: kind for kind in Refused.__subclasses__()}


def refused(status: int, body: object, retry_after_s: float | None) -> Refused:
    """The exception for an answer that is none of success; one without problem details keeps its status as the code."""
    fields = body if isinstance(body, dict) else {}
    code = _text(fields.get("error")) or f"HTTP_{status}"
    detail = _text(fields.get("detail")) or _text(fields.get("title")) or "the server refused the call without a reason"
    kind = CODES.get(code, Refused)
    return kind(detail, code=code, status=status, fields=fields, retry_after_s=retry_after_s)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
