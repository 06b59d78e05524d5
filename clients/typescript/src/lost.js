/** Calls without an answer: their keys are kept, so that a repetition of such a call is no second call. */

/** Maximum number of calls without an answer that a client keeps; beyond that, the oldest is dropped. */
export const LOST_MAX = 1_000;
/** Milliseconds for which a call without an answer is kept. */
export const LOST_MS = 600_000;

/** @typedef {{method: string, path: string, body: string, key: string, rev: string | undefined, at: number}} LostCall */

/** The calls of a client that have had no answer. */
export class Lost {
  #now;
  /** @type {LostCall[]} */
  #calls = [];

  /** @param {() => number} [now] milliseconds of a steady clock */
  constructor(now = () => performance.now()) {
    this.#now = now;
  }

  /** Keeps a call that had no answer. @param {string} method @param {string} path @param {string} body @param {string} key @param {string | undefined} rev */
  note(method, path, body, key, rev) {
    if (this.#calls.some((call) => call.key === key)) return;
    this.#dropOld();
    if (this.#calls.length >= LOST_MAX) this.#calls.shift();
    this.#calls.push({ method, path, body, key, rev, at: this.#now() });
  }

  /** The key of an earlier call with the same content that had no answer; the next repetition gets another key. @param {string} method @param {string} path @param {string} body */
  take(method, path, body) {
    this.#dropOld();
    const at = this.#calls.findIndex((call) => call.method === method && call.path === path && call.body === body);
    return at < 0 ? undefined : this.#calls.splice(at, 1)[0].key;
  }

  /** Forgets a call, which has had its answer. @param {string} key */
  settled(key) {
    this.#calls = this.#calls.filter((call) => call.key !== key);
  }

  /** The calls below a path that build on a certain revision, oldest first. @param {string} path */
  guarded(path) {
    this.#dropOld();
    return this.#calls.filter((call) => call.path.startsWith(`${path}/`) && call.rev !== undefined && call.rev !== "*");
  }

  #dropOld() {
    const until = this.#now() - LOST_MS;
    this.#calls = this.#calls.filter((call) => call.at > until);
  }
}
