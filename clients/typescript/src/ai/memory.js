/** Language model middleware that gives each call of a model the agent's window, and stores what was said. */

import { freshKey } from "../wire.js";
import { between, newestFor, overlap } from "./log.js";
import { CUT_OFF, answerRows, isOwnCall, promptOf, rowsOf, textOf } from "./rows.js";

/** @import { Agent } from "../client.js" */
/** @import { NewMessage } from "../types.js" */
/** @import { CallOptions, Prompt } from "./rows.js" */
/** @import { Logged } from "./log.js" */
/** @typedef {import("ai").LanguageModelMiddleware} Middleware */
/** @typedef {Awaited<ReturnType<Parameters<NonNullable<Middleware["wrapGenerate"]>>[0]["doGenerate"]>>} Generated */
/** @typedef {Awaited<ReturnType<Parameters<NonNullable<Middleware["wrapStream"]>>[0]["doStream"]>>} Streamed */

/** Positions after the last new message at which the answer to a repeated call is looked for. */
const ANSWER_LOOK = 64;

/** One call of a model. `answer` is the stored answer to a repeated call. @typedef {{key: string, answer?: any[]}} Turn */

/**
 * The memory as middleware for `wrapLanguageModel`. Before each call of the model it appends the new messages of the prompt, which are
 * those after the prompt's last answer, and sends the agent's window instead of the prompt. After the call it appends the answer. What
 * was said before an abort or a failure of a stream is kept, and marked by a system message after it.
 *
 * The messages of a call that the SDK repeats are appended once. `providerOptions: { vctx: { key } }` gives a call a key, so that other
 * processes can repeat it, too: a repeated call whose answer is stored returns this answer without asking the model.
 *
 * `onError` gets the failure to store an answer that was cut off, which has no caller any more; by default it is a warning of the
 * process. `settled()` waits until such answers are stored; call it before a process is frozen or ends.
 *
 * @param {Agent} agent @param {{onError?: (problem: unknown) => void}} [how]
 * @returns {Middleware & {specificationVersion: "v3", settled: () => Promise<void>}}
 */
export function vctxMemory(agent, { onError = warn } = {}) {
  /** Keys by the prompt, which is the same object in all attempts of the SDK. @type {WeakMap<Prompt, string>} */
  const keys = new WeakMap();
  /** @type {WeakMap<object, Turn>} */
  const turns = new WeakMap();
  const cuts = new Cuts(agent, onError);
  return {
    specificationVersion: "v3",
    async transformParams({ params }) {
      const given = givenKey(params);
      const key = given ?? keys.get(params.prompt) ?? freshKey();
      keys.set(params.prompt, key);
      const last = await append(agent, params.prompt, key, given === undefined);
      const { messages, manifest } = await agent.context();
      const prompt = promptOf(messages, params.prompt, manifest.form === "strict");
      const changed = { ...params, prompt };
      turns.set(changed, { key, answer: last === undefined ? undefined : await answered(agent, last) });
      return changed;
    },
    async wrapGenerate({ doGenerate, params }) {
      const { key, answer } = turnOf(turns, params);
      if (answer !== undefined) return /** @type {Generated} */ (generated(answer));
      const result = await doGenerate();
      await store(agent, said(result.content), key);
      return result;
    },
    async wrapStream({ doStream, params }) {
      const { key, answer } = turnOf(turns, params);
      if (answer !== undefined) return /** @type {Streamed} */ ({ stream: streamOf(answer) });
      const result = await doStream();
      return { ...result, stream: stored(result.stream, agent, key, cuts, params.abortSignal) };
    },
    settled: () => cuts.settled(),
  };
}

/** @param {unknown} problem */
function warn(problem) {
  process.emitWarning(problem instanceof Error ? problem : String(problem));
}

/** The key that the application gives to a call; other messages of the same conversation make it another one. @param {CallOptions} params */
function givenKey({ prompt, providerOptions }) {
  const key = providerOptions?.vctx?.key;
  if (key === undefined) return undefined;
  if (typeof key !== "string" || key === "") throw new TypeError("providerOptions.vctx.key: give a text");
  return `${key}/${prompt.length}`;
}

/** @param {WeakMap<object, Turn>} turns @param {object} params @returns {Turn} */
function turnOf(turns, params) {
  const turn = turns.get(params);
  if (turn === undefined) throw new TypeError("another middleware replaced the parameters of the call between two steps of vctxMemory");
  return turn;
}

/**
 * Appends the new messages; gives the position of the last one if it had been appended with this key before. All messages are new to a
 * memory without any. Without a key of the application, messages that end the log already are taken for those of an earlier attempt.
 *
 * @param {Agent} agent @param {Prompt} prompt @param {string} key @param {boolean} compare
 */
async function append(agent, prompt, key, compare) {
  const log = await newestFor(agent, prompt.length);
  const from = log.length === 0 ? 0 : firstNew(prompt, log);
  const placed = prompt.flatMap((message, at) => (at < from ? [] : rowsOf(message).map((row, part) => ({ row, place: `${at}.${part}` }))));
  const known = compare ? overlap(placed.map(({ row }) => row), log) : 0;
  let last;
  for (const { row, place } of placed.slice(known)) {
    const { content, role, ...parts } = row;
    const { replayed, receipt } = await agent.appendFifo(content, role, parts, { key: `${key}/in/${place}` });
    last = replayed ? receipt?.seq : undefined;
  }
  return last;
}

