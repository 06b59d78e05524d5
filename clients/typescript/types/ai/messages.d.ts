/** Messages of `useChat`, loaded from an agent's memory and saved there. */
import type { ToolSet, UIMessage } from "ai";
import type { Agent } from "../client.js";
import type { NewMessage } from "../types.js";
/**
 * The newest messages of the conversation for `useChat`, oldest first, out of the newest `limit` messages of the log (at most 10 000).
 * The metadata of each message has its position (`seq`) and time (`createdAt`), and `interrupted` if its end never came.
 *
 * @param {Agent} agent @param {{limit?: number}} [how] @returns {Promise<UIMessage[]>}
 */
export declare function loadMessages(agent: Agent, { limit }?: {
    limit?: number;
}): Promise<UIMessage[]>;
/**
 * Appends those messages of a chat that the memory does not have yet; gives their number. Give the whole list as `useChat` has it.
 * The memory has a message already if `loadMessages` gave it, if the list begins like the end of the log, and if a message with the same
 * id and content was saved in the last seven days. `tools` are those of the chat, if they have a `toModelOutput`.
 *
 * @param {Agent} agent @param {UIMessage[]} messages @param {{tools?: ToolSet}} [how] @returns {Promise<number>}
 */
export declare function saveMessages(agent: Agent, messages: UIMessage[], { tools }?: {
    tools?: ToolSet;
}): Promise<number>;
export type Item = {
    row: NewMessage;
    says: string;
    id: string;
    at: number;
    seq: number | undefined;
};
