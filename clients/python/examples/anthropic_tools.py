"""One turn with the `anthropic` package: the window of vctx as messages, its tools as tools, results as blocks."""

import argparse
import json
from typing import Any

import anthropic
import httpx2

import vctx

# Maximum number of inferences in one turn, which stops a model that never yields, and maximum
# number of tokens in one answer.
INFERENCES_MAX = 8
ANSWER_TOKENS_MAX = 1_024


def model_client(model_socket: str | None) -> anthropic.Anthropic:
    """The package's own client, or one over a Unix socket."""
    if model_socket is None:
        return anthropic.Anthropic()
    transport = httpx2.HTTPTransport(uds=model_socket)
    return anthropic.Anthropic(api_key="none", base_url="http://model", http_client=httpx2.Client(transport=transport))


def shown(window: list[vctx.types.ChatMessage]) -> tuple[str, list[Any]]:
    """The window in the format of the Messages API: separate system text, tool calls and results as blocks, consecutive turns of one role joined."""
    system, messages = [], []
    for message in window:
        content: list[Any] = [{"type": "text", "text": message["content"]}] if message["content"] else []
        if message["role"] == "system":
            system.append(message["content"])
            continue
        role = "assistant" if message["role"] == "assistant" else "user"
        if message["role"] == "tool":
            content = [{"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": message["content"]}]
        for call in message.get("tool_calls") or []:
            function = call["function"]
            use = {"id": call["id"], "name": function["name"], "input": json.loads(function["arguments"])}
            content.append({"type": "tool_use", **use})
        if messages and messages[-1]["role"] == role:
            messages[-1]["content"] += content
        else:
            messages.append({"role": role, "content": content})
    return "\n\n".join(text for text in system if text), messages


def turn(agent: vctx.Agent, model: anthropic.Anthropic, name: str, tools: list[Any], said: str) -> str:
    """Sends a message of the user; the model uses its memory until it answers."""
    agent.append_fifo(said, "user")
    for _ in range(INFERENCES_MAX):
        system, messages = shown(agent.context()["messages"])
        answer = model.messages.create(
            model=name, max_tokens=ANSWER_TOKENS_MAX, system=system, messages=messages, tools=tools
        )
        text = "".join(block.text for block in answer.content if block.type == "text")
        uses = [block for block in answer.content if block.type == "tool_use"]
        calls = [
            {"id": use.id, "type": "function", "function": {"name": use.name, "arguments": json.dumps(use.input)}}
            for use in uses
        ]
        agent.append_fifo(text, "assistant", tool_calls=calls or None)
        if not uses:
            return text
        for use in uses:
            agent.tell(use.name, use.input, capture=use.id)
    raise SystemExit(f"no answer after {INFERENCES_MAX} inferences")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("said")
    options.add_argument("--model", default="claude-sonnet-4-5")
    options.add_argument("--model-socket")
    options.add_argument("--socket", help="of vctx")
    options.add_argument("--agent", default="harbour")
    given = options.parse_args()
    with vctx.Client(given.socket) as client:
        agent = client.create_agent(given.agent, 32_768, system="You keep notes in your memory.")
        tools = client.tools("anthropic")["tools"]
        print(turn(agent, model_client(given.model_socket), given.model, tools, given.said))


if __name__ == "__main__":
    main()
