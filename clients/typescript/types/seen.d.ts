/** Which revision a call builds on: that of the last answer seen about what it writes. */
/** These calls cannot overwrite unseen changes, so they need no revision. */
export declare const BUILDS_ON_NOTHING: Set<string>;
/**
 * The revisions that one handle saw last. What a block holds is known as of the answer that showed it (`storeCore`, `fetchCore`, a state),
 * not of the newest one: an append or a search does not show it, and so does not hide a change by another caller.
 */
export declare class Seen {
    #private;
    /** @type {string | undefined} */
    memory: string | undefined;
    /**
     * The revision for a call; none when nothing was seen yet.
     *
     * @param {string} tool @param {Record<string, unknown>} given @returns {string | undefined}
     */
    builtOn(tool: string, given: Record<string, unknown>): string | undefined;
    /** Takes note of a state, which shows everything but documents. @param {any} answer */
    state(answer: any): void;
    /** Something was forgotten in several steps: what was seen of the memory before says nothing any more. */
    forgotten(): void;
    /** Takes note of a tool's answer. @param {string} tool @param {Record<string, unknown>} given @param {any} answer */
    tool(tool: string, given: Record<string, unknown>, answer: any): void;
}
