/** The newest messages of a conversation in the memory's log, and which of them an application's messages repeat. */
import type { Agent } from "../client.js";
import type { Message, NewMessage } from "../types.js";
/** @import { Agent } from "../client.js" */
/** @import { Message, NewMessage } from "../types.js" */
/** Maximum number of messages of the log that are read at once. */
export declare const READ_MAX = 10000;
export type Logged = {
    row: Message;
    says: string | undefined;
    cut: boolean;
};
/** A message of the log. `says` is its canonical text; none if the text was removed. `cut` is whether it is an answer whose end never came. @typedef {{row: Message, says: string | undefined, cut: boolean}} Logged */
/** The newest messages of users, models and tools, oldest first, out of the newest `count` of the log. @param {Agent} agent @param {number} count @returns {Promise<Logged[]>} */
export declare function newest(agent: Agent, count: number): Promise<Logged[]>;
/** The newest messages of the log, enough to compare that many with them. @param {Agent} agent @param {number} count */
export declare function newestFor(agent: Agent, count: number): Promise<Logged[]>;
/** The messages of users, models and tools from one position up to another. @param {Agent} agent @param {number} from @param {number} until @returns {Promise<Logged[]>} */
export declare function between(agent: Agent, from: number, until: number): Promise<Logged[]>;
/** How many messages at the beginning of the list are the last ones of the log already. @param {NewMessage[]} rows @param {Logged[]} log */
export declare function overlap(rows: NewMessage[], log: Logged[]): number;