/**
 * Where the new messages begin: after the last answer, or with it if the memory lacks its calls, because it was cut off, and there are
 * results of them.
 *
 * @param {Prompt} prompt @param {Logged[]} log
 */
function firstNew(prompt, log) {
  const last = prompt.map(({ role }) => role).lastIndexOf("assistant");
  const calls = new Set(log.flatMap(({ row }) => (row.meta.tool_calls ?? []).map((/** @type {any} */ call) => call.id)));
  const isKnown = (/** @type {NewMessage} */ row) => row.role !== "tool" || calls.has(row.tool_call_id);
  return prompt.slice(last + 1).flatMap(rowsOf).every(isKnown) ? last + 1 : Math.max(last, 0);
}

/** The whole answer that is after a position, as parts of the SDK. @param {Agent} agent @param {number} seq */
async function answered(agent, seq) {
  const [next] = await between(agent, seq + 1, seq + 1 + ANSWER_LOOK);
  if (next?.row.role !== "assistant" || next.cut) return undefined;
  const { content, meta } = next.row;
  const calls = (meta.tool_calls ?? []).map((/** @type {any} */ { id, function: { name, arguments: input } }) => {
    return { type: "tool-call", toolCallId: id, toolName: name, input };
  });
  return content === "" ? calls : [{ type: "text", text: content }, ...calls];
}

/** @param {any[]} answer @returns {any} */
function generated(answer) {
  return { content: answer, ...end(answer), warnings: [] };
}

/** @param {any[]} answer */
function end(answer) {
  const unified = answer.some(({ type }) => type === "tool-call") ? "tool-calls" : "stop";
  const inputTokens = { total: undefined, noCache: undefined, cacheRead: undefined, cacheWrite: undefined };
  const usage = { inputTokens, outputTokens: { total: undefined, text: undefined, reasoning: undefined } };
  return { finishReason: { unified, raw: undefined }, usage, providerMetadata: { vctx: { stored: true } } };
}

/** @param {any[]} answer */
function streamOf(answer) {
  const parts = answer.flatMap((part, at) => {
    if (part.type !== "text") return [part];
    const id = String(at);
    return [{ type: "text-start", id }, { type: "text-delta", id, delta: part.text }, { type: "text-end", id }];
  });
  return new ReadableStream({
    start(controller) {
      for (const part of [{ type: "stream-start", warnings: [] }, ...parts, { type: "finish", ...end(answer) }]) controller.enqueue(part);
      controller.close();
    },
  });
}

/** @param {any[]} content @returns {NewMessage[]} */
function said(content) {
  return answerRows(content.map(textOf).join(""), content.filter(isOwnCall));
}

/** @param {Agent} agent @param {NewMessage[]} rows @param {string} key */
async function store(agent, rows, key) {
  for (const { content, role, ...parts } of rows) await agent.appendFifo(content, role, parts, { key: `${key}/answer` });
}

/** Answers whose ends never came: stored with a mark. */
class Cuts {
  #agent;
  #onError;
  /** @type {Set<Promise<unknown>>} */
  #open = new Set();

  /** @param {Agent} agent @param {(problem: unknown) => void} onError */
  constructor(agent, onError) {
    this.#agent = agent;
    this.#onError = onError;
  }

  /** @param {string} text */
  keep(text) {
    if (text === "") return;
    this.watch(this.#agent.appendMessages([{ role: "assistant", content: text }, { role: "system", content: CUT_OFF }]));
  }

  /** Waits for what has no caller; tells its failure. @param {Promise<unknown>} work */
  watch(work) {
    const ended = work.catch(this.#onError).then(() => void this.#open.delete(ended));
    this.#open.add(ended);
  }

  async settled() {
    await Promise.all(this.#open);
  }
}

/**
 * The same stream; the answer is stored before its end is passed on. Calls of an answer that was cut off are not kept, because
 * their results may never come.
 *
 * @param {ReadableStream<any>} stream @param {Agent} agent @param {string} key @param {Cuts} cuts @param {AbortSignal} [signal]
 */
function stored(stream, agent, key, cuts, signal) {
  const reader = stream.getReader();
  /** @type {any[]} */
  const content = [];
  let isOpen = true;
  const close = () => {
    signal?.removeEventListener("abort", aborted);
    const wasOpen = isOpen;
    isOpen = false;
    return wasOpen;
  };
  const cut = () => {
    if (close()) cuts.keep(content.map(textOf).join(""));
  };
  // Ends the stream also if its provider does not listen to the signal.
  const aborted = () => {
    cut();
    cuts.watch(reader.cancel(signal?.reason));
  };
  signal?.addEventListener("abort", aborted);
  return new ReadableStream({
    async pull(controller) {
      try {
        const { done, value } = await reader.read();
        if (done) {
          cut();
          controller.close();
          return;
        }
        take(content, value);
        if (value.type === "error") cut();
        if (value.type === "finish" && close()) await store(agent, said(content), key);
        controller.enqueue(value);
      } catch (error) {
        cut();
        controller.error(error);
      }
    },
    async cancel(reason) {
      cut();
      await reader.cancel(reason);
    },
    // Reads nothing ahead, so that the memory keeps what was passed on.
  }, { highWaterMark: 0 });
}

/** @param {any[]} content @param {any} part */
function take(content, part) {
  if (part.type === "text-delta") content.push({ type: "text", text: part.delta });
  else if (part.type === "tool-call" || part.type === "file") content.push(part);
}
