/** One turn with the Vercel AI SDK: window and tools are those of vctx, the model is any of the SDK's; here one with an OpenAI API. */

import http from "node:http";
import { Readable } from "node:stream";
import { parseArgs } from "node:util";

import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, stepCountIs, wrapLanguageModel } from "ai";
import { Client } from "vctx";
import { vctxMemory, vctxTools } from "vctx/ai";

/** Limit of inferences for one turn: the limit stops a model that never yields. */
const INFERENCES_MAX = 8;

/** `fetch` over a Unix socket, as far as the SDK uses it. */
function overSocket(socketPath) {
  return (url, { method, headers, body, signal } = {}) =>
    new Promise((resolve, reject) => {
      const { pathname, search } = new URL(url);
      const options = { socketPath, method, path: pathname + search, headers: Object.fromEntries(new Headers(headers)), signal };
      const asked = http.request(options, (answer) => {
        const { statusCode: status, statusMessage: statusText } = answer;
        resolve(new Response(Readable.toWeb(answer), { status, statusText, headers: answer.headers }));
      });
      asked.on("error", reject);
      asked.end(body);
    });
}

/** Sends a message of the user; the model uses its memory until it answers. */
async function turn(agent, model, prompt) {
  const remembering = wrapLanguageModel({ model, middleware: vctxMemory(agent) });
  const tools = await vctxTools(agent);
  const { text } = await generateText({ model: remembering, tools, prompt, stopWhen: stepCountIs(INFERENCES_MAX) });
  return text;
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    socket: { type: "string" },
    "model-socket": { type: "string" },
    "model-url": { type: "string", default: "http://localhost:11434/v1" },
    model: { type: "string", default: "qwen3" },
    agent: { type: "string", default: "harbour" },
  },
});
const provider = createOpenAICompatible({
  name: "example",
  baseURL: values["model-url"],
  fetch: values["model-socket"] === undefined ? undefined : overSocket(values["model-socket"]),
});
const client = new Client(values.socket);
const agent = await client.createAgent(values.agent, { context_window: 32_768, system: "You keep notes in your memory.", form: "strict" });
console.log(await turn(agent, provider(values.model), positionals[0]));
client.close();
