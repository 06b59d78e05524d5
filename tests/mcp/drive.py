"""Drives every tool of `vctx mcp` with the official MCP SDK, once in each lifecycle; fails with the first thing that is not as announced.

Usage: drive.py PROGRAM SOCKET DATA_DIR
"""

import asyncio
import sys

from mcp import StdioServerParameters
from mcp.client.client import Client

# Arguments with which each tool does something.
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
}

# Newest protocol of each lifecycle.
MODES = {"legacy": "2025-11-25", "auto": "2026-07-28"}


def check(condition, what):
    if not condition:
        raise SystemExit(f"not as announced: {what}")


async def drive(program, socket, data_dir, mode, version):
    arguments = ["mcp", "--socket", socket, "--data-dir", data_dir, "--agent", f"sdk-{mode}", "--idle-exit-s", "30"]
    server = StdioServerParameters(command=program, args=arguments)
    async with Client(server, mode=mode) as client:
        check(client.protocol_version == version, f"{mode} speaks {client.protocol_version}")
        listed = (await client.list_tools()).tools
        for tool in listed:
            hints = tool.annotations
            given = [hints.read_only_hint, hints.destructive_hint, hints.idempotent_hint, hints.open_world_hint]
            check(None not in given, f"hints of {tool.name}")
            # The SDK holds a good answer's structured content against the announced output schema.
            result = await client.call_tool(tool.name, ARGUMENTS[tool.name])
            check(not result.is_error, f"{tool.name}: {result.content}")
            check(result.structured_content["result"] is not None, f"{tool.name} has no result")
            print(f"{mode} {tool.name} ok", flush=True)

        key = {"vctx/idempotency-key": "sdk-1"}
        first = await client.call_tool("append_fifo", {"message": "Once.", "role": "user"}, meta=key)
        again = await client.call_tool("append_fifo", {"message": "Once.", "role": "user"}, meta=key)
        check(again.structured_content["replayed"] is True, "a key replays")
        check(first.structured_content["receipt"] == again.structured_content["receipt"], "the same receipt")

        wrong = await client.call_tool("append_fifo", {"message": "No role."})
        check(wrong.is_error and wrong.structured_content["field"] == "role", "a wrong argument is told in band")
        resource = await client.read_resource(f"vctx://agent/sdk-{mode}/core")
        check("Likes tea." in resource.contents[0].text, "the core as a resource")


async def main():
    program, socket, data_dir = sys.argv[1:]
    for mode, version in MODES.items():
        await drive(program, socket, data_dir, mode, version)


asyncio.run(main())
