// Collections with the properties and methods that scripts of arangosh use.
'use strict';
const { SimpleQuery } = require('./cursor');
const { ArangoError, errors, raise } = require('./error');

const DOCUMENT = 2;
const EDGE = 3;
const IMPORT_BATCH = 10000;

// Returns the options of a document call as URL parameters.
function parameters(options, names) {
  const given = Object.entries(options || {}).filter(([name, value]) => names.includes(name) && value !== undefined);
  return given.length === 0 ? '' : `?${given.map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join('&')}`;
}

const WRITE_OPTIONS = ['waitForSync', 'returnNew', 'returnOld', 'silent', 'keepNull', 'mergeObjects', 'ignoreRevs', 'overwrite',
  'overwriteMode', 'isRestore', 'refillIndexCaches', 'versionAttribute', 'isSynchronousReplication'];

class Collection {
  constructor(database, info, headers) {
    this.database = database;
    this._id = info.id;
    this._name = info.name;
    this._type = info.type;
    this.headers = headers;
  }

  ask(method, target, body, headers) {
    return this.database._connection.ask(method, this.database.path(target), body, { ...this.headers, ...headers });
  }

  url(rest = '') { return `/_api/collection/${encodeURIComponent(this._name)}${rest}`; }
  name() { return this._name; }
  type() { return this._type; }
  status() { return 3; }
  planId() { return this._id; }
  toString() { return `[ArangoCollection: ${this._id}]`; }

  _PRINT() {
    const type = this._type === EDGE ? 'edge' : 'document';
    return `[ArangoCollection ${this._id}, "${this._name}" (type ${type}, status loaded)]`;
  }

  // ---- the collection itself

  properties(change) {
    const answer = change === undefined ? this.ask('GET', this.url('/properties')) : this.ask('PUT', this.url('/properties'), change);
    const shown = {};
    const first = ['globallyUniqueId', 'isSystem', 'waitForSync', 'keyOptions', 'writeConcern', 'cacheEnabled', 'computedValues', 'syncByRevision', 'schema', 'supportsRBAC'];
    const names = [...first.filter((name) => name in answer), ...Object.keys(answer).filter((name) => !first.includes(name))];
    for (const [name, value] of names.map((known) => [known, answer[known]])) {
      if (!['code', 'error', 'id', 'name', 'type', 'status', 'statusString', 'internalValidatorType', 'objectId', 'cid', 'tempObjectId',
        'isDisjoint', 'isSmartChild', 'minReplicationFactor', 'usesRevisionsAsDocumentIds'].includes(name)) shown[name] = value;
    }
    return shown;
  }

  count() { return this.ask('GET', this.url('/count')).count; }
  figures(details) { return this.ask('GET', this.url(`/figures${details ? '?details=true' : ''}`)).figures; }
  revision() { return this.ask('GET', this.url('/revision')).revision; }
  checksum(withRevisions = false, withData = false) {
    const { checksum, revision } = this.ask('GET', this.url(`/checksum?withRevisions=${Boolean(withRevisions)}&withData=${Boolean(withData)}`));
    return { checksum, revision };
  }

  truncate(options) {
    this.ask('PUT', this.url(`/truncate${parameters(options, ['waitForSync', 'compact'])}`), {});
  }

  compact() { return this.ask('PUT', this.url('/compact'), {}); }
  load() { this.ask('PUT', this.url('/load'), {}); }
  unload() { this.ask('PUT', this.url('/unload'), {}); }
  loadIndexesIntoMemory() { return { result: this.ask('PUT', this.url('/loadIndexesIntoMemory'), {}).result }; }
  recalculateCount() { return this.ask('PUT', this.url('/recalculateCount'), {}).result; }
  shards(details) { return this.ask('GET', this.url(`/shards?details=${Boolean(details)}`)).shards; }
  getResponsibleShard(document) { return this.ask('PUT', this.url('/responsibleShard'), document).shardId; }
  refresh() { return undefined; }

