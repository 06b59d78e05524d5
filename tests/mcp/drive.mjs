// Calls every tool of `vctx mcp` with the official MCP SDK for TypeScript, over pipes and over a
// Unix socket; fails at the first difference from what the server announces.
//
// Usage: node drive.mjs PROGRAM SOCKET DATA_DIR MCP_SOCKET

import net from "node:net";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { ReadBuffer, serializeMessage } from "@modelcontextprotocol/sdk/shared/stdio.js";

// Arguments with which a call to each tool succeeds.
const ARGUMENTS = {
  store_core: { block_id: "human", content: "Likes tea." },
  fetch_core: { block_id: "human" },
  append_fifo: { message: "Shall we sail to Elba?", role: "user" },
  evict_fifo: { target_tokens: 0 },
  search_recall: { query: "Elba" },
  write_recall: { entries: [{ content: "Born in May." }] },
  search_archival: { query_text: "where does the boat lie" },
  ingest_archival: { doc_id: "boat.md", chunks: ["The boat lies in the harbour. ", "It is blue."] },
  record_heartbeat: { state: "continue" },
  trace_memory: { from: "agent" },
  build_context: { question: "Where does the boat lie?" },
};

function check(condition, what) {
  if (!condition) throw new Error(`not as announced: ${what}`);
}

// Sends and receives one JSON message per line on a connection, as on stdin and stdout.
class SocketTransport {
  constructor(path) {
    this.path = path;
    this.buffer = new ReadBuffer();
  }

  start() {
    return new Promise((resolve, reject) => {
      this.socket = net.createConnection(this.path, resolve);
      this.socket.on("error", (error) => {
        reject(error);
        this.onerror?.(error);
      });
      this.socket.on("close", () => this.onclose?.());
      this.socket.on("data", (bytes) => {
        this.buffer.append(bytes);
        for (let message; (message = this.buffer.readMessage()) !== null; ) this.onmessage?.(message);
      });
    });
  }

  send(message) {
    return new Promise((resolve, reject) => {
      this.socket.write(serializeMessage(message), (error) => (error ? reject(error) : resolve()));
    });
  }

  async close() {
    this.socket.end();
  }
}

async function drive(door, transport) {
  const client = new Client({ name: "drive", version: "1" });
  await client.connect(transport);
  check(client.getServerVersion().name === "vctx", "the server's name");
  const { tools } = await client.listTools();
  for (const tool of tools) {
    const hints = tool.annotations;
    for (const hint of ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"]) {
      check(typeof hints[hint] === "boolean", `${hint} of ${tool.name}`);
    }
    // The SDK validates the structured content of a successful answer against the announced output
    // schema.
    const result = await client.callTool({ name: tool.name, arguments: ARGUMENTS[tool.name] });
    check(!result.isError, `${tool.name}: ${JSON.stringify(result.content)}`);
    check(result.structuredContent.result !== null, `${tool.name} has no result`);
    console.log(`${door} ${tool.name} ok`);
  }
  const wrong = await client.callTool({ name: "append_fifo", arguments: { message: "No role." } });
  check(wrong.isError && wrong.structuredContent.field === "role", "a wrong argument is told in band");
  const agent = `vctx://agent/ts-${door}`;
  const { resources } = await client.listResources();
  check(resources.some((resource) => resource.uri === `${agent}/core`), "the core as a resource");
  const { resourceTemplates } = await client.listResourceTemplates();
  check(resourceTemplates.length === 2, "two templates");
  const core = await client.readResource({ uri: `${agent}/core` });
  check(core.contents[0].text.includes("Likes tea."), "the core as a resource");
  const first = await client.readResource({ uri: `${agent}/recall/1` });
  check(first.contents[0].text.includes("Shall we sail to Elba?"), "a message as a resource");
  const { prompts } = await client.listPrompts();
  check(prompts.length === 2, "two prompts");
  const prompt = await client.getPrompt({ name: "remember", arguments: { text: "Tea at five." } });
  check(prompt.messages[0].content.text.includes("Tea at five."), "a prompt takes its text");
  await client.close();
}

const [program, socket, dataDir, mcpSocket] = process.argv.slice(2);
const args = ["mcp", "--socket", socket, "--data-dir", dataDir, "--agent", "ts-pipes", "--idle-exit-s", "30", "--all-tools"];
await drive("pipes", new StdioClientTransport({ command: program, args, env: process.env }));
await drive("socket", new SocketTransport(mcpSocket));
