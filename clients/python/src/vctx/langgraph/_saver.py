"""LangGraph's checkpoints on vctx: a checkpoint, and the pending writes of each task, are documents of the archive."""

import asyncio
import base64
import json
import re
import zlib
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import WRITES_IDX_MAP, BaseCheckpointSaver, ChannelVersions, Checkpoint, CheckpointMetadata
from langgraph.checkpoint.base import CheckpointTuple, PendingWrite, get_checkpoint_id, get_checkpoint_metadata, writes_sort_key
from langgraph.checkpoint.serde.base import SerializerProtocol

from .. import types as t
from .._opened import Server
from .._problems import Conflict, RevisionStale
from ._records import TRIES_MAX, Record, Records, segment_of

# Beginning of the names of checkpoints, and of their pending writes.
CHECKPOINTS, WRITES = "checkpoint", "writes"
# Maximum number of characters of a thread's, a namespace's or a task's id in a name; a longer one
# is named by its digest.
SEGMENT_CHARS = 48
# Ids that sort in a list of names as they sort in Python; LangGraph's are UUIDs, whose order is
# that of time.
CHECKPOINT_ID = re.compile(r"[0-9a-z-]{1,48}")

Pending = list[PendingWrite]


class VctxSaver(BaseCheckpointSaver[int]):
    """Checkpoints that live in the archive of an agent.

    `server` is a client, which stays open, or the path of a socket. `put` and `put_writes` are one
    transaction each, so that a killed program leaves whole checkpoints. Checkpoints are compressed;
    their texts are not found by a search.

    `delete_thread`, `delete_for_runs`, `prune` and `copy_thread` change one document after another,
    checkpoints first (a copy: writes first). A repetition finishes what a killed program began.
    `delete_for_runs` reads the names of all checkpoints of the agent.
    """

    def __init__(
        self, server: Server = None, agent: str = "langgraph-checkpoints", *, serde: SerializerProtocol | None = None
    ) -> None:
        super().__init__(serde=serde)
        self._records = Records(server, agent)

    def close(self) -> None:
        """Closes the connections, unless the saver was made with a client; another call opens a new one."""
        self._records.close()

    def put(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, new_versions: ChannelVersions
    ) -> RunnableConfig:
        """Stores a checkpoint with all its channels."""
        thread_id, namespace = place_of(config)
        if not CHECKPOINT_ID.fullmatch(checkpoint["id"]):
            raise ValueError(f"no checkpoint id: {checkpoint['id']!r}: use at most 48 lower-case letters, digits and hyphens")
        noted = get_checkpoint_metadata(config, metadata)
        (kind, data), (noted_kind, noted_data) = self.serde.dumps_typed(checkpoint), self.serde.dumps_typed(noted)
        marks: t.Json = {"thread_id": thread_id, "checkpoint_ns": namespace, "checkpoint_id": checkpoint["id"]}
        marks |= {"types": [kind, noted_kind]} | {"parent": get_checkpoint_id(config), "run_id": noted.get("run_id")}
        parts = {"checkpoint": packed(data), "metadata": packed(noted_data)}
        self._records.put(name_of(CHECKPOINTS, thread_id, namespace, checkpoint["id"]), parts, marks)
        return config_of(thread_id, namespace, checkpoint["id"])

    def put_writes(self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = "") -> None:
        """Stores what a task wrote after a checkpoint. What is stored already stays, except errors and interrupts."""
        thread_id, namespace = place_of(config)
        checkpoint_id = config["configurable"]["checkpoint_id"]
        name = name_of(WRITES, thread_id, namespace, checkpoint_id, task_id)
        marks = {"thread_id": thread_id, "checkpoint_ns": namespace, "checkpoint_id": checkpoint_id, "task_id": task_id}
        given = {}
        for number, (channel, value) in enumerate(writes):
            kind, data = self.serde.dumps_typed(value)
            given[str(WRITES_IDX_MAP.get(channel, number))] = [channel, kind, packed(data), task_path]
        rev, stored = "", cast(dict[str, Any], {})
        for _ in range(TRIES_MAX):
            merged = {**given, **{number: row for number, row in stored.items() if number not in given or int(number) >= 0}}
            if merged == stored:
                return
            try:
                self._records.put(name, {"writes": json.dumps(merged)}, marks, rev=rev)
                return
            except RevisionStale:
                there = self._records.get(name)
                rev, stored = (there.rev, writes_of(there)) if there is not None else ("", {})
        raise Conflict(f"{name} was changed during each of {TRIES_MAX} attempts to write it")

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The checkpoint that a config names, or the newest one of its thread."""
        thread_id, namespace = place_of(config)
        checkpoint_id = get_checkpoint_id(config)
        if checkpoint_id is not None:
            found = self._records.get(name_of(CHECKPOINTS, thread_id, namespace, checkpoint_id))
        else:
            newest_first = self._records.listing(name_of(CHECKPOINTS, thread_id, namespace, ""), reverse=True, limit=1)
            found = next(newest_first, None)
        return None if found is None else self._tuple(found)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Checkpoints that fit, newest first within each namespace of a thread."""
        left = limit
        for found, metadata in self._fitting(config, filter or {}, get_checkpoint_id(before) if before else None):
            if left is not None:
                if left <= 0:
                    return
                left -= 1
            yield self._tuple(found, metadata)

    def delete_thread(self, thread_id: str) -> None:
        """Deletes all checkpoints of a thread, and their writes."""
        for kind in (CHECKPOINTS, WRITES):
            for name, _ in self._records.names(name_of(kind, str(thread_id), None)):
                self._records.delete(name)

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Deletes the checkpoints of runs, and their writes."""
        runs = set(run_ids)
        for name, marks in self._records.names(f"{CHECKPOINTS}/") if runs else ():
            if marks.get("run_id") in runs:
                self._delete(name, marks)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copies all checkpoints of a thread, and their writes, to another thread."""
        for kind in (WRITES, CHECKPOINTS):
            for found in self._records.listing(name_of(kind, str(source_thread_id), None)):
                marks = {**found.marks, "thread_id": str(target_thread_id)}
                place = (marks["thread_id"], marks["checkpoint_ns"], marks["checkpoint_id"])
                name = name_of(kind, *place) if kind == CHECKPOINTS else name_of(kind, *place, marks["task_id"])
                self._records.put(name, found.parts, marks)

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Deletes checkpoints of threads: all, or (`keep_latest`) those that the newest of a namespace does not need."""
        if strategy not in ("keep_latest", "delete"):
            raise ValueError(f"no strategy: {strategy!r}: use keep_latest or delete")
        for thread_id in thread_ids:
            if strategy == "delete":
                self.delete_thread(thread_id)
            else:
                self._keep_latest(str(thread_id))

    def _keep_latest(self, thread_id: str) -> None:
        there = dict(self._records.names(name_of(CHECKPOINTS, thread_id, None)))
        latest: dict[str, str] = {}
        for name, marks in there.items():
            latest[marks["checkpoint_ns"]] = max(latest.get(marks["checkpoint_ns"], ""), marks["checkpoint_id"])
        kept = {name for namespace, newest in latest.items() for name in self._needed(thread_id, namespace, newest)}
        for name, marks in there.items():
            if name not in kept:
                self._delete(name, marks)

    def _needed(self, thread_id: str, namespace: str, checkpoint_id: str) -> Iterator[str]:
        """A checkpoint and those before it from which its delta channels are rebuilt: up to the last stored value of each."""
        found = self._records.get(name_of(CHECKPOINTS, thread_id, namespace, checkpoint_id))
        if found is None:
            return
        yield found.name
        missing = set(self._metadata(found).get("counters_since_delta_snapshot") or {})
        missing -= set(self._checkpoint(found)["channel_values"])
        while missing and found is not None and found.marks["parent"]:
            found = self._records.get(name_of(CHECKPOINTS, thread_id, namespace, found.marks["parent"]))
            if found is not None:
                yield found.name
                missing -= set(self._checkpoint(found)["channel_values"])

    def _fitting(
        self, config: RunnableConfig | None, wanted: dict[str, Any], before: str | None
    ) -> Iterator[tuple[Record, CheckpointMetadata]]:
        """The checkpoints of a config that are older than another one and have the wanted metadata."""
        checkpoint_id = get_checkpoint_id(config) if config else None
        for found in self._of(config):
            one = found.marks["checkpoint_id"]
            if (checkpoint_id and one != checkpoint_id) or (before and one >= before):
                continue
            metadata = self._metadata(found)
            if all(metadata.get(key) == value for key, value in wanted.items()):
                yield found, metadata

    def _of(self, config: RunnableConfig | None) -> Iterator[Record]:
        """The checkpoints of a config's thread and namespace, of its thread, or of all threads."""
        if config is None:
            return self._records.listing(f"{CHECKPOINTS}/", reverse=True)
        thread_id, namespace = str(config["configurable"]["thread_id"]), config["configurable"].get("checkpoint_ns")
        prefix = name_of(CHECKPOINTS, thread_id, namespace, *([""] if namespace is not None else []))
        return self._records.listing(prefix, reverse=True)

    def _tuple(self, found: Record, metadata: CheckpointMetadata | None = None) -> CheckpointTuple:
        thread_id, namespace, checkpoint_id = (found.marks[mark] for mark in ("thread_id", "checkpoint_ns", "checkpoint_id"))
        parent = found.marks["parent"]
        return CheckpointTuple(
            config=config_of(thread_id, namespace, checkpoint_id),
            checkpoint=self._checkpoint(found),
            metadata=metadata if metadata is not None else self._metadata(found),
            parent_config=config_of(thread_id, namespace, parent) if parent else None,
            pending_writes=self._pending(thread_id, namespace, checkpoint_id),
        )

    def _pending(self, thread_id: str, namespace: str, checkpoint_id: str) -> Pending:
        """The writes after a checkpoint, in the order in which their tasks are applied."""
        rows = []
        for found in self._records.listing(name_of(WRITES, thread_id, namespace, checkpoint_id, "")):
            task_id = found.marks["task_id"]
            for number, (channel, kind, data, task_path) in writes_of(found).items():
                rows.append((writes_sort_key(task_path, task_id, int(number)), (task_id, channel, kind, data)))
        rows.sort()
        return [(task_id, channel, self.serde.loads_typed((kind, unpacked(data)))) for _, (task_id, channel, kind, data) in rows]

    def _checkpoint(self, found: Record) -> Checkpoint:
        return cast(Checkpoint, self.serde.loads_typed((found.marks["types"][0], unpacked(found.parts["checkpoint"]))))

    def _metadata(self, found: Record) -> CheckpointMetadata:
        return cast(CheckpointMetadata, self.serde.loads_typed((found.marks["types"][1], unpacked(found.parts["metadata"]))))

    def _delete(self, name: str, marks: t.Json) -> None:
        """Deletes a checkpoint, then its writes."""
        self._records.delete(name)
        place = (marks["thread_id"], marks["checkpoint_ns"], marks["checkpoint_id"])
        for written, _ in self._records.names(name_of(WRITES, *place, "")):
            self._records.delete(written)

    async def aput(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, new_versions: ChannelVersions
    ) -> RunnableConfig:
        """`put` in a thread."""
        return await asyncio.to_thread(self.put, config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """`put_writes` in a thread."""
        await asyncio.to_thread(self.put_writes, config, writes, task_id, task_path)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """`get_tuple` in a thread."""
        return await asyncio.to_thread(self.get_tuple, config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """`list` in a thread, one checkpoint after another."""
        listed = self.list(config, filter=filter, before=before, limit=limit)
        while (found := await asyncio.to_thread(next, listed, None)) is not None:
            yield found

    async def adelete_thread(self, thread_id: str) -> None:
        """`delete_thread` in a thread."""
        await asyncio.to_thread(self.delete_thread, thread_id)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """`delete_for_runs` in a thread."""
        await asyncio.to_thread(self.delete_for_runs, run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """`copy_thread` in a thread."""
        await asyncio.to_thread(self.copy_thread, source_thread_id, target_thread_id)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """`prune` in a thread."""
        await asyncio.to_thread(self.prune, thread_ids, strategy=strategy)


def name_of(kind: str, thread_id: str, namespace: str | None, *ids: str) -> str:
    """The name of a document, or the beginning of the names of all that lie below: without a namespace, all of a thread.

    An empty last id gives the beginning of the names of all ids in its place.
    """
    segments = [kind, segment_of(thread_id, SEGMENT_CHARS)]
    segments += [segment_of(one, SEGMENT_CHARS) for one in (namespace, *ids)] if namespace is not None else [""]
    return "/".join(segments)


def place_of(config: RunnableConfig) -> tuple[str, str]:
    """Thread and namespace of a config."""
    configurable = config["configurable"]
    return str(configurable["thread_id"]), configurable.get("checkpoint_ns", "")


def config_of(thread_id: str, namespace: str, checkpoint_id: str) -> RunnableConfig:
    """The config that names a checkpoint."""
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": namespace, "checkpoint_id": checkpoint_id}}


def writes_of(found: Record) -> dict[str, Any]:
    """The stored writes of a task, by their numbers."""
    return cast(dict[str, Any], json.loads(found.parts["writes"]))


def packed(data: bytes) -> str:
    """Bytes as a text."""
    return base64.b64encode(zlib.compress(data)).decode()


def unpacked(text: str) -> bytes:
    """The bytes of a text."""
    return zlib.decompress(base64.b64decode(text))
