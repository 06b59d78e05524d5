"""HTTP/1.1 over a Unix socket, once with threads (`http.client`) and once with asyncio; connections are kept and used again."""

import asyncio
import http.client
import select
import socket
import time
from collections.abc import AsyncGenerator, Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ._problems import Garbled, Unanswered, Unreachable
from ._wire import ANSWER_BYTES_MAX, IDLE_MAX, Answer, Request, understood

# Maximum length of a line with a header or a chunk size, and maximum number of headers.
LINE_BYTES_MAX = 65_536
HEADERS_MAX = 100
# Maximum number of bytes in one read.
PIECE_BYTES = 65_536


def _no_connection(path: Path, error: object) -> Unreachable:
    return Unreachable(f"cannot connect to {path}: {error}; is the server running? start it with: vctx serve")


def _late(seconds: float) -> Unanswered:
    return Unanswered(f"no answer within {seconds:g} s: the call may have had its effect, repeat it with the same key")


def _broken(error: object) -> Unanswered:
    return Unanswered(f"the connection broke before the answer ({error}): repeat the call with the same key")


def _too_long() -> Garbled:
    return Garbled(f"the answer is longer than {ANSWER_BYTES_MAX} bytes")


class _Connection(http.client.HTTPConnection):
    """A connection of `http.client` to a Unix socket."""

    def __init__(self, path: Path, timeout_s: float) -> None:
        super().__init__("vctx", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            stream.settimeout(self.timeout)
            stream.connect(str(self._path))
        except OSError:
            stream.close()
            raise
        self.sock = stream


class Transport:
    """Sends requests, from any number of threads."""

    def __init__(self, path: Path, timeout_s: float) -> None:
        self.path, self.timeout_s = path, timeout_s
        self._idle: list[_Connection] = []

    def send(self, request: Request, timeout_s: float | None = None) -> Answer:
        """One attempt. After a failure its connection is closed, so that no late answer meets the next call."""
        connection = self._connection()
        try:
            answer = _exchanged(connection, request, timeout_s or self.timeout_s)
        except BaseException:
            connection.close()
            # What broke this connection may also have broken the idle connections.
            self.close()
            raise
        if connection.sock is not None and len(self._idle) < IDLE_MAX:
            self._idle.append(connection)
        else:
            connection.close()
        return answer

    def stream(self, request: Request, timeout_s: float | None = None) -> Generator[bytes, None, None]:
        """One attempt whose good answer comes in pieces, on a connection of its own; `timeout_s` bounds the time between two."""
        timeout_s = timeout_s or self.timeout_s
        connection = self._fresh()
        try:
            with _faults(timeout_s):
                response = _asked(connection, request, timeout_s)
                if not 200 <= response.status < 300:
                    understood(Answer(response.status, _names(response), _rest(connection, response, timeout_s)))
                    return
                while piece := response.read1(PIECE_BYTES):
                    yield piece
        finally:
            connection.close()

    def pause(self, seconds: float) -> None:
        """Waits."""
        time.sleep(seconds)

    def close(self) -> None:
        """Closes what waits for its next call."""
        while self._idle:
            self._idle.pop().close()

    def _connection(self) -> _Connection:
        while self._idle:
            connection = self._idle.pop()
            # On an idle connection the server sends nothing, so a readable socket means that the
            # server closed the connection.
            if not select.select([connection.sock], [], [], 0)[0]:
                return connection
            connection.close()
        return self._fresh()

    def _fresh(self) -> _Connection:
        connection = _Connection(self.path, self.timeout_s)
        try:
            connection.connect()
        except OSError as error:
            raise _no_connection(self.path, error) from error
        return connection


@contextmanager
def _faults(timeout_s: float) -> Iterator[None]:
    """Tells faults of the connection in this client's words."""
    try:
        yield
    except TimeoutError as error:
        raise _late(timeout_s) from error
    except (http.client.RemoteDisconnected, http.client.IncompleteRead) as error:
        raise _broken(error) from error
    except http.client.HTTPException as error:
        raise Garbled(f"the answer is no HTTP: {error!r}") from error
    except OSError as error:
        raise _broken(error) from error


def _exchanged(connection: _Connection, request: Request, timeout_s: float) -> Answer:
    with _faults(timeout_s):
        until = time.monotonic() + timeout_s
        response = _asked(connection, request, timeout_s)
        body = _rest(connection, response, until - time.monotonic())
        return Answer(response.status, _names(response), body)


def _asked(connection: _Connection, request: Request, timeout_s: float) -> http.client.HTTPResponse:
    """Sends a request and reads the head of its answer."""
    if connection.sock is None:
        raise ConnectionResetError("it was closed")
    connection.sock.settimeout(timeout_s)
    connection.putrequest(request.method, request.path, skip_host=True, skip_accept_encoding=True)
    for name, value in request.headers.items():
        connection.putheader(name, value)
    # A server that refuses a request early may close the connection; its answer can still be read.
    with suppress(BrokenPipeError):
        connection.endheaders(request.body or None)
    return connection.getresponse()


def _rest(connection: _Connection, response: http.client.HTTPResponse, seconds: float) -> bytes:
    """The body, within the time that is left."""
    until = time.monotonic() + seconds
    body = bytearray()
    while True:
        left = until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        # An answer with `connection: close` has closed the socket already.
        if connection.sock is not None:
            connection.sock.settimeout(left)
        piece = response.read1(PIECE_BYTES)
        if not piece:
            break
        body += piece
        if len(body) > ANSWER_BYTES_MAX:
            raise _too_long()
    if response.length:
        raise _broken(f"{response.length} bytes are missing")
    response.close()
    return bytes(body)


def _names(response: http.client.HTTPResponse) -> dict[str, str]:
    return {name.lower(): value for name, value in response.getheaders()}


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class AsyncTransport:
    """Sends requests, from any number of tasks of one event loop."""

    def __init__(self, path: Path, timeout_s: float) -> None:
        self.path, self.timeout_s = path, timeout_s
        self._idle: list[Streams] = []

    async def send(self, request: Request, timeout_s: float | None = None) -> Answer:
        """One attempt. After a failure its connection is closed, so that no late answer meets the next call."""
        timeout_s = timeout_s or self.timeout_s
        try:
            async with asyncio.timeout(timeout_s):
                streams = await self._connection()
                try:
                    answer, keep = await _exchange(streams, request)
                except BaseException:
                    streams[1].close()
                    # What broke this connection may also have broken the idle connections.
                    self._drop()
                    raise
        except TimeoutError as error:
            raise _late(timeout_s) from error
        if keep and len(self._idle) < IDLE_MAX:
            self._idle.append(streams)
        else:
            streams[1].close()
        return answer

    async def stream(self, request: Request, timeout_s: float | None = None) -> AsyncGenerator[bytes, None]:
        """One attempt whose good answer comes in pieces, on a connection of its own; `timeout_s` bounds the time between two."""
        timeout_s = timeout_s or self.timeout_s
        streams: Streams | None = None
        try:
            async with asyncio.timeout(timeout_s):
                streams = await self._fresh()
                await _send(streams[1], request)
                status, headers = await _head(streams[0])
                if not 200 <= status < 300:
                    understood(Answer(status, headers, await _body(streams[0], headers)))
                    return
            chunked = headers.get("transfer-encoding", "").lower() == "chunked"
            left = 0 if chunked else _length(headers)
            while chunked or left > 0:
                async with asyncio.timeout(timeout_s):
                    piece = await (_chunk(streams[0], 0) if chunked else _some(streams[0], left))
                if not piece:
                    return
                left -= len(piece)
                yield piece
        except TimeoutError as error:
            raise _late(timeout_s) from error
        except (asyncio.IncompleteReadError, OSError) as error:
            raise _broken(error) from error
        finally:
            if streams is not None:
                streams[1].close()

    async def pause(self, seconds: float) -> None:
        """Waits."""
        await asyncio.sleep(seconds)

    async def close(self) -> None:
        """Closes what waits for its next call."""
        for writer in self._drop():
            try:
                await writer.wait_closed()
            except OSError:
                # The other side has already closed the connection.
                continue

    def _drop(self) -> list[asyncio.StreamWriter]:
        """Closes what waits, without waiting for that."""
        writers = [writer for _, writer in self._idle]
        self._idle.clear()
        for writer in writers:
            writer.close()
        return writers

    async def _connection(self) -> Streams:
        while self._idle:
            reader, writer = self._idle.pop()
            if not (reader.at_eof() or writer.is_closing()):
                return reader, writer
            writer.close()
        return await self._fresh()

    async def _fresh(self) -> Streams:
        try:
            return await asyncio.open_unix_connection(self.path, limit=LINE_BYTES_MAX)
        except OSError as error:
            raise _no_connection(self.path, error) from error


async def _exchange(streams: Streams, request: Request) -> tuple[Answer, bool]:
    """The answer, and whether the connection may be used again."""
    reader, writer = streams
    try:
        await _send(writer, request)
        status, headers = await _head(reader)
        body = await _body(reader, headers)
    except (asyncio.IncompleteReadError, OSError) as error:
        raise _broken(error) from error
    return Answer(status, headers, body), headers.get("connection", "").lower() != "close"


async def _send(writer: asyncio.StreamWriter, request: Request) -> None:
    head = [f"{request.method} {request.path} HTTP/1.1", *(f"{name}: {value}" for name, value in request.headers.items())]
    writer.write("\r\n".join([*head, "", ""]).encode("latin-1") + request.body)
    await writer.drain()


async def _line(reader: asyncio.StreamReader) -> str:
    try:
        line = await reader.readuntil(b"\r\n")
    except asyncio.LimitOverrunError as error:
        raise Garbled(f"a line of the answer's head is longer than {LINE_BYTES_MAX} bytes") from error
    return line[:-2].decode("latin-1")


async def _head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    first = await _line(reader)
    words = first.split(" ", 2)
    if len(words) < 2 or not words[0].startswith("HTTP/1.") or not words[1].isdigit():
        raise Garbled("the answer is no HTTP")
    headers: dict[str, str] = {}
    for _ in range(HEADERS_MAX + 1):
        line = await _line(reader)
        if not line:
            return int(words[1]), headers
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    raise Garbled(f"the answer has more than {HEADERS_MAX} headers")


async def _body(reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
    if headers.get("transfer-encoding", "").lower() == "chunked":
        return await _chunks(reader)
    length = _length(headers)
    if length > ANSWER_BYTES_MAX:
        raise _too_long()
    return await reader.readexactly(length)


def _length(headers: dict[str, str]) -> int:
    length = headers.get("content-length", "0")
    if not length.isdigit():
        raise Garbled("the answer's length is no number")
    return int(length)


async def _some(reader: asyncio.StreamReader, left: int) -> bytes:
    """Reads that number of bytes; an answer that ends earlier is an error."""
    piece = await reader.read(min(left, PIECE_BYTES))
    if not piece:
        raise asyncio.IncompleteReadError(piece, left)
    return piece


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    body = bytearray()
    while piece := await _chunk(reader, len(body)):
        body += piece
    return bytes(body)


async def _chunk(reader: asyncio.StreamReader, before: int) -> bytes:
    """The next chunk with its size in front; an empty chunk is the last."""
    size = (await _line(reader)).partition(";")[0].strip()
    try:
        length = int(size, 16)
    except ValueError as error:
        raise Garbled("a chunk's length is no number") from error
    if before + length > ANSWER_BYTES_MAX:
        raise _too_long()
    piece = await reader.readexactly(length)
    await _line(reader)
    return piece
