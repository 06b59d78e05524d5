/** Which revision a call builds on: that of the last answer seen about what it writes. */

/** Blocks and documents whose revision is remembered; beyond, all are forgotten, and a call on one is refused and told the present one. */
const REMEMBERED_MAX = 4_096;

/** These calls cannot overwrite unseen changes, so they need no revision. */
export const BUILDS_ON_NOTHING = new Set([
  "fetch_core",
  "search_recall",
  "search_archival",
  "record_heartbeat",
  "trace_memory",
  "build_context",
  "conversation_search",
  "conversation_search_date",
  "archival_memory_insert",
  "archival_memory_search",
  "retrieve_from_ues",
  "summarize_text",
]);

/**
 * These calls add to the log or move its oldest messages out of the window. Whatever another caller appended meanwhile, they mean the
 * same, so they accept any revision.
 */
export const BUILDS_ON_ANY = new Set(["append_fifo", "evict_fifo", "write_recall", "send_message"]);

/** The argument by which a tool names its block. */
const BLOCK_NAMED_BY = new Map([
  ["store_core", "block_id"],
  ["fetch_core", "block_id"],
  ["core_memory_append", "label"],
  ["core_memory_replace", "label"],
  ["memory_insert", "label"],
  ["memory_replace", "label"],
  ["memory_rethink", "label"],
  ["memory", "path"],
]);

/** The block that a call is about, if it is about one. @param {string} tool @param {Record<string, unknown>} given */
function blockOf(tool, given) {
  const named = BLOCK_NAMED_BY.get(tool);
  return named === undefined ? undefined : String(given[named] ?? given.old_path);
}

/** Whether a block has this name, or lies below it if the name is a path. @param {string} named @param {string} id */
function isNamed(named, id) {
  const path = named.replace(/^\/memories/, "").replace(/^\/+|\/+$/g, "");
  return path === "" || path === id || id.startsWith(`${path}/`);
}

/** A revision, and the number of the memory's version that it belongs to, if an answer stated it. @typedef {{rev: string, version: number | undefined}} Mark */

/** The memory's revision in an answer; the `_rev` of an answer about a document is the document's. @param {any} answer @returns {Mark | undefined} */
function markOf(answer) {
  const rev = answer.agent_rev ?? answer._rev;
  if (typeof rev !== "string" || rev === "") return undefined;
  return { rev, version: typeof answer.version === "number" ? answer.version : undefined };
}

/**
 * The revisions that one handle saw last. What a block holds is known as of the answer that showed it (`storeCore`, `fetchCore`, a state),
 * not of the newest one: an append or a search does not show it, and so does not hide a change by another caller.
 */
export class Seen {
  /** @type {Mark | undefined} */
  memory = undefined;
  /** @type {Mark | undefined} */
  #core = undefined;
  /** @type {Map<string, Mark>} */
  #blocks = new Map();
  /** @type {Map<string, string>} */
  #documents = new Map();

  /**
   * The revision for a call; none when nothing was seen yet.
   *
   * @param {string} tool @param {Record<string, unknown>} given @returns {string | undefined}
   */
  builtOn(tool, given) {
    // A document that was not seen must be new on the server, so that no document is overwritten
    // silently.
    if (tool === "ingest_archival") return this.#documents.get(String(given.doc_id)) ?? "";
    return this.#markOf(tool, given)?.rev;
  }

  /**
   * Whether the block of a call is in the state as this handle saw it; then the call builds on that state.
   *
   * @param {string} tool @param {Record<string, unknown>} given @param {any} state
   */
  stillHolds(tool, given, state) {
    const [block, newest] = [blockOf(tool, given), markOf(state)];
    const version = this.#markOf(tool, given)?.version;
    if (block === undefined || version === undefined || newest === undefined) return false;
    const named = (state.blocks ?? []).filter((/** @type {any} */ one) => isNamed(block, String(one.id)));
    if (!named.every((/** @type {any} */ one) => one.changed_at_version <= version)) return false;
    this.#blocks.set(block, newest);
    return true;
  }

  /** Takes note of a state, which shows everything but documents. @param {any} answer */
  state(answer) {
    const mark = markOf(answer);
    if (mark === undefined) return;
    this.memory = this.#core = mark;
    this.#blocks.clear();
  }

  /** Something was forgotten in several steps: what was seen of the memory before says nothing any more. */
  forgotten() {
    this.memory = this.#core = undefined;
    this.#blocks.clear();
    this.#documents.clear();
  }

  /** Takes note of a tool's answer. @param {string} tool @param {Record<string, unknown>} given @param {any} answer */
  tool(tool, given, answer) {
    if (tool === "ingest_archival") this.#document(String(given.doc_id), answer.result?._rev);
    const mark = markOf(answer);
    if (mark === undefined) return;
    if (tool === "fetch_core" && given.block_id === undefined) return this.state({ _rev: mark.rev, version: mark.version });
    this.memory = mark;
    this.#core ??= mark;
    const block = blockOf(tool, given);
    if (block === undefined) return;
    if (this.#blocks.size >= REMEMBERED_MAX) this.#blocks.clear();
    this.#blocks.set(block, mark);
  }

  /** @param {string} tool @param {Record<string, unknown>} given */
  #markOf(tool, given) {
    const block = blockOf(tool, given);
    return block === undefined ? this.memory : (this.#blocks.get(block) ?? this.#core);
  }

  /** @param {string} id @param {unknown} revision one without is forgotten */
  #document(id, revision) {
    if (typeof revision !== "string" || revision === "") {
      this.#documents.delete(id);
      return;
    }
    if (this.#documents.size >= REMEMBERED_MAX) this.#documents.clear();
    this.#documents.set(id, revision);
  }
}
