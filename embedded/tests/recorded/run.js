// Runs recorded examples of ArangoDB's manual against the engine and compares: node run.js --socket S --examples PATH [--only REGEX] [--json] [--verbose] [--names FILE] [--secret FILE]
'use strict';
const crypto = require('crypto');
const fs = require('fs');
const vm = require('vm');
const { makeShell } = require('../arangosh/shell');
const { loadDataset, dropDataset, exampleGraphs } = require('../arangosh/examples');
const { printed, show } = require('../arangosh/print');
const { Comparison, sameShape, brief } = require('./compare');
const { readShown, Token } = require('./shown');
const { outOfScope } = require('./scope');

// Collections and users that existed on the recorded server because earlier sessions had left them
// there.
const LEFT_OVER = ['mycollection', 'animals', 'ignore'];
const USERS = [['tester', false], ['admin', true]];

function options(words) {
  const out = {};
  for (let at = 0; at < words.length; at += 1) {
    const match = /^--(socket|examples|only|names|secret)$/.exec(words[at]);
    if (match) { at += 1; out[match[1]] = words[at]; } else out[words[at].replace(/^--/, '')] = true;
  }
  return out;
}

// Splits a request into its front matter and its text.
function split(request) {
  const [, front, text] = /^---\n([^]*?)\n---\n([^]*)$/.exec(request) || [null, '', request];
  return { front, text };
}

function kindOf(name, text) {
  if (/\b(logCurl|curl)Request/.test(text)) return 'HTTP';
  if (/^\s*(\/\/[^\n]*\n|\/\*[^]*?\*\/)*\s*(RETURN|FOR|LET|WITH|INSERT|UPDATE|REPLACE|REMOVE|UPSERT)\b/.test(text)) return 'AQL';
  return 'arangosh';
}

// ---- running

class Runner {
  constructor(socket, secret) {
    this.out = [];
    this.secret = secret;
    this.shell = makeShell({ socket, write: (text) => this.out.push(text) });
    this.db = this.shell.database;
    this.kept = new Set();
    Object.assign(globalThis, this.shell.scope, this.httpNames(), {
      addIgnoreCollection: (name) => { this.kept.add(name); },
      removeIgnoreCollection: (name) => { this.kept.delete(name); },
      addIgnoreView: (name) => { this.kept.add(name); },
      removeIgnoreView: (name) => { this.kept.delete(name); },
    });
  }

  httpNames() {
    const raw = (method, url, body, headers) => {
      const answer = this.shell.connection.raw(method, url, body === null ? undefined : body, stripped(headers));
      this.db.forget();
      return { ...answer, body: answer.body.toString() };
    };
    const log = (kind) => (response) => this.responses.push({ kind, response });
    return {
      curlRequest: raw,
      curlRequestRaw: raw,
      logCurlRequest: raw,
      logCurlRequestRaw: raw,
      logCurlRequestPlain: raw,
      logJsonResponse: log('json'),
      logJsonLResponse: log('lines'),
      logRawResponse: log('raw'),
      logPlainResponse: log('raw'),
      logHtmlResponse: log('raw'),
      logErrorResponse: log('raw'),
      assert: (value) => { if (!value) throw new Error('an assertion of the example failed'); },
    };
  }

  run(kind, front, text) {
    this.responses = [];
    this.out.length = 0;
    this.authorize(text);
    if (kind === 'HTTP') return this.http(text);
    if (kind === 'AQL') return this.aql(front, text);
    return this.script(text);
  }

  http(text) {
    const code = text.replace(/^~/gm, '').replace(/^(const|let) /gm, 'var ');
    let problem = null;
    try {
      vm.runInThisContext(`(function () { ${code}\n})()`);
    } catch (error) {
      problem = error;
    }
    return { responses: this.responses, problem };
  }

