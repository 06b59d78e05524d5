/** Client of vctx, a memory server for language models, over its Unix socket. */

export { ANY, freshKey } from "./wire.js";
export { Agent, Client } from "./client.js";
export { defaultSocket } from "./paths.js";
export {
  CODES,
  AgentExists,
  AgentNotFound,
  BlockExists,
  BlockNotFound,
  BodyTooLarge,
  Conflict,
  DocumentNotFound,
  EmbedderUnavailable,
  Forbidden,
  Garbled,
  HeartbeatCooldown,
  HeartbeatRateLimited,
  IdempotencyKeyRequired,
  IdempotencyKeyReused,
  Internal,
  InvalidArgument,
  InvalidJson,
  InvalidName,
  LateChunkingRequired,
  MethodNotAllowed,
  ModeUnavailable,
  ModelUnavailable,
  NotReady,
  Overloaded,
  PageExpired,
  PageTokenInvalid,
  PinLimitExceeded,
  PreconditionRequired,
  Problem,
  PromptNotFound,
  Refused,
  RevisionStale,
  RouteNotFound,
  RunBusy,
  RunLost,
  ScheduleNotFound,
  StoreRefused,
  StoreUnavailable,
  Timeout,
  TokenBudgetExceeded,
  ToolNotFound,
  Unanswered,
  Unreachable,
  VectorSettingMismatch,
  WindowTooSmall,
} from "./problems.js";

/** @typedef {import("./types.js").State} State */
/** @typedef {import("./types.js").Context} Context */
/** @typedef {import("./types.js").Message} Message */
