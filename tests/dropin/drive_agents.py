"""Drives the drop-in with the OpenAI Agents SDK and its compaction session, unmodified, over a Unix socket; says what went well, one line
each, and fails at the first fault."""

import asyncio
import sys

import agents
import httpx2
import openai
from agents import OpenAIResponsesCompactionSession

TURNS = 14


def client(socket, agent):
    transport = httpx2.AsyncHTTPTransport(uds=socket)
    http_client = httpx2.AsyncClient(transport=transport, timeout=120)
    # The path names the agent, since the session wants the name of a model of OpenAI.
    return openai.AsyncOpenAI(base_url=f"http://vctx/v1/agents/{agent}", api_key="none", http_client=http_client)


async def said(agent, session, turn, streamed):
    """One turn; returns the answer."""
    text = f"Turn {turn}: the tide stands at {turn * 7 % 100}."
    if streamed:
        run = agents.Runner.run_streamed(agent, text, session=session)
        async for _ in run.stream_events():
            pass
    else:
        run = await agents.Runner.run(agent, text, session=session)
    assert run.final_output == f"You said: {text}", (turn, run.final_output)


async def drive(socket, name, mode):
    vctx = client(socket, name)
    model = agents.OpenAIResponsesModel("gpt-4.1", vctx)
    agent = agents.Agent(name="harbour", instructions="Be brief.", model=model)
    session = OpenAIResponsesCompactionSession(
        name, agents.SQLiteSession(name), client=vctx, model="gpt-4.1", compaction_mode=mode
    )
    for turn in range(TURNS):
        await said(agent, session, turn, turn % 3 == 2)
    items = await session.get_items()
    kinds = [item.get("type", "message") for item in items]
    at = kinds.index("compaction")
    roles = [item["role"] for item in items[:at]]
    # The session was compacted at its tenth answer: the user's messages stay, the answers go.
    assert roles == ["user"] * 10, roles
    assert len(items) == 10 + 1 + 2 * (TURNS - 10), kinds
    await session.run_compaction({"force": True})
    items = await session.get_items()
    kinds = [item.get("type", "message") for item in items]
    assert kinds == ["message"] * TURNS + ["compaction"], kinds
    await said(agent, session, TURNS, False)
    await vctx.close()
    print(f"compaction {mode} ok")


async def main():
    agents.set_tracing_disabled(True)
    for mode in ["auto", "previous_response_id", "input"]:
        await drive(sys.argv[1], f"sdk-{mode}", mode)


asyncio.run(main())
