"""Which revision a call builds on: that of the last answer seen about what it writes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# Maximum number of blocks and documents whose revision is remembered. When there are more, all
# remembered revisions are dropped; a later call for such a block or document is refused, and the
# refusal contains the current revision.
REMEMBERED_MAX = 4_096

# These calls cannot overwrite unseen changes, so they need no revision.
BUILDS_ON_NOTHING = frozenset(
    {
        "fetch_core",
        "search_recall",
        "search_archival",
        "record_heartbeat",
        "trace_memory",
        "build_context",
        "conversation_search",
        "conversation_search_date",
        "archival_memory_insert",
        "archival_memory_search",
        "retrieve_from_ues",
        "summarize_text",
    }
)

# These calls add to the log or move its oldest messages out of the window. Whatever another caller
# appended meanwhile, they mean the same, so they accept any revision.
BUILDS_ON_ANY = frozenset({"append_fifo", "evict_fifo", "write_recall", "send_message"})

# The argument by which a tool names its block.
BLOCK_NAMED_BY = {
    "store_core": "block_id",
    "fetch_core": "block_id",
    "core_memory_append": "label",
    "core_memory_replace": "label",
    "memory_insert": "label",
    "memory_replace": "label",
    "memory_rethink": "label",
    "memory": "path",
}


@dataclass(frozen=True)
class Mark:
    """A revision, and the number of the memory's version that it belongs to, if an answer stated it."""

    rev: str
    version: int | None = None


class Seen:
    """The revisions that one handle saw last.

    What a block holds is known as of the answer that showed it (`store_core`, `fetch_core`, a state), not of the newest one: an append
    or a search does not show it, and so does not hide a change by another caller.
    """

    def __init__(self) -> None:
        self.memory: Mark | None = None
        self._core: Mark | None = None
        self._blocks: dict[str, Mark] = {}
        self._documents: dict[str, str] = {}

    def built_on(self, tool: str, arguments: Mapping[str, Any]) -> str | None:
        """The revision for a call; none when nothing was seen yet."""
        if tool == "ingest_archival":
            # A document that was not seen must be new on the server, so that no document is
            # overwritten silently.
            return self._documents.get(str(arguments.get("doc_id")), "")
        mark = self._mark_of(tool, arguments)
        return None if mark is None else mark.rev

    def still_holds(self, tool: str, arguments: Mapping[str, Any], state: Mapping[str, Any]) -> bool:
        """Whether the block of a call is in the state as this handle saw it; then the call builds on that state."""
        mark, newest = self._mark_of(tool, arguments), _mark(state)
        if tool not in BLOCK_NAMED_BY or mark is None or mark.version is None or newest is None:
            return False
        named = _block(tool, arguments)
        changed_at = [block.get("changed_at_version") for block in state.get("blocks") or [] if _is_named(named, str(block.get("id")))]
        if not all(isinstance(at, int) and at <= mark.version for at in changed_at):
            return False
        self._blocks[named] = newest
        return True

    def state(self, answer: Mapping[str, Any]) -> None:
        """Takes note of a state, which shows everything but documents."""
        mark = _mark(answer)
        if mark is not None:
            self.memory = self._core = mark
            self._blocks.clear()

    def forgotten(self) -> None:
        """Something was forgotten in several steps: what was seen of the memory before says nothing any more."""
        self.memory = self._core = None
        self._blocks.clear()
        self._documents.clear()

    def tool(self, tool: str, arguments: Mapping[str, Any], answer: Mapping[str, Any]) -> None:
        """Takes note of a tool's answer."""
        if tool == "ingest_archival":
            result = answer.get("result")
            self.document(str(arguments.get("doc_id")), result.get("_rev") if isinstance(result, dict) else None)
        mark = _mark(answer)
        if mark is None:
            return
        if tool == "fetch_core" and arguments.get("block_id") is None:
            self.state({"_rev": mark.rev, "version": mark.version})
            return
        self.memory = mark
        if self._core is None:
            self._core = mark
        if tool in BLOCK_NAMED_BY:
            if len(self._blocks) >= REMEMBERED_MAX:
                self._blocks.clear()
            self._blocks[_block(tool, arguments)] = mark

    def document(self, doc_id: str, revision: object) -> None:
        """Takes note of a document's revision; one without is forgotten."""
        if not isinstance(revision, str) or not revision:
            self._documents.pop(doc_id, None)
            return
        if len(self._documents) >= REMEMBERED_MAX:
            self._documents.clear()
        self._documents[doc_id] = revision

    def _mark_of(self, tool: str, arguments: Mapping[str, Any]) -> Mark | None:
        if tool in BLOCK_NAMED_BY:
            return self._blocks.get(_block(tool, arguments), self._core)
        return self.memory


def _mark(answer: Mapping[str, Any]) -> Mark | None:
    """The memory's revision in an answer; the `_rev` of an answer about a document is the document's."""
    revision, version = answer.get("agent_rev", answer.get("_rev")), answer.get("version")
    if not isinstance(revision, str) or not revision:
        return None
    return Mark(revision, version if isinstance(version, int) else None)


def _is_named(named: str, block_id: str) -> bool:
    """Whether a block has this name, or lies below it if the name is a path."""
    path = named.removeprefix("/memories").strip("/")
    return path in ("", block_id) or block_id.startswith(f"{path}/")


def _block(tool: str, arguments: Mapping[str, Any]) -> str:
    named = arguments.get(BLOCK_NAMED_BY[tool], arguments.get("old_path"))
    return str(named)
