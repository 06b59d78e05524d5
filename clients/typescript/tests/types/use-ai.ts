/** How the types of `vctx/ai` are used; only the compiler reads this (`npm run check`). */

import { generateText, wrapLanguageModel, type UIMessage } from "ai";
import { MockLanguageModelV3 } from "ai/test";

import { Client } from "../../types/index.js";
import { loadMessages, saveMessages, vctxMemory, vctxTools } from "../../types/ai/index.js";

export async function use(): Promise<void> {
  const ada = new Client().agent("ada");
  const memory = vctxMemory(ada, { onError: (problem) => console.error(problem) });
  const model = wrapLanguageModel({ model: new MockLanguageModelV3(), middleware: memory });
  const { text } = await generateText({ model, tools: await vctxTools(ada, { dialect: "memgpt" }), prompt: "Hello.", providerOptions: { vctx: { key: "k" } } });
  const messages: UIMessage[] = await loadMessages(ada, { limit: 10 });
  const appended: number = await saveMessages(ada, messages);
  await memory.settled();
  console.log(text, appended);
  // @ts-expect-error Only the known dialects have tools.
  await vctxTools(ada, { dialect: "latin" });
}
