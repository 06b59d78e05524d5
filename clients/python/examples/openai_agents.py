"""One turn with the OpenAI Agents SDK: memory tools as function tools, and the messages stored in vctx."""

import argparse
import asyncio
from typing import Any

import agents
import httpx2
import openai

import vctx

# Maximum number of inferences for one event, which stops a model that never yields.
INFERENCES_MAX = 8


def model_client(model_socket: str | None) -> openai.AsyncOpenAI:
    """The package's own client, or one over a Unix socket."""
    if model_socket is None:
        return openai.AsyncOpenAI()
    transport = httpx2.AsyncHTTPTransport(uds=model_socket)
    http_client = httpx2.AsyncClient(transport=transport)
    return openai.AsyncOpenAI(api_key="none", base_url="http://model/v1", http_client=http_client)


def memory_tool(memory: vctx.AsyncAgent, schema: dict[str, Any]) -> agents.FunctionTool:
    """A tool of vctx as a tool of the SDK."""

    async def invoke(_: Any, arguments: str) -> str:
        return await memory.tell(schema["name"], arguments)

    return agents.FunctionTool(
        name=schema["name"],
        description=schema["description"],
        params_json_schema=schema["parameters"],
        on_invoke_tool=invoke,
        strict_json_schema=False,
    )


async def turn(memory: vctx.AsyncAgent, model: agents.Model, tools: list[agents.Tool], said: str) -> str:
    """Sends a message of the user; the SDK's loop runs on the current window, and the answer is stored."""
    await memory.append_fifo(said, "user")
    system, *window = (await memory.context())["messages"]
    agent: agents.Agent[None] = agents.Agent(name=memory.name, instructions=system["content"], model=model, tools=tools)
    given: Any = [{"role": message["role"], "content": message["content"]} for message in window]
    outcome = await agents.Runner.run(agent, given, max_turns=INFERENCES_MAX)
    text = str(outcome.final_output)
    await memory.append_fifo(text, "assistant")
    return text


async def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("said")
    options.add_argument("--model", default="gpt-4.1-mini")
    options.add_argument("--model-socket")
    options.add_argument("--socket", help="of vctx")
    options.add_argument("--agent", default="harbour")
    given = options.parse_args()
    agents.set_tracing_disabled(True)
    async with vctx.AsyncClient(given.socket) as client:
        memory = await client.create_agent(given.agent, 32_768, system="You keep notes in your memory.")
        tools: list[agents.Tool] = [memory_tool(memory, schema) for schema in (await client.tools(profile="compact"))["tools"]]
        model = agents.OpenAIChatCompletionsModel(given.model, model_client(given.model_socket))
        print(await turn(memory, model, tools, given.said))


if __name__ == "__main__":
    asyncio.run(main())
