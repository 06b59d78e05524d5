/** Errors of a call: one class for each error code of the server, and three for calls without an answer. */

/** @param {unknown} value @returns {string | undefined} */
const text = (value) => (typeof value === "string" ? value : undefined);

/** @param {unknown} value @returns {number | undefined} */
const number = (value) => (typeof value === "number" ? value : undefined);

/**
 * A failed call. `code` is the server's error code or one of `UNREACHABLE`, `UNANSWERED`, `GARBLED`; `fields` are the problem details
 * as received (RFC 9457), with the code's own fields. `key` is the idempotency key that the call was made with, if it had one: the
 * same call with the same key happens once.
 */
export class Problem extends Error {
  static CODE = "";
  static PASSING = false;

  /**
   * @param {string} detail
   * @param {{code?: string, status?: number, fields?: Record<string, unknown>, retryAfterS?: number, cause?: unknown}} [more]
   */
  constructor(detail, more = {}) {
    const code = more.code ?? new.target.CODE;
    super(`${code}: ${detail}`, { cause: more.cause });
    this.name = new.target.name;
    /** The server's code. */
    this.code = code;
    /** The error, in a sentence. */
    this.detail = detail;
    /** Status of the answer, if one came. */
    this.status = more.status;
    /** The problem details as they were sent. @type {Record<string, unknown>} */
    this.fields = more.fields ?? {};
    /** Seconds to wait, where the server said so. */
    this.retryAfterS = more.retryAfterS;
    /** The call's idempotency key. @type {string | undefined} */
    this.key = undefined;
  }

  /** Whether the same call with the same key can succeed later, because the call itself was valid. */
  get passing() {
    const kind = /** @type {typeof Problem} */ (this.constructor);
    return kind.PASSING || [429, 502, 503, 504].includes(this.status ?? 0);
  }

  /** The text for a model. */
  get systemMessage() {
    return text(this.fields.system_message) ?? `Error ${this.code}: ${this.detail}.`;
  }
}

/** No connection could be made: the server received nothing. Is it running? `vctx serve` starts it. */
export class Unreachable extends Problem {
  static CODE = "UNREACHABLE";
  static PASSING = true;
}

/** The call was sent, at least in part, without a complete answer: it may have had its effect. Repeat it with the same key. */
export class Unanswered extends Problem {
  static CODE = "UNANSWERED";
  static PASSING = true;
}

/** This client does not understand the answer: does another program listen on this socket? */
export class Garbled extends Problem {
  static CODE = "GARBLED";
}

/** The server answered with problem details. Unknown codes use this class. */
export class Refused extends Problem {}

/** An argument is wrong. */
export class InvalidArgument extends Refused {
  static CODE = "INVALID_ARGUMENT";

  /** The argument. */
  get field() {
    return text(this.fields.field);
  }
}

/** The body is not the JSON expected here. */
export class InvalidJson extends Refused {
  static CODE = "INVALID_JSON";
}

/** A name has a character or length that is not allowed. */
export class InvalidName extends Refused {
  static CODE = "INVALID_NAME";
}

/** The page token does not belong to this agent, tool and question. */
export class PageTokenInvalid extends Refused {
  static CODE = "PAGE_TOKEN_INVALID";
}

/** This search mode is not available. */
export class ModeUnavailable extends Refused {
  static CODE = "MODE_UNAVAILABLE";
}

/** A writing call needs an idempotency key. */
export class IdempotencyKeyRequired extends Refused {
  static CODE = "IDEMPOTENCY_KEY_REQUIRED";
}

/** This caller may not do this. */
export class Forbidden extends Refused {
  static CODE = "FORBIDDEN";
}

/** No such agent. */
export class AgentNotFound extends Refused {
  static CODE = "AGENT_NOT_FOUND";
}

/** No such tool. */
export class ToolNotFound extends Refused {
  static CODE = "TOOL_NOT_FOUND";
}

/** No such document in the archive. */
export class DocumentNotFound extends Refused {
  static CODE = "DOCUMENT_NOT_FOUND";
}

/** No such block. */
export class BlockNotFound extends Refused {
  static CODE = "BLOCK_NOT_FOUND";
}

/** No such prompt. */
export class PromptNotFound extends Refused {
  static CODE = "PROMPT_NOT_FOUND";
}

