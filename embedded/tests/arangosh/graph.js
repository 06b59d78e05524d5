// Named graphs: the module "@arangodb/general-graph", built on the HTTP API and AQL.
'use strict';
const { Collection, EDGE } = require('./collection');
const { errors, raise } = require('./error');
const { showMembers } = require('./print');

const list = (value) => (value === undefined || value === null ? [] : Array.isArray(value) ? value : [value]);

// A collection of a graph. Writes use the graph's routes, so that the removal of a vertex also
// removes its edges.
class GraphCollection extends Collection {
  constructor(graph, info, kind) {
    super(graph.database, info);
    this.graph = graph;
    this.kind = kind;
  }

  graphUrl(key = '', query = '') {
    return `/_api/gharial/${encodeURIComponent(this.graph.__name)}/${this.kind}/${encodeURIComponent(this._name)}`
      + `${key === '' ? '' : `/${encodeURIComponent(key)}`}${query}`;
  }

  query_(options) {
    const given = Object.entries(options || {}).filter(([name]) => ['waitForSync', 'returnNew', 'returnOld', 'keepNull'].includes(name));
    return given.length === 0 ? '' : `?${given.map(([name, value]) => `${name}=${value}`).join('&')}`;
  }

  answer(body) {
    const { _id, _key, _rev, ...rest } = body[this.kind] || {};
    const out = { _id, _key, _rev, ...rest };
    if (body.old) out.old = body.old;
    if (body.new) out.new = body.new;
    return out;
  }

  insert(...given) {
    let [data, options] = given;
    if (this.kind === 'edge' && (typeof data === 'string' || given.length >= 3 || (data && data._id && given.length === 2 && given[1] && given[1]._id))) {
      const [from, to, body] = given;
      const id = (value) => (value && typeof value === 'object' ? value._id : value);
      data = { ...(body || {}), _from: id(from), _to: id(to) };
      [, , , options] = given;
    }
    return this.answer(this.ask('POST', this.graphUrl('', this.query_(options)), data));
  }

  change(method, handle, data, options) {
    return this.answer(this.ask(method, this.graphUrl(this.handle(handle), this.query_(options)), data, this.guard(handle, options)));
  }

  remove(handle, options) {
    const answer = this.ask('DELETE', this.graphUrl(this.handle(handle), this.query_(options)), undefined, this.guard(handle, options));
    return answer.old ? { removed: true, old: answer.old } : true;
  }
}

class Graph {
  constructor(database, info) {
    Object.defineProperty(this, 'database', { value: database });
    this.read(info);
  }

  read(info) {
    const hidden = (name, value) => Object.defineProperty(this, name, { value, writable: true, configurable: true });
    hidden('__name', info.name || info._key);
    hidden('__edgeDefinitions', info.edgeDefinitions);
    hidden('__orphanCollections', info.orphanCollections);
    for (const name of Object.keys(this)) delete this[name];
    const known = new Map(this.database.ask('GET', '/_api/collection').result.map((collection) => [collection.name, collection]));
    const add = (name, kind) => {
      if (!this[name] && known.has(name)) this[name] = new GraphCollection(this, known.get(name), kind);
    };
    for (const definition of info.edgeDefinitions) {
      add(definition.collection, 'edge');
      for (const name of [...definition.from, ...definition.to]) add(name, 'vertex');
    }
    for (const name of info.orphanCollections) add(name, 'vertex');
  }

  url(rest = '') { return `/_api/gharial/${encodeURIComponent(this.__name)}${rest}`; }
  refresh() { this.database.forget(); this.read(this.database.ask('GET', this.url()).graph); }
  _PRINT(depth) { return showMembers(Object.entries(this), depth, '{[GeneralGraph]'); }

  // ---- definition

  _vertexCollections() { return this.names('vertex').map((name) => this[name]); }
  _edgeCollections() { return this.names('edge').map((name) => this[name]); }
  names(kind) { return Object.keys(this).filter((name) => this[name].kind === kind); }
  _orphanCollections() { return this.__orphanCollections; }
  _getEdgeDefinitions() { return this.__edgeDefinitions; }

  _extendEdgeDefinitions(definition) { this.database.ask('POST', this.url('/edge'), definition); this.refresh(); }

  _editEdgeDefinitions(definition) {
    this.database.ask('PUT', this.url(`/edge/${encodeURIComponent(definition.collection)}`), definition);
    this.refresh();
  }

  _deleteEdgeDefinition(name, drop = false) {
    this.database.ask('DELETE', this.url(`/edge/${encodeURIComponent(name)}?dropCollections=${Boolean(drop)}`));
    this.refresh();
  }

