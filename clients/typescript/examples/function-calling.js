/** One turn with plain function calling: any chat endpoint on a Unix socket, without other packages. */

import http from "node:http";
import { parseArgs } from "node:util";

import { Client } from "vctx";

/** Limit of inferences for one turn: the limit stops a model that never yields. */
const INFERENCES_MAX = 8;

/** Asks the model; gives its message. */
function complete(socketPath, body) {
  return new Promise((resolve, reject) => {
    const headers = { "Content-Type": "application/json" };
    const asked = http.request({ socketPath, method: "POST", path: "/v1/chat/completions", headers }, async (answer) => {
      let text = "";
      for await (const piece of answer) text += piece;
      if (answer.statusCode === 200) resolve(JSON.parse(text).choices[0].message);
      else reject(new Error(`the model refuses: ${text}`));
    });
    asked.on("error", reject);
    asked.end(JSON.stringify(body));
  });
}

/** Sends a message of the user; the model uses its memory until it answers. */
async function turn(agent, tools, modelSocket, said) {
  await agent.appendFifo(said, "user");
  for (let inference = 1; inference <= INFERENCES_MAX; inference += 1) {
    const { messages } = await agent.context();
    const { content, tool_calls: calls = [] } = await complete(modelSocket, { model: "any", messages, tools });
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
  options: { socket: { type: "string" }, "model-socket": { type: "string" }, agent: { type: "string", default: "harbour" } },
});
const client = new Client(values.socket);
const agent = await client.createAgent(values.agent, { context_window: 32_768, system: "You keep notes in your memory." });
const { tools } = await client.tools({ format: "openai-chat" });
console.log(await turn(agent, tools, values["model-socket"], positionals[0]));
client.close();
