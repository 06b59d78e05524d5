"""Every path of the server's contract, driven by the typed methods, with threads and with asyncio."""

import re
import unittest
from typing import Any

import vctx
from vctx._wire import Answer, Request

from .server import Server

# Paths for others than this client: what clients of OpenAI call on the drop-in.
FOREIGN: frozenset[str] = frozenset()


class Recorded:
    """Notes method and path of each request."""

    def __init__(self) -> None:
        self.seen: set[tuple[str, str]] = set()

    def note(self, request: Request) -> None:
        self.seen.add((request.method.lower(), request.path.partition("?")[0]))

    def missing(self, openapi: dict[str, Any]) -> list[str]:
        """What the server describes and nobody drove. A path with a `{name}` is met by any name that no other path spells out."""
        paths = openapi["paths"]
        left = []
        for path, methods in paths.items():
            if path in FOREIGN:
                continue
            pattern = re.compile(re.sub(r"\\\{[^/]*\\\}", "[^/]+", re.escape(path)))
            left += [
                f"{method.upper()} {path}"
                for method in methods
                if not any(method == m and pattern.fullmatch(p) and (p == path or p not in paths) for m, p in self.seen)
            ]
        return left


def recorded(client: vctx.Client) -> Recorded:
    notes, send = Recorded(), client._transport.send

    def sent(request: Request, timeout_s: float | None = None) -> Answer:
        notes.note(request)
        return send(request, timeout_s)

    client._transport.send = sent  # type: ignore[method-assign]
    return notes


def recorded_async(client: vctx.AsyncClient) -> Recorded:
    notes, send = Recorded(), client._transport.send

    async def sent(request: Request, timeout_s: float | None = None) -> Answer:
        notes.note(request)
        return await send(request, timeout_s)

    client._transport.send = sent  # type: ignore[method-assign]
    return notes