  _addVertexCollection(name, create = true) {
    const collection = this.database._collection(name);
    if (!collection && !create) raise(errors.ERROR_GRAPH_VERTEX_COL_DOES_NOT_EXIST.code, 404, `${name} ${errors.ERROR_GRAPH_VERTEX_COL_DOES_NOT_EXIST.message}`);
    if (collection && collection.type() === EDGE) raise(errors.ERROR_GRAPH_WRONG_COLLECTION_TYPE_VERTEX.code, 400);
    this.database.ask('POST', this.url('/vertex'), { collection: name });
    this.refresh();
  }

  _removeVertexCollection(name, drop = false) {
    this.database.ask('DELETE', this.url(`/vertex/${encodeURIComponent(name)}?dropCollection=${Boolean(drop)}`));
    this.refresh();
  }

  // ---- single vertices and edges

  edgeAt(id) {
    if (typeof id !== 'string' || !id.includes('/')) raise(errors.ERROR_ARANGO_DOCUMENT_HANDLE_BAD.code, 400);
    const collection = this[id.slice(0, id.indexOf('/'))];
    if (!collection) raise(errors.ERROR_GRAPH_EDGE_COL_DOES_NOT_EXIST.code, 404, `${errors.ERROR_GRAPH_EDGE_COL_DOES_NOT_EXIST.message}: ${id.slice(0, id.indexOf('/'))}`);
    return collection.document(id);
  }

  _fromVertex(edgeId) { return this.database._document(this.edgeAt(edgeId)._from); }
  _toVertex(edgeId) { return this.database._document(this.edgeAt(edgeId)._to); }

  // ---- questions about a graph that AQL answers

