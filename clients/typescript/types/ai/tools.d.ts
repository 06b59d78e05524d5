/** The memory's tools as tools of the AI SDK. */
import type { Agent } from "../client.js";
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
export declare function vctxTools(agent: Agent, { names, dialect, key }?: {
    names?: string[] | "all";
    dialect?: "vctx" | "memgpt" | "anthropic" | "ues";
    key?: string;
}): Promise<Record<string, import("ai").Tool<any, string>>>;
export type Call = (name: string, input: any, more: {
    toolCallId: string;
    abortSignal?: AbortSignal;
}) => Promise<string>;
