/** The memory's tools as tools of the AI SDK. */

import { jsonSchema, tool } from "ai";

/** @import { Agent } from "../client.js" */

/** The tools of each dialect that a model gets unless others are named. A loop of the SDK goes on after each call, so it needs no heartbeat. */
const USUAL = {
  vctx: ["store_core", "search_recall", "write_recall", "search_archival"],
  memgpt: ["core_memory_append", "core_memory_replace", "conversation_search", "archival_memory_search"],
  anthropic: ["memory", "search_recall", "write_recall", "search_archival"],
  ues: ["store_core", "retrieve_from_ues", "write_recall", "summarize_text"],
};

/**
 * The memory's tools for `generateText`, `streamText` and `ToolLoopAgent`. Descriptions and schemas are the server's. A refused call
 * gives the model the text of the refusal, so that it can correct the call; other failures are errors of the tool. Calls of one step
 * are made one after another.
 *
 * `names` are the tools, or "all"; by default four of the dialect. With a `key`, a call with the same id takes effect once, also if
 * another process repeats it.
 *
 * @param {Agent} agent @param {{names?: string[] | "all", dialect?: "vctx" | "memgpt" | "anthropic" | "ues", key?: string}} [how]
 * @returns {Promise<Record<string, import("ai").Tool<any, string>>>}
 */
export async function vctxTools(agent, { names, dialect = "vctx", key } = {}) {
  const { tools } = await agent.client.tools({ profile: "compact", dialect });
  /** @type {Map<string, any>} */
  const offered = new Map(tools.map((/** @type {any} */ one) => [one.name, one]));
  const chosen = names === "all" ? [...offered.keys()] : (names ?? USUAL[dialect]);
  const call = inOrder(agent, key);
  return Object.fromEntries(chosen.map((name) => [name, made(name, offered.get(name), call)]));
}

/** @typedef {(name: string, input: any, more: {toolCallId: string, abortSignal?: AbortSignal}) => Promise<string>} Call */

/** @param {string} name @param {any} offered @param {Call} call */
function made(name, offered, call) {
  if (offered === undefined) throw new TypeError(`the server has no tool ${name} in this dialect`);
  return tool({
    description: offered.description,
    inputSchema: jsonSchema(offered.parameters),
    execute: (/** @type {any} */ input, /** @type {any} */ more) => call(name, input, more),
  });
}

/** Calls of the memory, each after the end of the one before. @param {Agent} agent @param {string | undefined} key @returns {Call} */
function inOrder(agent, key) {
  /** @type {Promise<unknown>} */
  let before = Promise.resolve();
  return (name, input, { toolCallId, abortSignal: signal }) => {
    const write = key === undefined ? { signal } : { signal, key: `${key}/call/${toolCallId}` };
    const told = before.then(() => agent.tell(name, input, write));
    // A failed call is an error of its own tool, and does not stop the next one.
    before = told.catch(() => undefined);
    return told;
  };
}
