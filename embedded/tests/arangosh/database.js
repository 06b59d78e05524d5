// The object `db`: the current database, with its collections and views as properties.
'use strict';
const { Collection, DOCUMENT, EDGE } = require('./collection');
const { View } = require('./view');
const { Cursor, Statement } = require('./cursor');
const { ArangoError, errors, raise } = require('./error');

const CURSOR_PARTS = ['count', 'batchSize', 'ttl', 'memoryLimit', 'cache'];

class Database {
  constructor(connection) {
    this._connection = connection;
    this.known = new Map();
    this.forced = undefined;
  }

  path(target) { return target; }
  ask(method, target, body, headers) { return this._connection.ask(method, this.path(target), body, headers); }
  forget() { this.known.clear(); }
  _flushCache() { this.forget(); }
  _PRINT() { return `[object ArangoDatabase "${this._name()}"]`; }
  toString() { return this._PRINT(); }

  _help() {
    return undefined;
  }

  // ---- databases

  _name() { return this._connection.database; }
  _id() { return this.ask('GET', '/_api/database/current').result.id; }
  _path() { return this.ask('GET', '/_api/database/current').result.path; }
  _isSystem() { return this._name() === '_system'; }
  _properties() {
    const { result } = this.ask('GET', '/_api/database/current');
    return result;
  }

  _databases() { return this.ask('GET', '/_api/database').result.sort(); }

  _createDatabase(name, options = {}, users = []) {
    const { sharding, replicationFactor, writeConcern, ...rest } = options || {};
    const filled = (users || []).map((user) => ({ active: true, extra: {}, passwd: '', ...user }));
    this.ask('POST', '/_api/database', { name, options: { sharding, replicationFactor, writeConcern, ...rest }, users: filled });
    return true;
  }

  _dropDatabase(name) { this.ask('DELETE', `/_api/database/${encodeURIComponent(name)}`); this.forget(); return true; }

  _useDatabase(name) {
    const before = this._connection.database;
    this._connection.database = name;
    this.forget();
    const answer = this._connection.raw('GET', '/_api/database/current');
    if (answer.code >= 400) {
      this._connection.database = before;
      throw new ArangoError(answer.parsedBody);
    }
    return true;
  }

  _version(details) {
    const answer = this.ask('GET', `/_api/version${details ? '?details=true' : ''}`);
    return details ? answer : answer.version;
  }

  _engine() { return this.ask('GET', '/_api/engine'); }
  _engineStats() { return this._connection.plain('GET', '/_api/engine/stats'); }
  _compact() { return this._connection.plain('PUT', '/_admin/compact'); }

  // ---- collections

  made(info) {
    const collection = new Collection(this, info, this.forced);
    this.known.set(info.name, collection);
    return collection;
  }

  _create(name, properties = {}, type = undefined, options = undefined) {
    if (type && typeof type === 'object') { options = type; type = undefined; }
    const kind = type === 'edge' ? EDGE : DOCUMENT;
    return this.make(name, kind, properties, options);
  }

  make(name, type, properties, options) {
    const query = options && options.enforceReplicationFactor === false ? '?enforceReplicationFactor=false' : '';
    return this.made(this.ask('POST', `/_api/collection${query}`, { ...(properties || {}), name, type }));
  }

  _createDocumentCollection(name, properties, options) { return this.make(name, DOCUMENT, properties, options); }
  _createEdgeCollection(name, properties, options) { return this.make(name, EDGE, properties, options); }

  _collection(name) {
    const wanted = String(name);
    if (this.known.has(wanted) && this.known.get(wanted) instanceof Collection) return this.known.get(wanted);
    const answer = this._connection.raw('GET', this.path(`/_api/collection/${encodeURIComponent(wanted)}`));
    if (answer.code === 404) return null;
    if (answer.code >= 400) throw new ArangoError(answer.parsedBody);
    return this.made(answer.parsedBody);
  }

  _collections() {
    return this.ask('GET', '/_api/collection').result.sort((a, b) => (a.name < b.name ? -1 : 1)).map((info) => this.made(info));
  }

