/** The calls of the server. */

import { defaultSocket } from "./paths.js";
import { Problem, Refused, RevisionStale, Unanswered } from "./problems.js";
import { BUILDS_ON_NOTHING, Seen } from "./seen.js";
import { Transport } from "./transport.js";
import { ATTEMPTS_MAX, Events, RUN_TIMEOUT_MS, TIMEOUT_MS, advanced, freshKey, mayRepeat, pauseMs } from "./wire.js";
import { request, told, understood, understoodText, withQuery } from "./wire.js";

/** @import * as t from "./types.js" */

/** @param {number} ms */
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/**
 * A server at its socket; connects with the first call. A call is sent again, with the same key, when the connection failed or the
 * server was busy; everything else is thrown immediately.
 */
export class Client {
  #attemptsMax;
  #label;

  /** @param {string} [socket] where the server listens; where the command line looks unless given @param {t.Options} [options] */
  constructor(socket = defaultSocket(), { timeoutMs = TIMEOUT_MS, attemptsMax = ATTEMPTS_MAX, label } = {}) {
    this.socket = socket;
    this.#attemptsMax = Math.max(attemptsMax, 1);
    this.#label = label;
    /** @internal */
    this.transport = new Transport(socket, timeoutMs);
  }

  /** Closes the connections; another call opens a new one. */
  close() {
    this.transport.close();
  }

  [Symbol.dispose ?? Symbol.for("dispose")]() {
    this.close();
  }

  /** A handle of an agent; sends nothing. @param {string} name */
  agent(name) {
    return new Agent(this, name);
  }

  /** Creates an agent, or finds it with the same configuration; raises `AgentExists` for another configuration. @param {string} name @param {t.NewAgent} configuration */
  async createAgent(name, configuration) {
    const agent = new Agent(this, name);
    await agent.create(configuration);
    return agent;
  }

  /** A page of the agents by name; `after` is `next` of the page before. @param {{after?: string, limit?: number}} [page] @returns {Promise<{agents: t.Json[], next: string | null}>} */
  agents({ after, limit } = {}) {
    return this.json("GET", withQuery("/v1/agents", { after, limit }));
  }

  /** The public key of the server's checkpoints, and signed agents that are not in the database. @returns {Promise<t.Json>} */
  ledgers() {
    return this.json("GET", "/v1/ledgers");
  }

  /** Schemas of the tools, in one of the server's formats and with the names of a dialect. The profile is "full" (all arguments) or "compact" (those that a model needs); by default full for "json-schema" and compact for the formats of providers. @param {{format?: string, dialect?: string, profile?: "full" | "compact", strict?: boolean}} [how] @returns {Promise<t.Json>} */
  tools({ format, dialect, profile, strict } = {}) {
    return this.json("GET", withQuery("/v1/tools", { dialect, format, profile, strict }));
  }

  /** The progress of a reindex of the archive. @returns {Promise<t.Json>} */
  reindexStatus() {
    return this.json("GET", "/v1/reindex");
  }

  /**
   * Begins, pauses or abandons a change of all vectors, or trains the current index again; a repetition has no effect.
   *
   * @param {"start" | "stop" | "cancel" | "index"} action @param {{metric?: "cosine" | "l2"}} [more] @returns {Promise<t.Json>}
   */
  reindex(action, more = {}) {
    return this.json("POST", "/v1/reindex", { action, ...more });
  }

  /** The databases of agents, and whether each is reachable. @returns {Promise<t.Json>} */
  places() {
    return this.json("GET", "/v1/places");
  }

  /** Moves an agent to another database; has no effect if it is already there. @param {string} name @param {string} to @returns {Promise<t.Json>} */
  moveAgent(name, to) {
    return this.json("POST", `/v1/agents/${encodeURIComponent(name)}/move`, { to });
  }

