/** Which revision a call builds on: that of the last answer seen about what it writes. */
/** These calls cannot overwrite unseen changes, so they need no revision. */
export declare const BUILDS_ON_NOTHING: Set<string>;
/**
 * These calls add to the log or move its oldest messages out of the window. Whatever another caller appended meanwhile, they mean the
 * same, so they accept any revision.
 */
export declare const BUILDS_ON_ANY: Set<string>;
export type Mark = {
    rev: string;
    version: number | undefined;
};
/**
 * The revisions that one handle saw last. What a block holds is known as of the answer that showed it (`storeCore`, `fetchCore`, a state),
 * not of the newest one: an append or a search does not show it, and so does not hide a change by another caller.
 */
export declare class Seen {
    #private;
    /** @type {Mark | undefined} */
    memory: Mark | undefined;
    /**
     * The revision for a call; none when nothing was seen yet.
     *
     * @param {string} tool @param {Record<string, unknown>} given @returns {string | undefined}
     */
    builtOn(tool: string, given: Record<string, unknown>): string | undefined;
    /**
     * Whether the block of a call is in the state as this handle saw it; then the call builds on that state.
     *
     * @param {string} tool @param {Record<string, unknown>} given @param {any} state
     */
    stillHolds(tool: string, given: Record<string, unknown>, state: any): boolean;
    /** Takes note of a state, which shows everything but documents. @param {any} answer */
    state(answer: any): void;
    /** Something was forgotten in several steps: what was seen of the memory before says nothing any more. */
    forgotten(): void;
    /** Takes note of a tool's answer. @param {string} tool @param {Record<string, unknown>} given @param {any} answer */
    tool(tool: string, given: Record<string, unknown>, answer: any): void;
}
