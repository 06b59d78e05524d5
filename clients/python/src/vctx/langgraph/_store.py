"""LangGraph's store on vctx: an item is a document of the archive."""

import asyncio
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Any

from langgraph.store.base import BaseStore, GetOp, Item, ListNamespacesOp, MatchCondition, Op, PutOp, Result, SearchItem, SearchOp
from langgraph.store.base.embed import get_text_at_path

from .._opened import Server
from ._records import PAGE_TEXTS, Record, Records, segment_of

# Beginning of the names of items, which the agent's other documents do not have.
ITEMS = "item/"
# Maximum number of characters of a label and of a key in a name; a longer one is named by its
# digest.
LABEL_CHARS, KEY_CHARS = 24, 48

Namespace = tuple[str, ...]


class VctxStore(BaseStore):
    """Items that live in the archive of an agent.

    `server` is a client, which stays open, or the path of a socket. `fields` are the paths of the
    texts that a query searches, in the notation of LangGraph's index configuration; by default a
    query searches all texts and numbers of an item. The `index` of a put chooses other paths, or
    none.

    A search without a query lists items by their names. A query finds items by words, and by
    meaning if the server has an embedder, best first: those with the 40 best passages of the
    namespace, of which `filter`, `offset` and `limit` then take some. Operators compare numbers
    with numbers and texts with texts; other values match only `$eq` and `$ne`. The first put of an
    item sets `created_at`, which later puts keep.

    A query does not find a text that the server holds in quarantine until it is released. `get` and
    a search without a query read every item as it was put.

    Each item is written in a transaction of its own. A batch reads before it writes; of several
    puts of one item, the last one counts.
    """

    def __init__(self, server: Server = None, agent: str = "langgraph-store", *, fields: Sequence[str] | None = None) -> None:
        self._records = Records(server, agent)
        self._fields = list(fields) if fields is not None else None

    def close(self) -> None:
        """Closes the connections, unless the store was made with a client; another call opens a new one."""
        self._records.close()

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Executes operations; see the class for their order."""
        asked = list(ops)
        puts = {name_of(op.namespace, op.key): (op, self._text_of(op)) for op in asked if isinstance(op, PutOp)}
        results = [self._read(op) for op in asked]
        for name, (op, text) in puts.items():
            if text is None:
                self._records.delete(name)
            else:
                marks = {"namespace": list(op.namespace), "key": op.key}
                self._records.put(name, {"value": text}, marks, indexed=self._indexed(op))
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Executes operations in a thread."""
        return await asyncio.to_thread(self.batch, list(ops))

    def _read(self, op: Op) -> Result:
        if isinstance(op, GetOp):
            return self._item(op.namespace, op.key)
        if isinstance(op, SearchOp):
            return list(islice(self._matching(op), op.offset, op.offset + op.limit))
        if isinstance(op, ListNamespacesOp):
            return self._namespaces(op)
        if isinstance(op, PutOp):
            return None
        raise ValueError(f"no operation of a store: {op!r}")

    def _text_of(self, op: PutOp) -> str | None:
        """The value of a put as text; nothing if it deletes the item."""
        if op.ttl is not None:
            raise NotImplementedError("items of vctx have no time to live: put them without ttl")
        return None if op.value is None else exact_json(dict(op.value))

    def _indexed(self, op: PutOp) -> list[str]:
        """The texts of an item that a query searches."""
        if op.index is False:
            return []
        paths = op.index if op.index is not None else self._fields
        if paths is None:
            return ["\n".join(leaves(op.value))]
        return [text for path in paths for text in get_text_at_path(op.value, path)]

    def _item(self, namespace: Namespace, key: str) -> Item | None:
        found = self._records.get(name_of(namespace, key))
        if found is None:
            return None
        if place_of(found) != (tuple(namespace), key):
            raise ValueError(f"{found.name} holds another item than {namespace} {key!r}")
        return Item(**fields_of(found))

    def _matching(self, op: SearchOp) -> Iterator[SearchItem]:
        """The items that a search is about, in its order."""
        wanted = tuple(op.namespace_prefix)
        for found, score in self._searched(op, prefix_of(wanted)):
            item = SearchItem(**fields_of(found), score=score)
            if item.namespace[: len(wanted)] != wanted:
                continue
            if all(matches(item.value.get(key), part) for key, part in (op.filter or {}).items()):
                yield item

    def _searched(self, op: SearchOp, prefix: str) -> Iterator[tuple[Record, float | None]]:
        if not (op.query and op.query.strip()):
            # Without a filter every listed item counts.
            size = PAGE_TEXTS if op.filter else op.offset + op.limit
            for found in self._records.listing(prefix, limit=size):
                yield found, None
            return
        for name, score in self._records.found(op.query, prefix):
            whole = self._records.get(name)
            if whole is not None:
                yield whole, score

    def _namespaces(self, op: ListNamespacesOp) -> list[Namespace]:
        conditions = op.match_conditions or ()
        prefix = max((prefix_of(literal(one)) for one in conditions if one.match_type == "prefix"), key=len, default=ITEMS)
        there = {tuple(marks["namespace"]) for _, marks in self._records.names(prefix)}
        fitting = {namespace for namespace in there if all(fits(namespace, one) for one in conditions)}
        if op.max_depth is not None:
            fitting = {namespace[: op.max_depth] for namespace in fitting}
        return sorted(fitting)[op.offset : op.offset + op.limit]