class Contract(unittest.TestCase):
    """The client with threads."""

    server: Server

    @classmethod
    def setUpClass(cls) -> None:
        cls.server = Server()

    @classmethod
    def tearDownClass(cls) -> None:
        cls.server.close()

    def setUp(self) -> None:
        self.client = vctx.Client(self.server.socket, label="python")
        self.addCleanup(self.client.close)

    def test_every_path_is_driven(self) -> None:
        client = self.client
        notes = recorded(client)
        self.assertEqual(client.healthz()["status"], "ok")
        self.assertEqual(client.readyz()["status"], "ready")
        ada = client.create_agent("py-ada", 4096, system="You are Ada.")
        self.assertIn("py-ada", [row["agent"] for row in client.agents()["agents"]])
        self.assertEqual(ada.state()["system"], "You are Ada.")
        self.assertEqual(ada.patch(context_window=8192, heartbeat={"rps_limit": 50})["context_window"], 8192)

        said = ada.append_fifo("The boat lies at pier 4.", name="Bea", said_at="2026-05-01")
        self.assertEqual(said["receipt"]["seq"], 1)
        stored = ada.store_core("human", "Likes tea.", pinned=True)
        self.assertEqual(stored["result"]["block_id"], "human")
        self.assertEqual(ada.fetch_core("human")["result"]["content"], "Likes tea.")
        self.assertEqual(ada.evict_fifo(0)["result"]["evicted_count"], 1)
        written = ada.write_recall(["Sails by May.", {"content": "Paint by June.", "role": "user"}])
        self.assertEqual(len(written["result"]["inserted_ids"]), 2)
        found = ada.search_recall("boat pier", rehydrate=False)["result"]
        self.assertEqual(found["results"][0]["seq"], 1)

        ingested = ada.ingest_archival("tides.md", chunks=["High tide is at noon.", "The ferry leaves at ebb."])
        self.assertEqual(ingested["result"]["inserted"], 2)
        passage = ada.search_archival("when does the ferry leave", limit=1)["result"]["results"][0]
        self.assertEqual(passage["chunk_id"], "0001")
        ada.append_fifo("At ebb.", "assistant", cites=[passage["id"]])
        traced = ada.trace_memory(passage["id"], follow=["cited_by"])["result"]["results"]
        self.assertEqual([row["text"] for row in traced], ["The ferry leaves at ebb.", "At ebb."])
        self.assertEqual(len(ada.trace(passage["id"], follow=["cited_by", "links"])["entries"]), 3)
        self.assertEqual(ada.delete_document("tides.md")["result"]["replaced"], 2)

        self.assertEqual(ada.record_heartbeat("continue", note="page-1")["heartbeat"]["granted"], True)
        self.assertEqual(ada.record_heartbeat("yield")["result"]["terminated_reason"], "explicit_yield")
        ada.post_event("system", {"disk": "full"}, name="disk-full")
        context = ada.context()
        self.assertEqual(context["messages"][0]["role"], "system")
        self.assertEqual(context["_rev"], ada.rev)
        rows = list(ada.all_messages())
        self.assertEqual([row["seq"] for row in rows], list(range(1, len(rows) + 1)))
        self.assertEqual(ada.messages(2, limit=1)["messages"][0]["seq"], 2)
        self.assertIn("flush", {row["type"] for row in ada.all_events()})
        self.assertGreater(len(list(ada.all_versions())), 1)
        self.assertIn("terms", ada.conveyance("life"))

        self.assertIn("store_core", [tool["name"] for tool in client.tools()["tools"]])
        self.assertEqual(client.reindex_status()["state"], "none")
        with self.assertRaises(vctx.InvalidArgument):
            client.reindex("stop")
        openapi = client.openapi()
        self.assertEqual(notes.missing(openapi), [], "paths of the contract that no method drives")

    def test_every_tool_and_every_code_has_its_name_here(self) -> None:
        openapi = self.client.openapi()
        for tool in self.client.tools()["tools"]:
            for kind in (vctx.Agent, vctx.AsyncAgent):
                self.assertTrue(hasattr(kind, tool["name"]), f"{kind.__name__} has no {tool['name']}")
        codes = openapi["components"]["schemas"]["Problem"]["properties"]["error"]["enum"]
        self.assertEqual([code for code in codes if code not in vctx.CODES], [])

    def test_every_argument_of_a_tool_can_be_said(self) -> None:
        import inspect

        spelled = {"message": "content", "entries": "entries", "from": "start", "state": "state", "nProbe": "n_probe", "policy": "mode"}
        for tool in self.client.tools()["tools"]:
            said = inspect.signature(getattr(vctx.Agent, tool["name"])).parameters
            for argument in tool["parameters"]["properties"]:
                self.assertIn(spelled.get(argument, argument), said, f"{tool['name']} cannot say {argument}")

    def test_a_key_happens_once_and_is_told_in_a_failure(self) -> None:
        bob = self.client.create_agent("py-bob", 4096)
        first = bob.append_fifo("Once.", key="py-1")
        again = bob.append_fifo("Once.", key="py-1", rev=vctx.ANY)
        self.assertEqual((first["receipt"], again["replayed"]), (again["receipt"], True))
        with self.assertRaises(vctx.IdempotencyKeyReused) as caught:
            bob.append_fifo("Twice.", key="py-1", rev=vctx.ANY)
        self.assertEqual((caught.exception.key, caught.exception.status), ("py-1", 409))

    def test_what_somebody_else_changed_is_not_written_over(self) -> None:
        one = self.client.create_agent("py-cat", 4096)
        one.store_core("plan", "Sail.")
        two = self.client.agent("py-cat")
        two.state()
        two.store_core("plan", "Row.")
        two.append_fifo("Hello.")
        # A search tells a newer revision, but says nothing of the block.
        one.search_recall("sail", rehydrate=False)
        with self.assertRaises(vctx.RevisionStale) as caught:
            one.store_core("plan", "Swim.")
        self.assertEqual((caught.exception.changed, caught.exception.rev), (["block:plan"], two.rev))
        self.assertIn("REVISION_STALE", caught.exception.system_message)
        self.assertEqual(one.fetch_core("plan")["result"]["content"], "Row.")
        one.store_core("plan", "Swim.")
        one.store_core("plan", "Dive.", rev=vctx.ANY)

    def test_a_document_that_was_not_seen_must_be_new(self) -> None:
        one = self.client.create_agent("py-dan", 4096)
        one.ingest_archival("a.md", "First text.")
        one.ingest_archival("a.md", "Second text.")
        two = self.client.agent("py-dan")
        with self.assertRaises(vctx.RevisionStale):
            two.ingest_archival("a.md", "Third text.")
        two.ingest_archival("a.md", "Third text.", rev=vctx.ANY)

    def test_problems_have_the_fields_of_their_code(self) -> None:
        eve = self.client.create_agent("py-eve", 512)
        with self.assertRaises(vctx.TokenBudgetExceeded) as short:
            eve.store_core("long", "word " * 600)
        self.assertGreater(short.exception.required_headroom or 0, 0)
        with self.assertRaises(vctx.InvalidArgument) as wrong:
            eve.call("append_fifo", {"message": "no role"})
        self.assertEqual(wrong.exception.field, "role")
        with self.assertRaises(vctx.AgentNotFound):
            self.client.agent("py-nobody").state()
        with self.assertRaises(vctx.ToolNotFound):
            eve.call("fly", {})
        with self.assertRaises(vctx.InvalidName):
            self.client.agent("a/b").state()


