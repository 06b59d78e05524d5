"""One turn with plain function calling: any chat endpoint on a Unix socket, without other packages."""

import argparse
import http.client
import json
import socket
from typing import Any

import vctx

# Maximum number of inferences for one message of the user, which stops a model that never yields.
INFERENCES_MAX = 8


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("model", timeout=120)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def complete(model_socket: str, body: dict[str, Any]) -> dict[str, Any]:
    """Asks the model; gives its message."""
    connection = UnixConnection(model_socket)
    try:
        connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        told = json.loads(answer.read())
    finally:
        connection.close()
    if answer.status != 200:
        raise SystemExit(f"the model refuses: {told}")
    message: dict[str, Any] = told["choices"][0]["message"]
    return message


def turn(agent: vctx.Agent, tools: list[dict[str, Any]], model_socket: str, said: str) -> str:
    """Sends a message of the user; the model uses its memory until it answers."""
    agent.append_fifo(said, "user")
    for _ in range(INFERENCES_MAX):
        window = agent.context()["messages"]
        message = complete(model_socket, {"model": "any", "messages": window, "tools": tools})
        text, calls = message.get("content") or "", message.get("tool_calls") or []
        agent.append_fifo(text, "assistant", tool_calls=calls or None)
        if not calls:
            return text
        for call in calls:
            agent.tell(call["function"]["name"], call["function"]["arguments"], capture=call["id"])
    raise SystemExit(f"no answer after {INFERENCES_MAX} inferences")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("said")
    options.add_argument("--model-socket", required=True)
    options.add_argument("--socket", help="of vctx")
    options.add_argument("--agent", default="harbour")
    given = options.parse_args()
    with vctx.Client(given.socket) as client:
        agent = client.create_agent(given.agent, 32_768, system="You keep notes in your memory.")
        tools = client.tools("openai-chat")["tools"]
        print(turn(agent, tools, given.model_socket, given.said))


if __name__ == "__main__":
    main()
