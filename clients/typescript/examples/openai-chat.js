/** One turn with the `openai` package: window and tools are those of vctx, the model is the one that the package is configured for. */

import http from "node:http";
import { Readable } from "node:stream";
import { parseArgs } from "node:util";

import OpenAI from "openai";
import { Client } from "vctx";

/** Limit of inferences for one turn: the limit stops a model that never yields. */
const INFERENCES_MAX = 8;

/** `fetch` over a Unix socket, as far as the package uses it. */
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

/** The package's own client, or one over a Unix socket. */
function modelClient(modelSocket) {
  if (modelSocket === undefined) return new OpenAI();
  return new OpenAI({ apiKey: "none", baseURL: "http://model/v1", fetch: overSocket(modelSocket) });
}

/** Sends a message of the user; the model uses its memory until it answers. */
async function turn(agent, model, name, tools, said) {
  await agent.appendFifo(said, "user");
  for (let inference = 1; inference <= INFERENCES_MAX; inference += 1) {
    const { messages } = await agent.context();
    const { choices } = await model.chat.completions.create({ model: name, messages, tools });
    const { content, tool_calls: calls = [] } = choices[0].message;
    await agent.appendFifo(content ?? "", "assistant", calls.length > 0 ? { tool_calls: calls } : {});
    if (calls.length === 0) return content;
    for (const call of calls) {
      await agent.tell(call.function.name, call.function.arguments, { capture: call.id });
    }
  }
  throw new Error(`no answer after ${INFERENCES_MAX} inferences`);
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    socket: { type: "string" },
    "model-socket": { type: "string" },
    model: { type: "string", default: "gpt-4.1-mini" },
    agent: { type: "string", default: "harbour" },
  },
});
const client = new Client(values.socket);
const agent = await client.createAgent(values.agent, { context_window: 32_768, system: "You keep notes in your memory." });
const { tools } = await client.tools({ format: "openai-chat" });
console.log(await turn(agent, modelClient(values["model-socket"]), values.model, tools, positionals[0]));
client.close();
