/** Messages of the AI SDK as messages of the memory, and the memory's window as a prompt of the SDK. */

/** @import { ChatMessage, NewMessage } from "../types.js" */
/** @typedef {Parameters<NonNullable<import("ai").LanguageModelMiddleware["transformParams"]>>[0]["params"]} CallOptions */
/** @typedef {CallOptions["prompt"]} Prompt */

/** What follows an answer in the memory whose end never came. */
export const CUT_OFF = "[The answer above was cut off before its end.]";
/** The beginning of the text of a failed tool's result. */
export const FAILED = "Error: ";
/** A tool's result without a text; the server takes no empty message. */
const EMPTY = "[empty]";

/** The memory's messages for one of the SDK; none for a system message. @param {any} message @returns {NewMessage[]} */
export function rowsOf({ role, content }) {
  if (role === "system") return [];
  const parts = typeof content === "string" ? [{ type: "text", text: content }] : content;
  if (role === "tool") return parts.filter((/** @type {any} */ part) => part.type === "tool-result").map(resultRow);
  const text = parts.map(textOf).filter((/** @type {string} */ one) => one !== "");
  if (role === "user") return text.length === 0 ? [] : [{ role, content: text.join("\n") }];
  return answerRows(text.join(""), parts.filter(isOwnCall));
}

/** An answer of the model; none if it has neither text nor calls. @param {string} content @param {any[]} calls @returns {NewMessage[]} */
export function answerRows(content, calls) {
  if (calls.length > 0) return [{ role: "assistant", content, tool_calls: calls.map(callOf) }];
  return content === "" ? [] : [{ role: "assistant", content }];
}

/** Whether a part is a call that the application answers; results of the provider's own tools stay with the provider. @param {any} part */
export function isOwnCall(part) {
  return part.type === "tool-call" && !part.providerExecuted;
}

/** What the memory keeps of a part as text. @param {any} part @returns {string} */
export function textOf(part) {
  if (part.type === "text") return part.text;
  return part.type === "file" ? `[file ${part.filename ?? part.mediaType}]` : "";
}

/** @param {any} part */
function callOf({ toolCallId, toolName, input }) {
  const text = typeof input === "string" ? input : JSON.stringify(input ?? {});
  return { id: toolCallId, type: "function", function: { name: toolName, arguments: text } };
}

/** @param {any} part @returns {NewMessage} */
function resultRow({ toolCallId, output }) {
  return { role: "tool", tool_call_id: toolCallId, content: outputText(output) || EMPTY };
}

/** @param {any} output @returns {string} */
function outputText({ type, value, reason }) {
  if (type === "text") return value;
  if (type === "error-text") return `${FAILED}${value}`;
  if (type === "error-json") return `${FAILED}${JSON.stringify(value)}`;
  if (type === "execution-denied") return `${FAILED}${reason ?? "the call was denied."}`;
  if (type !== "content") return JSON.stringify(value);
  return value.map((/** @type {any} */ part) => (part.type === "text" ? part.text : `[${part.type}]`)).join("\n");
}

/** One text for all messages that say the same; arguments of calls are compared by value. @param {ChatMessage | NewMessage} row */
export function canonical({ role, content, tool_call_id: id, tool_calls: calls }) {
  const made = (calls ?? []).map((call) => [call.id, call.function.name, sorted(parsed(call.function.arguments))]);
  return JSON.stringify([role, content, id ?? null, made]);
}

/** @param {string} text @returns {any} */
export function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return { not_understood: text };
  }
}

/** @param {any} value @returns {any} */
function sorted(value) {
  if (Array.isArray(value)) return value.map(sorted);
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.keys(value).sort().map((name) => [name, sorted(value[name])]));
}

/**
 * The window as a prompt. Of the application's messages, it takes what the memory does not keep: its system messages stand first; calls
 * and results that are in the window are sent in the application's form, with the provider's own data (a signed reasoning, say); and
 * files are added to the user's message that they belong to.
 *
 * @param {ChatMessage[]} window @param {Prompt} prompt @param {boolean} oneSystemMessage
 * @returns {Prompt}
 */
export function promptOf(window, prompt, oneSystemMessage) {
  const own = ownForms(prompt);
  /** @type {Map<string, string>} */
  const names = new Map();
  /** @type {any[]} */
  const messages = [];
  for (const row of window) {
    for (const call of row.tool_calls ?? []) names.set(call.id, call.function.name);
    const message = own.get(canonical(row)) ?? messageOf(row, names);
    const before = messages.at(-1);
    if (message.role === "tool" && before?.role === "tool") before.content.push(...message.content);
    else messages.push({ ...message, ...(Array.isArray(message.content) && { content: [...message.content] }) });
  }
  addFiles(messages, prompt);
  return withSystem(messages, prompt.filter(({ role }) => role === "system"), oneSystemMessage);
}

/** Calls and results of the application's prompt, by what they say. @param {Prompt} prompt */
function ownForms(prompt) {
  /** @type {Map<string, any>} */
  const own = new Map();
  for (const message of prompt) {
    if (message.role === "tool") {
      for (const part of message.content) {
        if (part.type === "tool-result") own.set(canonical(resultRow(part)), { role: "tool", content: [part] });
      }
    } else if (message.role === "assistant") {
      for (const row of rowsOf(message)) if (row.tool_calls !== undefined) own.set(canonical(row), message);
    }
  }
  return own;
}

/** @param {ChatMessage} row @param {Map<string, string>} names the tool of each call */
function messageOf({ role, content, name, tool_calls: calls = [], tool_call_id: id = "" }, names) {
  if (role === "system") return { role, content };
  if (role === "user") return { role, content: [{ type: "text", text: name === undefined ? content : `${name}: ${content}` }] };
  if (role === "tool") {
    const output = { type: "text", value: content };
    return { role, content: [{ type: "tool-result", toolCallId: id, toolName: names.get(id) ?? "unknown", output }] };
  }
  const text = content === "" ? [] : [{ type: "text", text: content }];
  const made = calls.map((call) => {
    const input = parsed(call.function.arguments);
    return { type: "tool-call", toolCallId: call.id, toolName: call.function.name, input };
  });
  return { role, content: [...text, ...made] };
}

/** Adds each file of a user's message to the newest message of the window that holds its text. @param {any[]} messages @param {Prompt} prompt */
function addFiles(messages, prompt) {
  let until = messages.length;
  for (const message of prompt.toReversed()) {
    if (message.role !== "user") continue;
    const files = message.content.filter((part) => part.type === "file");
    const [row] = rowsOf(message);
    if (files.length === 0 || row === undefined) continue;
    const at = messages.slice(0, until).findLastIndex((one) => one.role === "user" && one.content[0].text.includes(row.content));
    if (at < 0) continue;
    messages[at].content.push(...files);
    until = at;
  }
}

/** @param {any[]} messages @param {any[]} system @param {boolean} one whether the model takes only one system message */
function withSystem(messages, system, one) {
  if (!one || system.length === 0 || messages[0]?.role !== "system") return [...system, ...messages];
  const content = [...system, messages[0]].map((message) => message.content).join("\n\n");
  return [{ ...system.at(-1), content }, ...messages.slice(1)];
}
