/** Calls without an answer: their keys are kept, so that a repetition of such a call is no second call. */
/** Maximum number of calls without an answer that a client keeps; beyond that, the oldest is dropped. */
export declare const LOST_MAX = 1000;
/** Milliseconds for which a call without an answer is kept. */
export declare const LOST_MS = 600000;
export type LostCall = {
    method: string;
    path: string;
    body: string;
    key: string;
    rev: string | undefined;
    at: number;
};
/** @typedef {{method: string, path: string, body: string, key: string, rev: string | undefined, at: number}} LostCall */
/** The calls of a client that have had no answer. */
export declare class Lost {
    #private;
    /** @param {() => number} [now] milliseconds of a steady clock */
    constructor(now?: () => number);
    /** Keeps a call that had no answer. @param {string} method @param {string} path @param {string} body @param {string} key @param {string | undefined} rev */
    note(method: string, path: string, body: string, key: string, rev: string | undefined): void;
    /** The key of an earlier call with the same content that had no answer; the next repetition gets another key. @param {string} method @param {string} path @param {string} body */
    take(method: string, path: string, body: string): string | undefined;
    /** Forgets a call, which has had its answer. @param {string} key */
    settled(key: string): void;
    /** The calls below a path that build on a certain revision, oldest first. @param {string} path */
    guarded(path: string): LostCall[];
}
