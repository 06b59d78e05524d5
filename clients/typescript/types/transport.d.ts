/** HTTP/1.1 over a Unix socket; connections are kept and used again. */
import http from "node:http";
export declare class Transport {
    #private;
    socketPath: string;
    timeoutMs: number;
    agent: http.Agent;
    /** @param {string} socketPath @param {number} timeoutMs */
    constructor(socketPath: string, timeoutMs: number);
    /**
     * One attempt.
     *
     * @param {import("./wire.js").Sent} sent @param {AbortSignal} [signal] the caller's own; what it aborts is thrown as it is
     * @returns {Promise<import("./wire.js").Answer>}
     */
    send(sent: import("./wire.js").Sent, signal?: AbortSignal): Promise<import("./wire.js").Answer>;
    /** Closes all connections; the next call opens a new one. */
    close(): void;
}
