/** Errors of a call: one class for each error code of the server, and three for calls without an answer. */
/**
 * A failed call. `code` is the server's error code or one of `UNREACHABLE`, `UNANSWERED`, `GARBLED`; `fields` are the problem details
 * as received (RFC 9457), with the code's own fields. `key` is the idempotency key that the call was made with, if it had one: the
 * same call with the same key happens once.
 */
export declare class Problem extends Error {
    /** The server's code. */
    code: string;
    /** The error, in a sentence. */
    detail: string;
    /** Status of the answer, if one came. */
    status: number | undefined;
    /** The problem details as they were sent. @type {Record<string, unknown>} */
    fields: Record<string, unknown>;
    /** Seconds to wait, where the server said so. */
    retryAfterS: number | undefined;
    /** The call's idempotency key. @type {string | undefined} */
    key: string | undefined;
    static CODE: string;
    static PASSING: boolean;
    /**
     * @param {string} detail
     * @param {{code?: string, status?: number, fields?: Record<string, unknown>, retryAfterS?: number, cause?: unknown}} [more]
     */
    constructor(detail: string, more?: {
        code?: string;
        status?: number;
        fields?: Record<string, unknown>;
        retryAfterS?: number;
        cause?: unknown;
    });
    /** Whether the same call with the same key can succeed later, because the call itself was valid. */
    get passing(): boolean;
    /** The text for a model. */
    get systemMessage(): string;
}
/** No connection could be made: the server received nothing. Is it running? `vctx serve` starts it. */
export declare class Unreachable extends Problem {
    static CODE: string;
    static PASSING: boolean;
}
/** The call was sent, at least in part, without a complete answer: it may have had its effect. Repeat it with the same key. */
export declare class Unanswered extends Problem {
    static CODE: string;
    static PASSING: boolean;
}
/** This client does not understand the answer: does another program listen on this socket? */
export declare class Garbled extends Problem {
    static CODE: string;
}
/** The server answered with problem details. Unknown codes use this class. */
export declare class Refused extends Problem {
}
/** An argument is wrong. */
export declare class InvalidArgument extends Refused {
    static CODE: string;
    /** The argument. */
    get field(): string | undefined;
}
/** The body is not the JSON expected here. */
export declare class InvalidJson extends Refused {
    static CODE: string;
}
/** A name has a character or length that is not allowed. */
export declare class InvalidName extends Refused {
    static CODE: string;
}
/** The page token does not belong to this agent, tool and question. */
export declare class PageTokenInvalid extends Refused {
    static CODE: string;
}
/** This search mode is not available. */
export declare class ModeUnavailable extends Refused {
    static CODE: string;
}
/** A writing call needs an idempotency key. */
export declare class IdempotencyKeyRequired extends Refused {
    static CODE: string;
}
/** This caller may not do this. */
export declare class Forbidden extends Refused {
    static CODE: string;
}
/** No such agent. */
export declare class AgentNotFound extends Refused {
    static CODE: string;
}
/** No such tool. */
export declare class ToolNotFound extends Refused {
    static CODE: string;
}
/** No such document in the archive. */
export declare class DocumentNotFound extends Refused {
    static CODE: string;
}
/** No such block. */
export declare class BlockNotFound extends Refused {
    static CODE: string;
}
/** No such prompt. */
export declare class PromptNotFound extends Refused {
    static CODE: string;
}
/** No such schedule. */
export declare class ScheduleNotFound extends Refused {
    static CODE: string;
}
/** No such path. */
export declare class RouteNotFound extends Refused {
    static CODE: string;
}
/** This path has no such method. */
export declare class MethodNotAllowed extends Refused {
    static CODE: string;
}
/** The agent of this name was forgotten completely; a new agent of the name needs the given `incarnation`. */
export declare class AgentForgotten extends Refused {
    static CODE: string;
    /** The number with which `create` makes a new agent of the name. @returns {number | undefined} */
    get incarnation(): number | undefined;
}
/** The agent exists with another configuration. */
export declare class AgentExists extends Refused {
    static CODE: string;
}
/** The agent is in another database. */
export declare class AgentElsewhere extends Refused {
    static CODE: string;
}
/** The agent is being moved to another database. */
export declare class AgentMoving extends Refused {
    static CODE: string;
    static PASSING: boolean;
}
/** The agent cannot be moved at the moment. */
export declare class MoveBusy extends Refused {
    static CODE: string;
}
/** Somebody changed the memory in the database: see `vctx verify`. */
export declare class LedgerContradicted extends Refused {
    static CODE: string;
}
/** A block of that name exists already. */
export declare class BlockExists extends Refused {
    static CODE: string;
}
/** The idempotency key belongs to another call. */
export declare class IdempotencyKeyReused extends Refused {
    static CODE: string;
}
/** Other writers changed the memory at every attempt. */
export declare class Conflict extends Refused {
    static CODE: string;
    static PASSING: boolean;
}
/** Another run of this agent is active. */
export declare class RunBusy extends Refused {
    static CODE: string;
}
/** The run has ended, or belongs to another server now. */
export declare class RunLost extends Refused {
    static CODE: string;
}
/** The database holds vectors of another kind. */
export declare class VectorSettingMismatch extends Refused {
    static CODE: string;
}
/** The agent has no such change any more: read the memory again, and follow its changes from now on. */
export declare class ChangeUnknown extends Refused {
    static CODE: string;
}
/** The result list of this page token is no longer kept. */
export declare class PageExpired extends Refused {
    static CODE: string;
}
/** The memory changed since the given revision: read the changes, then decide again. */
export declare class RevisionStale extends Refused {
    static CODE: string;
    /** The newest revision. */
    get rev(): string | undefined;
    /** What changed: `block:NAME`, `queue`, `summary`, `agent`, or `unknown`. @returns {string[]} */
    get changed(): string[];
}
/** The body is larger than allowed. */
export declare class BodyTooLarge extends Refused {
    static CODE: string;
}
/** The window has no room for this. */
export declare class TokenBudgetExceeded extends Refused {
    static CODE: string;
    /** Tokens that are missing. */
    get requiredHeadroom(): number | undefined;
}
/** Tainted text needs a justification to enter the core. */
export declare class TaintedContent extends Refused {
    static CODE: string;
    /** The rules that the text meets. */
    get rules(): string[];
}
/** Chunks must be embedded with their whole document as context. */
export declare class LateChunkingRequired extends Refused {
    static CODE: string;
}
/** The agent has used its tokens of this day (UTC). */
export declare class SpendingCapped extends Refused {
    static CODE: string;
}
/** Pinned blocks may take a quarter of the window. */
export declare class PinLimitExceeded extends Refused {
    static CODE: string;
}
/** The window is smaller than its fixed content. */
export declare class WindowTooSmall extends Refused {
    static CODE: string;
}
/** A writing call needs the revision it builds on. */
export declare class PreconditionRequired extends Refused {
    static CODE: string;
}
/** Too many heartbeats in a second. */
export declare class HeartbeatRateLimited extends Refused {
    static CODE: string;
    /** When a beat will be granted. */
    get retryAfterMs(): number | undefined;
}
/** The last chain of heartbeats reached a cap a moment ago. */
export declare class HeartbeatCooldown extends Refused {
    static CODE: string;
    /** When a beat will be granted. */
    get retryAfterMs(): number | undefined;
}
/** Too many calls at once. */
export declare class Overloaded extends Refused {
    static CODE: string;
}
/** The database does not answer. */
export declare class StoreUnavailable extends Refused {
    static CODE: string;
}
/** The server is not ready. */
export declare class NotReady extends Refused {
    static CODE: string;
}
/** The embedder makes no vectors at the moment. */
export declare class EmbedderUnavailable extends Refused {
    static CODE: string;
}
/** The model does not answer at the moment. */
export declare class ModelUnavailable extends Refused {
    static CODE: string;
}
/** The call took longer than the server allows. */
export declare class Timeout extends Refused {
    static CODE: string;
}
/** The disk of the server has too little room. */
export declare class DiskFull extends Refused {
    static CODE: string;
}
/** The database refused the request. */
export declare class StoreRefused extends Refused {
    static CODE: string;
}
/** The server made a mistake. */
export declare class Internal extends Refused {
    static CODE: string;
}
/** The class of each code. @type {Record<string, typeof Refused>} */
export declare const CODES: Record<string, typeof Refused>;
/**
 * The problem of an answer that is none of success; one without problem details keeps its status as the code.
 *
 * @param {number} status @param {unknown} body @param {number} [retryAfterS]
 */
export declare function refused(status: number, body: unknown, retryAfterS?: number): Refused;
