/** How the types are used; only the compiler reads this (`npm run check`). */

import { ANY, Client, RevisionStale, type State } from "../../types/index.js";

export async function use(): Promise<void> {
  const client = new Client(undefined, { timeoutMs: 5_000 });
  const ada = await client.createAgent("ada", { context_window: 8192 });
  const state: State = await ada.state();
  const stored = await ada.storeCore("human", state.system, { pinned: true }, { rev: ANY });
  const block: string = stored.result.block_id;
  for await (const message of ada.allMessages()) {
    const seq: number = message.seq;
    console.log(block, seq);
  }
  // @ts-expect-error Only the known roles may speak.
  await ada.appendFifo("Hello.", "narrator");
  try {
    await ada.evictFifo({ target_tokens: 0 });
  } catch (problem) {
    if (problem instanceof RevisionStale) console.log(problem.changed.join(" "));
  }
}
