// The global names of arangosh and the modules that `require` finds, for one connection.
'use strict';
const fs = require('fs');
const os = require('os');
const path = require('path');
const vm = require('vm');
const crypto = require('crypto');
const { Connection } = require('./connection');
const { databaseWithProperties } = require('./database');
const { Collection } = require('./collection');
const { Cursor, Statement } = require('./cursor');
const { View, analyzersOf } = require('./view');
const { ArangoError, errors } = require('./error');
const { generalGraph } = require('./graph');
const { exampleGraphs } = require('./examples');
const { users } = require('./users');
const { jsunity, assertions } = require('./jsunity');
const explainer = require('./explainer');
const { printed, show } = require('./print');

const waiting = new Int32Array(new SharedArrayBuffer(4));
const sleep = (seconds) => { Atomics.wait(waiting, 0, 0, Math.max(0, seconds) * 1000); };

// aql`…`: values become bind parameters; names of collections and `aql.literal` are inserted into
// the query text.
function template(strings, ...values) {
  const bindVars = {};
  const names = [];
  let query = strings[0];
  values.forEach((value, at) => {
    let text;
    if (value && value.toAQL && !(value instanceof Collection)) text = value.toAQL();
    else if (value && value.query !== undefined && value.bindVars) {
      text = value.query.replace(/@(@?\w+)/g, (whole, name) => (name in value.bindVars ? `@${name.startsWith('@') ? '@' : ''}n${at}_${name.replace('@', '')}` : whole));
      for (const [name, bound] of Object.entries(value.bindVars)) bindVars[name.startsWith('@') ? `@n${at}_${name.slice(1)}` : `n${at}_${name}`] = bound;
    } else {
      const collection = value instanceof Collection || value instanceof View;
      const bound = collection ? value.name() : value;
      let index = names.findIndex((entry) => entry.bound === bound && entry.collection === collection);
      if (index < 0) { index = names.length; names.push({ bound, collection }); }
      text = collection ? `@@value${index}` : `@value${index}`;
      bindVars[collection ? `@value${index}` : `value${index}`] = bound;
    }
    query += text + strings[at + 1];
  });
  return { query, bindVars, _source: () => ({ fragments: strings, args: values }) };
}
template.literal = (value) => ({ toAQL: () => (value && value.toAQL ? value.toAQL() : String(value === undefined ? '' : value)) });
template.join = (parts, separator = ' ') => {
  const joined = { query: '', bindVars: {} };
  parts.forEach((part, at) => {
    const piece = template`${part}`;
    joined.query += (at ? separator : '') + piece.query.replace(/@(@?)(n0_)?(\w+)/g, (whole, double, prefix, name) => `@${double}j${at}_${name}`);
    for (const [name, bound] of Object.entries(piece.bindVars)) {
      const double = name.startsWith('@') ? '@' : '';
      joined.bindVars[`${double}j${at}_${name.replace('@', '').replace(/^n0_/, '')}`] = bound;
    }
  });
  return joined;
};