  drop(options = {}) {
    this.ask('DELETE', this.url(parameters(typeof options === 'boolean' ? { isSystem: options } : options, ['isSystem'])));
    this.database.forget();
  }

  rename(name) {
    this.ask('PUT', this.url('/rename'), { name });
    this.database.forget();
    this._name = name;
  }

  // ---- indexes

  getIndexes(withStats, withHidden) {
    return this.ask('GET', `/_api/index?collection=${encodeURIComponent(this._name)}&withStats=${Boolean(withStats)}`
      + `&withHidden=${Boolean(withHidden)}`).indexes;
  }

  indexes(...options) { return this.getIndexes(...options); }

  indexUrl(handle) {
    let id = handle && typeof handle === 'object' ? handle.id : handle;
    if (typeof id === 'number') id = String(id);
    if (!id) raise(errors.ERROR_ARANGO_INDEX_HANDLE_BAD.code, 400);
    if (!id.includes('/')) id = `${this._name}/${id}`;
    if (id.slice(0, id.indexOf('/')) !== this._name) raise(errors.ERROR_ARANGO_CROSS_COLLECTION_REQUEST.code, 400);
    return `/_api/index/${id.split('/').map(encodeURIComponent).join('/')}`;
  }

  index(handle) { const { error, code, ...index } = this.ask('GET', this.indexUrl(handle)); return { code, ...index }; }

  dropIndex(handle) {
    try {
      this.ask('DELETE', this.indexUrl(handle));
      return true;
    } catch (error) {
      if (error.errorNum === errors.ERROR_ARANGO_INDEX_NOT_FOUND.code) return false;
      throw error;
    }
  }

  ensureIndex(definition) {
    const { error, ...index } = this.ask('POST', `/_api/index?collection=${encodeURIComponent(this._name)}`, definition);
    return index;
  }

  // ---- documents

  // Returns the key of a document that is named by its key, its id, or an object with one of them.
  handle(value) {
    const named = value && typeof value === 'object' ? (value._id || value._key) : value;
    if (typeof named !== 'string' || named === '') {
      if (value && typeof value === 'object' && value._key !== undefined) raise(errors.ERROR_ARANGO_DOCUMENT_KEY_BAD.code, 400);
      raise(errors.ERROR_ARANGO_DOCUMENT_HANDLE_BAD.code, 400);
    }
    const slash = named.indexOf('/');
    if (slash >= 0) {
      if (named.slice(0, slash) !== this._name && named.slice(0, slash) !== this._id) raise(errors.ERROR_ARANGO_CROSS_COLLECTION_REQUEST.code, 400);
      return named.slice(slash + 1);
    }
    return named;
  }

  documentUrl(key = '', query = '') {
    return `/_api/document/${encodeURIComponent(this._name)}${key === '' ? '' : `/${encodeURIComponent(key)}`}${query}`;
  }

  // Returns the If-Match header for an object with a revision, unless the options request an
  // overwrite or ignore revisions.
  guard(value, options) {
    if (!value || typeof value !== 'object' || !value._rev || (options && (options.overwrite || options.ignoreRevs === true))) return {};
    return { 'if-match': JSON.stringify(value._rev) };
  }

  document(handle, options = {}) {
    const headers = options.allowDirtyReads ? { 'x-arango-allow-dirty-read': 'true' } : {};
    if (Array.isArray(handle)) return this.ask('PUT', this.documentUrl('', '?onlyget=true'), handle, headers);
    const key = this.handle(handle);
    if (handle && typeof handle === 'object' && handle._rev) headers['if-match'] = JSON.stringify(handle._rev);
    return this.conflictAsRecorded(() => this.ask('GET', this.documentUrl(key), undefined, headers));
  }

  exists(handle, options = {}) {
    const key = this.handle(handle);
    const headers = handle && typeof handle === 'object' && handle._rev ? { 'if-match': JSON.stringify(handle._rev) } : {};
    const answer = this.database._connection.raw('HEAD', this.database.path(this.documentUrl(key)), undefined, { ...this.headers, ...headers });
    if (answer.code === 404) return false;
    if (answer.code === 412) raise(errors.ERROR_ARANGO_CONFLICT.code, 412);
    if (answer.code >= 400) throw new ArangoError({ errorNum: answer.code, code: answer.code, errorMessage: answer.statusText });
    return true;
  }

