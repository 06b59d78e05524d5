"""Which revision a call builds on: that of the last answer seen about what it writes."""

from collections.abc import Mapping
from typing import Any

# Documents whose revision is remembered; beyond, all are forgotten, and a call on one is refused and told the present revision.
DOCUMENTS_MAX = 4_096


class Seen:
    """The revisions that one handle saw last.

    What a block holds is known as of the answer that showed it (`store_core`, `fetch_core`, a state), not of the newest one: an append
    or a search says nothing of it, and so does not hide that somebody else changed it.
    """

    def __init__(self) -> None:
        self.memory: str | None = None
        self._core: str | None = None
        self._blocks: dict[str, str] = {}
        self._documents: dict[str, str] = {}

    def built_on(self, tool: str, arguments: Mapping[str, Any]) -> str | None:
        """The revision for a call; none when nothing was seen yet."""
        if tool == "ingest_archival":
            # A document that nothing is known of must be new: it is no silent overwrite then.
            return self._documents.get(str(arguments.get("doc_id")), "")
        if tool == "store_core":
            return self._blocks.get(str(arguments.get("block_id")), self._core)
        return self.memory

    def state(self, answer: Mapping[str, Any]) -> None:
        """Takes note of a state, which shows everything but documents."""
        revision = answer.get("_rev")
        if isinstance(revision, str):
            self.memory = self._core = revision
            self._blocks.clear()

    def tool(self, tool: str, arguments: Mapping[str, Any], answer: Mapping[str, Any]) -> None:
        """Takes note of a tool's answer."""
        revision = answer.get("_rev")
        if tool == "ingest_archival":
            result = answer.get("result")
            self.document(str(arguments.get("doc_id")), result.get("_rev") if isinstance(result, dict) else None)
            revision = answer.get("agent_rev")
        if not isinstance(revision, str) or not revision:
            return
        self.memory = revision
        if self._core is None:
            self._core = revision
        if tool in ("store_core", "fetch_core"):
            self._blocks[str(arguments.get("block_id"))] = revision

    def document(self, doc_id: str, revision: object) -> None:
        """Takes note of a document's revision; one without is forgotten."""
        if not isinstance(revision, str) or not revision:
            self._documents.pop(doc_id, None)
            return
        if len(self._documents) >= DOCUMENTS_MAX:
            self._documents.clear()
        self._documents[doc_id] = revision
