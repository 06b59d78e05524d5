/** Requests and answers without sockets: what is sent, what an answer means, and what may be sent again. */
import { Problem } from "./problems.js";
/** Longest request and longest answer, in bytes. */
export declare const REQUEST_BYTES_MAX: number;
export declare const ANSWER_BYTES_MAX: number;
/**
 * Milliseconds for which a call is repeated after its first failure, long enough for a restart of the server; and the same before the
 * client has had any answer, when probably no server runs.
 */
export declare const PATIENCE_MS = 30000;
export declare const FIRST_PATIENCE_MS = 1000;
/** The pause before a feed that the server has ended is continued. */
export declare const FEED_PAUSE_MS = 500;
/** Time for one attempt: an explicit eviction may wait for a model. */
export declare const TIMEOUT_MS = 30000;
/** Time for a run that is answered at its end: several inferences. */
export declare const RUN_TIMEOUT_MS = 600000;
/** Connections of one client that wait for their next call, and all of them. */
export declare const IDLE_MAX = 8;
export declare const CONNECTIONS_MAX = 64;
/**
 * The rows from `start` on that go into one call that appends several messages: at least one.
 *
 * @template T
 * @param {T[]} rows @param {number} start @returns {T[]}
 */
export declare function sliceOf<T>(rows: T[], start: number): T[];
/** The caller's explicit "any revision". */
export declare const ANY = "*";
export type Sent = {
    method: string;
    path: string;
    body: Buffer | undefined;
    headers: Record<string, string>;
};
export type Answer = {
    status: number;
    headers: import("node:http").IncomingHttpHeaders;
    body: Buffer;
};
/** @typedef {{method: string, path: string, body: Buffer | undefined, headers: Record<string, string>}} Sent */
/** @typedef {{status: number, headers: import("node:http").IncomingHttpHeaders, body: Buffer}} Answer */
/** A key that no other call has. */
export declare function freshKey(): `${string}-${string}-${string}-${string}-${string}`;
/** The path with what is not undefined behind it. @param {string} path @param {Record<string, unknown>} query */
export declare function withQuery(path: string, query: Record<string, unknown>): string;
/**
 * A request with its headers; sent again it is the same, key and revision included.
 *
 * @param {string} method @param {string} path @param {unknown} body
 * @param {{key?: string, rev?: string, label?: string, accept?: string}} [more] `rev`: a revision, `ANY`, or the empty text for what must be new
 * @returns {Sent}
 */
export declare function request(method: string, path: string, body: unknown, { key, rev, label, accept }?: {
    key?: string;
    rev?: string;
    label?: string;
    accept?: string;
}): Sent;
/** The JSON of a good answer; otherwise throws what it says. @param {Answer} answer @returns {any} */
export declare function understood(answer: Answer): any;
/** The text of a good answer with its revisions, which are in headers; otherwise throws what the answer says. @param {Answer} answer @returns {any} */
export declare function understoodText(answer: Answer): any;
/** Server-sent events out of the pieces in which they come: the data of each, as JSON. */
export declare class Events {
    #private;
    /** What is whole by now. @param {Buffer} piece @returns {any[]} */
    push(piece: Buffer): any[];
}
/** An event of a run; one that tells of a failure is thrown. @param {any} event */
export declare function told(event: any): any;
/** Whether a message of a feed ends it for good: the agent was forgotten, or there is no further change and the caller does not wait. @param {any} event */
export declare function isFinal(event: any): boolean;
/** The place of a change in the feed of its agent. @param {any} event @returns {string} */
export declare function place(event: any): string;
/** Whether a feed can continue after this failure: the connection broke, or the server or the agent's database is not ready yet. @param {Problem} problem */
export declare function mayContinue(problem: Problem): boolean;
/** Whether the client itself sends the same request again: nothing was answered, or the server said that it was busy. @param {unknown} problem */
export declare function mayRepeat(problem: unknown): boolean;
/** Milliseconds between an attempt (from 1) and the next one. @param {number} attempt @param {number} [askedS] */
export declare function pauseMs(attempt: number, askedS?: number): number;
/** Whether a call with this failure may have had its effect, or can have it later. @param {unknown} problem */
export declare function isLost(problem: unknown): boolean;
/**
 * Rows of a page and the opaque name of the next page; a page that leads to itself is refused, so that every walk ends.
 *
 * @param {any} page @param {string} rows @param {string} next @param {string | undefined} since
 * @returns {[any[], string | undefined]}
 */
export declare function nextPage(page: any, rows: string, next: string, since: string | undefined): [any[], string | undefined];
/**
 * Rows of a page and where the next one begins; a page that does not go on is refused, so that every walk ends.
 *
 * @template T
 * @param {any} page @param {string} rows @param {string} next @param {T} since
 * @returns {[any[], T | undefined]}
 */
export declare function advanced<T>(page: any, rows: string, next: string, since: T): [any[], T | undefined];
