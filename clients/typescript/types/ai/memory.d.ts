/** Language model middleware that gives each call of a model the agent's window, and stores what was said. */
import type { Agent } from "../client.js";
export type Middleware = import("ai").LanguageModelMiddleware;
export type Generated = Awaited<ReturnType<Parameters<NonNullable<Middleware["wrapGenerate"]>>[0]["doGenerate"]>>;
export type Streamed = Awaited<ReturnType<Parameters<NonNullable<Middleware["wrapStream"]>>[0]["doStream"]>>;
export type Turn = {
    key: string;
    answer?: any[];
};
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
export declare function vctxMemory(agent: Agent, { onError }?: {
    onError?: (problem: unknown) => void;
}): Middleware & {
    specificationVersion: "v3";
    settled: () => Promise<void>;
};