  aql(front, text) {
    const dataset = (/^dataset: *(\S+)/m.exec(front) || [])[1];
    const binds = /^bindVars: *([^]*?)(?=^\w+:|(?![^]))/m.exec(front);
    const bindVars = binds && binds[1].trim() ? yamlOrJson(binds[1]) : {};
    if (dataset) { dropDataset(this.db, dataset); loadDataset(this.db, dataset); }
    try {
      // The tool that recorded the examples puts the query into a script as a template literal,
      // which evaluates backslashes before AQL does.
      const query = vm.runInThisContext(`\`${text.trim().replace(/`/g, '\\`').replace(/\$\{/g, '\\${')}\``);
      this.out.push(show(this.db._query(query, bindVars).toArray(), 0));
    } catch (error) {
      this.out.push(printed(error));
    } finally {
      if (dataset) dropDataset(this.db, dataset);
    }
    return { text: this.out.join('\n') };
  }

  // Creates example graphs and views that a script uses but does not create, because earlier
  // examples on the same page did.
  supply(text) {
    const graphs = this.shell.scope.graph_module;
    for (const [, name] of text.matchAll(/\bGRAPH\s+['"](\w+)['"]/g)) {
      if (!graphs._exists(name) && !text.includes(`loadGraph("${name}")`)) exampleGraphs(this.db).loadGraph(name);
    }
    for (const [, name] of text.matchAll(/\b_view\("(\w+)"\)/g)) {
      if (!this.db._view(name) && !text.includes(`_createView("${name}"`)) this.db._createView(name, 'search-alias', {});
    }
    this.db.forget();
  }

  script(text) {
    let failed = false;
    this.supply(text);
    for (const { code, hidden } of statements(text)) {
      if (failed && !hidden) continue;
      const before = this.out.length;
      try {
        const value = this.evaluate(code, hidden);
        if (!hidden && value !== undefined) this.out.push(printed(value));
      } catch (error) {
        if (!hidden) { this.out.push(printed(error)); failed = true; }
      }
      if (hidden) this.out.length = before;
    }
    return { text: this.out.join('\n') };
  }

  // Runs one statement. Like the tool that recorded the examples, it creates a missing collection
  // and prints it.
  evaluate(code, hidden) {
    const run = () => vm.runInThisContext(code.replace(/^(const|let) /gm, 'var '));
    try {
      return run();
    } catch (error) {
      if (error.errorNum === 11 && this.secret && !/xpError/.test(code)) {
        this.authorize('_users');
        return run();
      }
      const missing = /^collection or view not found: (\w+)$/.exec(error.errorMessage || '');
      if (!missing || /xpError/.test(code)) throw error;
      const made = this.db._create(missing[1]);
      if (!hidden) this.out.push(printed(made));
      return run();
    }
  }

  // Selects the credentials of a request. The recorded server had no authentication, so requests
  // that the engine refuses to users need a superuser token here.
  authorize(text) {
    const { connection } = this.shell;
    if (this.secret && /\b_users\b|_admin\/(compact|options|support-info)/.test(text)) connection.authorization = `bearer ${serverToken(this.secret)}`;
    else connection.reconnectAs('root', '');
  }

  // Removes everything that an example created, except what the example marks as needed by others.
  sweep() {
    const { db } = this;
    this.authorize('');
    if (this.shell.connection.database !== '_system') { this.shell.connection.database = '_system'; }
    db.forget();
    const kept = (name) => name.startsWith('_') || this.kept.has(name);
    for (const graph of this.shell.scope.graph_module._listObjects()) {
      const names = [...graph.edgeDefinitions.flatMap((definition) => [definition.collection, ...definition.from, ...definition.to]), ...graph.orphanCollections];
      if (!names.some(kept)) this.shell.scope.graph_module._drop(graph.name || graph._key, true);
    }
    for (const { name } of db.ask('GET', '/_api/view').result) if (!kept(name)) db._dropView(name);
    for (const { name } of db.ask('GET', '/_api/collection?excludeSystem=true').result) if (!kept(name)) db._connection.plain('DELETE', `/_api/collection/${encodeURIComponent(name)}`);
  }

  clean() {
    const { db } = this;
    this.shell.connection.database = '_system';
    this.shell.connection.reconnectAs('root', '');
    db.forget();
    const graphs = this.shell.scope.graph_module;
    for (const name of graphs._list()) graphs._drop(name, true);
    for (const view of db._views()) view.drop();
    for (const collection of db._collections()) if (!collection.name().startsWith('_')) collection.drop();
    for (const { name } of db.ask('GET', '/_api/analyzer').result) if (name.includes('::')) db._connection.plain('DELETE', `/_api/analyzer/${encodeURIComponent(name)}?force=true`);
    for (const name of db._databases()) if (name !== '_system') db._dropDatabase(name);
    for (const { user } of db.ask('GET', '/_api/user').result) if (user !== 'root') db._connection.plain('DELETE', `/_api/user/${encodeURIComponent(user)}`);
  }

  prepare(kind) {
    const { db } = this;
    for (const [user, active] of USERS) db.ask('POST', '/_api/user', { user, passwd: '', active });
    db._create('demo').insert({ name: 'demo' });
    db._createView('demoView', 'arangosearch');
    if (kind === 'HTTP') for (const name of LEFT_OVER) db._create(name);
    db.forget();
    this.kept = new Set([...db._collections(), ...db._views()].map((thing) => thing.name()));
  }
}

function serverToken(secret) {
  const part = (value) => Buffer.from(JSON.stringify(value)).toString('base64url');
  const head = `${part({ alg: 'HS256', typ: 'JWT' })}.${part({ iss: 'arangodb', server_id: 'arangosh' })}`;
  return `${head}.${crypto.createHmac('sha256', secret).update(head).digest('base64url')}`;
}

// Returns the headers as arangosh sends them, without those that have an empty value.
function stripped(headers) {
  return Object.fromEntries(Object.entries(headers || {}).filter(([, value]) => value !== undefined && value !== null).map(([name, value]) => [name, String(value)]));
}

function yamlOrJson(text) {
  const trimmed = text.trim();
  if (trimmed.startsWith('{')) return vm.runInNewContext(`(${trimmed})`);
  const out = {};
  for (const line of trimmed.split('\n')) {
    const [, name, value] = /^\s*['"]?([^'":]+)['"]?:\s*(.*)$/.exec(line) || [];
    if (name) out[name] = vm.runInNewContext(`(${/^[[{"'\d-]|^(true|false|null)$/.test(value) ? value : JSON.stringify(value)})`);
  }
  return out;
}

// Splits a script into statements: lines are joined until they parse; `~` marks a statement whose
// output is hidden.
function statements(text) {
  const lines = text.split('\n');
  const out = [];
  let code = '';
  let hidden = false;
  const whole = (source) => {
    try { new vm.Script(source.replace(/^(const|let) /gm, 'var ')); return true; } catch { return false; }
  };
  lines.forEach((line, at) => {
    const bare = line.replace(/^\s*[~|] ?/, '');
    if (code === '') {
      if (bare.trim() === '') return;
      hidden = /^\s*~/.test(line);
    }
    code += `${code === '' ? '' : '\n'}${bare}`;
    const next = (lines[at + 1] || '').replace(/^[~|] ?/, '').trim();
    if (whole(code) && !next.startsWith('.')) {
      if (!/^\s*(\/\/[^\n]*|\/\*[^]*\*\/\s*)$/.test(code)) out.push({ code, hidden });
      code = '';
    }
  });
  if (code.trim() !== '') out.push({ code, hidden });
  return out;
}

// ---- comparing

// Requests whose answers are plans or measured figures: only the names of the members of these
// answers are compared, not the members' values.
const PLANNED = /_api\/explain|\.explain\(|\bexplain\(|_explain\(|\/figures|\.figures\(|checksum|_api\/query\/rules|_admin\/status|_api\/engine|_api\/version|query-plan-cache|plan-cache|_admin\/license|_admin\/support-info/;
// Requests whose answers differ in every run.
const RANDOM = /\b(RAND|UUID|RANDOM_TOKEN|DATE_NOW|CURRENT_USER)\(|any\(\)/;
const UNORDERED = /\b(INTERSECTION|MINUS|OUTERSECTION|UNION_DISTINCT|UNIQUE|OUTBOUND|INBOUND|ANY|ATTRIBUTES|DOCUMENT|DISTINCT|COLLECT)\b|_api\/edges|_paths|_shortestPath|[Nn]eighbors|edges\(|Edges\(|_api\/user|\.all\(\)|toArray\(\)|_api\/analyzer|_api\/collection["'`]|_api\/database|queries|_api\/view["'`]|_api\/gharial["'`]|plan-cache|lookupByKeys|documents\(/;

function verdict(kind, request, expected, result) {
  if (!expected) return answered(request, result);
  if (result.problem && result.responses && result.responses.length === 0) return { verdict: 'failed', problem: String(result.problem) };
  if (kind === 'HTTP') return compareResponses(request, expected, result);
  return compareValues(kind, request, readShown(expected.replace(/^Empty [oO]utput$/, '')), readShown(result.text));
}

// Judges an example without a recorded answer: the request must succeed, or fail as the example
// expects.
function answered(request, result) {
  const said = result.text || (result.responses || []).map(({ response }) => response.body).join('\n');
  const refused = /[^\n"]*not supported by arango-embedded[^\n"]*/.exec(said);
  if (result.problem) return { verdict: 'failed', problem: `${result.problem}${refused ? ` ${refused[0]}` : ''}` };
  if (refused) return { verdict: 'failed', problem: refused[0] };
  const error = /^\[(ArangoError|\w*Error)[^\n]*/m.exec(result.text || '');
  if (error && !/xpError/.test(request)) return { verdict: 'failed', problem: error[0] };
  return { verdict: 'answered' };
}

function compareValues(kind, request, expected, actual) {
  const exact = new Comparison({ exactTexts: kind === 'AQL' });
  if (exact.same(expected, actual)) return { verdict: 'value', reordered: exact.reordered };
  if (UNORDERED.test(request)) {
    const loose = new Comparison({ exactTexts: kind === 'AQL', unordered: true });
    if (expected.length === actual.length && expected.every((value, at) => loose.same(value, actual[at], `[${at}]`))) return { verdict: 'value' };
  }
  if (RANDOM.test(request) && sameShape(expected, actual).same) return { verdict: 'shape' };
  if (PLANNED.test(request)) {
    const shaped = planShape(expected, actual);
    if (shaped.same) return { verdict: 'shape' };
    return { verdict: 'failed', problem: shaped.problem };
  }
  return { verdict: 'failed', problem: exact.problem };
}

// Compares plans by their nodes in order and by their rules, and everything else by the names of
// its members.
function planShape(expected, actual) {
  const [left, right] = [nodesOf(expected), nodesOf(actual)];
  if (left.length > 0 && left.join(' ') !== right.join(' ')) return { same: false, problem: `nodes: expected ${left.join(' ')}, got ${right.join(' ')}` };
  if (left.length > 0 && expected.some((value) => value instanceof Token)) return { same: true };
  return sameShape(expected, actual);
}

function nodesOf(values) {
  return (brief.whole(values).match(/\b[A-Z]\w+Node\b/g) || []);
}
brief.whole = (values) => values.map((value) => (value instanceof Token ? value.text : JSON.stringify(value))).join('\n');

const SKIPPED_HEADERS = /^(content-length|date|connection|x-arango-embedded|x-arango-queue-time-seconds|x-arango-request-id|keep-alive)$/;

function parseRecorded(output) {
  return output.split(/(?=^HTTP\/1\.1 \d)/m).filter((part) => part.startsWith('HTTP/1.1')).map((part) => {
    const gap = /\n\s*\n|$/.exec(part.trimEnd() === part ? part : part);
    const end = part.indexOf('\n\n') < 0 ? part.length : part.indexOf('\n\n');
    const [status, ...lines] = part.slice(0, end).split('\n');
    const headers = Object.fromEntries(lines.filter((line) => line.includes(':')).map((line) => [line.slice(0, line.indexOf(':')).toLowerCase(), line.slice(line.indexOf(':') + 1).trim()]));
    return { status: Number(status.split(' ')[1]), headers, body: part.slice(end).trim(), gap: gap.index };
  });
}

function compareResponses(request, output, { responses, problem }) {
  const expected = parseRecorded(output);
  if (expected.length !== responses.length) return { verdict: 'failed', problem: `${responses.length} of ${expected.length} answers; ${problem || ''}` };
  const comparison = new Comparison();
  let verdictSoFar = 'value';
  let reordered = null;
  for (const [at, wanted] of expected.entries()) {
    const { kind, response } = responses[at];
    if (wanted.status !== response.code) return { verdict: 'failed', problem: `status: expected ${wanted.status}, got ${response.code} ${response.body.slice(0, 300)}` };
    const headers = headerProblem(comparison, wanted.headers, response.headers);
    const body = compareBody(request, kind, wanted.body, response.body, comparison);
    if (body.verdict === 'failed') return { ...body, problem: `${body.problem}${headers ? ` | ${headers}` : ''}` };
    if (headers) return { verdict: 'failed', problem: headers };
    if (body.verdict === 'shape') verdictSoFar = 'shape';
    reordered = reordered || body.reordered;
  }
  return problem ? { verdict: 'failed', problem: String(problem) } : { verdict: verdictSoFar, reordered };
}

function headerProblem(comparison, wanted, got) {
  for (const name of Object.keys(wanted)) {
    if (SKIPPED_HEADERS.test(name)) continue;
    if (got[name] === undefined) return `header ${name} is missing (${wanted[name]})`;
    const trial = new Comparison();
    // arangosh prints content types without their parameters, so these are not compared.
    const both = [wanted[name], got[name]].map((value) => value.replace(/^"(.*)"$/, '$1').replace(/; charset=utf-8$/, ''));
    if (!trial.same(both[0], both[1], `header ${name}`, name === 'etag' ? 'etag' : 'id')) return trial.problem;
  }
  for (const name of Object.keys(got)) {
    if (!SKIPPED_HEADERS.test(name) && wanted[name] === undefined) return `header ${name} is not expected (${got[name]})`;
  }
  return null;
}

function compareBody(request, kind, wanted, got, comparison) {
  if (kind === 'raw' && !/^[[{]/.test(wanted)) {
    return wanted === got.trim() || comparison.same(wanted, got.trim(), 'body') ? { verdict: 'value' } : { verdict: 'failed', problem: comparison.problem };
  }
  const texts = kind === 'lines' ? got.split('\n').filter((line) => line.trim() !== '') : [got];
  let actual;
  try {
    actual = texts.filter((text) => text !== '').map((text) => JSON.parse(text));
  } catch {
    actual = [new Token(got)];
  }
  return compareValues('HTTP', request, readShown(wanted), actual);
}

// ---- reporting

function main() {
  const given = options(process.argv.slice(2));
  if (!given.socket || !given.examples) {
    process.stderr.write('usage: node run.js --socket FILE --examples FILE [--only REGEX] [--json] [--verbose] [--names FILE]\n');
    process.exit(64);
  }
  const examples = JSON.parse(fs.readFileSync(given.examples));
  const runner = new Runner(given.socket, given.secret && fs.readFileSync(given.secret, 'utf8').trim());
  const results = [];
  const only = given.only ? new RegExp(given.only) : null;
  const byKind = { HTTP: [], AQL: [], arangosh: [] };
  for (const [key, example] of Object.entries(examples)) {
    const { front, text } = split(example.request);
    byKind[kindOf(key, text)].push({ key, front, text, order: example.order, expected: example.response && example.response.output });
  }
  for (const [kind, list] of Object.entries(byKind)) {
    runner.clean();
    runner.prepare(kind);
    // Sorts by the position in the manual if the file contains it, otherwise by name; names contain
    // numbers where the order matters.
    list.sort((a, b) => (a.order - b.order) || (a.key < b.key ? -1 : 1));
    const later = [];
    const one = ({ key, front, text, expected }, again) => {
      let outcome;
      let shown = '';
      try {
        const result = runner.run(kind, front, text);
        shown = result.text || (result.responses || []).map(({ response }) => `${response.code} ${JSON.stringify(response.headers)}\n${response.body}`).join('\n');
        outcome = verdict(kind, front + text, expected, result);
      } catch (error) {
        outcome = { verdict: 'failed', problem: `runner: ${error.stack}` };
      }
      runner.sweep();
      // Some examples need data that an example of a later page leaves behind, so failed examples
      // are run again at the end.
      if (outcome.verdict === 'failed' && !again && kind === 'arangosh') { later.push({ key, front, text, expected }); return; }
      results.push({ key, kind, ...outcome });
      if (given.verbose && outcome.verdict === 'failed') process.stdout.write(`\n##### ${key} (${kind})\n${text.trim()}\n--- expected\n${(expected || '').slice(0, 3000)}\n--- got\n${shown.slice(0, 3000)}\n--- ${outcome.problem}\n`);
    };
    for (const example of list) {
      const out = outOfScope(example.key, example.text);
      if (out) results.push({ key: example.key, kind, verdict: 'out of scope', ...out });
      else if (!only || only.test(example.key)) one(example, false);
    }
    for (const example of later) one(example, true);
  }
  runner.clean();
  runner.shell.close();
  report(results, given);
}

function report(results, given) {
  if (given.json) {
    process.stdout.write(`${JSON.stringify(results, null, 1)}\n`);
    return;
  }
  const count = (kind, verdictName) => results.filter((result) => result.kind === kind && result.verdict === verdictName).length;
  for (const { key, kind, problem } of results.filter((result) => result.verdict === 'failed')) process.stdout.write(`FAILED ${kind} ${key}: ${problem}\n`);
  const reordered = results.filter((result) => result.reordered);
  if (given.order) for (const { key, kind, reordered: how } of reordered) process.stdout.write(`ORDER ${kind} ${key}: ${how}\n`);
  const reasons = new Map();
  for (const { category, reason } of results.filter((result) => result.verdict === 'out of scope')) {
    reasons.set(`${category} (${reason})`, (reasons.get(`${category} (${reason})`) || 0) + 1);
  }
  process.stdout.write('\nkind      value  shape  failed  out of scope  answered\n');
  let passed = 0;
  let failed = 0;
  for (const kind of ['HTTP', 'AQL', 'arangosh']) {
    const row = ['value', 'shape', 'failed', 'out of scope', 'answered'].map((name) => count(kind, name));
    passed += row[0] + row[1];
    failed += row[2];
    process.stdout.write(`${kind.padEnd(9)} ${row.map((number, at) => String(number).padStart([5, 6, 7, 13, 9][at])).join('')}\n`);
  }
  process.stdout.write(`\nout of scope:\n${[...reasons].map(([reason, number]) => `  ${String(number).padStart(3)} ${reason}`).join('\n')}\n`);
  process.stdout.write(`\n${passed} of ${passed + failed} pass (${((100 * passed) / Math.max(1, passed + failed)).toFixed(1)} %)\n`);
  process.stdout.write(`${reordered.length} of these have the attributes of an object in another order (--order lists them)\n`);
  if (given.names) {
    const names = results.filter((result) => ['value', 'shape'].includes(result.verdict)).map((result) => result.key).sort();
    fs.writeFileSync(given.names, `${names.join('\n')}\n`);
  }
}

main();
