"""One turn with the OpenAI Agents SDK and its own session, which vctx keeps; memory tools as function tools."""

import argparse
import asyncio
from typing import Any

import agents
import httpx2
import openai

import vctx
from vctx.openai_agents import VctxSession

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


async def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("said")
    options.add_argument("--model", default="gpt-4.1-mini")
    options.add_argument("--model-socket")
    options.add_argument("--socket", help="of vctx")
    options.add_argument("--agent", default="harbour")
    given = options.parse_args()
    agents.set_tracing_disabled(True)
    model = agents.OpenAIChatCompletionsModel(given.model, model_client(given.model_socket))
    async with vctx.AsyncClient(given.socket) as client:
        # The session's agent holds the conversation; the model keeps its notes in the blocks of the
        # same agent.
        session, memory = VctxSession(given.agent, given.socket), client.agent(given.agent)
        tools: list[agents.Tool] = [memory_tool(memory, schema) for schema in (await client.tools(profile="compact"))["tools"]]
        agent: agents.Agent[None] = agents.Agent(name="harbour", instructions="You keep notes.", model=model, tools=tools)
        try:
            outcome = await agents.Runner.run(agent, given.said, session=session, max_turns=INFERENCES_MAX)
        finally:
            session.close()
        print(outcome.final_output)


if __name__ == "__main__":
    asyncio.run(main())