  conflictAsRecorded(call) {
    return call();
  }

  insert(...given) {
    let [data, options] = given;
    if (this._type === EDGE && given.length >= 3 || (this._type === EDGE && typeof data === 'string')) {
      const [from, to, body] = given;
      data = { ...(body || {}), _from: named(from), _to: named(to) };
      [, , , options] = given;
    }
    if (data === undefined || data === null) raise(errors.ERROR_ARANGO_DOCUMENT_TYPE_INVALID.code, 400);
    const flags = typeof options === 'boolean' ? { waitForSync: options } : { ...(options || {}) };
    const answer = this.ask('POST', this.documentUrl('', parameters(flags, WRITE_OPTIONS)), data);
    return flags.silent && !Array.isArray(data) ? true : answer;
  }

  save(...given) { return this.insert(...given); }

  change(method, handle, data, options, keepNull) {
    const flags = typeof options === 'boolean' ? { overwrite: options, keepNull } : { ...(options || {}) };
    if (Array.isArray(handle)) {
      const bodies = data.map((body, at) => ({ ...body, ...identity(handle[at]) }));
      return this.ask(method, this.documentUrl('', parameters({ ignoreRevs: Boolean(flags.overwrite), ...flags, overwrite: undefined }, WRITE_OPTIONS)), bodies);
    }
    const key = this.handle(handle);
    const query = parameters({ ...flags, overwrite: undefined }, WRITE_OPTIONS);
    const answer = this.ask(method, this.documentUrl(key, query), data, this.guard(handle, flags));
    return flags.silent ? true : answer;
  }

  replace(handle, data, options) { return this.change('PUT', handle, data, options); }
  update(handle, data, options, keepNull) { return this.change('PATCH', handle, data, options, keepNull); }

  remove(handle, options) {
    const flags = typeof options === 'boolean' ? { overwrite: options } : { ...(options || {}) };
    if (Array.isArray(handle)) {
      return this.ask('DELETE', this.documentUrl('', parameters({ ignoreRevs: Boolean(flags.overwrite), ...flags, overwrite: undefined }, WRITE_OPTIONS)), handle);
    }
    const key = this.handle(handle);
    const query = parameters({ ...flags, overwrite: undefined }, WRITE_OPTIONS);
    const answer = this.ask('DELETE', this.documentUrl(key, query), undefined, this.guard(handle, flags));
    return flags.silent ? true : answer;
  }

  // ---- many documents

  query(text, binds = {}) {
    return this.database.runCursor({ query: text, bindVars: { '@c': this._name, ...binds }, headers: this.headers });
  }

  all() { return new SimpleQuery(this.database, 'FOR d IN @@c @@CUT RETURN d', { '@c': this._name }); }
  toArray() { return this.all().toArray(); }
  iterate(callback) { this.toArray().forEach((document, at) => callback(document, at)); }
  any() { return this.query('FOR d IN @@c SORT RAND() LIMIT 1 RETURN d').toArray()[0] || null; }
  first(count) { const rows = this.query('FOR d IN @@c LIMIT @n RETURN d', { n: count || 1 }).toArray(); return count ? rows : rows[0] || null; }

  matching(example) {
    const binds = {};
    const parts = Object.entries(example).map(([name, value], at) => {
      binds[`v${at}`] = value;
      binds[`a${at}`] = name.includes('.') ? name.split('.') : name;
      return ` FILTER d.@a${at} == @v${at}`;
    });
    return { filter: parts.join(''), binds };
  }

  byExample(...example) {
    const { filter, binds } = this.matching(asExample(example));
    return new SimpleQuery(this.database, `FOR d IN @@c${filter} @@CUT RETURN d`, { '@c': this._name, ...binds });
  }

