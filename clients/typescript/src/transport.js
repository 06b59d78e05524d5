/** HTTP/1.1 over a Unix socket; connections are kept and used again. */

import http from "node:http";

import { Garbled, Problem, Unanswered, Unreachable } from "./problems.js";
import { ANSWER_BYTES_MAX, CONNECTIONS_MAX, IDLE_MAX, understood } from "./wire.js";

/** Codes of errors that mean that no server is listening. */
const NOBODY = new Set(["ENOENT", "ECONNREFUSED", "EACCES", "ENOTSOCK", "EAGAIN", "ENAMETOOLONG", "EINVAL"]);

export class Transport {
  /** @param {string} socketPath @param {number} timeoutMs */
  constructor(socketPath, timeoutMs) {
    this.socketPath = socketPath;
    this.timeoutMs = timeoutMs;
    this.agent = new http.Agent({ keepAlive: true, maxSockets: CONNECTIONS_MAX, maxFreeSockets: IDLE_MAX, scheduling: "lifo" });
  }

  /**
   * One attempt.
   *
   * @param {import("./wire.js").Sent} sent @param {AbortSignal} [signal] the caller's own; what it aborts is thrown as it is
   * @param {number} [timeoutMs] @returns {Promise<import("./wire.js").Answer>}
   */
  async send(sent, signal, timeoutMs = this.timeoutMs) {
    const late = AbortSignal.timeout(timeoutMs);
    try {
      const response = await this.#asked(sent, signal === undefined ? late : AbortSignal.any([late, signal]));
      return await whole(response);
    } catch (error) {
      // What broke this connection may also have broken the idle connections.
      for (const idle of Object.values(this.agent.freeSockets).flat()) idle?.destroy();
      if (signal?.aborted) throw signal.reason;
      throw late.aborted ? unanswered(timeoutMs, error) : this.#problem(error);
    }
  }

  /**
   * One attempt whose good answer comes in pieces.
   *
   * @param {import("./wire.js").Sent} sent @param {AbortSignal} [signal] @param {number} [timeoutMs] bounds the time between two pieces
   * @returns {AsyncGenerator<Buffer, void>}
   */
  async *stream(sent, signal, timeoutMs = this.timeoutMs) {
    const late = new AbortController();
    let timer = setTimeout(() => late.abort(), timeoutMs);
    let response;
    try {
      response = await this.#asked(sent, signal === undefined ? late.signal : AbortSignal.any([late.signal, signal]));
      const status = response.statusCode ?? 0;
      if (status < 200 || status > 299) {
        understood(await whole(response));
        return;
      }
      for await (const piece of response) {
        clearTimeout(timer);
        yield piece;
        timer = setTimeout(() => late.abort(), timeoutMs);
      }
    } catch (error) {
      if (signal?.aborted) throw signal.reason;
      throw late.signal.aborted ? unanswered(timeoutMs, error) : this.#problem(error);
    } finally {
      clearTimeout(timer);
      response?.destroy();
    }
  }

  /** Closes all connections; the next call opens a new one. */
  close() {
    this.agent.destroy();
  }

  /** @param {import("./wire.js").Sent} sent @param {AbortSignal} signal @returns {Promise<http.IncomingMessage>} */
  #asked({ method, path, headers, body }, signal) {
    return new Promise((resolve, reject) => {
      const { agent, socketPath } = this;
      const asked = http.request({ agent, socketPath, method, path, headers, signal }, resolve);
      asked.on("error", reject);
      asked.end(body);
    });
  }

  /** @param {unknown} error */
  #problem(error) {
    if (error instanceof Problem) return error;
    const { code, syscall, message } = /** @type {NodeJS.ErrnoException} */ (error);
    if (syscall === "connect" && NOBODY.has(code ?? "")) {
      const detail = `cannot connect to ${this.socketPath}: ${message}; is the server running? start it with: vctx serve`;
      return new Unreachable(detail, { cause: error });
    }
    if (code?.startsWith("HPE_") && code !== "HPE_INVALID_EOF_STATE") return new Garbled(`the answer is no HTTP: ${message}`, { cause: error });
    return new Unanswered(`the connection broke before the answer (${message}): repeat the call with the same key`, { cause: error });
  }
}

/** @param {number} timeoutMs @param {unknown} cause */
function unanswered(timeoutMs, cause) {
  const detail = `no answer within ${timeoutMs} ms: the call may have had its effect, repeat it with the same key`;
  return new Unanswered(detail, { cause });
}

/** @param {http.IncomingMessage} response @returns {Promise<import("./wire.js").Answer>} */
async function whole(response) {
  const pieces = [];
  let length = 0;
  for await (const piece of response) {
    pieces.push(piece);
    length += piece.length;
    if (length > ANSWER_BYTES_MAX) throw new Garbled(`the answer is longer than ${ANSWER_BYTES_MAX} bytes`);
  }
  return { status: response.statusCode ?? 0, headers: response.headers, body: Buffer.concat(pieces) };
}
