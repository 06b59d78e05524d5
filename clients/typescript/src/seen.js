/** Which revision a call builds on: that of the last answer seen about what it writes. */

/** Documents whose revision is remembered; beyond, all are forgotten, and a call on one is refused and told the present revision. */
const DOCUMENTS_MAX = 4_096;

/**
 * The revisions that one handle saw last. What a block holds is known as of the answer that showed it (`storeCore`, `fetchCore`, a state),
 * not of the newest one: an append or a search says nothing of it, and so does not hide that somebody else changed it.
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
    // A document that nothing is known of must be new: it is no silent overwrite then.
    if (tool === "ingest_archival") return this.#documents.get(String(given.doc_id)) ?? "";
    if (tool === "store_core") return this.#blocks.get(String(given.block_id)) ?? this.#core;
    return this.memory;
  }

  /** Takes note of a state, which shows everything but documents. @param {any} answer */
  state(answer) {
    if (typeof answer._rev !== "string") return;
    this.memory = this.#core = answer._rev;
    this.#blocks.clear();
  }

  /** Takes note of a tool's answer. @param {string} tool @param {Record<string, unknown>} given @param {any} answer */
  tool(tool, given, answer) {
    let revision = answer._rev;
    if (tool === "ingest_archival") {
      this.#document(String(given.doc_id), answer.result?._rev);
      revision = answer.agent_rev;
    }
    if (typeof revision !== "string" || revision === "") return;
    this.memory = revision;
    this.#core ??= revision;
    if (tool === "store_core" || tool === "fetch_core") this.#blocks.set(String(given.block_id), revision);
  }

  /** @param {string} id @param {unknown} revision one without is forgotten */
  #document(id, revision) {
    if (typeof revision !== "string" || revision === "") {
      this.#documents.delete(id);
      return;
    }
    if (this.#documents.size >= DOCUMENTS_MAX) this.#documents.clear();
    this.#documents.set(id, revision);
  }
}