/** No such schedule. */
export class ScheduleNotFound extends Refused {
  static CODE = "SCHEDULE_NOT_FOUND";
}

/** No such path. */
export class RouteNotFound extends Refused {
  static CODE = "ROUTE_NOT_FOUND";
}

/** This path has no such method. */
export class MethodNotAllowed extends Refused {
  static CODE = "METHOD_NOT_ALLOWED";
}

/** The agent of this name was forgotten completely; a new agent of the name needs the given `incarnation`. */
export class AgentForgotten extends Refused {
  static CODE = "AGENT_FORGOTTEN";

  /** The number with which `create` makes a new agent of the name. @returns {number | undefined} */
  get incarnation() {
    return number(this.fields.incarnation);
  }
}

/** The agent exists with another configuration. */
export class AgentExists extends Refused {
  static CODE = "AGENT_EXISTS";
}

/** The agent is in another database. */
export class AgentElsewhere extends Refused {
  static CODE = "AGENT_ELSEWHERE";
}

/** The agent is being moved to another database. */
export class AgentMoving extends Refused {
  static CODE = "AGENT_MOVING";
  static PASSING = true;
}

/** The agent cannot be moved at the moment. */
export class MoveBusy extends Refused {
  static CODE = "MOVE_BUSY";
}

/** Somebody changed the memory in the database: see `vctx verify`. */
export class LedgerContradicted extends Refused {
  static CODE = "LEDGER_CONTRADICTED";
}

/** A block of that name exists already. */
export class BlockExists extends Refused {
  static CODE = "BLOCK_EXISTS";
}

/** The idempotency key belongs to another call. */
export class IdempotencyKeyReused extends Refused {
  static CODE = "IDEMPOTENCY_KEY_REUSED";
}

/** Other writers changed the memory at every attempt. */
export class Conflict extends Refused {
  static CODE = "CONFLICT";
  static PASSING = true;
}

/** Another run of this agent is active. */
export class RunBusy extends Refused {
  static CODE = "RUN_BUSY";
}

/** The run has ended, or belongs to another server now. */
export class RunLost extends Refused {
  static CODE = "RUN_LOST";
}

/** The database holds vectors of another kind. */
export class VectorSettingMismatch extends Refused {
  static CODE = "VECTOR_SETTING_MISMATCH";
}

/** The agent has no such change any more: read the memory again, and follow its changes from now on. */
export class ChangeUnknown extends Refused {
  static CODE = "CHANGE_UNKNOWN";
}

/** The result list of this page token is no longer kept. */
export class PageExpired extends Refused {
  static CODE = "PAGE_EXPIRED";
}

/** The memory changed since the given revision: read the changes, then decide again. */
export class RevisionStale extends Refused {
  static CODE = "REVISION_STALE";

  /** The newest revision. */
  get rev() {
    return text(this.fields._rev);
  }

  /** What changed: `block:NAME`, `queue`, `summary`, `agent`, or `unknown`. @returns {string[]} */
  get changed() {
    const list = this.fields.changed;
    return Array.isArray(list) ? list.filter((name) => typeof name === "string") : [];
  }
}

/** The body is larger than allowed. */
export class BodyTooLarge extends Refused {
  static CODE = "BODY_TOO_LARGE";
}

/** The window has no room for this. */
export class TokenBudgetExceeded extends Refused {
  static CODE = "TOKEN_BUDGET_EXCEEDED";

  /** Tokens that are missing. */
  get requiredHeadroom() {
    return number(this.fields.required_headroom);
  }
}

/** Tainted text needs a justification to enter the core. */
export class TaintedContent extends Refused {
  static CODE = "TAINTED_CONTENT";

  /** The rules that the text meets. */
  get rules() {
    const list = this.fields.rules;
    return Array.isArray(list) ? list.filter((rule) => typeof rule === "string") : [];
  }
}

/** Chunks must be embedded with their whole document as context. */
export class LateChunkingRequired extends Refused {
  static CODE = "LATE_CHUNKING_REQUIRED";
}

/** The agent has used its tokens of this day (UTC). */
export class SpendingCapped extends Refused {
  static CODE = "SPENDING_CAPPED";
}