function makeShell({ socket, user = 'root', password = '', write = (text) => process.stdout.write(`${text}\n`) }) {
  const connection = new Connection(socket, user, password);
  const database = databaseWithProperties(connection);
  const print = (...values) => { write(values.map(printed).join(' ')); };
  const unit = jsunity(write);

  const internal = {
    arango: connection,
    db: database,
    errors,
    print,
    printf: (format, ...values) => write(require('util').format(format, ...values)),
    output: (...values) => write(values.map(printed).join('')),
    time: () => Date.now() / 1000,
    sleep,
    wait: sleep,
    genRandomAlphaNumbers: (length) => crypto.randomBytes(length).toString('hex').slice(0, length),
    genRandomNumbers: (length) => crypto.randomBytes(length).toString('hex').replace(/\D/g, '7').slice(0, length),
    generateUUID: () => crypto.randomUUID(),
    uuidv4: () => crypto.randomUUID(),
    rand: () => crypto.randomInt(2 ** 31),
    md5: (value) => crypto.createHash('md5').update(String(value)).digest('hex'),
    sha1: (value) => crypto.createHash('sha1').update(String(value)).digest('hex'),
    sha256: (value) => crypto.createHash('sha256').update(String(value)).digest('hex'),
    isEnterprise: () => false,
    isCluster: () => false,
    wal: { flush: () => connection.plain('PUT', '/_admin/wal/flush', {}), properties: () => ({}), waitForCollector: () => undefined },
    debugCanUseFailAt: () => false,
    debugSetFailAt() { throw new Error('no failure points'); },
    debugClearFailAt: () => undefined,
    debugRemoveFailAt: () => undefined,
    platform: 'linux',
    options: () => ({}),
    env: {},
    threadNumber: 0,
    pathForTesting: (name) => path.join(os.tmpdir(), name),
    pollFor: (condition, seconds) => { for (let left = seconds * 10; left > 0 && !condition(); left -= 1) sleep(0.1); },
  };

  const queries = {
    current: (all) => connection.ask('GET', `/_api/query/current${all ? '?all=true' : ''}`),
    slow: () => connection.ask('GET', '/_api/query/slow'),
    clearSlow: () => connection.ask('DELETE', '/_api/query/slow'),
    kill: (query) => connection.ask('DELETE', `/_api/query/${typeof query === 'object' ? query.id : query}`),
    properties: (change) => { const { error, code, ...rest } = connection.ask(change ? 'PUT' : 'GET', '/_api/query/properties', change); return rest; },
  };
  const resultsCache = {
    properties: (change) => connection.ask(change ? 'PUT' : 'GET', '/_api/query-cache/properties', change),
    clear: () => { connection.ask('DELETE', '/_api/query-cache'); },
    toArray: () => connection.ask('GET', '/_api/query-cache/entries'),
  };
  const planCache = {
    toArray: () => connection.ask('GET', '/_api/query-plan-cache'),
    clear: () => { connection.ask('DELETE', '/_api/query-plan-cache'); },
  };

  const arangodb = {
    db: database,
    arango: connection,
    aql: template,
    query: template,
    errors,
    ArangoError,
    ArangoCollection: Collection,
    ArangoStatement: Statement,
    ArangoQueryCursor: Cursor,
    ArangoView: View,
    print,
    printf: internal.printf,
    time: internal.time,
    sprintf: require('util').format,
    isServer: false,
    isClient: true,
    plainServerVersion: () => database._version().replace(/-.*/, ''),
    guessContentType: () => 'application/octet-stream',
    checkRequestResult(answer) { if (answer && answer.error === true) throw new ArangoError(answer); return answer; },
  };
  Object.assign(arangodb, Object.fromEntries(Object.entries(errors).map(([name, { code }]) => [name, code])));

  const helper = {
    getInstanceRole: () => 'single',
    versionHas: () => false,
    arango: connection,
    deriveTestSuite(base, derived, suffix, blacklist = []) {
      for (const [name, value] of Object.entries(base)) {
        if (typeof value !== 'function' || blacklist.includes(name)) continue;
        derived[/^test/.test(name) ? name + suffix : name] = value;
      }
    },
    getServersByType: () => [],
    removeAllUsers: () => undefined,
    waitForShardsInSync: () => undefined,
    getMetric: () => 0,
    getMetricSingle: () => 0,
    activateFailure: () => undefined,
    reconnectRetry: () => undefined,
    getAllMetric: () => '',
  };
  helper.deriveTestSuiteWithnamespace = (base, derived, namespace) => helper.deriveTestSuite(base, derived, namespace);

  const modules = {
    '@arangodb': arangodb,
    internal,
    '@arangodb/aql/queries': queries,
    '@arangodb/aql/cache': resultsCache,
    '@arangodb/aql/plan-cache': planCache,
    '@arangodb/aql/explainer': {
      explain: (query, ...rest) => explainer.explain(database, typeof query === 'string' ? query : query.query, typeof query === 'string' && rest.length > 1 ? rest[0] : query.bindVars,
        typeof query === 'string' ? rest[rest.length - 1] : rest[0], write),
      profileQuery: (data) => explainer.profile(database, data.query, data.bindVars, data.options, write),
    },
    '@arangodb/users': users(database),
    '@arangodb/analyzers': analyzersOf(database),
    '@arangodb/general-graph': generalGraph(database),
    '@arangodb/graph-examples/example-graph': exampleGraphs(database),
    '@arangodb/test-helper': helper,
    '@arangodb/test-helper-common': helper,
    '@arangodb/testutils/client-tools': {},
    '@arangodb/request': requests(connection),
    '@arangodb/crypto': { ...internal, uuidv4: internal.uuidv4 },
    '@arangodb/common': { assertions },
    console: consoleOf(write),
    jsunity: unit,
    lodash: lodash(),
    fs,
    path,
    util: require('util'),
    assert: require('assert'),
    buffer: require('buffer'),
    querystring: require('querystring'),
    url: require('url'),
  };
  Object.defineProperty(arangodb, '_connection', { value: connection });

  const scope = {
    ...assertions,
    db: database,
    arango: connection,
    internal,
    print,
    aql: template,
    ArangoError,
    ArangoCollection: Collection,
    getOptions: false,
    runSetup: false,
    addIgnoreCollection: () => undefined,
    removeIgnoreCollection: () => undefined,
    addIgnoreView: () => undefined,
    removeIgnoreView: () => undefined,
    graph_module: modules['@arangodb/general-graph'],
    examples: modules['@arangodb/graph-examples/example-graph'],
    logger: { info: () => undefined },
    SYS_IS_V8_BUILD: false,
  };
  const found = (name) => {
    const wanted = name.replace(/\.js$/, '');
    if (wanted in modules) return modules[wanted];
    if (/^\.{0,2}\//.test(name)) return loadFile(path.resolve(scope.__dirname || process.cwd(), name));
    throw new Error(`Cannot find module '${name}'`);
  };
  scope.require = found;

  // Runs a file as arangosh runs its test files: as a function body, in which the global names are
  // defined and `return` is allowed.
  function loadFile(file) {
    Object.assign(globalThis, scope);
    const text = fs.readFileSync(file.endsWith('.js') ? file : `${file}.js`, 'utf8').replace(/^#!.*/, '');
    const module = { exports: {} };
    const names = { require: found, exports: module.exports, module, __dirname: path.dirname(file), __filename: file };
    const run = vm.compileFunction(text, Object.keys(names), { filename: file });
    const returned = run(...Object.values(names));
    return returned === undefined ? module.exports : returned;
  }

  return { connection, database, scope, print, show, unit, loadFile, close: () => connection.transport.close() };
}

function consoleOf(write) {
  const say = (...values) => write(require('util').format(...values));
  return { log: say, info: say, warn: say, error: say, debug: () => undefined, getline: () => '', topic: say, infoLines: say, warnLines: say, errorLines: say };
}

// Only those functions of lodash that the server's tests use.
function lodash() {
  const plain = (value) => JSON.parse(JSON.stringify(value));
  const by = (key) => (typeof key === 'function' ? key : (item) => item[key]);
  return {
    clone: (value) => (Array.isArray(value) ? [...value] : { ...value }),
    cloneDeep: plain,
    merge: (target, ...more) => Object.assign(target, ...more),
    assign: Object.assign,
    defaults: (target, ...more) => Object.assign(target, ...more.reverse(), { ...target }),
    extend: Object.assign,
    isEqual: require('util').isDeepStrictEqual,
    isObject: (value) => value !== null && typeof value === 'object',
    isArray: Array.isArray,
    isString: (value) => typeof value === 'string',
    isEmpty: (value) => !value || Object.keys(value).length === 0,
    forEach: (value, run) => Object.keys(value).forEach((key) => run(value[key], Array.isArray(value) ? Number(key) : key)),
    each: (value, run) => Object.keys(value).forEach((key) => run(value[key], Array.isArray(value) ? Number(key) : key)),
    map: (value, run) => Object.keys(value).map((key) => by(run)(value[key], key)),
    filter: (value, run) => Object.values(value).filter(by(run)),
    find: (value, run) => Object.values(value).find(by(run)),
    some: (value, run) => Object.values(value).some(by(run)),
    every: (value, run) => Object.values(value).every(by(run)),
    range: (from, to) => (to === undefined ? [...Array(from).keys()] : [...Array(to - from).keys()].map((at) => at + from)),
    uniq: (value) => [...new Set(value)],
    union: (...lists) => [...new Set(lists.flat())],
    intersection: (first, ...more) => first.filter((item) => more.every((other) => other.includes(item))),
    difference: (first, ...more) => first.filter((item) => !more.flat().includes(item)),
    sortBy: (value, key) => [...value].sort((a, b) => (by(key)(a) < by(key)(b) ? -1 : by(key)(a) > by(key)(b) ? 1 : 0)),
    omit: (value, names) => Object.fromEntries(Object.entries(value).filter(([name]) => ![].concat(names).includes(name))),
    pick: (value, names) => Object.fromEntries(Object.entries(value).filter(([name]) => [].concat(names).includes(name))),
    has: (value, name) => Object.prototype.hasOwnProperty.call(value, name),
    keys: Object.keys,
    values: Object.values,
    times: (count, run) => [...Array(count).keys()].map(run),
    shuffle: (value) => [...value].sort(() => Math.random() - 0.5),
    sum: (value) => value.reduce((total, item) => total + item, 0),
    zip: (...lists) => lists[0].map((_, at) => lists.map((one) => one[at])),
    fromPairs: Object.fromEntries,
    toPairs: Object.entries,
    flatten: (value) => value.flat(),
    flattenDeep: (value) => value.flat(Infinity),
    last: (value) => value[value.length - 1],
    first: (value) => value[0],
    groupBy: (value, key) => { const out = {}; for (const item of value) (out[by(key)(item)] = out[by(key)(item)] || []).push(item); return out; },
    countBy: (value, key) => { const out = {}; for (const item of value) out[by(key)(item)] = (out[by(key)(item)] || 0) + 1; return out; },
    random: (low, high) => low + Math.floor(Math.random() * (high - low + 1)),
    noop: () => undefined,
  };
}

function requests(connection) {
  const call = (method, given, options) => {
    const { url, uri, body, headers, json } = typeof given === 'string' ? { url: given, ...options } : given;
    const target = String(url || uri).replace(/^[a-z+]+:\/\/[^/]*/, '');
    const answer = connection.raw(method, target, body, headers);
    return { status: answer.code, statusCode: answer.code, body: answer.body.toString(), json: answer.parsedBody, headers: answer.headers, rawBody: answer.body, wantsJson: json };
  };
  const request = (options) => call((options.method || 'GET').toUpperCase(), options);
  for (const method of ['get', 'post', 'put', 'patch', 'delete', 'head']) request[method] = (url, options) => call(method.toUpperCase(), url, options);
  return request;
}

module.exports = { makeShell };
