/** The newest messages of a conversation in the memory's log, and which of them an application's messages repeat. */

import { CUT_OFF, canonical } from "./rows.js";

/** @import { Agent } from "../client.js" */
/** @import { Message, NewMessage } from "../types.js" */

/** Maximum number of messages of the log that are read at once. */
export const READ_MAX = 10_000;
/** Messages that are read beyond those that are compared, because events and copies stand between them. */
const BETWEEN = 64;

/** A message of the log. `says` is its canonical text; none if the text was removed. `cut` is whether it is an answer whose end never came. @typedef {{row: Message, says: string | undefined, cut: boolean}} Logged */

/** The newest messages of users, models and tools, oldest first, out of the newest `count` of the log. @param {Agent} agent @param {number} count @returns {Promise<Logged[]>} */
export async function newest(agent, count) {
  const { queue } = await agent.state();
  return between(agent, Math.max(1, queue.next_seq - Math.min(count, READ_MAX)), queue.next_seq);
}

/** The newest messages of the log, enough to compare that many with them. @param {Agent} agent @param {number} count */
export function newestFor(agent, count) {
  return newest(agent, 2 * count + BETWEEN);
}

/** The messages of users, models and tools from one position up to another. @param {Agent} agent @param {number} from @param {number} until @returns {Promise<Logged[]>} */
export async function between(agent, from, until) {
  /** @type {Logged[]} */
  const log = [];
  if (from >= until) return log;
  for await (const row of agent.allMessages(from)) {
    if (row.seq >= until) break;
    if (row.kind !== "turn") continue;
    if (row.role !== "system") log.push(logged(row));
    else if (row.content === CUT_OFF && log.at(-1)?.row.role === "assistant") log[log.length - 1].cut = true;
  }
  return log;
}

/** @param {Message} row @returns {Logged} */
function logged(row) {
  const { role, content, meta } = row;
  // Retention and forget operations leave the position of a message, without its text.
  if (content === null) return { row: { ...row, content: "", meta: {} }, says: undefined, cut: false };
  return { row, says: canonical({ role, content, tool_calls: meta.tool_calls, tool_call_id: meta.tool_call_id }), cut: false };
}

/** How many messages at the beginning of the list are the last ones of the log already. @param {NewMessage[]} rows @param {Logged[]} log */
export function overlap(rows, log) {
  const said = rows.map(canonical);
  for (let count = Math.min(said.length, log.length); count > 0; count -= 1) {
    const end = log.slice(log.length - count);
    if (end.every(({ says }, at) => says === said[at])) return count;
  }
  return 0;
}
