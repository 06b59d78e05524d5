/** Requests and answers without sockets: what is sent, what an answer means, and what may be sent again. */

import { randomUUID } from "node:crypto";

import { Conflict, EmbedderUnavailable, Garbled, NotReady, Overloaded, StoreUnavailable } from "./problems.js";
import { Problem, Unanswered, Unreachable, refused } from "./problems.js";

/** Longest request and longest answer, in bytes. */
export const REQUEST_BYTES_MAX = 64 << 20;
export const ANSWER_BYTES_MAX = 64 << 20;
/**
 * Milliseconds for which a call is repeated after its first failure, long enough for a restart of the server; and the same before the
 * client has had any answer, when probably no server runs.
 */
export const PATIENCE_MS = 30_000;
export const FIRST_PATIENCE_MS = 1_000;
/** The pause before the second attempt, and the longest one; it doubles with each attempt, plus a random part of up to a half. */
const PAUSE_MS = 20;
const PAUSE_MS_MAX = 500;
/** Longest pause that a server may request before the next attempt. */
const PAUSE_ASKED_MS_MAX = 2_000;
/** The pause before a feed that the server has ended is continued. */
export const FEED_PAUSE_MS = 500;
/** Time for one attempt: an explicit eviction may wait for a model. */
export const TIMEOUT_MS = 30_000;
/** Time for a run that is answered at its end: several inferences. */
export const RUN_TIMEOUT_MS = 600_000;
/** Connections of one client that wait for their next call, and all of them. */
export const IDLE_MAX = 8;
export const CONNECTIONS_MAX = 64;

/** Maximum number of messages in one call that appends several, and of bytes of their JSON if they are more than one. */
const APPENDED_MAX = 256;
const APPENDED_BYTES_MAX = 1 << 20;

/**
 * The rows from `start` on that go into one call that appends several messages: at least one.
 *
 * @template T
 * @param {T[]} rows @param {number} start @returns {T[]}
 */
export function sliceOf(rows, start) {
  let [end, size] = [start, 0];
  for (; end < rows.length && end - start < APPENDED_MAX; end += 1) {
    size += Buffer.byteLength(JSON.stringify(rows[end]));
    if (end > start && size > APPENDED_BYTES_MAX) break;
  }
  return rows.slice(start, end);
}

/** The caller's explicit "any revision". */
export const ANY = "*";

/** What a client sends again before it tells. */
const REPEATED = [Unreachable, Unanswered, Conflict, EmbedderUnavailable, NotReady, Overloaded, StoreUnavailable];

/** @typedef {{method: string, path: string, body: Buffer | undefined, headers: Record<string, string>}} Sent */
/** @typedef {{status: number, headers: import("node:http").IncomingHttpHeaders, body: Buffer}} Answer */

/** A key that no other call has. */
export function freshKey() {
  return randomUUID();
}

/** The path with what is not undefined behind it. @param {string} path @param {Record<string, unknown>} query */
export function withQuery(path, query) {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== "");
  return given.length === 0 ? path : `${path}?${given.map(([name, value]) => `${name}=${encodeURIComponent(String(value))}`).join("&")}`;
}

/**
 * A request with its headers; sent again it is the same, key and revision included.
 *
 * @param {string} method @param {string} path @param {unknown} body
 * @param {{key?: string, rev?: string, label?: string, accept?: string}} [more] `rev`: a revision, `ANY`, or the empty text for what must be new
 * @returns {Sent}
 */
export function request(method, path, body, { key, rev, label, accept = "application/json" } = {}) {
  /** @type {Record<string, string>} */
  const headers = { Host: "vctx", Accept: accept };
  const file = body instanceof Uint8Array;
  const data = body === undefined ? undefined : file ? Buffer.from(body) : Buffer.from(JSON.stringify(body));
  if (data !== undefined) headers["Content-Type"] = file ? "application/x-ndjson" : "application/json";
  if ((data?.length ?? 0) > REQUEST_BYTES_MAX) {
    throw refused(413, { error: "BODY_TOO_LARGE", detail: "the call is longer than 64 MiB" });
  }
  if (method !== "GET") headers["Content-Length"] = String(data?.length ?? 0);
  for (const [name, value] of Object.entries({ "Idempotency-Key": key, "If-Match": rev, "X-Vctx-Label": label })) {
    if (value === undefined) continue;
    if (!/^[ -~]*$/.test(value)) {
      const detail = `${name}: use visible ASCII characters`;
      throw refused(400, { error: "INVALID_ARGUMENT", detail, field: name.toLowerCase() });
    }
    headers[name] = value;
  }
  return { method, path, body: data, headers };
}

/** The JSON of a good answer; otherwise throws what it says. @param {Answer} answer @returns {any} */
export function understood(answer) {
  let body;
  try {
    body = JSON.parse(answer.body.toString());
  } catch {
    body = undefined;
  }
  if (answer.status < 200 || answer.status > 299) {
    if (isText(answer)) {
      const text = answer.body.toString();
      body = { error: answer.headers["x-vctx-error"], detail: text, system_message: text };
    }
    const asked = answer.headers["retry-after"];
    throw refused(answer.status, body, asked !== undefined && /^\d+$/.test(asked) ? Number(asked) : undefined);
  }
  if (body === null || typeof body !== "object" || Array.isArray(body)) throw new Garbled("the answer is no JSON object");
  return body;
}