  _drop(name, options) {
    const named = name instanceof Collection ? name.name() : name;
    const query = options && (options.isSystem || options === true) ? '?isSystem=true' : '';
    try {
      this.ask('DELETE', `/_api/collection/${encodeURIComponent(named)}${query}`);
    } catch (error) {
      if (error.errorNum !== errors.ERROR_ARANGO_DATA_SOURCE_NOT_FOUND.code) throw error;
    } finally {
      this.forget();
    }
  }

  _truncate(name) { this.needed(name instanceof Collection ? name.name() : name).truncate(); }

  needed(name) {
    const collection = this._collection(name);
    if (!collection) raise(errors.ERROR_ARANGO_DATA_SOURCE_NOT_FOUND.code, 404, `collection or view not found: ${name}`);
    return collection;
  }

  // ---- documents by id

  holder(handle) {
    const id = handle && typeof handle === 'object' ? handle._id : handle;
    if (typeof id !== 'string' || !/^[^/]+\/[^/]+$/.test(id)) raise(errors.ERROR_ARANGO_DOCUMENT_HANDLE_BAD.code, 400);
    return new Collection(this, { name: id.slice(0, id.indexOf('/')) }, this.forced);
  }

  _document(handle, ...rest) { return this.holder(handle).document(handle, ...rest); }
  _exists(handle, ...rest) { return this.holder(handle).exists(handle, ...rest); }
  _replace(handle, ...rest) { return this.holder(handle).replace(handle, ...rest); }
  _update(handle, ...rest) { return this.holder(handle).update(handle, ...rest); }
  _remove(handle, ...rest) { return this.holder(handle).remove(handle, ...rest); }

  _index(handle) { return this.holder(typeof handle === 'object' ? { _id: handle.id } : handle).index(handle); }
  _dropIndex(handle) { return this.holder(typeof handle === 'object' ? { _id: handle.id } : handle).dropIndex(handle); }

  // ---- queries

  runCursor({ headers, ...data }) {
    const body = {};
    for (const [name, value] of Object.entries(data)) if (value !== undefined) body[name] = value;
    const all = { ...this.forced, ...headers };
    const cursor = new Cursor(this, this.ask('POST', '/_api/cursor', body, all));
    cursor.headers = all;
    return cursor;
  }

  _query(query, bindVars, cursorOptions, options) {
    let data;
    if (query && typeof query === 'object' && query.query !== undefined && typeof query.toAQL !== 'function') {
      const { _source, ...parts } = query;
      data = { ...parts, options: { ...(query.options || {}) } };
      if (query.query && typeof query.query === 'object') Object.assign(data, query.query);
      options = cursorOptions;
      cursorOptions = bindVars;
    } else {
      data = { query: query && query.toAQL ? query.toAQL() : query, bindVars: bindVars || {}, options: {} };
    }
    for (const [name, value] of Object.entries(cursorOptions || {})) {
      if (name === 'options') Object.assign(data.options, value);
      else if (CURSOR_PARTS.includes(name)) data[name] = value;
      else data.options[name] = value;
    }
    for (const [name, value] of Object.entries(options || {})) {
      data.options[name] = value;
      if (CURSOR_PARTS.includes(name)) { data[name] = value; delete data.options[name]; }
    }
    if (data.count === undefined) data.count = false;
    return this.runCursor(data);
  }

  _createStatement(data) { return new Statement(this, data); }
  _parse(query) { const { error, ...rest } = this.ask('POST', '/_api/query', { query }); return rest; }

  explained(query, bindVars, options) {
    const data = query && typeof query === 'object' && query.query ? query : { query: String(query && query.toAQL ? query.toAQL() : query), bindVars, options };
    return this.ask('POST', '/_api/explain', data);
  }

  _explain(query, bindVars, options) { require('./explainer').explain(this, query, bindVars, options); }
  _profileQuery(query, bindVars, options) { require('./explainer').profile(this, query, bindVars, options); }

  // ---- views

  seen(info) {
    const view = new View(this, info);
    this.known.set(info.name, view);
    return view;
  }

  _createView(name, type, properties = {}) { return this.seen(this.ask('POST', '/_api/view', { ...properties, name, type })); }

  _view(name) {
    const answer = this._connection.raw('GET', this.path(`/_api/view/${encodeURIComponent(name)}`));
    if (answer.code === 404) return null;
    if (answer.code >= 400) throw new ArangoError(answer.parsedBody);
    return this.seen(answer.parsedBody);
  }

