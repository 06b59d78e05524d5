/** Client of vctx, a memory server for language models, over its Unix socket. */
export { ANY, freshKey } from "./wire.js";
export { Agent, Client } from "./client.js";
export { defaultSocket } from "./paths.js";
export { CODES, AgentExists, AgentElsewhere, AgentForgotten, AgentMoving, AgentNotFound, BlockExists, BlockNotFound, BodyTooLarge, ChangeUnknown, Conflict, DiskFull, DocumentNotFound, EmbedderUnavailable, Forbidden, Garbled, HeartbeatCooldown, HeartbeatRateLimited, IdempotencyKeyRequired, IdempotencyKeyReused, Internal, InvalidArgument, InvalidJson, InvalidName, LateChunkingRequired, LedgerContradicted, MethodNotAllowed, ModeUnavailable, ModelUnavailable, MoveBusy, NotReady, Overloaded, PageExpired, PageTokenInvalid, PinLimitExceeded, PreconditionRequired, Problem, PromptNotFound, Refused, RevisionStale, RouteNotFound, RunBusy, RunLost, ScheduleNotFound, SpendingCapped, StoreRefused, StoreUnavailable, Timeout, TaintedContent, TokenBudgetExceeded, ToolNotFound, Unanswered, Unreachable, VectorSettingMismatch, WindowTooSmall, } from "./problems.js";
export type State = import("./types.js").State;
export type Context = import("./types.js").Context;
export type Message = import("./types.js").Message;
/** @typedef {import("./types.js").State} State */
/** @typedef {import("./types.js").Context} Context */
/** @typedef {import("./types.js").Message} Message */