  query(text, binds) { return this.database._query(text, binds).toArray(); }
  with() { return `WITH ${this.names('vertex').map((name) => `\`${name}\``).join(', ')} `; }

  // Returns the ids of the vertices that an example selects. An example is empty (all vertices), a
  // list of ids, or a set of attribute values.
  starts(example, kind = 'vertex') {
    if (typeof example === 'string') return [example];
    const all = this.names(kind);
    const found = [];
    for (const part of example === undefined || example === null ? [{}] : list(example)) {
      if (typeof part === 'string') found.push(part);
      else if (part._id) found.push(...this.query('FOR i IN @ids FILTER DOCUMENT(i) != null RETURN i', { ids: [part._id] }));
      else for (const name of all) found.push(...this[name].byExample(part).toArray().map((document) => document._id));
    }
    return [...new Set(found)];
  }

  edgesIn(options, binds) {
    const limited = list(options.edgeCollectionRestriction);
    if (limited.length > 0) return limited.map((name) => `\`${name}\``).join(', ');
    binds.graph = this.__name;
    return 'GRAPH @graph';
  }

  neighboursOf(start, options, unique) {
    const binds = { start };
    const ids = (examples, kind) => this.starts(examples, kind);
    let filters = '';
    if (options.neighborExamples !== undefined) { binds.nodes = ids(options.neighborExamples, 'vertex'); filters += ' FILTER v._id IN @nodes'; }
    if (options.edgeExamples !== undefined) { binds.wires = ids(options.edgeExamples, 'edge'); filters += ' FILTER e._id IN @wires'; }
    const limited = list(options.vertexCollectionRestriction);
    if (limited.length > 0) { binds.limited = limited; filters += ' FILTER PARSE_IDENTIFIER(v).collection IN @limited'; }
    return this.query(`${this.with()}FOR v, e IN ${options.minDepth || 1}..${options.maxDepth || 1} ${(options.direction || 'any').toUpperCase()} @start `
      + `${this.edgesIn(options, binds)} OPTIONS { bfs: true${unique ? ', uniqueVertices: "global"' : ''} }${filters} RETURN DISTINCT v`, binds);
  }

  _neighbors(example, options = {}) {
    const found = new Map();
    for (const start of this.starts(example)) for (const vertex of this.neighboursOf(start, options, false)) found.set(vertex._id, vertex);
    return [...found.values()].map((vertex) => (options.includeData ? vertex : vertex._id));
  }

  _commonNeighbors(left, right, optionsLeft = {}, optionsRight = {}) {
    const rights = this.starts(right).map((id) => [id, this.neighboursOf(id, optionsRight, true)]);
    const whole = optionsLeft.includeData === true || optionsRight.includeData === true;
    const shown = (id) => (whole ? this.database._document(id) : id);
    const out = [];
    for (const id of this.starts(left)) {
      const mine = new Map(this.neighboursOf(id, optionsLeft, true).map((vertex) => [vertex._id, vertex]));
      for (const [other, theirs] of rights) {
        const shared = other === id ? [] : theirs.filter((vertex) => mine.has(vertex._id));
        if (shared.length > 0) out.push({ left: shown(id), right: shown(other), neighbors: shared.map((vertex) => (whole ? vertex : vertex._id)) });
      }
    }
    return out;
  }

  _countCommonNeighbors(left, right, optionsLeft = {}, optionsRight = {}) {
    const groups = new Map();
    const bare = (options) => ({ ...options, includeData: false });
    for (const found of this._commonNeighbors(left, right, bare(optionsLeft), bare(optionsRight))) {
      if (!groups.has(found.left)) groups.set(found.left, []);
      groups.get(found.left).push({ [found.right]: found.neighbors.length });
    }
    return [...groups].map(([id, counts]) => ({ [id]: counts }));
  }

  _commonProperties(left, right, options = {}) {
    const ignored = new Set([...list(options.ignoreProperties), '_rev', '_id']);
    const read = (ids) => ids.map((id) => this.database._document(id));
    const rights = read(this.starts(right));
    const out = [];
    for (const mine of read(this.starts(left).sort())) {
      const shared = [];
      for (const other of rights) {
        const names = other._id === mine._id ? [] : Object.keys(mine)
          .filter((name) => !ignored.has(name) && name in other && JSON.stringify(mine[name]) === JSON.stringify(other[name]));
        if (names.length > 0) shared.push({ _id: other._id, ...Object.fromEntries(names.map((name) => [name, other[name]])) });
      }
      if (shared.length > 0) out.push({ [mine._id]: shared });
    }
    return out;
  }

  _countCommonProperties(left, right, options) {
    return this._commonProperties(left, right, options).map((entry) => Object.fromEntries(Object.entries(entry).map(([id, shared]) => [id, shared.length])));
  }

  _paths(options = {}) {
    const unique = options.followCycles ? 'uniqueEdges: "none"' : 'uniqueVertices: "path"';
    const sources = this.names('vertex').map((name) => `(FOR x IN \`${name}\` RETURN x)`);
    return this.query(`${this.with()}FOR source IN ${sources.length === 1 ? sources[0] : `UNION(${sources.join(', ')})`} `
      + `FOR v, e, p IN ${options.minLength || 0}..${options.maxLength || 10} ${(options.direction || 'outbound').toUpperCase()} source GRAPH @graph `
      + `OPTIONS { ${unique} } RETURN { source, destination: v, edges: p.edges, vertice: p.vertices }`, { graph: this.__name });
  }

  // Returns the shortest paths between all pairs of the given vertices: [{ from, to, vertices,
  // edges, distance }].
  pairs(starts, targets, options = {}) {
    const binds = { graph: this.__name, starts, targets };
    let weight = '';
    const weighted = options.weightAttribute !== undefined && options.defaultWeight !== undefined;
    if (weighted) {
      weight = 'OPTIONS { weightAttribute: @attribute, defaultWeight: @default }';
      binds.attribute = options.weightAttribute;
      binds.default = options.defaultWeight;
    }
    const rows = this.query(`${this.with()}FOR start IN @starts FOR target IN @targets FILTER start != target `
      + `LET p = (FOR v, e IN ${(options.direction || 'any').toUpperCase()} SHORTEST_PATH start TO target GRAPH @graph ${weight} RETURN { v: v._id, e }) `
      + 'FILTER LENGTH(p) > 0 RETURN { from: start, to: target, p }', binds);
    return rows.map(({ from, to, p }) => {
      const edges = p.map((step) => step.e).filter((edge) => edge !== null);
      const length = (edge) => (weighted ? (typeof edge[options.weightAttribute] === 'number' ? edge[options.weightAttribute] : options.defaultWeight) : 1);
      return { from, to, vertices: p.map((step) => step.v), edges, distance: edges.reduce((sum, edge) => sum + length(edge), 0) };
    });
  }

  _shortestPath(start, target, options = {}) {
    const found = this.pairs(this.starts(start), this.starts(target), options);
    if (options.stopAtFirstMatch) found.sort((a, b) => a.distance - b.distance).splice(1);
    return found.map(({ vertices, edges, distance }) => ({ vertices, edges, distance }));
  }

  _distanceTo(start, target, options = {}) {
    return this.pairs(this.starts(start), this.starts(target), options)
      .map(({ from, to, distance }) => ({ startVertex: from, vertex: to, distance }));
  }

  measured(example, options, fold) {
    const starts = this.starts(example);
    const out = Object.fromEntries(starts.map((id) => [id, 0]));
    for (const { from, distance } of this.pairs(starts, this.starts({}), options)) out[from] = fold(out[from], distance);
    return out;
  }

  _absoluteEccentricity(example, options) { return this.measured(example, options, Math.max); }
  _absoluteCloseness(example, options) { return this.measured(example, options, (sum, distance) => sum + distance); }
  _farness(example, options) { return this._absoluteCloseness(example, options); }
  _eccentricity(options) { return inverted(this._absoluteEccentricity({}, options)); }
  _closeness(options) { return inverted(this._absoluteCloseness({}, options)); }

  _absoluteBetweenness(example, options = {}) {
    const wanted = this.starts(example);
    const all = this.starts({});
    const share = ['inbound', 'outbound'].includes(options.direction) ? 1 : 0.5;
    const out = {};
    for (const { vertices } of this.pairs(all, all, options)) {
      for (const id of vertices.slice(1, -1)) if (wanted.includes(id)) out[id] = (out[id] || 0) + share;
    }
    for (const id of wanted) if (!(id in out)) out[id] = 0;
    return out;
  }

  _betweenness(options) {
    const out = this._absoluteBetweenness({}, options);
    const most = Math.max(0, ...Object.values(out));
    if (most > 0) for (const id of Object.keys(out)) out[id] /= most;
    return out;
  }

  _radius(options) {
    const all = this.starts({});
    const farthest = {};
    for (const { from, distance } of this.pairs(all, all, options)) farthest[from] = Math.max(farthest[from] || 0, distance);
    const values = Object.values(farthest);
    return values.length === 0 ? [] : Math.min(...values);
  }

  _diameter(options) {
    const all = this.starts({});
    const found = this.pairs(all, all, options);
    return found.length === 0 ? [] : Math.max(...found.map(({ distance }) => distance));
  }

  _connectingEdges(left, right, options = {}) {
    const binds = { left: this.starts(left), right: this.starts(right) };
    let filter = '';
    if (options.edgeExamples !== undefined) { binds.wires = this.starts(options.edgeExamples, 'edge'); filter = ' FILTER e._id IN @wires'; }
    const names = list(options.edgeCollectionRestriction).length > 0 ? list(options.edgeCollectionRestriction) : this.names('edge');
    return names.flatMap((name) => this.query(`FOR e IN @@c FILTER (e._from IN @left AND e._to IN @right) OR (e._from IN @right AND e._to IN @left)${filter} RETURN e`,
      { ...binds, '@c': name }));
  }

  _vertices(example) { return new Found(this, this.starts(example).map((id) => this.database._document(id))); }
  _edges(example) { return new Found(this, this.starts(example, 'edge').map((id) => this.database._document(id))); }
}