  /**
   * The whole agent as chunks of one file; `timeoutMs` limits the wait for each chunk.
   *
   * @param {string} name @param {{signal?: AbortSignal, timeoutMs?: number}} [more] @returns {AsyncGenerator<Uint8Array, void>}
   */
  async *exportAgent(name, { signal, timeoutMs } = {}) {
    const path = `/v1/agents/${encodeURIComponent(name)}/export`;
    const sent = request("GET", path, undefined, { label: this.#label, accept: "application/x-ndjson" });
    yield* this.transport.stream(sent, signal, timeoutMs);
  }

  /**
   * Creates an agent from an exported file of up to 64 MiB (use `vctx import` for larger files); the same file again has no effect.
   *
   * @param {string} name @param {Uint8Array} file @param {{signal?: AbortSignal, timeoutMs?: number}} [more] @returns {Promise<t.Json>}
   */
  importAgent(name, file, more = {}) {
    return this.json("POST", `/v1/agents/${encodeURIComponent(name)}/import`, file, more);
  }

  /** The server's OpenAPI description. @returns {Promise<t.Json>} */
  openapi() {
    return this.json("GET", "/v1/openapi.json");
  }

  /** Whether the server is running: one attempt. @returns {Promise<t.Json>} */
  healthz() {
    return this.#once("/healthz");
  }

  /** Whether the server is ready: one attempt; `NotReady` has the reason. @returns {Promise<t.Json>} */
  readyz() {
    return this.#once("/readyz");
  }

  /** @param {string} path */
  async #once(path) {
    return understood(await this.transport.send(request("GET", path, undefined, { label: this.#label })));
  }

  /**
   * Events of a run until its end; used by the handles. The same key continues an interrupted run.
   *
   * @internal
   * @param {string} path @param {unknown} body @param {t.Write & {key: string}} write @returns {AsyncGenerator<t.RunEvent, void>}
   */
  async *streamed(path, body, { key, signal, timeoutMs }) {
    const sent = request("POST", path, body, { key, label: this.#label, accept: "text/event-stream" });
    const events = new Events();
    try {
      for await (const piece of this.transport.stream(sent, signal, timeoutMs)) {
        for (const event of events.push(piece)) {
          yield told(event);
          if (event.type === "end") return;
        }
      }
      throw new Unanswered("the run was cut off before its end: the same call with the same key goes on with it");
    } catch (problem) {
      if (problem instanceof Problem) problem.key = key;
      throw problem;
    }
  }

  /**
   * A call with its attempts; used by the handles.
   *
   * @internal
   * @param {string} method @param {string} path @param {unknown} [body] @param {t.Write & {text?: boolean}} [write] @returns {Promise<any>}
   */
  async json(method, path, body, { key, rev, signal, timeoutMs, text = false } = {}) {
    const accept = text ? "text/plain" : "application/json";
    const sent = request(method, path, body, { key, rev, label: this.#label, accept });
    const read = text ? understoodText : understood;
    for (let attempt = 1; ; attempt += 1) {
      try {
        return read(await this.transport.send(sent, signal, timeoutMs));
      } catch (problem) {
        if (!(problem instanceof Problem)) throw problem;
        problem.key = key;
        if (attempt >= this.#attemptsMax || !mayRepeat(problem)) throw problem;
        await sleep(pauseMs(attempt, problem.retryAfterS));
      }
    }
  }
}

/** The object that a JSON text contains, if it contains one. @param {string} text @returns {Record<string, unknown> | undefined} */
function objectOf(text) {
  try {
    const parsed = JSON.parse(text);
    return parsed !== null && typeof parsed === "object" && !Array.isArray(parsed) ? parsed : undefined;
  } catch {
    return undefined;
  }
}

/**
 * One agent's memory. A writing call builds on the revision of the last answer about its subject; if another caller changed it since,
 * the call fails with `RevisionStale`, and `state()` reads it again.
 */
export class Agent {
  #client;
  #path;
  #seen = new Seen();

  /** @param {Client} client @param {string} name */
  constructor(client, name) {
    this.name = name;
    this.#client = client;
    this.#path = `/v1/agents/${encodeURIComponent(name)}`;
  }

  /** Revision of the memory in the last answer. */
  get rev() {
    return this.#seen.memory;
  }

  /** Creates the agent, or finds it with the same configuration. @param {t.NewAgent} configuration @returns {Promise<t.State>} */
  async create(configuration) {
    return this.#shown(await this.#client.json("PUT", this.#path, configuration));
  }

  /** Revision, blocks, queue, summary, budget, tokens. @returns {Promise<t.State>} */
  async state() {
    return this.#shown(await this.#client.json("GET", this.#path));
  }

  /** Changes window, system text, encoding or limits of heartbeats; what is absent stays. @param {t.AgentPatch} change @param {t.Write} [write] @returns {Promise<t.State>} */
  async patch(change, write = {}) {
    const rev = write.rev ?? (await this.#newest());
    return this.#shown(await this.#client.json("PATCH", this.#path, change, { ...write, key: write.key ?? freshKey(), rev }));
  }

  /**
   * One tool call of a model, by the tool's name; the methods below do the same with typed arguments.
   *
   * @param {string} tool @param {Record<string, unknown>} given @param {t.Write & t.Captured} [write] @returns {Promise<t.Answer<any>>}
   */
  call(tool, given, write = {}) {
    return this.#called(tool, given, write);
  }

  /**
   * One tool call of a model, answered with the short text that the model reads; `given` may be the JSON text of the model.
   * The answer to a refused call is the text of the refusal, so that the model can correct its call. After `RevisionStale` the
   * state is read again, and the next call builds on it. Throws if no answer came, or if the same call can succeed later
   * (`problem.passing`).
   *
   * @param {string} tool @param {Record<string, unknown> | string} given @param {t.Write & t.Captured} [write] @returns {Promise<string>}
   */
  async tell(tool, given, write = {}) {
    const parsed = typeof given === "string" ? objectOf(given) : given;
    if (parsed === undefined) {
      return "Error INVALID_ARGUMENT: the arguments are no JSON object: send one object that matches the schema.";
    }
    try {
      return (await this.#called(tool, parsed, { ...write, text: true })).text;
    } catch (problem) {
      if (!(problem instanceof Refused) || problem.passing || (problem.status ?? 500) >= 500) throw problem;
      if (problem instanceof RevisionStale) await this.state();
      return problem.systemMessage;
    }
  }

  /** @param {string} tool @param {Record<string, unknown>} given @param {t.Write & t.Captured & {text?: boolean}} write @returns {Promise<any>} */
  async #called(tool, given, { capture, ...write }) {
    let rev = write.rev;
    if (rev === undefined && !BUILDS_ON_NOTHING.has(tool)) rev = this.#seen.builtOn(tool, given) ?? (await this.#newest());
    const path = `${this.#path}/tools/${encodeURIComponent(tool)}`;
    const body = { ...given, capture: typeof capture === "string" ? { tool_call_id: capture } : capture };
    const answer = await this.#client.json("POST", path, body, { ...write, key: write.key ?? freshKey(), rev });
    this.#seen.tool(tool, given, answer);
    return answer;
  }

  /** Writes a block of working memory. @param {string} blockId @param {string} content @param {t.BlockPolicy} [policy] @param {t.Write} [write] @returns {Promise<t.Answer<t.Stored>>} */
  storeCore(blockId, content, policy, write) {
    return this.call("store_core", { block_id: blockId, content, policy }, write);
  }

  /** Reads a block of working memory, or all blocks (`blocks` of the result). @param {string} [blockId] @returns {Promise<t.Answer<t.Fetched>>} */
  fetchCore(blockId) {
    return this.call("fetch_core", { block_id: blockId });
  }

  /**
   * Appends a message to the queue; if the window would overflow, evicts the oldest messages in the same transaction.
   *
   * @param {string} content @param {t.Role} [role] @param {t.MessageParts} [parts] @param {t.Write} [write]
   * @returns {Promise<t.Answer<t.Appended>>}
   */
  appendFifo(content, role = "user", { cites, ...parts } = {}, write) {
    const message = Object.keys(parts).length === 0 ? content : { content, ...parts };
    return this.call("append_fifo", { message, role, cites }, write);
  }

  /** Moves the oldest messages into recall storage until the window holds at most `target_tokens`; the default is half of the window. @param {t.Eviction} [how] @param {t.Write} [write] @returns {Promise<t.Answer<t.Evicted>>} */
  evictFifo(how = {}, write) {
    return this.call("evict_fifo", { ...how }, write);
  }

  /** Finds earlier messages; with `rehydrate` (the default) copies the fitting ones into the window. @param {string} query @param {t.RecallSearch} [how] @param {t.Write} [write] @returns {Promise<t.Answer<t.Found>>} */
  searchRecall(query, how = {}, write) {
    return this.call("search_recall", { query, ...how }, write);
  }

  /** Writes entries directly into recall storage. @param {(string | t.Entry)[]} entries @param {t.Write} [write] @returns {Promise<t.Answer<t.Written>>} */
  writeRecall(entries, write) {
    const rows = entries.map((entry) => (typeof entry === "string" ? { content: entry } : entry));
    return this.call("write_recall", { entries: rows }, write);
  }

  /** Finds passages of archived documents. @param {string | t.ArchiveSearch} asked @param {t.ArchiveSearch} [how] @param {t.Write} [write] @returns {Promise<t.Answer<t.Found>>} */
  searchArchival(asked, how = {}, write) {
    const question = typeof asked === "string" ? { query_text: asked } : asked;
    return this.call("search_archival", { ...question, ...how }, write);
  }

  /** Takes a document into the archive. One that this handle has not seen must be new; `{rev: ANY}` replaces whatever is there. @param {string} docId @param {string | t.Ingest} what its text, or more @param {t.Write} [write] @returns {Promise<t.Answer<t.Ingested>>} */
  ingestArchival(docId, what, write) {
    const rest = typeof what === "string" ? { document: what } : what;
    return this.call("ingest_archival", { doc_id: docId, ...rest }, write);
  }

  /** Deletes a document from the archive. @param {string} docId @param {t.Write} [write] @returns {Promise<t.Answer<t.Ingested>>} */
  async deleteDocument(docId, write = {}) {
    const given = { doc_id: docId };
    const rev = write.rev ?? this.#seen.builtOn("ingest_archival", given);
    const path = `${this.#path}/archive/${encodeURIComponent(docId)}`;
    const answer = await this.#client.json("DELETE", path, undefined, { ...write, key: write.key ?? freshKey(), rev });
    this.#seen.tool("ingest_archival", given, answer);
    return answer;
  }

  /** Asks for the next turn immediately, or yields. @param {"continue" | "yield"} state @param {{note?: string}} [more] @param {t.Write} [write] @returns {Promise<t.Answer<t.Beat>>} */
  recordHeartbeat(state, { note } = {}, write) {
    return this.call("record_heartbeat", { state: note === undefined ? state : { status: state, note } }, write);
  }

  /** What something in memory is joined to, page by page; `from` is an id, a seq as text, or `agent`. @param {string} from @param {t.Trace & {page_token?: string}} [how] @param {t.Write} [write] @returns {Promise<t.Answer<t.Found>>} */
  traceMemory(from, how = {}, write) {
    return this.call("trace_memory", { from, ...how }, write);
  }

  /** Puts an event into the queue; `content` is a text, or JSON that is stored as text. Without a revision, any revision is accepted. @param {t.EventClass} eventClass @param {unknown} content @param {{name?: string}} [more] @param {t.Write} [write] @returns {Promise<t.Answer<t.Appended>>} */
  async postEvent(eventClass, content, more = {}, write = {}) {
    const body = { class: eventClass, content, ...more };
    const answer = await this.#client.json("POST", `${this.#path}/events`, body, { ...write, key: write.key ?? freshKey() });
    this.#seen.tool("post_event", body, answer);
    return answer;
  }

  /**
   * Runs the server's model on new input (a text of the user, or messages) until it yields; gives the result. The same
   * call with the same key continues an interrupted run.
   *
   * @param {string | t.Json[]} [said] @param {t.Run} [how] @param {t.Write} [write] @returns {Promise<t.RunEnd>}
   */
  run(said, how = {}, write = {}) {
    const more = { timeoutMs: RUN_TIMEOUT_MS, ...write, key: write.key ?? freshKey() };
    return this.#client.json("POST", `${this.#path}/runs`, { input: said, ...how }, more);
  }

  /**
   * The same as a stream of events; the last one, of type `end`, has the result. Closing the stream cancels the run. `timeoutMs`
   * bounds the time between two events; the call is not repeated automatically.
   *
   * @param {string | t.Json[]} [said] @param {t.Run} [how] @param {t.Write} [write] @returns {AsyncGenerator<t.RunEvent, void>}
   */
  async *runEvents(said, how = {}, write = {}) {
    yield* this.#client.streamed(`${this.#path}/runs`, { input: said, ...how }, { ...write, key: write.key ?? freshKey() });
  }

  /** Renders the window as a request for a model (`request`, the text to send) and records it before it is sent. @param {t.NewPrompt} asked @param {t.Write} [write] @returns {Promise<t.Json>} */
  recordPrompt(asked, write = {}) {
    return this.#client.json("POST", `${this.#path}/prompts`, asked, { ...write, key: write.key ?? freshKey() });
  }

  /** Records the model's answer: its message and the end of the prompt in one write; `end_run` also ends the run. @param {number} turn @param {t.PromptAnswer} said @param {t.Write} [write] @returns {Promise<t.Json>} */
  async recordAnswer(turn, said, write = {}) {
    const answer = await this.#client.json("POST", `${this.#path}/prompts/${turn}/answer`, said, { ...write, key: write.key ?? freshKey() });
    this.#seen.tool("record_answer", {}, answer);
    return answer;
  }

  /** A page of prompts that were sent to a model: figures, digests and ends. @param {number} [fromTurn] @param {number} [limit] @returns {Promise<{prompts: t.Json[], next_turn: number | null}>} */
  prompts(fromTurn = 1, limit) {
    return this.#get("prompts", { from_turn: fromTurn, limit });
  }

  /** A past prompt, reassembled byte by byte and checked against its digests. @param {number} turn @returns {Promise<t.Json>} */
  prompt(turn) {
    return this.#get(`prompts/${turn}`, {});
  }

  /** The life of a fact, or why a prompt (`turn`) held what it held. @param {{text?: string, turn?: number, from_turn?: number}} asked @returns {Promise<t.Json>} */
  why(asked) {
    return this.#get("why", asked);
  }

  /** Forgets messages, a document, everything that contains a text, or the whole agent; gives the manifest. A forgetting that is `under_way` is continued by the same call with the same key. @param {t.Forget} what @param {t.Write} [write] @returns {Promise<t.Json>} */
  async forget(what, write = {}) {
    const guard = { ...write, key: write.key ?? freshKey(), rev: write.rev ?? "*" };
    const manifest = await this.#client.json("POST", `${this.#path}/forget`, what, guard);
    if (!what.dry_run) this.#seen.forgotten();
    return manifest;
  }

  /** The manifests of forgettings: positions and digests, never text. @returns {Promise<t.Json>} */
  forgettings() {
    return this.#get("forget", {});
  }

  /** The schedules of the agent. @returns {Promise<t.Json>} */
  schedules() {
    return this.#get("schedules", {});
  }

  /** One schedule: its next moment and its last result. @param {string} name @returns {Promise<t.Json>} */
  schedule(name) {
    return this.#get(`schedules/${encodeURIComponent(name)}`, {});
  }

  /** Creates or changes a schedule that puts events into the queue, repeatedly or once; a repetition has no effect. @param {string} name @param {t.Schedule} what @returns {Promise<t.Json>} */
  putSchedule(name, what) {
    return this.#client.json("PUT", `${this.#path}/schedules/${encodeURIComponent(name)}`, what);
  }

  /** Deletes a schedule. @param {string} name @returns {Promise<t.Json>} */
  deleteSchedule(name) {
    return this.#client.json("DELETE", `${this.#path}/schedules/${encodeURIComponent(name)}`);
  }

  /** The rendered window as chat messages, with its receipt. @returns {Promise<t.Context>} */
  context() {
    return this.#client.json("GET", `${this.#path}/context`);
  }

  /** The tainted items of the memory: positions, rules and lengths; `after` is the `next` of the previous page. @param {{after?: string, limit?: number}} [page] @returns {Promise<t.Json>} */
  quarantine(page = {}) {
    return this.#get("quarantine", page);
  }

  /** One tainted item with its text. @param {string} id @returns {Promise<t.Json>} */
  quarantined(id) {
    return this.#get("quarantine", { id });
  }

  /** Releases a tainted item from quarantine, or holds it again. Without a revision, any revision is accepted. @param {string} id @param {boolean} [hold] @param {t.Write} [write] @returns {Promise<t.Answer<t.Json>>} */
  async release(id, hold = false, write = {}) {
    const body = { id, hold };
    const answer = await this.#client.json("POST", `${this.#path}/quarantine`, body, { ...write, key: write.key ?? freshKey() });
    this.#seen.tool("release_tainted", body, answer);
    return answer;
  }

  /** The connections of an item of the memory, as one list. @param {string} from @param {t.Trace} [how] @returns {Promise<t.Json>} */
  trace(from, { follow, ...how } = {}) {
    return this.#get("trace", { from, follow: follow?.join(","), ...how });
  }

  /** The Conveyance score of the memory, with all its counts. @param {"session" | "life"} [of] @returns {Promise<t.Json>} */
  conveyance(of) {
    return this.#get("conveyance", { of });
  }

  /** A page of all messages ever appended. @param {number} [fromSeq] @param {number} [limit] @returns {Promise<{messages: t.Message[], next_seq: number | null}>} */
  messages(fromSeq = 1, limit) {
    return this.#get("messages", { from_seq: fromSeq, limit });
  }

  /** A page of the memory's events: figures and ids, never text. @param {string} [fromTs] @param {number} [limit] @returns {Promise<{events: t.Event[], next_ts: string | null}>} */
  events(fromTs, limit) {
    return this.#get("events", { from_ts: fromTs, limit });
  }

  /** The differences between all rows of the agent and the agent's ledger. @returns {Promise<t.Json>} */
  ledger() {
    return this.#get("ledger", {});
  }

  /** Accepts the core as it is in the database, if its ledger contradicts it and it still has the revision `rev`. @param {string} rev @returns {Promise<t.Json>} */
  acceptCore(rev) {
    return this.#client.json("POST", `${this.#path}/ledger`, { accept: "core", _rev: rev });
  }

  /** A page of copies of system text, blocks and summary. @param {number} [fromVersion] @param {number} [limit] @returns {Promise<{versions: t.Json[], next_version: number | null}>} */
  history(fromVersion = 1, limit) {
    return this.#get("history", { from_version: fromVersion, limit });
  }

  /** All messages ever appended, page after page. @returns {AsyncGenerator<t.Message, void>} */
  async *allMessages(fromSeq = 1) {
    yield* walk((from) => this.messages(from), "messages", "next_seq", fromSeq);
  }

  /** All events, page after page. @returns {AsyncGenerator<t.Event, void>} */
  async *allEvents(fromTs = "") {
    yield* walk((from) => this.events(from), "events", "next_ts", fromTs);
  }

  /** All copies of the texts, page after page. @returns {AsyncGenerator<t.Json, void>} */
  async *allVersions(fromVersion = 1) {
    yield* walk((from) => this.history(from), "versions", "next_version", fromVersion);
  }

  /** All prompts, page after page. @returns {AsyncGenerator<t.Json, void>} */
  async *allPrompts(fromTurn = 1) {
    yield* walk((from) => this.prompts(from), "prompts", "next_turn", fromTurn);
  }

  /** @param {string} what @param {Record<string, unknown>} query */
  #get(what, query) {
    return this.#client.json("GET", withQuery(`${this.#path}/${what}`, query));
  }

  /** The last seen revision; before the first answer, the current one. */
  async #newest() {
    return this.#seen.memory ?? (await this.state())._rev;
  }

  /** @param {t.State} state */
  #shown(state) {
    this.#seen.state(state);
    return state;
  }
}

/**
 * @template T
 * @param {(from: T) => Promise<any>} page @param {string} rows @param {string} next @param {T} first
 */
async function* walk(page, rows, next, first) {
  /** @type {T | undefined} */
  let from = first;
  while (from !== undefined) {
    const [found, following] = /** @type {[any[], T | undefined]} */ (advanced(await page(from), rows, next, from));
    yield* found;
    from = following;
  }
}