def prefix_of(namespace: Namespace) -> str:
    """The beginning of the names of all items at or below a namespace."""
    return ITEMS + "".join(f"{segment_of(label, LABEL_CHARS)}/" for label in namespace)


def name_of(namespace: Namespace, key: str) -> str:
    """The name of an item's document. Two slashes end the namespace, since no segment but the key can be empty there."""
    return f"{prefix_of(tuple(namespace))}/{segment_of(key, KEY_CHARS)}"


def place_of(found: Record) -> tuple[Namespace, str]:
    """Namespace and key of an item."""
    return tuple(found.marks["namespace"]), found.marks["key"]


def fields_of(found: Record) -> dict[str, Any]:
    """The fields of an item."""
    namespace, key = place_of(found)
    times = {"created_at": datetime.fromisoformat(found.created_at), "updated_at": datetime.fromisoformat(found.updated_at)}
    return {"namespace": namespace, "key": key, "value": json.loads(found.parts["value"]), **times}


def exact_json(value: dict[str, Any]) -> str:
    """A value as JSON text, from which the same value comes back."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    if json.loads(text) != value:
        raise ValueError("the value is not JSON: it has keys that are no texts, or tuples")
    try:
        text.encode()
    except UnicodeEncodeError:
        # JSON can name what UTF-8 cannot hold: half of a surrogate pair.
        return json.dumps(value, allow_nan=False)
    return text


def leaves(value: Any) -> Iterator[str]:
    """All texts and numbers of a value."""
    if isinstance(value, Mapping):
        for part in value.values():
            yield from leaves(part)
    elif isinstance(value, list):
        for part in value:
            yield from leaves(part)
    elif isinstance(value, (str, int, float)) and not isinstance(value, bool):
        yield str(value)


def matches(value: Any, wanted: Any) -> bool:
    """Whether a value is what a filter wants: an equal value, or one that the operators accept."""
    if isinstance(wanted, Mapping):
        if any(key.startswith("$") for key in wanted):
            return all(holds(value, operator, operand) for operator, operand in wanted.items())
        return isinstance(value, Mapping) and all(matches(value.get(key), part) for key, part in wanted.items())
    if isinstance(wanted, (list, tuple)):
        return isinstance(value, list) and len(value) == len(wanted) and all(map(matches, value, wanted))
    return bool(value == wanted)


def holds(value: Any, operator: str, operand: Any) -> bool:
    """Whether an operator accepts a value."""
    if operator == "$eq":
        return bool(value == operand)
    if operator == "$ne":
        return bool(value != operand)
    if operator not in ("$gt", "$gte", "$lt", "$lte"):
        raise ValueError(f"no operator of a filter: {operator}")
    numbers = isinstance(value, (int, float)) and isinstance(operand, (int, float))
    if not numbers and not (isinstance(value, str) and isinstance(operand, str)):
        return False
    answers = {"$gt": value > operand, "$gte": value >= operand, "$lt": value < operand, "$lte": value <= operand}
    return bool(answers[operator])


def literal(condition: MatchCondition) -> Namespace:
    """The labels of a condition before its first wildcard."""
    path = list(condition.path)
    return tuple(path[: path.index("*")] if "*" in path else path)


def fits(namespace: Namespace, condition: MatchCondition) -> bool:
    """Whether a namespace begins or ends with the labels of a condition, of which `*` stands for any."""
    path = tuple(condition.path)
    if len(namespace) < len(path):
        return False
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[len(namespace) - len(path) :]
    return all(wanted in ("*", label) for wanted, label in zip(path, part, strict=True))