/** The text of a good answer with its revisions, which are in headers; otherwise throws what the answer says. @param {Answer} answer @returns {any} */
export function understoodText(answer) {
  if (answer.status < 200 || answer.status > 299) understood(answer);
  if (!isText(answer)) throw new Garbled("the answer is no text");
  const _rev = answer.headers.etag?.replaceAll('"', "");
  const version = Number(answer.headers["x-vctx-version"] ?? NaN);
  const told = { text: answer.body.toString(), _rev, version: Number.isInteger(version) ? version : undefined };
  const agentRev = answer.headers["x-vctx-agent-rev"];
  return agentRev === undefined ? told : { ...told, agent_rev: agentRev, result: { _rev } };
}

/** @param {Answer} answer */
function isText(answer) {
  return (answer.headers["content-type"] ?? "").split(";")[0].trim() === "text/plain";
}

/** Server-sent events out of the pieces in which they come: the data of each, as JSON. */
export class Events {
  #rest = Buffer.alloc(0);

  /** What is whole by now. @param {Buffer} piece @returns {any[]} */
  push(piece) {
    this.#rest = Buffer.concat([this.#rest, piece]);
    if (this.#rest.length > ANSWER_BYTES_MAX) throw new Garbled(`an event is longer than ${ANSWER_BYTES_MAX} bytes`);
    const events = [];
    for (let end = this.#rest.indexOf("\n\n"); end >= 0; end = this.#rest.indexOf("\n\n")) {
      const lines = this.#rest.subarray(0, end).toString().split("\n");
      this.#rest = this.#rest.subarray(end + 2);
      const data = lines.filter((line) => line.startsWith("data:")).map((line) => line.slice(5).trimStart());
      if (data.length === 0) continue;
      try {
        events.push(JSON.parse(data.join("\n")));
      } catch (error) {
        throw new Garbled("an event is not JSON", { cause: error });
      }
    }
    return events;
  }
}

/** An event of a run; one that tells of a failure is thrown. @param {any} event */
export function told(event) {
  if (event.type !== "error") return event;
  throw refused(typeof event.problem?.status === "number" ? event.problem.status : 500, event.problem);
}

/** Whether a message of a feed ends it for good: the agent was forgotten, or there is no further change and the caller does not wait. @param {any} event */
export function isFinal(event) {
  return event.feed === "end" && (event.reason === "forgotten" || event.reason === "caught_up");
}

/** The place of a change in the feed of its agent. @param {any} event @returns {string} */
export function place(event) {
  if (typeof event.at !== "string") throw new Garbled("a message of the feed has no place");
  return event.at;
}

/** Whether a feed can continue after this failure: the connection broke, or the server or the agent's database is not ready yet. @param {Problem} problem */
export function mayContinue(problem) {
  return mayRepeat(problem) || problem.passing;
}

/** Whether the client itself sends the same request again: nothing was answered, or the server said that it was busy. @param {unknown} problem */
export function mayRepeat(problem) {
  return REPEATED.some((kind) => problem instanceof kind);
}

/** Milliseconds between an attempt (from 1) and the next one. @param {number} attempt @param {number} [askedS] */
export function pauseMs(attempt, askedS = 0) {
  const base = Math.min(PAUSE_MS * 2 ** (Math.min(attempt, 16) - 1), PAUSE_MS_MAX);
  return Math.max(base + (Math.random() * base) / 2, Math.min(askedS * 1000, PAUSE_ASKED_MS_MAX));
}

/** Whether a call with this failure may have had its effect, or can have it later. @param {unknown} problem */
export function isLost(problem) {
  return !(problem instanceof Problem) || problem.passing || (problem.status ?? 0) >= 500;
}

/**
 * Rows of a page and the opaque name of the next page; a page that leads to itself is refused, so that every walk ends.
 *
 * @param {any} page @param {string} rows @param {string} next @param {string | undefined} since
 * @returns {[any[], string | undefined]}
 */
export function nextPage(page, rows, next, since) {
  const [found, following] = [page[rows], page[next] ?? undefined];
  if (!Array.isArray(found)) throw new Garbled(`the answer has no list of ${rows}`);
  if (following !== undefined && following === since) throw new Garbled(`the page after ${since} leads to itself`);
  return [found, following];
}

/**
 * Rows of a page and where the next one begins; a page that does not go on is refused, so that every walk ends.
 *
 * @template T
 * @param {any} page @param {string} rows @param {string} next @param {T} since
 * @returns {[any[], T | undefined]}
 */
export function advanced(page, rows, next, since) {
  const [found, following] = [page[rows], page[next] ?? undefined];
  if (!Array.isArray(found)) throw new Garbled(`the answer has no list of ${rows}`);
  if (following !== undefined && !(typeof following === typeof since && following > since)) {
    throw new Garbled(`the page after ${since} begins at ${following}`);
  }
  return [found, following];
}
