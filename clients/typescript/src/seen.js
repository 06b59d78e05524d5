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
  "conversation_search",
  "conversation_search_date",
  "archival_memory_insert",
  "archival_memory_search",
]);

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

/**
 * The revisions that one handle saw last. What a block holds is known as of the answer that showed it (`storeCore`, `fetchCore`, a state),
 * not of the newest one: an append or a search does not show it, and so does not hide a change by another caller.
 */
export class Seen {
  /** @type {string | undefined} */
  memory = undefined;
  /** @type {string | undefined} */
  #core = undefined;
  /** @type {Map<string, string>} */
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
    const block = blockOf(tool, given);
    return block === undefined ? this.memory : (this.#blocks.get(block) ?? this.#core);
  }

  /** Takes note of a state, which shows everything but documents. @param {any} answer */
  state(answer) {
    if (typeof answer._rev !== "string") return;
    this.memory = this.#core = answer._rev;
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
    // The `_rev` of an answer about a document is the document's revision.
    const revision = answer.agent_rev ?? answer._rev;
    if (typeof revision !== "string" || revision === "") return;
    if (tool === "fetch_core" && given.block_id === undefined) return this.state({ _rev: revision });
    this.memory = revision;
    this.#core ??= revision;
    const block = blockOf(tool, given);
    if (block === undefined) return;
    if (this.#blocks.size >= REMEMBERED_MAX) this.#blocks.clear();
    this.#blocks.set(block, revision);
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
