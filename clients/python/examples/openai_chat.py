"""One turn with the `openai` package: window and tools are those of vctx, the model is the one that the package is configured for."""

import argparse
from typing import Any

import httpx2
import openai

import vctx

# Maximum number of inferences in one turn, which stops a model that never yields.
INFERENCES_MAX = 8


def model_client(model_socket: str | None) -> openai.OpenAI:
    """The package's own client, or one over a Unix socket."""
    if model_socket is None:
        return openai.OpenAI()
    transport = httpx2.HTTPTransport(uds=model_socket)
    return openai.OpenAI(api_key="none", base_url="http://model/v1", http_client=httpx2.Client(transport=transport))


def turn(agent: vctx.Agent, model: openai.OpenAI, name: str, tools: list[Any], said: str) -> str:
    """Sends a message of the user; the model uses its memory until it answers."""
    agent.append_fifo(said, "user")
    for _ in range(INFERENCES_MAX):
        window: Any = agent.context()["messages"]
        message = model.chat.completions.create(model=name, messages=window, tools=tools).choices[0].message
        calls = [call for call in message.tool_calls or [] if call.type == "function"]
        kept = [call.model_dump(include={"id", "type", "function"}) for call in calls]
        agent.append_fifo(message.content or "", "assistant", tool_calls=kept or None)
        if not calls:
            return message.content or ""
        for call in calls:
            agent.tell(call.function.name, call.function.arguments, capture=call.id)
    raise SystemExit(f"no answer after {INFERENCES_MAX} inferences")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("said")
    options.add_argument("--model", default="gpt-4.1-mini")
    options.add_argument("--model-socket")
    options.add_argument("--socket", help="of vctx")
    options.add_argument("--agent", default="harbour")
    given = options.parse_args()
    with vctx.Client(given.socket) as client:
        agent = client.create_agent(given.agent, 32_768, system="You keep notes in your memory.")
        tools = client.tools("openai-chat")["tools"]
        print(turn(agent, model_client(given.model_socket), given.model, tools, given.said))


if __name__ == "__main__":
    main()
