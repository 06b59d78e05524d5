/** HTTP/1.1 over a Unix socket; connections are kept and used again. */

import http from "node:http";

import { Garbled, Unanswered, Unreachable } from "./problems.js";
import { ANSWER_BYTES_MAX, CONNECTIONS_MAX, IDLE_MAX } from "./wire.js";

/** Codes of errors that say that nobody was there to be asked. */
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
   * @returns {Promise<import("./wire.js").Answer>}
   */
  async send(sent, signal) {
    const late = AbortSignal.timeout(this.timeoutMs);
    try {
      return await this.#exchange(sent, signal === undefined ? late : AbortSignal.any([late, signal]));
    } catch (error) {
      // What broke one connection may have broken those that wait, too.
      for (const idle of Object.values(this.agent.freeSockets).flat()) idle?.destroy();
      if (signal?.aborted) throw signal.reason;
      if (late.aborted) {
        const detail = `no answer within ${this.timeoutMs} ms: the call may have had its effect, repeat it with the same key`;
        throw new Unanswered(detail, { cause: error });
      }
      throw this.#problem(error);
    }
  }

  /** Closes all connections; the next call opens a new one. */
  close() {
    this.agent.destroy();
  }

  /** @param {import("./wire.js").Sent} sent @param {AbortSignal} signal @returns {Promise<import("./wire.js").Answer>} */
  #exchange({ method, path, headers, body }, signal) {
    return new Promise((resolve, reject) => {
      const { agent, socketPath } = this;
      const asked = http.request({ agent, socketPath, method, path, headers, signal }, (response) => {
        /** @type {Buffer[]} */
        const pieces = [];
        let length = 0;
        response.on("data", (piece) => {
          pieces.push(piece);
          length += piece.length;
          if (length > ANSWER_BYTES_MAX) response.destroy(new Garbled(`the answer is longer than ${ANSWER_BYTES_MAX} bytes`));
        });
        response.on("error", reject);
        response.on("end", () => resolve({ status: response.statusCode ?? 0, headers: response.headers, body: Buffer.concat(pieces) }));
      });
      asked.on("error", reject);
      asked.end(body);
    });
  }

  /** @param {unknown} error */
  #problem(error) {
    if (error instanceof Garbled) return error;
    const { code, syscall, message } = /** @type {NodeJS.ErrnoException} */ (error);
    if (syscall === "connect" && NOBODY.has(code ?? "")) {
      const detail = `cannot connect to ${this.socketPath}: ${message}; is the server running? start it with: vctx serve`;
      return new Unreachable(detail, { cause: error });
    }
    if (code?.startsWith("HPE_") && code !== "HPE_INVALID_EOF_STATE") return new Garbled(`the answer is no HTTP: ${message}`, { cause: error });
    return new Unanswered(`the connection broke before the answer (${message}): repeat the call with the same key`, { cause: error });
  }
}