  firstExample(...example) { return this.byExample(...example).limit(1).toArray()[0] || null; }

  modifying(example, statement, extra, limit) {
    const { filter, binds } = this.matching(example);
    const cut = limit === undefined || limit === null ? '' : ' LIMIT @limit';
    if (cut) binds.limit = limit;
    return this.query(`FOR d IN @@c${filter}${cut} ${statement}`, { ...binds, ...extra }).getExtra().stats.writesExecuted;
  }

  removeByExample(example, waitForSync, limit) {
    const options = waitForSync && typeof waitForSync === 'object' ? waitForSync : { waitForSync, limit };
    return this.modifying(example, 'REMOVE d IN @@c OPTIONS { waitForSync: @w }', { w: Boolean(options.waitForSync) }, options.limit);
  }

  replaceByExample(example, value, waitForSync, limit) {
    const options = waitForSync && typeof waitForSync === 'object' ? waitForSync : { waitForSync, limit };
    return this.modifying(example, 'REPLACE d WITH @new IN @@c OPTIONS { waitForSync: @w }', { new: value, w: Boolean(options.waitForSync) }, options.limit);
  }

  updateByExample(example, value, keepNull = true, waitForSync = false, limit = undefined) {
    const options = keepNull && typeof keepNull === 'object' ? { keepNull: true, mergeObjects: true, ...keepNull }
      : { keepNull, waitForSync, limit, mergeObjects: true };
    return this.modifying(example, 'UPDATE d WITH @new IN @@c OPTIONS { waitForSync: @w, keepNull: @k, mergeObjects: @m }',
      { new: value, w: Boolean(options.waitForSync), k: options.keepNull, m: options.mergeObjects }, options.limit);
  }

  documents(keys) { return { documents: this.query('FOR d IN @@c FILTER d._key IN @keys RETURN d', { keys }).toArray() }; }
  lookupByKeys(keys) { return this.documents(keys); }

  removeByKeys(keys) {
    const { stats } = this.query('FOR k IN @keys REMOVE k IN @@c OPTIONS { ignoreErrors: true }', { keys }).getExtra();
    return { removed: stats.writesExecuted, ignored: stats.writesIgnored };
  }

  import(documents, options = {}) {
    const rows = typeof documents === 'string' ? documents : documents.map((document) => JSON.stringify(document)).join('\n');
    const { error, code, ...counts } = this.ask('POST', `/_api/import?type=auto&collection=${encodeURIComponent(this._name)}`
      + parameters(options, ['onDuplicate', 'overwrite', 'complete', 'details', 'waitForSync', 'fromPrefix', 'toPrefix']).replace('?', '&'), rows);
    return counts;
  }

  insertMany(documents) {
    for (let at = 0; at < documents.length; at += IMPORT_BATCH) this.insert(documents.slice(at, at + IMPORT_BATCH));
  }

  // ---- edges

  touching(condition, vertices) {
    const ids = (Array.isArray(vertices) ? vertices : [vertices]).map(named);
    return this.query(`FOR d IN @@c FILTER ${condition} RETURN d`, { ids }).toArray();
  }

  edges(vertices) { return this.touching('d._from IN @ids OR d._to IN @ids', vertices); }
  inEdges(vertices) { return this.touching('d._to IN @ids', vertices); }
  outEdges(vertices) { return this.touching('d._from IN @ids', vertices); }
}

function named(value) { return value && typeof value === 'object' ? value._id : value; }

function identity(value) {
  if (typeof value === 'string') return { _key: value.includes('/') ? value.slice(value.indexOf('/') + 1) : value };
  return { _key: value._key || (value._id || '').split('/')[1], ...(value._rev ? { _rev: value._rev } : {}) };
}

function asExample(given) {
  if (given.length === 1) return given[0];
  const example = {};
  for (let at = 0; at + 1 < given.length; at += 2) example[given[at]] = given[at + 1];
  return example;
}

module.exports = { Collection, DOCUMENT, EDGE };
