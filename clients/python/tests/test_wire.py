"""Which requests are repeated, against a scripted peer."""

import asyncio
import os
import socket
import subprocess
import sys
import tempfile
import threading
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any

import vctx
from vctx._lost import LOST_MAX, LOST_S, Lost
from vctx._paths import _runtime_dir

Reply = bytes | Callable[[socket.socket], None]


def answer(status: int, body: str, *headers: str) -> bytes:
    head = [f"HTTP/1.1 {status} X", *headers, f"content-length: {len(body.encode())}", "", ""]
    return "\r\n".join(head).encode() + body.encode()


def cut(peer: socket.socket) -> None:
    """Disconnects without an answer."""


def half(peer: socket.socket) -> None:
    """Disconnects within the answer."""
    peer.sendall(b"HTTP/1.1 200 X\r\ncontent-length: 100\r\n\r\n{")


STALL = threading.Event()


def silence(peer: socket.socket) -> None:
    """Does not answer within the client's timeout."""
    STALL.wait(5)


class Peer:
    """Reads and records requests, and answers each with the next reply; disconnects after the last one."""

    def __init__(self, replies: list[Reply]) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="v.", dir="/tmp")
        self.path = Path(self._directory.name) / "s"
        self.seen: list[bytes] = []
        self._replies = list(replies)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.path))
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                stream = self._listener.accept()[0]
            except OSError:
                return
            threading.Thread(target=self._converse, args=(stream,), daemon=True).start()

    def _converse(self, stream: socket.socket) -> None:
        with stream:
            # The requests of these tests are small and arrive in one read, or in two: head and
            # body.
            while got := stream.recv(65536):
                head, _, rest = got.partition(b"\r\n\r\n")
                length = next((int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0)
                while len(rest) < length:
                    more = stream.recv(65536)
                    got, rest = got + more, rest + more
                self.seen.append(got)
                reply = self._replies.pop(0) if self._replies else cut
                if callable(reply):
                    reply(stream)
                    return
                stream.sendall(reply)

    def close(self) -> None:
        self._listener.close()
        self._directory.cleanup()


GOOD = '{"_rev": "_r", "receipt": {"seq": 3}, "replayed": true}'


class Wire(unittest.TestCase):
    """The same scripts for both clients."""

    def both(self, replies: list[Reply], act: Callable[[Any], Any], check: Callable[[Any, Peer], None], **settings: Any) -> None:
        """Plays replies to a call of each client; `act` gets an agent's handle, `check` the result or the error."""
        for kind in ("threads", "asyncio"):
            with self.subTest(kind):
                peer = Peer(replies)
                self.addCleanup(peer.close)
                came: Any
                try:
                    if kind == "threads":
                        with vctx.Client(peer.path, **settings) as client:
                            came = act(client.agent("a"))
                    else:
                        came = asyncio.run(self._asynchronous(peer, act, settings))
                except vctx.Problem as problem:
                    came = problem
                check(came, peer)

    async def _asynchronous(self, peer: Peer, act: Callable[[Any], Any], settings: dict[str, Any]) -> Any:
        async with vctx.AsyncClient(peer.path, **settings) as client:
            return await act(client.agent("a"))

    def test_a_cut_call_is_sent_again_with_the_same_key_and_revision(self) -> None:
        def check(came: Any, peer: Peer) -> None:
            self.assertEqual(came["receipt"]["seq"], 3)
            self.assertEqual(len(peer.seen), 3)
            for seen in peer.seen:
                text = seen.decode()
                self.assertTrue(text.startswith("POST /v1/agents/a/tools/append_fifo HTTP/1.1\r\n"), text)
                self.assertIn("Idempotency-Key: k-1\r\n", text)
                self.assertIn("If-Match: *\r\n", text)
                self.assertTrue(text.endswith('{"message":"hi","role":"user"}'), text)

        replies: list[Reply] = [cut, half, answer(200, GOOD)]
        self.both(replies, lambda agent: agent.append_fifo("hi", key="k-1", rev=vctx.ANY), check)

    def test_a_fresh_key_is_made_once_for_all_attempts(self) -> None:
        def check(came: Any, peer: Peer) -> None:
            keys = {line for seen in peer.seen for line in seen.split(b"\r\n") if line.startswith(b"Idempotency-Key")}
            self.assertEqual((len(peer.seen), len(keys)), (2, 1))

        self.both([cut, answer(200, GOOD)], lambda agent: agent.append_fifo("hi", rev="_r"), check)

    def test_attempts_have_an_end_and_silence_a_deadline(self) -> None:
        def check(came: Any, peer: Peer) -> None:
            self.assertIsInstance(came, vctx.Unanswered)
            self.assertEqual((came.key, came.passing), ("k", True))
            self.assertGreaterEqual(len(peer.seen), 3)

        replies: list[Reply] = [cut, silence, half]
        act = lambda agent: agent.append_fifo("hi", key="k", rev="*")  # noqa: E731
        self.both(replies, act, check, patience_s=0.8, timeout_s=0.3)

    def test_a_server_that_is_starting_is_waited_for_by_a_new_client(self) -> None:
        def check(came: Any, peer: Peer) -> None:
            self.assertEqual(came["_rev"], "_r")

        # The first attempt has no answer, and the next ones find a server that is not ready yet.
        starting = answer(503, '{"error": "NOT_READY", "detail": "starting"}', "retry-after: 1")
        replies: list[Reply] = [cut, starting, starting, answer(200, GOOD)]
        self.both(replies, lambda agent: agent.state(), check)

    def test_a_repetition_of_a_lost_call_has_its_key_and_the_next_equal_call_has_not(self) -> None:
        def keys(peer: Peer) -> list[str]:
            lines = [line for seen in peer.seen for line in seen.decode().split("\r\n")]
            return [line for line in lines if line.startswith("Idempotency-Key")]

        def check(came: Any, peer: Peer) -> None:
            first, again, other = keys(peer)
            self.assertEqual(first, again)
            self.assertNotEqual(again, other)

        def thrice(agent: Any) -> Any:
            if isinstance(agent, vctx.AsyncAgent):
                return asynchronous(agent)
            with self.assertRaises(vctx.Unanswered):
                agent.append_fifo("hi")
            agent.append_fifo("hi")
            return agent.append_fifo("hi")

        async def asynchronous(agent: vctx.AsyncAgent) -> Any:
            with self.assertRaises(vctx.Unanswered):
                await agent.append_fifo("hi")
            await agent.append_fifo("hi")
            return await agent.append_fifo("hi")

        self.both([cut, answer(200, GOOD), answer(200, GOOD)], thrice, check, patience_s=0)

    def test_a_lost_call_is_kept_for_a_while_and_as_one_of_many(self) -> None:
        now = [0.0]
        lost = Lost(lambda: now[0])
        lost.note("POST", "/a", b"x", "k1", None)
        lost.note("POST", "/a", b"x", "k2", "r")
        self.assertEqual([call.key for call in lost.guarded("")], ["k2"])
        self.assertEqual([lost.take("POST", "/a", b"x") for _ in range(3)], ["k1", "k2", None])
        lost.note("POST", "/a", b"x", "k3", None)
        now[0] = LOST_S + 1
        self.assertIsNone(lost.take("POST", "/a", b"x"))
        for number in range(LOST_MAX + 1):
            lost.note("POST", "/a", b"x", str(number), None)
        self.assertEqual(lost.take("POST", "/a", b"x"), "1")

    def test_a_busy_server_is_asked_again_and_a_refusal_is_final(self) -> None:
        def served(came: Any, peer: Peer) -> None:
            self.assertEqual((came["_rev"], len(peer.seen)), ("_r", 2))

        def refused(came: Any, peer: Peer) -> None:
            self.assertIsInstance(came, vctx.IdempotencyKeyReused)
            self.assertEqual(len(peer.seen), 1)

        busy = answer(503, '{"error": "OVERLOADED", "detail": "d"}')
        self.both([busy, answer(200, GOOD)], lambda agent: agent.state(), served)
        reused = answer(409, '{"error": "IDEMPOTENCY_KEY_REUSED", "detail": "d"}')
        self.both([reused, answer(200, GOOD)], lambda agent: agent.state(), refused)

    def test_a_beat_that_has_to_wait_is_not_sent_again(self) -> None:
        def check(came: Any, peer: Peer) -> None:
            self.assertIsInstance(came, vctx.HeartbeatCooldown)
            self.assertEqual((came.retry_after_ms, came.retry_after_s, len(peer.seen)), (700, 1.0, 1))

        reply = answer(429, '{"error": "HEARTBEAT_COOLDOWN", "detail": "d", "retry_after_ms": 700}', "retry-after: 1")
        self.both([reply, answer(200, GOOD)], lambda agent: agent.record_heartbeat("continue"), check)

    def test_what_is_no_answer_of_this_server_is_garbled(self) -> None:
        def check(came: Any, peer: Peer) -> None:
            self.assertIsInstance(came, vctx.Garbled)
            self.assertEqual(len(peer.seen), 1)

        for reply in (answer(200, "{{"), answer(200, "[]"), b"SSH-2.0-x\r\n\r\n", answer(200, '{"messages": [], "next_seq": 5}')):
            act = lambda agent: agent.state()  # noqa: E731
            if b"next_seq" in reply:
                act = lambda agent: _walked(agent.all_messages(5))  # noqa: E731
            self.both([reply, answer(200, GOOD)], act, check)

    def test_chunks_make_one_body(self) -> None:
        text = GOOD.encode()
        reply = b"HTTP/1.1 200 X\r\ntransfer-encoding: chunked\r\n\r\n"
        reply += b"5\r\n%b\r\n%x;x=y\r\n%b\r\n0\r\n\r\n" % (text[:5], len(text) - 5, text[5:])

        def check(came: Any, peer: Peer) -> None:
            self.assertEqual(came["_rev"], "_r")

        self.both([reply], lambda agent: agent.state(), check)

    def test_no_server_is_unreachable_and_says_what_to_do(self) -> None:
        with vctx.Client("/nonexistent/s") as client, self.assertRaises(vctx.Unreachable) as caught:
            client.agents()
        self.assertIn("vctx serve", str(caught.exception))

    def test_connections_that_were_closed_meanwhile_cost_no_attempt(self) -> None:
        peer = Peer([answer(200, GOOD), answer(200, GOOD)])
        self.addCleanup(peer.close)
        with vctx.Client(peer.path, patience_s=0) as client:
            agent = client.agent("a")
            agent.state()
            idle = client._transport._idle
            self.assertEqual(len(idle), 1)
            assert idle[0].sock is not None
            idle[0].sock.shutdown(socket.SHUT_RDWR)
            self.assertEqual(agent.state()["_rev"], "_r")

    def test_headers_carry_visible_ascii_alone(self) -> None:
        with vctx.Client("/nonexistent/s") as client, self.assertRaises(vctx.InvalidArgument) as caught:
            client.agent("a").append_fifo("hi", key="a\r\nb", rev="*")
        self.assertEqual(caught.exception.field, "idempotency-key")


def _walked(rows: Any) -> Any:
    """All rows of a synchronous or asynchronous iterator."""
    if hasattr(rows, "__aiter__"):

        async def collected() -> list[Any]:
            return [row async for row in rows]

        return collected()
    return list(rows)


class Here(unittest.TestCase):
    """Tests without a peer."""

    def test_the_socket_is_where_the_command_line_looks(self) -> None:
        nobody = 4_000_000_001
        self.assertEqual(_runtime_dir({"XDG_RUNTIME_DIR": "/run/user/7"}, nobody), Path("/run/user/7/vctx"))
        short = Path("/tmp/vctx-4000000001")
        self.assertEqual(_runtime_dir({}, nobody), short)
        self.assertEqual(_runtime_dir({"XDG_RUNTIME_DIR": "run"}, nobody), short)
        self.assertEqual(_runtime_dir({"XDG_RUNTIME_DIR": "/" + "x" * 100}, nobody), short)
        longest = "/" + "x" * (107 - 20 - 1 - len("/vctx"))
        self.assertEqual(_runtime_dir({"XDG_RUNTIME_DIR": longest}, nobody), Path(longest) / "vctx")

    def test_the_client_with_threads_is_made_from_the_other(self) -> None:
        script = Path(__file__).resolve().parents[1] / "unasync.py"
        made = subprocess.run([sys.executable, str(script), "--check"], capture_output=True, text=True, env=dict(os.environ))
        self.assertEqual(made.returncode, 0, made.stdout + made.stderr)