/** Pinned blocks may take a quarter of the window. */
export class PinLimitExceeded extends Refused {
  static CODE = "PIN_LIMIT_EXCEEDED";
}

/** The window is smaller than its fixed content. */
export class WindowTooSmall extends Refused {
  static CODE = "WINDOW_TOO_SMALL";
}

/** A writing call needs the revision it builds on. */
export class PreconditionRequired extends Refused {
  static CODE = "PRECONDITION_REQUIRED";
}

/** Too many heartbeats in a second. */
export class HeartbeatRateLimited extends Refused {
  static CODE = "HEARTBEAT_RATE_LIMITED";

  /** When a beat will be granted. */
  get retryAfterMs() {
    return number(this.fields.retry_after_ms);
  }
}

/** The last chain of heartbeats reached a cap a moment ago. */
export class HeartbeatCooldown extends Refused {
  static CODE = "HEARTBEAT_COOLDOWN";

  /** When a beat will be granted. */
  get retryAfterMs() {
    return number(this.fields.retry_after_ms);
  }
}

/** Too many calls at once. */
export class Overloaded extends Refused {
  static CODE = "OVERLOADED";
}

/** The database does not answer. */
export class StoreUnavailable extends Refused {
  static CODE = "STORE_UNAVAILABLE";
}

/** The server is not ready. */
export class NotReady extends Refused {
  static CODE = "NOT_READY";
}

/** The embedder makes no vectors at the moment. */
export class EmbedderUnavailable extends Refused {
  static CODE = "EMBEDDER_UNAVAILABLE";
}

/** The model does not answer at the moment. */
export class ModelUnavailable extends Refused {
  static CODE = "MODEL_UNAVAILABLE";
}

/** The call took longer than the server allows. */
export class Timeout extends Refused {
  static CODE = "TIMEOUT";
}

/** The disk of the server has too little room. */
export class DiskFull extends Refused {
  static CODE = "DISK_FULL";
}

/** The database refused the request. */
export class StoreRefused extends Refused {
  static CODE = "STORE_REFUSED";
}

/** The server made a mistake. */
export class Internal extends Refused {
  static CODE = "INTERNAL";
}

/** The class of each code. @type {Record<string, typeof Refused>} */
export const CODES = Object.fromEntries(
  [
    InvalidArgument,
    InvalidJson,
    InvalidName,
    PageTokenInvalid,
    ModeUnavailable,
    IdempotencyKeyRequired,
    Forbidden,
    AgentNotFound,
    ToolNotFound,
    DocumentNotFound,
    BlockNotFound,
    PromptNotFound,
    ScheduleNotFound,
    RouteNotFound,
    MethodNotAllowed,
    AgentExists,
    AgentElsewhere,
    AgentForgotten,
    AgentMoving,
    BlockExists,
    IdempotencyKeyReused,
    Conflict,
    MoveBusy,
    RunBusy,
    RunLost,
    VectorSettingMismatch,
    PageExpired,
    RevisionStale,
    BodyTooLarge,
    ChangeUnknown,
    TaintedContent,
    TokenBudgetExceeded,
    LateChunkingRequired,
    LedgerContradicted,
    SpendingCapped,
    PinLimitExceeded,
    WindowTooSmall,
    PreconditionRequired,
    HeartbeatRateLimited,
    HeartbeatCooldown,
    Overloaded,
    StoreUnavailable,
    NotReady,
    EmbedderUnavailable,
    ModelUnavailable,
    Timeout,
    DiskFull,
    StoreRefused,
    Internal,
  ].map((kind) => [kind.CODE, kind]),
);

/**
 * The problem of an answer that is none of success; one without problem details keeps its status as the code.
 *
 * @param {number} status @param {unknown} body @param {number} [retryAfterS]
 */
export function refused(status, body, retryAfterS) {
  const fields = /** @type {Record<string, unknown>} */ (body !== null && typeof body === "object" ? body : {});
  const code = text(fields.error) ?? `HTTP_${status}`;
  const detail = text(fields.detail) ?? text(fields.title) ?? "the server refused the call without a reason";
  const Kind = Object.hasOwn(CODES, code) ? CODES[code] : Refused;
  return new Kind(detail, { code, status, fields, retryAfterS });
}