class AsyncContract(unittest.IsolatedAsyncioTestCase):
    """The client for asyncio; its text is the other's, so one walk through each kind of call suffices."""

    server: Server

    @classmethod
    def setUpClass(cls) -> None:
        cls.server = Server()

    @classmethod
    def tearDownClass(cls) -> None:
        cls.server.close()

    async def test_every_path_is_driven(self) -> None:
        async with vctx.AsyncClient(self.server.socket) as client:
            notes = recorded_async(client)
            await client.healthz()
            await client.readyz()
            ada = await client.create_agent("aio-ada", 4096)
            await client.agents()
            await ada.state()
            await ada.patch(system="You are Ada.")
            await ada.append_fifo("The boat lies at pier 4.")
            await ada.store_core("human", "Likes tea.")
            await ada.fetch_core("human")
            await ada.evict_fifo(0)
            await ada.write_recall(["Sails by May."])
            found = await ada.search_recall("boat", rehydrate=False)
            self.assertEqual(found["result"]["results"][0]["seq"], 1)
            await ada.ingest_archival("tides.md", "High tide is at noon.")
            await ada.search_archival("tide")
            await ada.trace_memory("agent")
            await ada.trace("agent")
            await ada.delete_document("tides.md")
            await ada.record_heartbeat("yield")
            await ada.post_event("scheduled", "Good morning.")
            await ada.context()
            self.assertEqual([row["seq"] async for row in ada.all_messages()][:2], [1, 2])
            self.assertIn("flush", {row["type"] async for row in ada.all_events()})
            self.assertGreater(len([row async for row in ada.all_versions()]), 1)
            await ada.conveyance()
            await client.tools()
            await client.reindex_status()
            with self.assertRaises(vctx.InvalidArgument):
                await client.reindex("stop")
            self.assertEqual(notes.missing(await client.openapi()), [], "paths of the contract that no method drives")

    async def test_many_calls_at_once_share_few_connections(self) -> None:
        import asyncio

        async with vctx.AsyncClient(self.server.socket) as client:
            await client.create_agent("aio-bob", 8192)
            agents = [client.agent("aio-bob") for _ in range(20)]
            await asyncio.gather(*(agent.append_fifo(f"Line {n}.", rev=vctx.ANY) for n, agent in enumerate(agents)))
            rows = [row["content"] async for row in agents[0].all_messages()]
            self.assertEqual(sorted(rows), sorted(f"Line {n}." for n in range(20)))
            self.assertLessEqual(len(client._transport._idle), 8)
