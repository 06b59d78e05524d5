/** Messages of `useChat`, loaded from an agent's memory and saved there. */

import { createHash } from "node:crypto";

import { convertToModelMessages } from "ai";

import { newest, newestFor } from "./log.js";
import { FAILED, canonical, parsed, rowsOf } from "./rows.js";

/** @import { ToolSet, UIMessage } from "ai" */
/** @import { Agent } from "../client.js" */
/** @import { NewMessage } from "../types.js" */
/** @import { Logged } from "./log.js" */

/** Messages of the log that are loaded unless the caller gives a number. */
const LOADED = 500;
/** A beginning of this many messages, with an answer among them, is found again although the log has gone on since. */
const RUN_MIN = 2;

/**
 * The newest messages of the conversation for `useChat`, oldest first, out of the newest `limit` messages of the log (at most 10 000).
 * The metadata of each message has its position (`seq`) and time (`createdAt`), and `interrupted` if its end never came.
 *
 * @param {Agent} agent @param {{limit?: number}} [how] @returns {Promise<UIMessage[]>}
 */
export async function loadMessages(agent, { limit = LOADED } = {}) {
  /** @type {any[]} */
  const messages = [];
  /** @type {Map<string, any>} */
  const calls = new Map();
  for (const { row, cut } of await newest(agent, limit)) {
    const { seq, role, content, meta, created_at: createdAt } = row;
    if (role === "tool") {
      Object.assign(calls.get(meta.tool_call_id) ?? {}, resultOf(content));
      continue;
    }
    const made = role === "assistant" ? (meta.tool_calls ?? []).map(callPart) : [];
    for (const part of made) calls.set(part.toolCallId, part);
    const parts = [...(content === "" ? [] : [{ type: "text", text: content, state: "done" }]), ...made];
    if (parts.length === 0) continue;
    if (role === "user" || messages.at(-1)?.role !== "assistant") {
      messages.push({ id: `${agent.name}:${seq}`, role, metadata: { seq, createdAt }, parts: [] });
    }
    const message = messages.at(-1);
    if (role === "assistant") message.parts.push({ type: "step-start" });
    message.parts.push(...parts);
    if (cut) message.metadata.interrupted = true;
  }
  return messages;
}

/** @param {any} call */
function callPart({ id, function: { name, arguments: input } }) {
  return { type: `tool-${name}`, toolCallId: id, state: "input-available", input: parsed(input) };
}

/** @param {string} text */
function resultOf(text) {
  if (text.startsWith(FAILED)) return { state: "output-error", errorText: text.slice(FAILED.length) };
  const value = /^[[{]/.test(text) ? parsed(text) : text;
  return { state: "output-available", output: JSON.stringify(value) === text ? value : text };
}

/**
 * Appends those messages of a chat that the memory does not have yet; gives their number. Give the whole list as `useChat` has it.
 * The memory has a message already if `loadMessages` gave it, if the list begins like the end of the log, and if a message with the same
 * id and content was saved in the last seven days. `tools` are those of the chat, if they have a `toModelOutput`.
 *
 * @param {Agent} agent @param {UIMessage[]} messages @param {{tools?: ToolSet}} [how] @returns {Promise<number>}
 */
export async function saveMessages(agent, messages, { tools } = {}) {
  /** @type {Item[]} */
  const items = [];
  for (const message of messages) {
    const rows = (await convertToModelMessages([message], { tools })).flatMap(rowsOf);
    rows.forEach((row, at) => items.push({ row, says: canonical(row), id: message.id, at, seq: seqOf(agent, message.id) }));
  }
  let appended = 0;
  for (const { row, says, id, at } of missing(items, await newestFor(agent, items.length))) {
    const { content, role, ...parts } = row;
    const key = `ai/${createHash("sha256").update(JSON.stringify([id, at, says])).digest("hex")}`;
    const { replayed } = await agent.appendFifo(content, role, parts, { key });
    if (!replayed) appended += 1;
  }
  return appended;
}

/** A message to save; `at` is its place among those of one message of the chat, `seq` its position if `loadMessages` gave it. @typedef {{row: NewMessage, says: string, id: string, at: number, seq: number | undefined}} Item */

/** @param {Agent} agent @param {string} id @returns {number | undefined} */
function seqOf(agent, id) {
  const seq = id.startsWith(`${agent.name}:`) ? id.slice(agent.name.length + 1) : "";
  return /^\d+$/.test(seq) ? Number(seq) : undefined;
}

/** The items that are not in the log. @param {Item[]} items @param {Logged[]} log */
function missing(items, log) {
  const first = items[0]?.seq === undefined ? anchor(items, log) : 0;
  // Results may be in another order than their calls, so they are looked for anywhere after the last found call.
  let [next, afterCall] = [first, first];
  return items.filter((item) => {
    const from = item.row.role === "tool" ? afterCall : next;
    const found = log.findIndex((logged, at) => at >= from && logged.row.seq >= (item.seq ?? 0) && (isSame(item, logged) || (at === next && isGone(item, logged))));
    if (found < 0) return !wasLoaded(item, items, log);
    next = Math.max(next, found + 1);
    if (item.row.role === "assistant") afterCall = found + 1;
    return false;
  });
}

/** Whether the text of this message of the log was removed, which may have been the item's. @param {{row: NewMessage}} item @param {Logged} logged */
function isGone({ row }, logged) {
  return logged.says === undefined && logged.row.role === row.role;
}

/**
 * Whether `loadMessages` gave the item, even if its text was removed from the log since; it must not come back. A loaded message can get
 * results of tools and further answers.
 *
 * @param {Item} item @param {Item[]} items @param {Logged[]} log
 */
function wasLoaded({ row, id, at, seq }, items, log) {
  if (seq === undefined) return false;
  if (row.role === "user" || seq < (log[0]?.row.seq ?? 0)) return true;
  const begin = log.findIndex((logged) => logged.row.seq >= seq);
  const end = log.findIndex((logged, place) => place > begin && logged.row.role === "user");
  const group = begin < 0 ? [] : log.slice(begin, end < 0 ? undefined : end);
  if (row.role === "tool") return group.some((logged) => isGone({ row }, logged));
  const before = items.filter((other) => other.id === id && other.at < at && other.row.role === row.role).length;
  return before < group.filter((logged) => logged.row.role === row.role).length;
}

/** Whether a message of the log says the same; of an answer that was cut off, the chat may have received less or more. @param {Item} item @param {Logged} logged */
function isSame({ row, says }, logged) {
  if (says === logged.says) return true;
  if (!logged.cut || row.role !== "assistant" || row.tool_calls !== undefined) return false;
  return logged.row.content.startsWith(row.content) || row.content.startsWith(logged.row.content);
}

/** Where the list begins in the log: at the longest part of its beginning that is there; at the end of the log if it is not there. @param {Item[]} items @param {Logged[]} log */
function anchor(items, log) {
  const spoken = items.filter(({ row }) => row.role !== "tool");
  const heard = log.map((logged, at) => ({ logged, at })).filter(({ logged }) => logged.row.role !== "tool");
  let [best, length] = [log.length, 0];
  for (let from = 0; from < heard.length; from += 1) {
    let count = 0;
    while (count < spoken.length && from + count < heard.length && isSame(spoken[count], heard[from + count].logged)) count += 1;
    const isEnd = from + count === heard.length;
    const isRun = count >= RUN_MIN && spoken.slice(0, count).some(({ row }) => row.role === "assistant");
    if (count > 0 && count >= length && (isEnd || isRun)) [best, length] = [heard[from].at, count];
  }
  return best;
}