  _views() { return this.ask('GET', '/_api/view').result.sort((a, b) => (a.name < b.name ? -1 : 1)).map((info) => this.seen(info)); }

  _dropView(name) {
    const answer = this._connection.raw('DELETE', this.path(`/_api/view/${encodeURIComponent(name)}`));
    this.forget();
    if (answer.code >= 400 && answer.code !== 404) throw new ArangoError(answer.parsedBody);
  }

  // ---- transactions

  _createTransaction(data) { return new Transaction(this, data); }
  _transactions() { return this.ask('GET', '/_api/transaction').transactions; }

  // A transaction function runs in the client, inside a stream transaction, because the server has
  // no JavaScript.
  _executeTransaction(data) {
    if (!data || typeof data !== 'object') raise(errors.ERROR_BAD_PARAMETER.code, 400, 'usage: _executeTransaction(<object>)');
    const { action, params, ...rest } = data;
    if (action === undefined || rest.collections === undefined) raise(errors.ERROR_BAD_PARAMETER.code, 400, 'missing collections or action');
    const transaction = new Transaction(this, rest);
    const before = this.forced;
    this.forced = { 'x-arango-trx-id': transaction.id() };
    this.forget();
    try {
      const run = typeof action === 'string' ? (0, eval)(`(${action})`) : action; // eslint-disable-line no-eval
      const result = run(params);
      transaction.commit();
      return result;
    } catch (error) {
      if (transaction.running) transaction.abort();
      throw error;
    } finally {
      this.forced = before;
      this.forget();
    }
  }
}

class Transaction {
  constructor(database, data) {
    this.database = database;
    const answer = database.ask('POST', '/_api/transaction/begin', { ...data, collections: namesOf(data.collections) });
    this._id = answer.result.id;
    this.running = true;
    this.headers = { 'x-arango-trx-id': this._id };
  }

  url() { return this.database.path(`/_api/transaction/${this._id}`); }
  id() { return this._id; }
  status() { return this.database._connection.ask('GET', this.url()).result; }
  _PRINT() { return `[object ArangoTransaction, id: ${this._id}]`; }

  commit() { const { result } = this.database._connection.ask('PUT', this.url(), {}); this.running = false; return result; }
  abort() { const { result } = this.database._connection.ask('DELETE', this.url()); this.running = false; return result; }

  collection(name) {
    const { _id: id, _type: type } = this.database.needed(name instanceof Collection ? name.name() : name);
    return new Collection(this.database, { id, name: name instanceof Collection ? name.name() : name, type }, this.headers);
  }

  query(...given) {
    const before = this.database.forced;
    this.database.forced = { ...before, ...this.headers };
    try {
      return this.database._query(...given);
    } finally {
      this.database.forced = before;
    }
  }
}

function namesOf(collections) {
  if (!collections || typeof collections !== 'object') return collections;
  const named = (item) => (item instanceof Collection ? item.name() : item);
  const out = {};
  for (const [kind, value] of Object.entries(collections)) {
    if (Array.isArray(value)) out[kind] = value.map(named);
    else out[kind] = named(value);
  }
  return out;
}

// Unknown properties of `db` are looked up as collections and views. A name that begins with an
// underscore is looked up only as a collection.
function databaseWithProperties(connection) {
  const database = new Database(connection);
  return new Proxy(database, {
    get(target, property, receiver) {
      if (property in target || typeof property === 'symbol') return Reflect.get(target, property, receiver);
      if (property === 'then' || property === 'toJSON' || property === 'constructor') return undefined;
      if (target.known.has(property)) return target.known.get(property);
      if (!/^[a-zA-Z_\u0080-\uffff]/.test(property)) return undefined;
      return target._collection(property) || target._view(property) || undefined;
    },
    has(target, property) { return property in target; },
    // `db.name = undefined` removes the cached object; scripts do this after a rename.
    set(target, property, value) {
      if (value === undefined && !(property in target)) target.known.delete(property);
      else target[property] = value;
      return true;
    },
  });
}

module.exports = { databaseWithProperties, Transaction };