// The result of graph._vertices(…), which scripts read with chained calls such as .toArray().
class Found {
  constructor(graph, rows) { this.graph = graph; this.rows = rows; this.at = 0; }
  toArray() { return this.rows; }
  count() { return this.rows.length; }
  hasNext() { return this.at < this.rows.length; }
  next() { this.at += 1; return this.rows[this.at - 1]; }
  _PRINT() { return '[ GraphAQLQuery ]'; }
}

function inverted(values) {
  const positive = Object.values(values).filter((value) => value > 0);
  const least = Math.min(...positive);
  return Object.fromEntries(Object.entries(values).map(([id, value]) => [id, value > 0 ? least / value : value]));
}

function generalGraph(database) {
  const ask = (...parts) => database.ask(...parts);
  const relation = (name, from, to) => {
    const isNames = (value) => typeof value === 'string' ? value !== '' : Array.isArray(value) && value.length > 0 && value.every((item) => typeof item === 'string');
    for (const [label, value] of [['relationName', name], ['fromVertexCollections', from], ['toVertexCollections', to]]) {
      if (!isNames(value)) raise(errors.ERROR_GRAPH_INVALID_PARAMETER.code, 400, `Invalid parameter. ${label} must not be empty`);
    }
    return { collection: name, from: list(from), to: list(to) };
  };
  return {
    _relation: relation,
    _edgeDefinitions: (...definitions) => definitions,
    _extendEdgeDefinitions(definitions, ...more) { definitions.push(...more); },
    _create(name, edgeDefinitions, orphans, options) {
      if (!name) raise(errors.ERROR_GRAPH_CREATE_MISSING_NAME.code, 400);
      const { waitForSync, ...rest } = options || {};
      const answer = ask('POST', `/_api/gharial${waitForSync ? '?waitForSync=true' : ''}`, { name, edgeDefinitions: edgeDefinitions || [], orphanCollections: orphans || [], options: rest });
      database.forget();
      return new Graph(database, answer.graph);
    },
    _graph(name) { return new Graph(database, ask('GET', `/_api/gharial/${encodeURIComponent(name)}`).graph); },
    _exists(name) {
      return ask('GET', '/_api/gharial').graphs.find((graph) => (graph.name || graph._key) === name) !== undefined;
    },
    _drop(name, dropCollections = false) {
      ask('DELETE', `/_api/gharial/${encodeURIComponent(name)}?dropCollections=${Boolean(dropCollections)}`);
      database.forget();
    },
    _list() { return ask('GET', '/_api/gharial').graphs.map((graph) => graph.name || graph._key); },
    _listObjects() { return ask('GET', '/_api/gharial').graphs; },
    _renameCollection() { raise(errors.ERROR_NOT_IMPLEMENTED.code, 501); },
  };
}

module.exports = { generalGraph, Graph };
