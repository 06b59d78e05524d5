"""Writes a block with the official MCP SDK and its default environment, and reads it again.

Usage: five_minutes.py PROGRAM TEXT
"""

import asyncio
import sys

from mcp import StdioServerParameters
from mcp.client.client import Client


async def main():
    program, text = sys.argv[1:]
    async with Client(StdioServerParameters(command=program, args=["mcp"]), mode="auto") as client:
        await client.call_tool("store_core", {"block_id": "human", "content": text})
        told = await client.call_tool("fetch_core", {"block_id": "human"})
        print(" ".join(part.text for part in told.content))


asyncio.run(main())
