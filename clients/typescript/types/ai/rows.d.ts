/** Messages of the AI SDK as messages of the memory, and the memory's window as a prompt of the SDK. */
import type { ChatMessage, NewMessage } from "../types.js";
export type CallOptions = Parameters<NonNullable<import("ai").LanguageModelMiddleware["transformParams"]>>[0]["params"];
export type Prompt = CallOptions["prompt"];
/** @import { ChatMessage, NewMessage } from "../types.js" */
/** @typedef {Parameters<NonNullable<import("ai").LanguageModelMiddleware["transformParams"]>>[0]["params"]} CallOptions */
/** @typedef {CallOptions["prompt"]} Prompt */
/** What follows an answer in the memory whose end never came. */
export declare const CUT_OFF = "[The answer above was cut off before its end.]";
/** The beginning of the text of a failed tool's result. */
export declare const FAILED = "Error: ";
/** The memory's messages for one of the SDK; none for a system message. @param {any} message @returns {NewMessage[]} */
export declare function rowsOf({ role, content }: any): NewMessage[];
/** An answer of the model; none if it has neither text nor calls. @param {string} content @param {any[]} calls @returns {NewMessage[]} */
export declare function answerRows(content: string, calls: any[]): NewMessage[];
/** Whether a part is a call that the application answers; results of the provider's own tools stay with the provider. @param {any} part */
export declare function isOwnCall(part: any): boolean;
/** What the memory keeps of a part as text. @param {any} part @returns {string} */
export declare function textOf(part: any): string;
/** One text for all messages that say the same; arguments of calls are compared by value. @param {ChatMessage | NewMessage} row */
export declare function canonical({ role, content, tool_call_id: id, tool_calls: calls }: ChatMessage | NewMessage): string;
/** @param {string} text @returns {any} */
export declare function parsed(text: string): any;
/**
 * The window as a prompt. Of the application's messages, it takes what the memory does not keep: its system messages stand first; calls
 * and results that are in the window are sent in the application's form, with the provider's own data (a signed reasoning, say); and
 * files are added to the user's message that they belong to.
 *
 * @param {ChatMessage[]} window @param {Prompt} prompt @param {boolean} oneSystemMessage
 * @returns {Prompt}
 */
export declare function promptOf(window: ChatMessage[], prompt: Prompt, oneSystemMessage: boolean): Prompt;
