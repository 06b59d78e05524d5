// Cursors, statements and simple queries (ArangoDB's queries by example, range and the like).
'use strict';
const { show } = require('./print');

const SHOWN_ROWS = 10;

class Cursor {
  constructor(database, data, batchSize) {
    this.database = database;
    this.data = data;
    this.at = 0;
    this.batchSize = batchSize;
  }

  hasNext() {
    if (this.at < this.data.result.length) return true;
    return Boolean(this.data.hasMore && this.data.id) && this.fetch();
  }

  fetch() {
    const { nextBatchId } = this.data;
    const more = this.database._connection.ask('POST', this.database.path(
      `/_api/cursor/${this.data.id}${nextBatchId ? `/${nextBatchId}` : ''}`), undefined, this.headers);
    this.data = { ...more, id: this.data.id, extra: more.extra || this.data.extra, count: this.data.count };
    this.at = 0;
    return this.data.result.length > 0;
  }

  next() {
    if (!this.hasNext()) throw new Error('No more results');
    const row = this.data.result[this.at];
    this.at += 1;
    return row;
  }

  toArray() {
    const rows = [];
    while (this.hasNext()) {
      rows.push(...this.data.result.slice(this.at, this.at + 10000));
      this.at = Math.min(this.at + 10000, this.data.result.length);
    }
    return rows;
  }

  * [Symbol.iterator]() {
    while (this.hasNext()) yield this.next();
  }

  forEach(callback) {
    while (this.hasNext()) callback(this.next());
  }

  elements() { return this.toArray(); }
  getExtra() { return this.data.extra || {}; }
  count() { return this.data.count; }
  id() { return this.data.id; }

  dispose() {
    if (this.data.id && this.data.hasMore) {
      this.database._connection.plain('DELETE', this.database.path(`/_api/cursor/${this.data.id}`));
    }
    this.data.id = undefined;
    this.data.hasMore = false;
  }

  _PRINT() {
    const start = this.at;
    const rows = this.data.result.slice(start, start + SHOWN_ROWS);
    const count = this.data.count === undefined ? this.data.result.length : this.data.count;
    let text = `[object ArangoQueryCursor, count: ${count}, results cached: ${Boolean(this.data.cached)}, `
      + `hasMore: ${Boolean(this.data.hasMore)}]\n\n${show(rows, 0)}`;
    if (start + SHOWN_ROWS < this.data.result.length || this.data.hasMore) text += "\n\ntype 'more' to show more documents\n";
    return text;
  }

  toString() { return '[object ArangoQueryCursor]'; }
}

class Statement {
  constructor(database, data) {
    this.database = database;
    this.data = typeof data === 'string' || data.toAQL ? { query: String(data) } : { ...data };
    if (data.query && typeof data.query === 'object') Object.assign(this.data, data.query);
    this.data.bindVars = { ...(this.data.bindVars || {}) };
  }

  bind(name, value) {
    if (name && typeof name === 'object') Object.assign(this.data.bindVars, name);
    else this.data.bindVars[name] = value;
  }

  getBindVariables() { return this.data.bindVars; }
  setQuery(query) { this.data.query = query; }
  getQuery() { return this.data.query; }
  setCount(count) { this.data.count = Boolean(count); }
  getCount() { return Boolean(this.data.count); }
  setBatchSize(size) { this.data.batchSize = size; }
  getBatchSize() { return this.data.batchSize; }
  setOptions(options) { this.data.options = options; }
  getOptions() { return this.data.options; }
  setCache(cache) { this.data.cache = cache; }
  setTtl(ttl) { this.data.ttl = ttl; }

  execute() {
    return this.database.runCursor(this.data);
  }

  explain(options) {
    const body = { query: this.data.query, bindVars: this.data.bindVars, options: { ...(this.data.options || {}), ...(options || {}) } };
    const answer = this.database._connection.ask('POST', this.database.path('/_api/explain'), body);
    const { stats, warnings } = answer;
    return answer.plans !== undefined ? { warnings, stats, plans: answer.plans }
      : { warnings, stats, plan: answer.plan, cacheable: answer.cacheable };
  }

  parse() {
    const { bindVars, collections, ast } = this.database._connection.ask('POST', this.database.path('/_api/query'), { query: this.data.query });
    return { bindVars, collections, ast };
  }

  _PRINT() { return '[object ArangoStatement]'; }
  toString() { return '[object ArangoStatement]'; }
}

// A query that is sent to the server on first use; `execute(batchSize)` sets its batch size.
class SimpleQuery {
  constructor(database, text, binds) {
    this.database = database;
    this.text = text;
    this.binds = binds;
    this.parts = {};
  }

  limit(count) { this.parts.limit = count; return this; }
  skip(count) { this.parts.skip = count; return this; }
  setBatchSize(size) { this.batch = size; }

  execute(batchSize) {
    if (!this.cursor) {
      const { skip = 0, limit } = this.parts;
      const cut = skip || limit !== undefined ? ` LIMIT ${skip}, ${limit === undefined ? 'null' : limit}` : '';
      this.cursor = this.database.runCursor({
        query: this.text.replace(' @@CUT', cut), bindVars: this.binds, count: true, batchSize: batchSize || this.batch,
      });
    }
  }

  count() { this.execute(); return this.cursor.count(); }
  hasNext() { this.execute(); return this.cursor.hasNext(); }
  next() { this.execute(); return this.cursor.next(); }
  toArray() { this.execute(); return this.cursor.toArray(); }
  dispose() { if (this.cursor) this.cursor.dispose(); }
  forEach(callback) { this.execute(); this.cursor.forEach(callback); }

  * [Symbol.iterator]() {
    while (this.hasNext()) yield this.next();
  }

  _PRINT(depth, inner) { this.execute(); return this.cursor._PRINT(depth, inner); }
}

module.exports = { Cursor, Statement, SimpleQuery };
