/** The calls of the server. */

import { Lost } from "./lost.js";
import { defaultSocket } from "./paths.js";
import { AgentExists, Garbled, Problem, Refused, RevisionStale, Unanswered } from "./problems.js";
import { BUILDS_ON_ANY, BUILDS_ON_NOTHING, Seen } from "./seen.js";
import { Transport } from "./transport.js";
import { ANY, Events, FEED_PAUSE_MS, FIRST_PATIENCE_MS, PATIENCE_MS, RUN_TIMEOUT_MS, TIMEOUT_MS, advanced, freshKey } from "./wire.js";
import { isFinal, isLost, mayContinue, mayRepeat, nextPage, pauseMs, place, request, sliceOf, told, understood, understoodText, withQuery } from "./wire.js";

/** @import * as t from "./types.js" */

/** @param {number} ms */
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/**
 * A server at its socket; connects with the first call. A call is sent again, with the same key, when the connection failed or the
 * server was busy, for `patienceMs` after the first failure (for a second if no call of this client ever had an answer); everything
 * else is thrown immediately. A writing call without an answer is remembered for ten minutes: the same call is its repetition.
 */
export class Client {
  #patienceMs;
  #label;
  #hasMet = false;
  /** @internal */
  lost = new Lost();

  /** @param {string} [socket] where the server listens; where the command line looks unless given @param {t.Options} [options] */
  constructor(socket = defaultSocket(), { timeoutMs = TIMEOUT_MS, patienceMs = PATIENCE_MS, label } = {}) {
    this.socket = socket;
    this.#patienceMs = patienceMs;
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

  /** Deletes an agent with everything that it remembers; gives the manifest (as `Agent.forget` with `all`). @param {string} name @param {t.Write} [write] @returns {Promise<t.Json>} */
  deleteAgent(name, write = {}) {
    return new Agent(this, name).delete(write);
  }

  /** Creates an agent; an agent that exists keeps its memory and gets the settings that are given here. @param {string} name @param {t.NewAgent} configuration */
  async getOrCreate(name, configuration) {
    const agent = new Agent(this, name);
    try {
      await agent.create(configuration);
    } catch (problem) {
      if (!(problem instanceof AgentExists)) throw problem;
      await agent.patch(configuration);
    }
    return agent;
  }

  /** A page of the agents by name, or of those of one person; `start` is `next` of the previous page. @param {string} [start] @param {number} [limit] @param {{user?: string}} [of] @returns {Promise<{agents: t.Json[], next: string | null}>} */
  agents(start, limit, { user } = {}) {
    return this.json("GET", withQuery("/v1/agents", { user, after: start, limit }));
  }

  /** All agents by name, page after page. @param {{user?: string}} [of] @returns {AsyncGenerator<t.Json, void>} */
  async *allAgents(of) {
    yield* follow((start) => this.agents(start, undefined, of), "agents", "next");
  }

  /** Searches all agents of a person, and sorts their results together. @param {string} user @param {string} query @param {{limit?: number, stores?: ("recall" | "archive")[], labels?: t.Labels}} [how] @returns {Promise<t.FoundOfUser>} */
  searchUser(user, query, how = {}) {
    return this.json("POST", `/v1/users/${encodeURIComponent(user)}/search`, { query, ...how });
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
   * The messages of a feed; used by the handles. After a break the feed continues at its last change, again with a message `start`.
   *
   * @internal
   * @param {string} path @param {t.Following} how @returns {AsyncGenerator<t.Json, void>}
   */
  async *followed(path, { after, wait = true, signal, timeoutMs }) {
    /** @type {number | undefined} */
    let failedAt;
    let [attempt, at] = [0, after];
    for (;;) {
      const sent = request("GET", withQuery(path, { after: at, wait }), undefined, { label: this.#label, accept: "text/event-stream" });
      const events = new Events();
      let [ended, pause] = [false, FEED_PAUSE_MS];
      try {
        for await (const piece of this.transport.stream(sent, signal, timeoutMs)) {
          for (const event of events.push(piece)) {
            if (isFinal(event)) return;
            ended = event.feed === "end";
            if (ended) break;
            [at, attempt, failedAt, this.#hasMet] = [place(event), 0, undefined, true];
            yield event;
          }
        }
        if (!ended) throw new Unanswered("the feed was cut off: continue it after its last change");
      } catch (problem) {
        if (!(problem instanceof Problem) || !mayContinue(problem)) throw problem;
        attempt += 1;
        pause = pauseMs(attempt, problem.retryAfterS);
        failedAt ??= performance.now();
        const patience = this.#hasMet ? this.#patienceMs : Math.min(this.#patienceMs, FIRST_PATIENCE_MS);
        if (performance.now() + pause > failedAt + patience) throw problem;
      }
      await sleep(pause);
    }
  }

  /**
   * A call that a repetition cannot double; used by the handles.
   *
   * @internal
   * @param {string} method @param {string} path @param {unknown} [body] @param {{signal?: AbortSignal, timeoutMs?: number}} [more] @returns {Promise<any>}
   */
  json(method, path, body, { signal, timeoutMs } = {}) {
    return this.#patiently(request(method, path, body, { label: this.#label }), understood, signal, timeoutMs);
  }

  /**
   * A call with a key; without one it gets that of the same call that had no answer, or a fresh one. Used by the handles.
   *
   * @internal
   * @param {string} method @param {string} path @param {unknown} [body] @param {t.Write & {text?: boolean}} [write] @returns {Promise<any>}
   */
  async write(method, path, body, { key: given, rev, signal, timeoutMs, text = false } = {}) {
    const content = body === undefined ? "" : JSON.stringify(body);
    const key = given ?? this.lost.take(method, path, content) ?? freshKey();
    const sent = request(method, path, body, { key, rev, label: this.#label, accept: text ? "text/plain" : "application/json" });
    try {
      const answer = await this.#patiently(sent, text ? understoodText : understood, signal, timeoutMs);
      this.lost.settled(key);
      return answer;
    } catch (problem) {
      if (problem instanceof Problem) problem.key = key;
      if (isLost(problem)) this.lost.note(method, path, content, key, rev);
      else this.lost.settled(key);
      throw problem;
    }
  }

  /**
   * The answer to a call that had none; undefined if it had no effect and can have none any more, since its revision is outdated.
   *
   * @internal
   * @param {import("./lost.js").LostCall} lost @returns {Promise<any>}
   */
  async lookUp({ method, path, body, key, rev }) {
    const sent = request(method, path, body === "" ? undefined : JSON.parse(body), { key, rev, label: this.#label });
    try {
      const answer = await this.#patiently(sent, understood);
      this.lost.settled(key);
      return answer;
    } catch (problem) {
      if (!(problem instanceof Refused)) throw problem;
      if (!isLost(problem)) this.lost.settled(key);
      return undefined;
    }
  }

  /** @param {import("./wire.js").Sent} sent @param {(answer: import("./wire.js").Answer) => any} read @param {AbortSignal} [signal] @param {number} [timeoutMs] */
  async #patiently(sent, read, signal, timeoutMs) {
    /** @type {number | undefined} */
    let failedAt;
    for (let attempt = 1; ; attempt += 1) {
      try {
        const answer = await this.transport.send(sent, signal, timeoutMs);
        this.#hasMet = true;
        return read(answer);
      } catch (problem) {
        if (!(problem instanceof Problem) || !mayRepeat(problem)) throw problem;
        const pause = pauseMs(attempt, problem.retryAfterS);
        failedAt ??= performance.now();
        const patience = this.#hasMet ? this.#patienceMs : Math.min(this.#patienceMs, FIRST_PATIENCE_MS);
        if (performance.now() + pause > failedAt + patience) throw problem;
        await sleep(pause);
      }
    }
  }
}

/** What a model reads if its arguments cannot be read. */
const NO_OBJECT = "Error INVALID_ARGUMENT: the arguments are no JSON object: send one object that matches the schema.";

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
 * One agent's memory. A call that appends or changes settings builds on any revision; a call that writes a block or a document builds on
 * the last answer that showed it. If another caller changed that block or document since, the call fails with `RevisionStale`, and
 * `state()` reads it again.
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

  /** The server of this agent. */
  get client() {
    return this.#client;
  }

  /** Revision of the memory in the last answer. */
  get rev() {
    return this.#seen.memory?.rev;
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
    return this.#shown(await this.#client.write("PATCH", this.#path, change, { ...write, rev: write.rev ?? ANY }));
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
   * With `capture`, the id of the model's call, the text is also appended to the queue as the result of that call.
   * The answer to a refused call is the text of the refusal, so that the model can correct its call. After `RevisionStale` the
   * state is read again, and the next call builds on it. Throws if no answer came, or if the same call can succeed later
   * (`problem.passing`).
   *
   * @param {string} tool @param {Record<string, unknown> | string} given @param {t.Write & t.Captured} [write] @returns {Promise<string>}
   */
  async tell(tool, given, write = {}) {
    const parsed = typeof given === "string" ? objectOf(given) : given;
    if (parsed === undefined) return this.#refused(NO_OBJECT, write);
    try {
      return (await this.#called(tool, parsed, { ...write, text: true })).text;
    } catch (problem) {
      if (!(problem instanceof Refused) || problem.passing || (problem.status ?? 500) >= 500) throw problem;
      if (problem instanceof RevisionStale) await this.state();
      return this.#refused(problem.systemMessage, write);
    }
  }

  /** The text of a refused call, which is appended as the result of the model's call if that is captured. @param {string} text @param {t.Captured} captured */
  async #refused(text, { capture }) {
    if (typeof capture === "string") await this.appendFifo(text, "tool", { tool_call_id: capture });
    return text;
  }

  /** @param {string} tool @param {Record<string, unknown>} given @param {t.Write & t.Captured & {text?: boolean}} write @returns {Promise<any>} */
  async #called(tool, given, { capture, ...write }) {
    const path = `${this.#path}/tools/${encodeURIComponent(tool)}`;
    const body = { ...given, capture: typeof capture === "string" ? { tool_call_id: capture } : capture };
    const rev = write.rev ?? (await this.#builtOn(tool, given));
    let answer;
    try {
      answer = await this.#client.write("POST", path, body, { ...write, rev });
    } catch (problem) {
      const mayCatchUp = write.rev === undefined && problem instanceof RevisionStale;
      if (!mayCatchUp || !(await this.#caughtUp(tool, given))) throw problem;
      answer = await this.#client.write("POST", path, body, { ...write, key: problem.key, rev: this.#seen.builtOn(tool, given) });
    }
    this.#seen.tool(tool, given, answer);
    return answer;
  }

  /** The revision for a call whose caller gives none. @param {string} tool @param {Record<string, unknown>} given */
  async #builtOn(tool, given) {
    if (BUILDS_ON_NOTHING.has(tool)) return undefined;
    if (BUILDS_ON_ANY.has(tool)) return ANY;
    return this.#seen.builtOn(tool, given) ?? (await this.state())._rev;
  }

  /**
   * Whether this handle's own writes, and no other caller's, made its revision outdated. The own writes are those whose answers were
   * lost, which are looked up by their keys, and those after which the server has dropped the revision of a block from its list, so
   * that the block itself is compared.
   *
   * @param {string} tool @param {Record<string, unknown>} given
   */
  async #caughtUp(tool, given) {
    const before = this.#seen.builtOn(tool, given);
    const tools = `${this.#path}/tools/`;
    for (const lost of this.#client.lost.guarded(this.#path)) {
      const answer = lost.path.startsWith(tools) ? await this.#client.lookUp(lost) : undefined;
      if (answer !== undefined) this.#seen.tool(decodeURIComponent(lost.path.slice(tools.length)), JSON.parse(lost.body), answer);
    }
    if (this.#seen.builtOn(tool, given) !== before) return true;
    return this.#seen.stillHolds(tool, given, await this.#client.json("GET", this.#path));
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

  /**
   * Appends messages in order, as few writes as their number and the window allow; a text is a user's message. Each write is atomic.
   * After a failure, the same call goes on where it ended, and doubles nothing.
   *
   * @param {(string | t.NewMessage)[]} messages @param {t.Write} [write] @returns {Promise<t.AppendedMessage[]>}
   */
  async appendMessages(messages, { key: given, ...write } = {}) {
    const rows = messages.map((one) => (typeof one === "string" ? { role: "user", content: one } : one));
    const path = `${this.#path}/messages`;
    const [content, { lost }] = [JSON.stringify(rows), this.#client];
    const key = given ?? lost.take("*", path, content) ?? freshKey();
    /** @type {t.AppendedMessage[]} */
    const appended = [];
    try {
      while (appended.length < rows.length) {
        const body = { messages: sliceOf(rows, appended.length) };
        const answer = await this.#client.write("POST", path, body, { ...write, key: `${key}.${appended.length}` });
        this.#seen.tool("append_messages", body, answer);
        if (answer.result.appended.length === 0) throw new Garbled("no message was appended");
        appended.push(...answer.result.appended);
      }
    } catch (problem) {
      lost.note("*", path, content, key, undefined);
      if (problem instanceof Problem) problem.key = key;
      throw problem;
    }
    lost.settled(key);
    return appended;
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

  /** A page of the archive's documents by name; `start` is `next` of the previous page, and `prefix` the beginning of their names. With `texts` each document has its passages, unless they are too long for a page, and with `tokens` the number of their tokens. A server with a quarantine shows names and texts only as `originals`: do not give them to a model. @param {t.DocumentsPage} [how] @returns {Promise<t.Documents>} */
  documents({ prefix, start, limit, reverse, texts, tokens, originals = true } = {}) {
    return this.#get("archive", { prefix, after: start, limit, reverse, texts, tokens, originals });
  }

  /** All documents whose names begin with a text, page after page. @param {t.DocumentsPage} [how] @returns {AsyncGenerator<t.Document, void>} */
  async *allDocuments(how = {}) {
    yield* follow((start) => this.documents({ ...how, start: start ?? how.start }), "documents", "next");
  }

  /** A document of the archive with a page of its passages; `start` is `next_index` of the previous page. Without `originals`, texts in quarantine are left out. @param {string} docId @param {number} [start] @param {number} [limit] @param {{originals?: boolean}} [how] @returns {Promise<t.Document>} */
  document(docId, start = 0, limit, { originals = true } = {}) {
    return this.#get(`archive/${encodeURIComponent(docId)}`, { from_index: start, limit, originals });
  }

  /** Deletes a document from the archive. @param {string} docId @param {t.Write} [write] @returns {Promise<t.Answer<t.Ingested>>} */
  async deleteDocument(docId, write = {}) {
    const given = { doc_id: docId };
    const rev = write.rev ?? this.#seen.builtOn("ingest_archival", given);
    const path = `${this.#path}/archive/${encodeURIComponent(docId)}`;
    const answer = await this.#client.write("DELETE", path, undefined, { ...write, rev });
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
    const answer = await this.#client.write("POST", `${this.#path}/events`, body, write);
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
    return this.#client.write("POST", `${this.#path}/runs`, { input: said, ...how }, { timeoutMs: RUN_TIMEOUT_MS, ...write });
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
    return this.#client.write("POST", `${this.#path}/prompts`, asked, write);
  }

  /** Records the model's answer: its message and the end of the prompt in one write; `end_run` also ends the run. @param {number} turn @param {t.PromptAnswer} said @param {t.Write} [write] @returns {Promise<t.Json>} */
  async recordAnswer(turn, said, write = {}) {
    const answer = await this.#client.write("POST", `${this.#path}/prompts/${turn}/answer`, said, write);
    this.#seen.tool("record_answer", {}, answer);
    return answer;
  }

  /** A page of prompts that were sent to a model: figures, digests and ends. @param {number} [start] `next_turn` of the previous page @param {number} [limit] @returns {Promise<{prompts: t.Json[], next_turn: number | null}>} */
  prompts(start = 1, limit) {
    return this.#get("prompts", { from_turn: start, limit });
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
    const manifest = await this.#client.write("POST", `${this.#path}/forget`, what, { ...write, rev: write.rev ?? ANY });
    if (!what.dry_run) this.#seen.forgotten();
    return manifest;
  }

  /** Gives the agent a new name; its earlier names, and this handle, still reach it. Raises `AgentExists` for a name that another agent has or had. @param {string} name @param {t.Write} [write] @returns {Promise<t.State>} */
  async rename(name, write = {}) {
    return this.#shown(await this.#client.write("POST", `${this.#path}/rename`, { name }, { ...write, rev: write.rev ?? ANY }));
  }

  /** Makes another agent with this agent's memory, under a new name; raises `AgentExists` for a name that is in use. @param {string} name @param {t.Write} [write] @returns {Promise<Agent>} */
  async clone(name, write = {}) {
    const clone = new Agent(this.#client, name);
    clone.#shown(await this.#client.write("POST", `${this.#path}/clone`, { agent: name }, write));
    return clone;
  }

  /** Deletes the agent with everything that it remembers; gives the manifest. A deletion that is `under_way` is continued by the same call with the same key. @param {t.Write} [write] @returns {Promise<t.Json>} */
  async delete(write = {}) {
    const manifest = await this.#client.write("DELETE", this.#path, undefined, { ...write, rev: write.rev ?? ANY });
    this.#seen.forgotten();
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

  /**
   * What the memory and the given documents say about a question, in a bounded number of tokens; by default about the newest message of the
   * user. `text` is the context, `messages` the prompt with it, `pack` names it for `recordPrompt`.
   * @param {string} [question]
   * @param {{ documents?: { text: string, id?: string }[], tokensMax?: number, slots?: { system?: number, history?: number, summary?: number, documents?: number, reserve?: number }, depth?: "auto" | "once" | "deep", explain?: boolean }} [how]
   * @returns {Promise<t.Json>}
   */
  buildContext(question, { documents, tokensMax, slots, depth, explain } = {}) {
    const body = { question, documents, tokens_max: tokensMax, slots, depth, explain };
    return this.#client.json("POST", `${this.#path}/context`, body);
  }

  /** The rendered window as chat messages, with its receipt. @returns {Promise<t.Context>} */
  context() {
    return this.#client.json("GET", `${this.#path}/context`);
  }

  /** A page of the tainted items of the memory: positions, rules and lengths. @param {string} [start] `next` of the previous page @param {number} [limit] @returns {Promise<t.Json>} */
  quarantine(start, limit) {
    return this.#get("quarantine", { after: start, limit });
  }

  /** One tainted item with its text. @param {string} id @returns {Promise<t.Json>} */
  quarantined(id) {
    return this.#get("quarantine", { id });
  }

  /** Releases a tainted item from quarantine, or holds it again. Without a revision, any revision is accepted. @param {string} id @param {boolean} [hold] @param {t.Write} [write] @returns {Promise<t.Answer<t.Json>>} */
  async release(id, hold = false, write = {}) {
    const body = { id, hold };
    const answer = await this.#client.write("POST", `${this.#path}/quarantine`, body, write);
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

  /** A page of all messages ever appended, or of those of one session. @param {number} [start] `next_seq` of the previous page @param {number} [limit] @param {{session?: string, originals?: boolean}} [how] @returns {Promise<{messages: t.Message[], next_seq: number | null}>} */
  messages(start = 1, limit, { session, originals } = {}) {
    return this.#get("messages", { from_seq: start, limit, session, originals });
  }

  /** A page of the agent's sessions by name; `start` is `next` of the previous page. @param {string} [start] @param {number} [limit] @returns {Promise<{sessions: t.Session[], next: string | null}>} */
  sessions(start, limit) {
    return this.#get("sessions", { after: start, limit });
  }

  /** All sessions by name, page after page. @returns {AsyncGenerator<t.Session, void>} */
  async *allSessions() {
    yield* follow((start) => this.sessions(start), "sessions", "next");
  }

  /** A page of the memory's events: figures and ids, never text. @param {string} [start] `next_ts` of the previous page @param {number} [limit] @returns {Promise<{events: t.Event[], next_ts: string | null}>} */
  events(start, limit) {
    return this.#get("events", { from_ts: start, limit });
  }

  /**
   * Every change of the memory after a given one, once and in order: figures and ids, never text. The feed goes on by itself after a
   * restart of the server; after a failure it tries for the client's `patienceMs`. It ends when the agent is forgotten, and with
   * `wait: false` after the newest change. `ChangeUnknown` means that the agent has no such change any more.
   *
   * @param {t.Following} [how] @returns {AsyncGenerator<t.Change, void>}
   */
  async *changes(how = {}) {
    for await (const message of this.#client.followed(`${this.#path}/changes`, how)) {
      if (message.feed === "change") yield /** @type {t.Change} */ (message);
    }
  }

  /** The place of the newest change: `changes({ after })` with it shows what comes after this call. @returns {Promise<string>} */
  async lastChange() {
    for await (const message of this.#client.followed(`${this.#path}/changes`, { wait: false })) return place(message);
    throw new Garbled("the feed has no first message");
  }

  /** The differences between all rows of the agent and the agent's ledger. @returns {Promise<t.Json>} */
  ledger() {
    return this.#get("ledger", {});
  }

  /** Accepts the core as it is in the database, if its ledger contradicts it and it still has the revision `rev`. @param {string} rev @returns {Promise<t.Json>} */
  acceptCore(rev) {
    return this.#client.json("POST", `${this.#path}/ledger`, { accept: "core", _rev: rev });
  }

  /** A page of copies of system text, blocks and summary. @param {number} [start] `next_version` of the previous page @param {number} [limit] @returns {Promise<{versions: t.Json[], next_version: number | null}>} */
  history(start = 1, limit) {
    return this.#get("history", { from_version: start, limit });
  }

  /** All messages ever appended, page after page. @param {number} [start] @param {{session?: string}} [how] @returns {AsyncGenerator<t.Message, void>} */
  async *allMessages(start = 1, how) {
    yield* walk((from) => this.messages(from, undefined, how), "messages", "next_seq", start);
  }

  /** All events, page after page. @returns {AsyncGenerator<t.Event, void>} */
  async *allEvents(start = "") {
    yield* walk((from) => this.events(from), "events", "next_ts", start);
  }

  /** All copies of the texts, page after page. @returns {AsyncGenerator<t.Json, void>} */
  async *allVersions(start = 1) {
    yield* walk((from) => this.history(from), "versions", "next_version", start);
  }

  /** All prompts, page after page. @returns {AsyncGenerator<t.Json, void>} */
  async *allPrompts(start = 1) {
    yield* walk((from) => this.prompts(from), "prompts", "next_turn", start);
  }

  /** All tainted items, page after page. @returns {AsyncGenerator<t.Json, void>} */
  async *allQuarantined() {
    yield* follow((start) => this.quarantine(start), "items", "next");
  }

  /** All results of `searchRecall`, page after page, without copies in the window. @param {string} query @param {t.RecallSearch} [how] @returns {AsyncGenerator<t.Json, void>} */
  async *allFound(query, how = {}) {
    const page = async (/** @type {string | undefined} */ page_token) =>
      (await this.call("search_recall", { rehydrate: false, ...how, query, page_token })).result;
    yield* follow(page, "results", "next_page_token");
  }

  /** All results of `searchArchival`, page after page. @param {string} queryText @param {t.ArchiveSearch} [how] @returns {AsyncGenerator<t.Json, void>} */
  async *allPassages(queryText, how = {}) {
    const page = async (/** @type {string | undefined} */ page_token) =>
      (await this.call("search_archival", { ...how, query_text: queryText, page_token })).result;
    yield* follow(page, "results", "next_page_token");
  }

  /** @param {string} what @param {Record<string, unknown>} query */
  #get(what, query) {
    return this.#client.json("GET", withQuery(`${this.#path}/${what}`, query));
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

/** @param {(start: string | undefined) => Promise<any>} page @param {string} rows @param {string} next */
async function* follow(page, rows, next) {
  /** @type {string | undefined} */
  let start;
  do {
    const [found, following] = nextPage(await page(start), rows, next, start);
    yield* found;
    start = following;
  } while (start !== undefined);
}
