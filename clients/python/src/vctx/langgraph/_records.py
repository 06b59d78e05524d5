"""Records of a framework, each in one document of an agent's archive, so that a name leads to exactly what was written."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from .. import types as t
from .._opened import Server, client_of, opened
from .._problems import Conflict, DocumentNotFound, Garbled
from .._wire import ANY, next_page

# The sources of passages: what is read by name, and the copies of texts that a search looks at.
EXACT, INDEXED = "exact", "indexed"
# What stands before each exact passage, since a passage must not consist of white space.
MARK = "="
# Maximum number of characters of an exact passage, whose limit is 32 768 bytes.
PIECE_CHARS = 8_000
# Maximum number of characters of a passage that is searched, and of such passages in a document. A
# search finds words only in these.
INDEXED_CHARS = 1_000
INDEXED_PIECES_MAX = 128
# Maximum number of passages that a search gives.
FOUND_MAX = 40
# Documents in a page of a listing, with their texts and without.
PAGE_TEXTS, PAGE_NAMES = 100, 1_000
# Maximum number of pages of a listing, and of attempts to read or change a document that another
# program changes meanwhile.
PAGES_MAX = 100_000
TRIES_MAX = 8
# Longest name of a document, in characters; names are ASCII.
NAME_MAX = 256

WINDOW_TOKENS = 32_768
SYSTEM = "This agent holds data of LangGraph in its archive."


@dataclass(frozen=True)
class Record:
    """A document: its parts by name, the marks that it was stored with, and its revision."""

    name: str
    rev: str
    marks: Mapping[str, Any]
    parts: Mapping[str, str]
    created_at: str
    updated_at: str


class Records:
    """The documents of one agent."""

    def __init__(self, server: Server, agent: str) -> None:
        self._client = client_of(server)
        self._owns_client = self._client is not server
        self._agent = opened(self._client, agent, WINDOW_TOKENS, SYSTEM)

    def close(self) -> None:
        """Closes the connections, unless they are the caller's."""
        if self._owns_client:
            self._client.close()

    def put(
        self, name: str, parts: Mapping[str, str], marks: Mapping[str, Any], *, indexed: Sequence[str] = (), rev: str = ANY
    ) -> None:
        """Writes a record in one transaction. `indexed` are the texts that a search looks at; `rev` is as for `ingest_archival`."""
        if len(name) > NAME_MAX:
            raise ValueError(f"the name {name} has more than {NAME_MAX} characters: use fewer or shorter labels")
        chunks: list[str | t.Json] = [
            {"chunk_id": f"{part}.{number:04}", "text": MARK + piece}
            for part, text in parts.items()
            for number, piece in enumerate(pieces(text, PIECE_CHARS))
        ]
        chunks += [
            {"chunk_id": f"{INDEXED}.{number:04}", "text": text, "provenance": {"source": INDEXED}}
            for number, text in enumerate(searchable(indexed))
        ]
        self._agent.ingest_archival(name, chunks=chunks, provenance={**marks, "source": EXACT}, rev=rev)

    def get(self, name: str) -> Record | None:
        """The record of a name; read again if it was replaced between two pages."""
        for _ in range(TRIES_MAX):
            try:
                document = self._agent.document(name)
                passages = list(document["passages"] or [])
                following, is_same = document["next_index"], True
                while following is not None and is_same:
                    page = self._agent.document(name, following)
                    rows, further = next_page(page, "passages", "next_index", following)
                    passages += rows
                    following, is_same = further, page["_rev"] == document["_rev"]
            except DocumentNotFound:
                return None
            if is_same:
                return record(document, passages)
        raise Conflict(f"{name} was replaced during each of {TRIES_MAX} readings")

    def listing(self, prefix: str, *, after: str | None = None, reverse: bool = False, limit: int = PAGE_TEXTS) -> Iterator[Record]:
        """The records whose names begin with a text, by name; `limit` is the number that the caller probably needs."""
        size = max(1, min(limit, PAGE_TEXTS))
        for document in self._listed(prefix, after, reverse, size, True):
            passages = document.get("passages")
            whole = record(document, passages) if passages is not None else self.get(document["doc_id"])
            if whole is not None:
                yield whole

    def names(self, prefix: str) -> Iterator[tuple[str, t.Json]]:
        """The names that begin with a text, with the marks of their records."""
        for document in self._listed(prefix, None, False, PAGE_NAMES, False):
            yield document["doc_id"], document["provenance"]

    def _listed(self, prefix: str, after: str | None, reverse: bool, limit: int, texts: bool) -> Iterator[t.Document]:
        for _ in range(PAGES_MAX):
            page = self._agent.documents(prefix, start=after, limit=limit, reverse=reverse or None, texts=texts or None)
            rows, after = next_page(page, "documents", "next", after)
            yield from rows
            if after is None:
                return
        raise Garbled(f"the list of {prefix} does not end after {PAGES_MAX} pages")

    def delete(self, name: str) -> None:
        """Removes a record, if it is there."""
        try:
            self._agent.delete_document(name, rev=ANY)
        except DocumentNotFound:
            return

    def found(self, query: str, prefix: str) -> Iterator[tuple[str, float | None]]:
        """Names that begin with a text and whose records answer a query, best first, with their scores."""
        seen = set()
        within = {"source": INDEXED, "doc_id_prefix": prefix}
        for passage in self._agent.all_passages(query, filter=within, limit=FOUND_MAX):
            name = passage["doc_id"]
            # A search does not tell the name of a document whose passage is in quarantine.
            if name not in seen and not passage.get("quarantined"):
                seen.add(name)
                yield name, passage.get("score", passage.get("similarity"))


def record(document: t.Document, passages: Sequence[t.Passage]) -> Record:
    """A document's passages as a record."""
    parts: dict[str, str] = {}
    for passage in passages:
        part = passage["chunk_id"].rpartition(".")[0]
        if part != INDEXED:
            parts[part] = parts.get(part, "") + passage["text"].removeprefix(MARK)
    times = (document["created_at"], document["updated_at"])
    return Record(document["doc_id"], document["_rev"], document["provenance"], parts, *times)


def pieces(text: str, chars: int) -> Iterator[str]:
    """A text in pieces of a length, at least one."""
    for start in range(0, max(len(text), 1), chars):
        yield text[start : start + chars]


def searchable(texts: Sequence[str]) -> list[str]:
    """Texts in pieces that a search can find; what UTF-8 cannot hold is replaced."""
    found = []
    for text in texts:
        readable = text.encode("utf-8", "replace").decode()
        found += [piece for piece in pieces(readable, INDEXED_CHARS) if not piece.isspace() and piece]
    return found[:INDEXED_PIECES_MAX]


def segment_of(text: str, chars: int) -> str:
    """A text as one segment of a name: escaped, or a digest if it is longer. The same text always gives the same segment."""
    escaped = quote(text, safe="")
    if len(escaped) <= chars:
        return escaped
    # An escaped text has no equals sign.
    return "=" + hashlib.sha256(text.encode()).hexdigest()[: chars - 1]
