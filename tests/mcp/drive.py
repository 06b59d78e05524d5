"""Drives every tool of `vctx mcp` with the official MCP SDK, once in each lifecycle, over pipes and over a Unix socket; fails with the first
thing that is not as announced.

Usage: drive.py PROGRAM SOCKET DATA_DIR
"""

import asyncio
import os
import signal
import subprocess
import sys
from contextlib import asynccontextmanager

import anyio
from mcp import StdioServerParameters
from mcp.client.client import Client
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

# Arguments with which a call to each tool succeeds.
ARGUMENTS = {
    "store_core": {"block_id": "human", "content": "Likes tea."},
    "fetch_core": {"block_id": "human"},
    "append_fifo": {"message": "Shall we sail to Elba?", "role": "user"},
    "evict_fifo": {"target_tokens": 0},
    "search_recall": {"query": "Elba"},
    "write_recall": {"entries": [{"content": "Born in May."}]},
    "search_archival": {"query_text": "where does the boat lie"},
    "ingest_archival": {"doc_id": "boat.md", "chunks": ["The boat lies in the harbour. ", "It is blue."]},
    "record_heartbeat": {"state": "continue"},
    "trace_memory": {"from": "agent"},
    "build_context": {"question": "Where does the boat lie?"},
}

# Newest protocol version of each lifecycle (with and without `initialize`).
MODES = {"legacy": "2025-11-25", "auto": "2026-07-28"}


def check(condition, what):
    if not condition:
        raise SystemExit(f"not as announced: {what}")


@asynccontextmanager
async def unix_transport(path):
    """A transport over a Unix socket: one JSON message a line, as on stdin and stdout."""
    stream = await anyio.connect_unix(path)
    into_client, read = anyio.create_memory_object_stream(0)
    write, from_client = anyio.create_memory_object_stream(0)

    async def receive():
        rest = b""
        async with into_client:
            try:
                async for part in stream:
                    *lines, rest = (rest + part).split(b"\n")
                    for line in lines:
                        await into_client.send(SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False)))
            except (anyio.ClosedResourceError, anyio.BrokenResourceError):
                pass  # the client has left

    async def send():
        async with from_client:
            async for message in from_client:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                await stream.send(text.encode() + b"\n")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(receive)
        tasks.start_soon(send)
        try:
            yield read, write
        finally:
            tasks.cancel_scope.cancel()
            await stream.aclose()


def bridge(program, socket, data_dir, agent):
    """The arguments of `vctx mcp` for an agent."""
    return [program, "mcp", "--socket", socket, "--data-dir", data_dir, "--agent", agent, "--idle-exit-s", "30", "--all-tools"]


async def drive(server, agent, mode, version):
    async with Client(server, mode=mode) as client:
        check(client.protocol_version == version, f"{mode} speaks {client.protocol_version}")
        answer = await client.list_tools()
        listed = answer.tools
        if mode == "auto":
            check((answer.ttl_ms, answer.cache_scope) == (3_600_000, "public"), f"how long the tools may be kept: {answer.ttl_ms}")
        for tool in listed:
            hints = tool.annotations
            given = [hints.read_only_hint, hints.destructive_hint, hints.idempotent_hint, hints.open_world_hint]
            check(None not in given, f"hints of {tool.name}")
            # The SDK validates the structured content of a successful answer against the announced
            # output schema.
            result = await client.call_tool(tool.name, ARGUMENTS[tool.name])
            check(not result.is_error, f"{tool.name}: {result.content}")
            check(result.structured_content["result"] is not None, f"{tool.name} has no result")
            print(f"{agent} {tool.name} ok", flush=True)

        key = {"vctx/idempotency-key": "sdk-1"}
        trace = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01"}
        first = await client.call_tool("append_fifo", {"message": "Once.", "role": "user"}, meta={**key, **trace})
        again = await client.call_tool("append_fifo", {"message": "Once.", "role": "user"}, meta=key)
        check(again.structured_content["replayed"] is True, "a key replays")
        check(first.structured_content["receipt"] == again.structured_content["receipt"], "the same receipt")

        wrong = await client.call_tool("append_fifo", {"message": "No role."})
        check(wrong.is_error and wrong.structured_content["field"] == "role", "a wrong argument is told in band")
        resource = await client.read_resource(f"vctx://agent/{agent}/core")
        check("Likes tea." in resource.contents[0].text, "the core as a resource")
        if mode == "auto":
            check((resource.ttl_ms, resource.cache_scope) == (0, "private"), f"how long the core may be kept: {resource.ttl_ms}")
        templates = (await client.list_resource_templates()).resource_templates
        check(len(templates) == 2, "two templates of resources")
        message = await client.read_resource(f"vctx://agent/{agent}/recall/1")
        check("Shall we sail to Elba?" in message.contents[0].text, "a message as a resource")
        prompts = (await client.list_prompts()).prompts
        check([prompt.name for prompt in prompts] == ["use_memory", "remember"], "the prompts")
        prompt = await client.get_prompt("remember", {"text": "Tea at five."})
        check("Tea at five." in prompt.messages[0].content.text, "a prompt takes its text")


async def memory(server):
    """Anthropic's names: the text of an answer is what its tool would say."""
    async with Client(server, mode="auto") as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        check("memory" in names and "store_core" not in names, f"{names} in another dialect")
        create = {"command": "create", "path": "/memories/human", "file_text": "Likes tea."}
        made = await client.call_tool("memory", create)
        check(made.content[0].text == "File created successfully at: /memories/human", f"{made.content}")
        again = await client.call_tool("memory", create)
        check(again.is_error and again.content[0].text == "Error: File /memories/human already exists", f"{again.content}")


async def main():
    program, socket, data_dir = sys.argv[1:]
    for mode, version in MODES.items():
        agent = f"sdk-{mode}"
        command, *arguments = bridge(program, socket, data_dir, agent)
        await drive(StdioServerParameters(command=command, args=arguments), agent, mode, version)
    command, *arguments = bridge(program, socket, data_dir, "sdk-memory")
    await memory(StdioServerParameters(command=command, args=[*arguments, "--dialect", "anthropic"]))
    for mode, version in MODES.items():
        agent = f"sdk-socket-{mode}"
        path = os.path.join(os.path.dirname(socket), f"{agent}.sock")
        listener = subprocess.Popen([*bridge(program, socket, data_dir, agent), "--listen", path], stdout=subprocess.PIPE, text=True)
        try:
            check(path in listener.stdout.readline(), "it says where it listens")
            await drive(unix_transport(path), agent, mode, version)
        finally:
            listener.send_signal(signal.SIGTERM)
        check(listener.wait(30) == 0 and not os.path.exists(path), "the socket goes with the program")


asyncio.run(main())
