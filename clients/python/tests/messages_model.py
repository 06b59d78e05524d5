"""A test double of an endpoint of Anthropic's Messages API on a Unix socket: stores the boat's mooring in memory, then answers."""

import http.server
import json
import socketserver
import threading
from pathlib import Path
from typing import Any

NOTE = {"block_id": "human", "content": "Their boat, the Swallow, lies at pier 4."}


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: "MessagesModel"

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.asked.append(asked)
        fault = wrong(asked)
        last = asked["messages"][-1]["content"]
        results = [block for block in last if block["type"] == "tool_result"]
        if fault:
            self._answer(400, {"type": "error", "error": {"type": "invalid_request_error", "message": fault}})
        elif results:
            self._say([{"type": "text", "text": "Noted: the Swallow lies at pier 4."}], "end_turn")
        else:
            self._say([{"type": "tool_use", "id": "toolu_1", "name": "store_core", "input": NOTE}], "tool_use")

    def _say(self, content: list[dict[str, Any]], reason: str) -> None:
        usage = {"input_tokens": 1, "output_tokens": 1}
        head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_sequence": None, "usage": usage}
        self._answer(200, {**head, "content": content, "stop_reason": reason})

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def address_string(self) -> str:
        return "model"

    def log_message(self, format: str, *args: Any) -> None:
        """Logs nothing."""


class MessagesModel(socketserver.ThreadingUnixStreamServer):
    """Listens at once; `asked` holds the received requests."""

    daemon_threads = True

    def __init__(self, path: Path) -> None:
        self.asked: list[dict[str, Any]] = []
        super().__init__(str(path), _Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()


def wrong(asked: dict[str, Any]) -> str:
    """The faults that the Messages API refuses: roles that do not alternate, calls without results, tools without schemas."""
    if [tool["name"] for tool in asked["tools"] if tool.get("input_schema", {}).get("type") != "object"]:
        return "a tool has no schema of an object"
    messages = asked["messages"]
    if not messages or messages[0]["role"] != "user":
        return "the first message is not the user's"
    for before, message in zip(messages, messages[1:]):
        if before["role"] == message["role"]:
            return "two messages of one side follow each other"
        uses = {block["id"] for block in before["content"] if block["type"] == "tool_use"}
        results = {block["tool_use_id"] for block in message["content"] if block["type"] == "tool_result"}
        if uses != results:
            return "calls and results do not match"
    return ""
