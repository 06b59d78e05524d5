"""The calls of the server. Made from `_async_client.py` by `unasync.py`; change that one."""

import json
import os
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, cast

from . import types as t
from ._paths import default_socket
from ._lost import Lost, LostCall
from ._problems import AgentExists, Garbled, Problem, Refused, RevisionStale, Unanswered
from ._seen import BUILDS_ON_ANY, BUILDS_ON_NOTHING, Seen
from ._transport import Transport
from ._wire import ANY, FEED_PAUSE_S, FIRST_PATIENCE_S, PATIENCE_S, RUN_TIMEOUT_S, TIMEOUT_S, Answer, Events, Request, advanced
from ._wire import flag, fresh_key, given, is_final, is_lost, may_continue, may_repeat, next_page, pause_s, place, request, segment
from ._wire import slice_of, told, understood, understood_text, with_query


# What a model reads if its arguments cannot be read.
NO_OBJECT = "Error INVALID_ARGUMENT: the arguments are no JSON object: send one object that matches the schema."


class Client:
    """A server at its socket; connects with the first call.

    A call is sent again, with the same key, when the connection failed or the server was busy: for `patience_s` seconds after the first
    failure, so that a call outlasts a restart of the server, or for a second if no call of this client ever had an answer. `timeout_s`
    bounds one attempt. A writing call without an answer is remembered for ten minutes: the same call is its repetition, with its key.
    `label` is recorded in the server's audit rows.
    """

    def __init__(
        self,
        socket: str | os.PathLike[str] | None = None,
        *,
        timeout_s: float = TIMEOUT_S,
        patience_s: float = PATIENCE_S,
        label: str | None = None,
    ) -> None:
        self.socket = Path(socket) if socket is not None else default_socket()
        self._patience_s = patience_s
        self._label = label
        self._has_met = False
        self._lost = Lost()
        self._transport = Transport(self.socket, timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections; another call opens a new one."""
        self._transport.close()

    def agent(self, name: str) -> "Agent":
        """A handle of an agent; sends nothing."""
        return Agent(self, name)

    def create_agent(
        self,
        name: str,
        context_window: int,
        *,
        system: str | None = None,
        encoding: str | None = None,
        form: str | None = None,
        zone: str | None = None,
        outbound: str | None = None,
        engineer: Literal["off", "auto", "always"] | None = None,
        user: str | None = None,
        incarnation: int | None = None,
    ) -> "Agent":
        """Creates an agent, or finds it with the same configuration; raises `AgentExists` for another configuration.

        The name of a forgotten agent needs `incarnation`, the number that its refusal (`AgentForgotten`) gives.
        """
        agent = Agent(self, name)
        agent.create(
            context_window,
            system=system,
            encoding=encoding,
            form=form,
            zone=zone,
            outbound=outbound,
            engineer=engineer,
            user=user,
            incarnation=incarnation,
        )
        return agent

    def delete_agent(self, name: str, *, key: str | None = None, rev: str = "*") -> t.Json:
        """Deletes an agent with everything that it remembers; gives the manifest (as `Agent.forget` with `all`)."""
        return Agent(self, name).delete(key=key, rev=rev)

    def get_or_create(
        self,
        name: str,
        context_window: int,
        *,
        system: str | None = None,
        encoding: str | None = None,
        form: str | None = None,
        zone: str | None = None,
        outbound: str | None = None,
        engineer: Literal["off", "auto", "always"] | None = None,
        user: str | None = None,
    ) -> "Agent":
        """Creates an agent; an agent that exists keeps its memory and gets the settings that are given here."""
        agent = Agent(self, name)
        try:
            agent.create(
                context_window,
                system=system,
                encoding=encoding,
                form=form,
                zone=zone,
                outbound=outbound,
                engineer=engineer,
                user=user,
            )
        except AgentExists:
            agent.patch(
                context_window=context_window,
                system=system,
                encoding=encoding,
                form=form,
                zone=zone,
                outbound=outbound,
                engineer=engineer,
                user=user,
            )
        return agent

    def agents(self, *, user: str | None = None, start: str | None = None, limit: int | None = None) -> t.Agents:
        """A page of the agents by name; `start` is `next` of the previous page."""
        path = with_query("/v1/agents", {"user": user, "after": start, "limit": limit})
        return cast(t.Agents, self._json("GET", path))

    def all_agents(self, *, user: str | None = None) -> Iterator[t.Json]:
        """All agents by name, page after page."""
        following: str | None = ""
        while following is not None:
            rows, following = next_page(self.agents(user=user, start=following or None), "agents", "next", following)
            for row in rows:
                yield row

    def search_user(
        self,
        user: str,
        query: str,
        *,
        limit: int | None = None,
        stores: Sequence[Literal["recall", "archive"]] | None = None,
        labels: t.Labels | None = None,
    ) -> t.FoundOfUser:
        """Searches all agents of a person, and sorts their results together."""
        body = given(query=query, limit=limit, stores=stores, labels=labels)
        return cast(t.FoundOfUser, self._json("POST", f"/v1/users/{segment(user)}/search", body))

    def ledgers(self) -> t.Json:
        """The public key of the server's checkpoints, and signed agents that are not in the database."""
        return self._json("GET", "/v1/ledgers")

    def tools(
        self,
        format: str | None = None,
        *,
        dialect: str | None = None,
        profile: Literal["full", "compact"] | None = None,
        strict: bool | None = None,
    ) -> t.Json:
        """Schemas of the tools, in one of the server's formats and with the names of a dialect.

        The profile "full" has all arguments, "compact" those that a model needs. The default is
        "full" for the format "json-schema", and "compact" for the formats of providers.
        """
        flag = None if strict is None else str(strict).lower()
        query = {"dialect": dialect, "format": format, "profile": profile, "strict": flag}
        return self._json("GET", with_query("/v1/tools", query))

    def reindex_status(self) -> t.Json:
        """The progress of a reindex of the archive."""
        return self._json("GET", "/v1/reindex")

    def reindex(
        self, action: Literal["start", "stop", "cancel", "index"], *, metric: Literal["cosine", "l2"] | None = None
    ) -> t.Json:
        """Begins, pauses or abandons a change of all vectors, or trains the current index again; a repetition has no effect."""
        return self._json("POST", "/v1/reindex", given(action=action, metric=metric))

    def places(self) -> t.Json:
        """The databases of agents, and whether each is reachable."""
        return self._json("GET", "/v1/places")

    def move_agent(self, name: str, to: str) -> t.Json:
        """Moves an agent to another database; has no effect if it is already there."""
        return self._json("POST", f"/v1/agents/{segment(name)}/move", given(to=to))

    def export_agent(self, name: str, *, timeout_s: float | None = None) -> Generator[bytes, None, None]:
        """The whole agent as chunks of one file; `timeout_s` limits the wait for each chunk."""
        sent = request("GET", f"/v1/agents/{segment(name)}/export", label=self._label, accept="application/x-ndjson")
        with closing(self._transport.stream(sent, timeout_s)) as pieces:
            for piece in pieces:
                yield piece

    def import_agent(self, name: str, file: bytes, *, timeout_s: float | None = None) -> t.Json:
        """Creates an agent from an exported file of up to 64 MiB (use `vctx import` for larger files); the same file again has no effect."""
        return self._json("POST", f"/v1/agents/{segment(name)}/import", file, timeout_s=timeout_s)

    def openapi(self) -> t.Json:
        """The server's OpenAPI description."""
        return self._json("GET", "/v1/openapi.json")

    def healthz(self) -> t.Json:
        """Whether the server is running: one attempt."""
        return self._once("GET", "/healthz")

    def readyz(self) -> t.Json:
        """Whether the server is ready: one attempt; `NotReady` has the reason."""
        return self._once("GET", "/readyz")

    def _once(self, method: str, path: str) -> t.Json:
        return cast(t.Json, understood(self._transport.send(request(method, path, label=self._label))))

    def _json(self, method: str, path: str, body: object = None, *, timeout_s: float | None = None) -> t.Json:
        """A call that a repetition cannot double."""
        sent = request(method, path, body, label=self._label)
        return cast(t.Json, self._patiently(sent, timeout_s, understood))

    def _write(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        key: str | None = None,
        rev: str | None = None,
        timeout_s: float | None = None,
        text: bool = False,
    ) -> t.Json:
        """A call with a key; without one it gets that of the same call that had no answer, or a fresh one."""
        accept = "text/plain" if text else "application/json"
        content = request(method, path, body).body
        key = key or self._lost.take(method, path, content) or fresh_key()
        sent = request(method, path, body, key=key, rev=rev, label=self._label, accept=accept)
        try:
            answer = cast(t.Json, self._patiently(sent, timeout_s, understood_text if text else understood))
        except Problem as problem:
            problem.key = key
            if is_lost(problem):
                self._lost.note(method, path, content, key, rev)
            else:
                self._lost.settled(key)
            raise
        except BaseException:
            # The caller has given the call up, for example by cancelling its task.
            self._lost.note(method, path, content, key, rev)
            raise
        self._lost.settled(key)
        return answer

    @contextmanager
    def _whole(self, path: str, content: object, key: str | None) -> Iterator[str]:
        """The key of a call that consists of several writes, kept until the last one is answered."""
        body = json.dumps(content).encode()
        key = key or self._lost.take("*", path, body) or fresh_key()
        try:
            yield key
        except BaseException as error:
            self._lost.note("*", path, body, key, None)
            if isinstance(error, Problem):
                error.key = key
            raise
        self._lost.settled(key)

    def _looked_up(self, lost: LostCall) -> t.Json | None:
        """The answer to a call that had none; nothing if it had no effect and can have none any more, since its revision is outdated."""
        sent = request(lost.method, lost.path, json.loads(lost.body or b"null"), key=lost.key, rev=lost.rev, label=self._label)
        try:
            answer = cast(t.Json, self._patiently(sent, None, understood))
        except Refused as problem:
            if not is_lost(problem):
                self._lost.settled(lost.key)
            return None
        self._lost.settled(lost.key)
        return answer

    def _streamed(self, path: str, body: object, key: str, timeout_s: float | None) -> Generator[t.Json, None, None]:
        sent = request("POST", path, body, key=key, label=self._label, accept="text/event-stream")
        events = Events()
        try:
            with closing(self._transport.stream(sent, timeout_s)) as pieces:
                for piece in pieces:
                    for event in events.push(piece):
                        yield told(event)
                        if event.get("type") == "end":
                            return
        except Problem as problem:
            problem.key = key
            raise
        unended = Unanswered("the run was cut off before its end: the same call with the same key goes on with it")
        unended.key = key
        raise unended

    def _followed(self, path: str, after: str | None, wait: bool, timeout_s: float | None) -> Generator[t.Json, None, None]:
        """The messages of a feed. After a break the feed continues at its last change, again with a message `start`."""
        failed_at: float | None = None
        attempt, at = 0, after
        while True:
            query = {"after": at, "wait": flag(wait)}
            sent = request("GET", with_query(path, query), label=self._label, accept="text/event-stream")
            events, ended = Events(), False
            try:
                with closing(self._transport.stream(sent, timeout_s)) as pieces:
                    for piece in pieces:
                        for event in events.push(piece):
                            if is_final(event):
                                return
                            ended = event.get("feed") == "end"
                            if ended:
                                break
                            at, self._has_met, failed_at, attempt = place(event), True, None, 0
                            yield event
                if not ended:
                    raise Unanswered("the feed was cut off: continue it after its last change")
                seconds = FEED_PAUSE_S
            except Problem as problem:
                now, attempt = time.monotonic(), attempt + 1
                patience_s = self._patience_s if self._has_met else min(self._patience_s, FIRST_PATIENCE_S)
                failed_at = now if failed_at is None else failed_at
                seconds = pause_s(attempt, problem)
                if not may_continue(problem) or now + seconds > failed_at + patience_s:
                    raise
            self._transport.pause(seconds)

    def _patiently(self, sent: Request, timeout_s: float | None, read: Callable[[Answer], Any]) -> Any:
        failed_at: float | None = None
        attempt = 0
        while True:
            attempt += 1
            try:
                answer = self._transport.send(sent, timeout_s)
                self._has_met = True
                return read(answer)
            except Problem as problem:
                now = time.monotonic()
                patience_s = self._patience_s if self._has_met else min(self._patience_s, FIRST_PATIENCE_S)
                failed_at = now if failed_at is None else failed_at
                seconds = pause_s(attempt, problem)
                if not may_repeat(problem) or now + seconds > failed_at + patience_s:
                    raise
            self._transport.pause(seconds)


class Agent:
    """One agent's memory.

    A writing call takes `key`, the same for every repetition of one logical call (a fresh one unless given; a failed call's is in
    `Problem.key`), and `rev`, the revision that it builds on. Unless given, a call that appends or changes settings builds on `ANY`
    revision, and a call that writes a block or a document on the last answer that showed it. If another caller changed that block or
    document since, the call fails with `RevisionStale`; `state()` reads it again.
    """

    def __init__(self, client: Client, name: str) -> None:
        self.name = name
        self._client = client
        self._path = f"/v1/agents/{segment(name)}"
        self._seen = Seen()

    @property
    def rev(self) -> str | None:
        """Revision of the memory in the last answer."""
        return None if self._seen.memory is None else self._seen.memory.rev

    def create(
        self,
        context_window: int,
        *,
        system: str | None = None,
        encoding: str | None = None,
        form: str | None = None,
        zone: str | None = None,
        outbound: str | None = None,
        engineer: Literal["off", "auto", "always"] | None = None,
        user: str | None = None,
        incarnation: int | None = None,
    ) -> t.State:
        """Creates the agent, or finds it with the same configuration.

        `form` is "2" or "strict", `zone` the time zone of the window, and `outbound` "none" if only
        models on the server's machine may receive the agent's texts. `engineer` says when prompts
        get a context that is built for their question. `incarnation` says how many
        agents have had the name, with this one; the name of a forgotten agent needs it.
        """
        body = given(
            context_window=context_window,
            system=system,
            encoding=encoding,
            form=form,
            zone=zone,
            outbound=outbound,
            engineer=engineer,
            user=user,
            incarnation=incarnation,
        )
        return self._shown(self._client._json("PUT", self._path, body))

    def state(self) -> t.State:
        """Revision, blocks, queue, summary, budget, tokens."""
        return self._shown(self._client._json("GET", self._path))

    def patch(
        self,
        *,
        context_window: int | None = None,
        system: str | None = None,
        encoding: str | None = None,
        form: str | None = None,
        zone: str | None = None,
        outbound: str | None = None,
        engineer: Literal["off", "auto", "always"] | None = None,
        user: str | None = None,
        tokens_per_day: int | None = None,
        heartbeat: Mapping[str, int] | None = None,
        tools: t.Json | None = None,
        key: str | None = None,
        rev: str | None = None,
    ) -> t.State:
        """Changes settings of the agent; absent arguments stay unchanged."""
        body = given(
            context_window=context_window,
            system=system,
            encoding=encoding,
            form=form,
            zone=zone,
            outbound=outbound,
            engineer=engineer,
            user=user,
            tokens_per_day=tokens_per_day,
            heartbeat=heartbeat,
            tools=tools,
        )
        return self._shown(self._client._write("PATCH", self._path, body, key=key, rev=rev if rev is not None else ANY))

    def call(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        *,
        capture: bool | str | None = None,
        key: str | None = None,
        rev: str | None = None,
    ) -> t.Answer[t.Json]:
        """One tool call of a model, by the tool's name; the methods below do the same with typed arguments.

        `capture` appends the result to the queue in the transaction of its effect: `True` with the call that it answers, as a pair; the id
        of a call that stands there already, for that one.
        """
        return cast(t.Answer[t.Json], self._called(tool, arguments, capture, key, rev))

    def tell(
        self,
        tool: str,
        arguments: Mapping[str, Any] | str,
        *,
        capture: bool | str | None = None,
        key: str | None = None,
        rev: str | None = None,
    ) -> str:
        """One tool call of a model, answered with the short text that the model reads; `arguments` may be the JSON text of the model.

        With `capture`, the id of the model's call, the text is also appended to the queue as the result of that call. The answer to a
        refused call is the text of the refusal, so that the model can correct its call. After `RevisionStale` the state is read again, and
        the next call builds on it. Raises if no answer came, or if the same call can succeed later (`Problem.passing`).
        """
        if isinstance(arguments, str):
            try:
                parsed = json.loads(arguments)
            except ValueError:
                parsed = None
            if not isinstance(parsed, dict):
                return self._refused(NO_OBJECT, capture)
            arguments = parsed
        try:
            answer = self._called(tool, arguments, capture, key, rev, text=True)
        except Refused as problem:
            if problem.passing or problem.status is None or problem.status >= 500:
                raise
            if isinstance(problem, RevisionStale):
                self.state()
            return self._refused(problem.system_message, capture)
        return cast(str, answer["text"])

    def _refused(self, text: str, capture: bool | str | None) -> str:
        """The text of a refused call, which is appended as the result of the model's call if that is captured."""
        if isinstance(capture, str):
            self.append_fifo(text, "tool", tool_call_id=capture)
        return text

    def _called(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        capture: bool | str | None,
        key: str | None,
        rev: str | None,
        text: bool = False,
    ) -> t.Json:
        path = f"{self._path}/tools/{segment(tool)}"
        captured = {"tool_call_id": capture} if isinstance(capture, str) else capture
        body = {**arguments, **given(capture=captured)}
        chosen = rev if rev is not None else self._built_on(tool, arguments)
        try:
            answer = self._client._write("POST", path, body, key=key, rev=chosen, text=text)
        except RevisionStale as problem:
            if rev is not None or not self._caught_up(tool, arguments):
                raise
            chosen = self._seen.built_on(tool, arguments)
            answer = self._client._write("POST", path, body, key=problem.key, rev=chosen, text=text)
        self._seen.tool(tool, arguments, answer)
        return answer

    def _built_on(self, tool: str, arguments: Mapping[str, Any]) -> str | None:
        """The revision for a call whose caller gives none."""
        if tool in BUILDS_ON_NOTHING:
            return None
        if tool in BUILDS_ON_ANY:
            return ANY
        rev = self._seen.built_on(tool, arguments)
        if rev is None:
            self.state()
            rev = self._seen.built_on(tool, arguments)
        return rev

    def _caught_up(self, tool: str, arguments: Mapping[str, Any]) -> bool:
        """Whether this handle's own writes, and no other caller's, made its revision outdated.

        The own writes are those whose answers were lost, which are looked up by their keys, and those after which the server has
        dropped the revision of a block from its list, so that the block itself is compared.
        """
        before = self._seen.built_on(tool, arguments)
        tools = f"{self._path}/tools/"
        for lost in self._client._lost.guarded(self._path):
            answer = self._client._looked_up(lost) if lost.path.startswith(tools) else None
            if answer is not None:
                self._seen.tool(lost.path.removeprefix(tools), json.loads(lost.body), answer)
        if self._seen.built_on(tool, arguments) != before:
            return True
        return self._seen.still_holds(tool, arguments, self._client._json("GET", self._path))

    def store_core(
        self,
        block_id: str,
        content: str,
        *,
        mode: Literal["replace", "append", "delete"] | None = None,
        pinned: bool | None = None,
        role: str | None = None,
        justification: str | None = None,
        key: str | None = None,
        rev: str | None = None,
    ) -> t.Answer[t.Stored]:
        """Writes a block of working memory."""
        policy = given(mode=mode, pinned=pinned, role=role, justification=justification)
        arguments = given(block_id=block_id, content=content, policy=policy or None)
        return cast(t.Answer[t.Stored], self.call("store_core", arguments, key=key, rev=rev))

    def fetch_core(self, block_id: str | None = None) -> t.Answer[t.Fetched]:
        """Reads a block of working memory, or all blocks (`blocks` of the result)."""
        return cast(t.Answer[t.Fetched], self.call("fetch_core", given(block_id=block_id)))

    def append_fifo(
        self,
        content: str,
        role: t.Role = "user",
        *,
        name: str | None = None,
        tool_calls: Sequence[t.Json] | None = None,
        tool_call_id: str | None = None,
        said_at: str | None = None,
        labels: t.Labels | None = None,
        cites: Sequence[str] | None = None,
        key: str | None = None,
        rev: str | None = None,
    ) -> t.Answer[t.Appended]:
        """Appends a message to the queue; if the window would overflow, evicts the oldest messages in the same transaction."""
        parts = given(name=name, tool_calls=tool_calls, tool_call_id=tool_call_id, said_at=said_at, labels=labels)
        message: str | t.Json = {"content": content, **parts} if parts else content
        arguments = given(message=message, role=role, cites=cites)
        return cast(t.Answer[t.Appended], self.call("append_fifo", arguments, key=key, rev=rev))

    def append_messages(self, messages: Iterable[t.NewMessage | str], *, key: str | None = None) -> list[t.AppendedMessage]:
        """Appends messages in order, as few writes as their number and the window allow; a text is a user's message.

        Each write is atomic. After a failure, the same call goes on where it ended, and doubles nothing.
        """
        rows = [{"role": "user", "content": one} if isinstance(one, str) else one for one in messages]
        path, appended = f"{self._path}/messages", cast(list[t.AppendedMessage], [])
        with self._client._whole(path, rows, key) as key:
            while len(appended) < len(rows):
                body = {"messages": slice_of(rows, len(appended))}
                answer = self._client._write("POST", path, body, key=f"{key}.{len(appended)}")
                self._seen.tool("append_messages", body, answer)
                more = answer["result"]["appended"]
                if not more:
                    raise Garbled("no message was appended")
                appended += more
        return appended

    def evict_fifo(
        self,
        target_tokens: int | None = None,
        *,
        summarize: bool | None = None,
        strategy: Literal["fifo"] | None = None,
        key: str | None = None,
        rev: str | None = None,
    ) -> t.Answer[t.Evicted]:
        """Moves the oldest messages into recall storage until the window holds at most `target_tokens`; the default is half of the window."""
        arguments = given(target_tokens=target_tokens, summarize=summarize, strategy=strategy)
        return cast(t.Answer[t.Evicted], self.call("evict_fifo", arguments, key=key, rev=rev))

    def search_recall(
        self,
        query: str,
        *,
        limit: int | None = None,
        mode: Literal["auto", "text", "vector", "hybrid"] | None = None,
        similarity_min: float | None = None,
        role: t.Role | None = None,
        name: str | None = None,
        after: str | None = None,
        before: str | None = None,
        labels: t.Labels | None = None,
        tokens_max: int | None = None,
        whole: bool | None = None,
        pairs: bool | None = None,
        memories: bool | None = None,
        order: Literal["usual", "edges"] | None = None,
        explain: bool | None = None,
        rehydrate: bool | None = None,
        heartbeat: bool | None = None,
        page_token: str | None = None,
        key: str | None = None,
        rev: str | None = None,
    ) -> t.Answer[t.Found]:
        """Finds earlier messages; with `rehydrate` (the default) copies the fitting ones into the window."""
        arguments = given(
            query=query, limit=limit, mode=mode, similarity_min=similarity_min, role=role, name=name, after=after,
            before=before, labels=labels, tokens_max=tokens_max, whole=whole, pairs=pairs, memories=memories, order=order,
            explain=explain, rehydrate=rehydrate, heartbeat=heartbeat, page_token=page_token,
        )  # fmt: skip
        return cast(t.Answer[t.Found], self.call("search_recall", arguments, key=key, rev=rev))

    def write_recall(
        self, entries: Sequence[t.Entry | str], *, key: str | None = None, rev: str | None = None
    ) -> t.Answer[t.Written]:
        """Writes entries directly into recall storage."""
        rows = [{"content": entry} if isinstance(entry, str) else entry for entry in entries]
        return cast(t.Answer[t.Written], self.call("write_recall", {"entries": rows}, key=key, rev=rev))

    def search_archival(
        self,
        query_text: str | None = None,
        *,
        query_vector: Sequence[float] | None = None,
        mode: Literal["text", "vector", "hybrid"] | None = None,
        fusion: Literal["z_score", "rrf"] | None = None,
        explain: bool | None = None,
        order: Literal["usual", "edges"] | None = None,
        limit: int | None = None,
        n_probe: int | None = None,
        heartbeat: bool | None = None,
        filter: t.ArchiveFilter | None = None,
        page_token: str | None = None,
        key: str | None = None,
        rev: str | None = None,
    ) -> t.Answer[t.Found]:
        """Finds passages of archived documents."""
        arguments = given(
            query_text=query_text, query_vector=query_vector, mode=mode, fusion=fusion, explain=explain, order=order,
            limit=limit, nProbe=n_probe, heartbeat=heartbeat, filter=filter, page_token=page_token,
        )  # fmt: skip
        return cast(t.Answer[t.Found], self.call("search_archival", arguments, key=key, rev=rev))

    def ingest_archival(
        self,
        doc_id: str,
        document: str | None = None,
        *,
        chunks: Sequence[str | t.Json] | None = None,
        splitter: t.Json | None = None,
        embeddings: Sequence[Sequence[float]] | None = None,
        dimension: int | None = None,
        metric: Literal["cosine", "l2"] | None = None,
        embedding_version: str | None = None,
        model_id: str | None = None,
        late_chunking: t.Json | None = None,
        freshness_ts: str | None = None,
        provenance: t.Json | None = None,
        labels: t.Labels | None = None,
        part: t.Json | None = None,
        delete: bool | None = None,
        key: str | None = None,
        rev: str | None = None,
    ) -> t.Answer[t.Ingested]:
        """Adds a document to the archive. A document that this handle has not seen must be new; `rev=ANY` replaces any document."""
        arguments = given(
            doc_id=doc_id, document=document, chunks=chunks, splitter=splitter, embeddings=embeddings,
            dimension=dimension, metric=metric, embedding_version=embedding_version, model_id=model_id,
            late_chunking=late_chunking, freshness_ts=freshness_ts, provenance=provenance, labels=labels, part=part,
            delete=delete,
        )  # fmt: skip
        return cast(t.Answer[t.Ingested], self.call("ingest_archival", arguments, key=key, rev=rev))

    def documents(
        self,
        prefix: str | None = None,
        *,
        start: str | None = None,
        limit: int | None = None,
        reverse: bool | None = None,
        texts: bool | None = None,
        tokens: bool | None = None,
        originals: bool = True,
    ) -> t.Documents:
        """A page of the archive's documents by name; `start` is `next` of the previous page.

        `prefix` is the beginning of their names. With `texts` each document has its passages, unless they are too long for a page, and
        with `tokens` the number of their tokens. A server with a quarantine shows names and texts only as `originals`: do not give them to a model.
        """
        flags = {"reverse": flag(reverse), "texts": flag(texts), "tokens": flag(tokens), "originals": flag(originals)}
        query = {"prefix": prefix, "after": start, "limit": limit, **flags}
        return cast(t.Documents, self._client._json("GET", with_query(f"{self._path}/archive", query)))

    def document(self, doc_id: str, start: int = 0, limit: int | None = None, *, originals: bool = True) -> t.Document:
        """A document of the archive with a page of its passages; `start` is `next_index` of the previous page.

        Without `originals`, texts in quarantine are left out.
        """
        query = {"from_index": start, "limit": limit, "originals": flag(originals)}
        path = with_query(f"{self._path}/archive/{segment(doc_id)}", query)
        return cast(t.Document, self._client._json("GET", path))

    def delete_document(self, doc_id: str, *, key: str | None = None, rev: str | None = None) -> t.Answer[t.Ingested]:
        """Deletes a document from the archive."""
        arguments = {"doc_id": doc_id}
        rev = rev if rev is not None else self._seen.built_on("ingest_archival", arguments)
        path = f"{self._path}/archive/{segment(doc_id)}"
        answer = self._client._write("DELETE", path, key=key, rev=rev)
        self._seen.tool("ingest_archival", arguments, answer)
        return cast(t.Answer[t.Ingested], answer)

    def record_heartbeat(
        self, state: Literal["continue", "yield"], *, note: str | None = None, key: str | None = None
    ) -> t.Answer[t.Beat]:
        """Asks for the next turn immediately, or yields."""
        asked: str | t.Json = {"status": state, "note": note} if note is not None else state
        return cast(t.Answer[t.Beat], self.call("record_heartbeat", {"state": asked}, key=key))

    def trace_memory(
        self,
        start: str,
        *,
        follow: Sequence[t.Relation] | None = None,
        depth: int | None = None,
        around: int | None = None,
        limit: int | None = None,
        page_token: str | None = None,
        key: str | None = None,
    ) -> t.Answer[t.Found]:
        """The connections of an item of the memory, page by page; `start` is an id, a seq as text, or `agent`."""
        rest = given(follow=follow, depth=depth, around=around, limit=limit, page_token=page_token)
        return cast(t.Answer[t.Found], self.call("trace_memory", {"from": start, **rest}, key=key))

    def post_event(
        self,
        event_class: t.EventClass,
        content: object,
        *,
        name: str | None = None,
        key: str | None = None,
        rev: str | None = None,
    ) -> t.Answer[t.Appended]:
        """Puts an event into the queue; `content` is a text, or JSON that is stored as text. Without a revision, any revision is accepted."""
        body = {"class": event_class, "content": content, **given(name=name)}
        answer = self._client._write("POST", f"{self._path}/events", body, key=key, rev=rev)
        self._seen.tool("post_event", body, answer)
        return cast(t.Answer[t.Appended], answer)

    def run(
        self,
        said: str | Sequence[t.Json] | None = None,
        *,
        labels: t.Labels | None = None,
        beat: Literal["asked", "always"] | None = None,
        engineer: Literal["off", "auto", "always"] | None = None,
        tools: Sequence[str] | None = None,
        client_tools: Sequence[t.Json] | None = None,
        options: t.Json | None = None,
        key: str | None = None,
        timeout_s: float = RUN_TIMEOUT_S,
    ) -> t.RunEnd:
        """Runs the server's model on new input (a text of the user, or messages) until it yields; gives the result.

        The same call with the same key continues an interrupted run.
        """
        body = given(
            input=said, labels=labels, beat=beat, engineer=engineer, tools=tools, client_tools=client_tools, options=options
        )
        return cast(t.RunEnd, self._client._write("POST", f"{self._path}/runs", body, key=key, timeout_s=timeout_s))

    def run_events(
        self,
        said: str | Sequence[t.Json] | None = None,
        *,
        labels: t.Labels | None = None,
        beat: Literal["asked", "always"] | None = None,
        engineer: Literal["off", "auto", "always"] | None = None,
        tools: Sequence[str] | None = None,
        client_tools: Sequence[t.Json] | None = None,
        options: t.Json | None = None,
        key: str | None = None,
        timeout_s: float | None = None,
    ) -> Generator[t.RunEvent, None, None]:
        """The same as a stream of events; the last one, of type `end`, has the result. Closing the stream cancels the run.

        `timeout_s` bounds the time between two events. The call is not repeated by itself: with the same key it goes on.
        """
        body = given(
            input=said, labels=labels, beat=beat, engineer=engineer, tools=tools, client_tools=client_tools, options=options
        )
        with closing(self._client._streamed(f"{self._path}/runs", body, key or fresh_key(), timeout_s)) as events:
            for event in events:
                yield cast(t.RunEvent, event)

    def record_prompt(
        self,
        run: str,
        model: str,
        *,
        api: Literal["chat", "responses", "messages"] | None = None,
        tools: Sequence[t.Json] | None = None,
        options: t.Json | None = None,
        pack: str | None = None,
        lease_ms: int | None = None,
        key: str | None = None,
    ) -> t.Json:
        """Renders the window as a request for a model (`request`, the text to send) and records it before it is sent.

        `api` is the form of the request: chat completions (the default), OpenAI's responses API or Anthropic's
        messages API. Tools and options are given in the form of chat completions. `pack` is the digest of a context
        pack (from `build_context`) that the prompt shows.
        """
        body = given(run=run, model=model, api=api, tools=tools, options=options, pack=pack, lease_ms=lease_ms)
        return self._client._write("POST", f"{self._path}/prompts", body, key=key)

    def record_answer(
        self,
        turn: int,
        run: str,
        finish: str,
        *,
        content: str | None = None,
        tool_calls: Sequence[t.Json] | None = None,
        usage: t.Json | None = None,
        end_run: str | None = None,
        key: str | None = None,
    ) -> t.Json:
        """Records the model's answer: its message and the end of the prompt in one write; `end_run` also ends the run."""
        body = given(run=run, finish=finish, content=content, tool_calls=tool_calls, usage=usage, end_run=end_run)
        answer = self._client._write("POST", f"{self._path}/prompts/{turn}/answer", body, key=key)
        self._seen.tool("record_answer", body, answer)
        return answer

    def prompts(self, start: int = 1, limit: int | None = None) -> t.Prompts:
        """A page of prompts that were sent to a model: figures, digests and ends; `start` is `next_turn` of the previous page."""
        query = {"from_turn": start, "limit": limit}
        return cast(t.Prompts, self._client._json("GET", with_query(f"{self._path}/prompts", query)))

    def prompt(self, turn: int) -> t.Json:
        """A past prompt, reassembled byte by byte and checked against its digests."""
        return self._client._json("GET", f"{self._path}/prompts/{turn}")

    def why(self, text: str | None = None, *, turn: int | None = None, from_turn: int | None = None) -> t.Json:
        """The history of a fact, or the reason for each item of a prompt."""
        query = {"text": text, "turn": turn, "from_turn": from_turn}
        return self._client._json("GET", with_query(f"{self._path}/why", query))

    def forget(
        self,
        *,
        seqs: Sequence[int] | None = None,
        ids: Sequence[str] | None = None,
        doc_id: str | None = None,
        match: str | None = None,
        all: bool | None = None,
        blocks: bool | None = None,
        dry_run: bool | None = None,
        key: str | None = None,
        rev: str = "*",
    ) -> t.Json:
        """Forgets messages, a document, everything that contains a text, or the whole agent; gives the manifest. A forgetting that is `under_way` is continued by
        the same call with the same key."""
        body = given(seqs=seqs, ids=ids, doc_id=doc_id, match=match, all=all, blocks=blocks, dry_run=dry_run)
        manifest = self._client._write("POST", f"{self._path}/forget", body, key=key, rev=rev)
        if not dry_run:
            self._seen.forgotten()
        return manifest

    def rename(self, name: str, *, key: str | None = None, rev: str = "*") -> t.State:
        """Gives the agent a new name; its earlier names, and this handle, still reach it. Raises `AgentExists` for a name that another agent has or had."""
        return self._shown(self._client._write("POST", f"{self._path}/rename", {"name": name}, key=key, rev=rev))

    def clone(self, name: str, *, key: str | None = None, timeout_s: float | None = None) -> "Agent":
        """Makes another agent with this agent's memory, under a new name; raises `AgentExists` for a name that is in use."""
        clone = Agent(self._client, name)
        path = f"{self._path}/clone"
        clone._shown(self._client._write("POST", path, {"agent": name}, key=key, timeout_s=timeout_s))
        return clone

    def delete(self, *, key: str | None = None, rev: str = "*") -> t.Json:
        """Deletes the agent with everything that it remembers; gives the manifest. A deletion that is `under_way` is continued by the same call with the same
        key."""
        manifest = self._client._write("DELETE", self._path, key=key, rev=rev)
        self._seen.forgotten()
        return manifest

    def forgettings(self) -> t.Json:
        """The manifests of forgettings: positions and digests, never text."""
        return self._client._json("GET", f"{self._path}/forget")

    def schedules(self) -> t.Json:
        """The schedules of the agent."""
        return self._client._json("GET", f"{self._path}/schedules")

    def schedule(self, name: str) -> t.Json:
        """One schedule: its next moment and its last result."""
        return self._client._json("GET", f"{self._path}/schedules/{segment(name)}")

    def put_schedule(
        self,
        name: str,
        content: str,
        *,
        every_ms: int | None = None,
        at: str | None = None,
        run: bool | None = None,
    ) -> t.Json:
        """Creates or changes a schedule that puts events into the queue, repeatedly or once; a repetition has no effect."""
        body = given(content=content, every_ms=every_ms, at=at, run=run)
        return self._client._json("PUT", f"{self._path}/schedules/{segment(name)}", body)

    def delete_schedule(self, name: str) -> t.Json:
        """Deletes a schedule."""
        return self._client._json("DELETE", f"{self._path}/schedules/{segment(name)}")

    def context(self) -> t.Context:
        """The rendered window as chat messages, with its receipt."""
        return cast(t.Context, self._client._json("GET", f"{self._path}/context"))

    def build_context(
        self,
        question: str | None = None,
        *,
        documents: list[t.Json] | None = None,
        tokens_max: int | None = None,
        slots: dict[str, int] | None = None,
        depth: Literal["auto", "once", "deep"] | None = None,
        explain: bool = False,
    ) -> t.Json:
        """What the memory and the given documents say about a question, in a bounded number of tokens; by default about the newest
        message of the user. `text` is the context, `messages` the prompt with it, `pack` names it for `record_prompt`. Each document has a `text`, and an `id` if it is to be named.
        `slots` are shares of the window in percent (`system`, `history`, `summary`, `documents`, `reserve`), together 100."""
        body: t.Json = {
            "question": question,
            "documents": documents or [],
            "explain": explain,
            **given(tokens_max=tokens_max, slots=slots, depth=depth),
        }
        return self._client._json("POST", f"{self._path}/context", body)

    def quarantine(self, *, start: str | None = None, limit: int | None = None) -> t.Json:
        """A page of the tainted items of the memory: positions, rules and lengths; `start` is `next` of the previous page."""
        return self._client._json("GET", with_query(f"{self._path}/quarantine", {"after": start, "limit": limit}))

    def quarantined(self, item: str) -> t.Json:
        """One tainted item with its text."""
        return self._client._json("GET", with_query(f"{self._path}/quarantine", {"id": item}))

    def release(
        self, item: str, *, hold: bool = False, key: str | None = None, rev: str | None = None
    ) -> t.Answer[t.Json]:
        """Releases a tainted item from quarantine, or holds it again. Without a revision, any revision is accepted."""
        body = {"id": item, "hold": hold}
        answer = self._client._write("POST", f"{self._path}/quarantine", body, key=key, rev=rev)
        self._seen.tool("release_tainted", body, answer)
        return cast(t.Answer[t.Json], answer)

    def trace(
        self,
        start: str,
        *,
        follow: Sequence[t.Relation] = (),
        depth: int | None = None,
        around: int | None = None,
        limit: int | None = None,
    ) -> t.Json:
        """The connections of an item of the memory, as one list."""
        query = {"from": start, "follow": ",".join(follow) or None, "depth": depth, "around": around, "limit": limit}
        return self._client._json("GET", with_query(f"{self._path}/trace", query))

    def conveyance(self, of: Literal["session", "life"] | None = None) -> t.Json:
        """The Conveyance score of the memory, with all its counts."""
        return self._client._json("GET", with_query(f"{self._path}/conveyance", {"of": of}))

    def messages(
        self, start: int = 1, limit: int | None = None, *, session: str | None = None, originals: bool | None = None
    ) -> t.Messages:
        """A page of all messages ever appended, or of those of one session; `start` is `next_seq` of the previous page.

        `originals` shows texts in quarantine, too.
        """
        query = {"from_seq": start, "limit": limit, "session": session, "originals": flag(originals)}
        return cast(t.Messages, self._client._json("GET", with_query(f"{self._path}/messages", query)))

    def sessions(self, start: str | None = None, limit: int | None = None) -> t.Sessions:
        """A page of the agent's sessions by name; `start` is `next` of the previous page."""
        return cast(t.Sessions, self._client._json("GET", with_query(f"{self._path}/sessions", {"after": start, "limit": limit})))

    def events(self, start: str | None = None, limit: int | None = None) -> t.Events:
        """A page of the memory's events: figures and ids, never text; `start` is `next_ts` of the previous page."""
        query = {"from_ts": start, "limit": limit}
        return cast(t.Events, self._client._json("GET", with_query(f"{self._path}/events", query)))

    def changes(
        self, *, after: str | int | None = None, wait: bool = True, timeout_s: float | None = None
    ) -> Generator[t.Change, None, None]:
        """Every change of the memory after a given one, once and in order: figures and ids, never text.

        `after` is `at` or the number of a change, 0 for all, and by default the newest one. The feed goes on by itself after a restart
        of the server; after a failure it tries for `patience_s` of the client. It ends when the agent is forgotten, and with `wait=False`
        after the newest change. `ChangeUnknown` means that the agent has no such change any more. `timeout_s` bounds the time
        between two signs of life of the server, which come every ten seconds.
        """
        start = None if after is None else str(after)
        with closing(self._client._followed(f"{self._path}/changes", start, wait, timeout_s)) as messages:
            for message in messages:
                if message.get("feed") == "change":
                    yield cast(t.Change, message)

    def last_change(self) -> str:
        """The place of the newest change: `changes(after=…)` with it shows what comes after this call."""
        with closing(self._client._followed(f"{self._path}/changes", None, False, None)) as messages:
            for message in messages:
                return place(message)
        raise Garbled("the feed has no first message")

    def ledger(self) -> t.Json:
        """The differences between all rows of the agent and the agent's ledger."""
        return self._client._json("GET", f"{self._path}/ledger")

    def accept_core(self, rev: str) -> t.Json:
        """Accepts the core as it is in the database, if its ledger contradicts it and it still has the revision `rev`."""
        return self._client._json("POST", f"{self._path}/ledger", {"accept": "core", "_rev": rev})

    def history(self, start: int = 1, limit: int | None = None) -> t.History:
        """A page of copies of system text, blocks and summary; `start` is `next_version` of the previous page."""
        query = {"from_version": start, "limit": limit}
        return cast(t.History, self._client._json("GET", with_query(f"{self._path}/history", query)))

    def all_sessions(self) -> Iterator[t.Session]:
        """All sessions by name, page after page."""
        following: str | None = ""
        while following is not None:
            rows, following = next_page(self.sessions(following or None), "sessions", "next", following)
            for row in rows:
                yield row

    def all_messages(self, start: int = 1, *, session: str | None = None) -> Iterator[t.Message]:
        """All messages ever appended, page after page."""
        following: int | None = start
        while following is not None:
            rows, following = advanced(self.messages(following, session=session), "messages", "next_seq", following)
            for row in rows:
                yield row

    def all_documents(self, prefix: str | None = None, *, texts: bool | None = None) -> Iterator[t.Document]:
        """All documents whose names begin with a text, page after page."""
        following: str | None = ""
        while following is not None:
            rows, following = next_page(self.documents(prefix, start=following or None, texts=texts), "documents", "next", following)
            for row in rows:
                yield row

    def all_events(self, start: str = "") -> Iterator[t.Event]:
        """All events, page after page."""
        following: str | None = start
        while following is not None:
            rows, following = advanced(self.events(following or None), "events", "next_ts", following)
            for row in rows:
                yield row

    def all_versions(self, start: int = 1) -> Iterator[t.Json]:
        """All copies of the texts, page after page."""
        following: int | None = start
        while following is not None:
            rows, following = advanced(self.history(following), "versions", "next_version", following)
            for row in rows:
                yield row

    def all_prompts(self, start: int = 1) -> Iterator[t.Json]:
        """All prompts that were sent to a model, page after page."""
        following: int | None = start
        while following is not None:
            rows, following = advanced(self.prompts(following), "prompts", "next_turn", following)
            for row in rows:
                yield row

    def all_quarantined(self) -> Iterator[t.Json]:
        """All tainted items, page after page."""
        following: str | None = ""
        while following is not None:
            rows, following = next_page(self.quarantine(start=following or None), "items", "next", following)
            for row in rows:
                yield row

    def all_found(self, query: str, **how: Any) -> Iterator[t.Json]:
        """All results of `search_recall`, page after page, without copies in the window; `how` is as there."""
        for row in self._found("search_recall", {"rehydrate": False, **how, "query": query}):
            yield row

    def all_passages(self, query_text: str, **how: Any) -> Iterator[t.Json]:
        """All results of `search_archival`, page after page; `how` is as there, where `limit` counts the results of all pages."""
        for row in self._found("search_archival", {**how, "query_text": query_text}):
            yield row

    def _found(self, tool: str, arguments: t.Json) -> Iterator[t.Json]:
        token: str | None = None
        while True:
            result = (self.call(tool, {**arguments, **given(page_token=token)}))["result"]
            rows, token = next_page(result, "results", "next_page_token", token)
            for row in rows:
                yield row
            if token is None:
                return

    def _shown(self, state: t.Json) -> t.State:
        self._seen.state(state)
        return cast(t.State, state)
