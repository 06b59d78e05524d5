// Checks whether an answer equals the recorded answer, apart from values that differ between
// servers (ids, revisions, times, sizes).
'use strict';
const { Token } = require('./shown');

const REVISION = /^_[A-Za-z0-9_-]{8,11}$/;
// Members with measured values, of which only the type is compared.
const MEASURED = /^(executionTime|peakMemoryUsage|created|time|size|documentsSize|documentSize|runTime|started|memoryUsage|hash|queryHash|checksum|uptime|cacheUsage|cacheSize|startTime|expires|stamp|bytesTotal|bytesLimit|lastLogTick|lastValue|created_at|valid_until|fingerprint|token)$/;
// Members with ids or revisions that differ between servers.
const OWN = /^(id|_key|_id|_from|_to|key|globallyUniqueId|objectId|tempObjectId|planId|cid|cuid|tick|revision|_rev|_oldRev|serverId|nextBatchId|startVertex|vertex|path|jwt)$/;
// Cost estimates of the optimizer, which the engine does not compute.
const COST = /^(estimatedCost|estimatedNrItems|selectivityEstimate)$/;

class Comparison {
  constructor({ exactTexts = false, unordered = false, costs = true } = {}) {
    this.exactTexts = exactTexts;
    this.unordered = unordered;
    this.costs = costs;
    this.pairs = new Map();
    this.problem = null;
    this.reordered = null;
  }

  fail(path, expected, actual) {
    if (!this.problem) this.problem = `${path || 'value'}: expected ${brief(expected)}, got ${brief(actual)}`;
    return false;
  }

  // Within one example, an id of the recorded server must always correspond to the same id of the
  // engine.
  paired(expected, actual) {
    if (!this.pairs.has(expected)) this.pairs.set(expected, actual);
    return this.pairs.get(expected) === actual;
  }

  same(expected, actual, path = '', member = '') {
    if (expected instanceof Token || actual instanceof Token) return this.tokens(expected, actual, path);
    if (expected === null || actual === null || typeof expected !== typeof actual) {
      return expected === actual || this.fail(path, expected, actual);
    }
    if (typeof expected === 'number') return this.numbers(expected, actual, path, member);
    if (typeof expected === 'string') return this.texts(expected, actual, path, member);
    if (typeof expected !== 'object') return expected === actual || this.fail(path, expected, actual);
    if (Array.isArray(expected) !== Array.isArray(actual)) return this.fail(path, expected, actual);
    return Array.isArray(expected) ? this.lists(expected, actual, path) : this.objects(expected, actual, path);
  }

  tokens(expected, actual, path) {
    const text = (value) => (value instanceof Token ? value.text : JSON.stringify(value));
    return this.texts(text(expected), text(actual), path, '', true);
  }

  numbers(expected, actual, path, member) {
    if (MEASURED.test(member) || /\.profile\./.test(path) || (!this.costs && COST.test(member))) return true;
    if (expected === actual) return true;
    if (Math.abs(expected - actual) <= 1e-12 * Math.max(Math.abs(expected), Math.abs(actual))) return true;
    return this.fail(path, expected, actual);
  }

  texts(expected, actual, path, member, token = false) {
    if (expected === actual) return true;
    if (MEASURED.test(member)) return true;
    if (REVISION.test(expected) && REVISION.test(actual) && /_rev|_oldRev|revision|etag/.test(member)) return true;
    if (OWN.test(member) || token || !this.exactTexts) {
      const [left, right] = [parts(expected), parts(actual)];
      if (left.frame === right.frame && left.own.length === right.own.length
        && left.own.every((own, at) => !/^\d+$/.test(own) || this.paired(own, right.own[at]))) return true;
    }
    return this.fail(path, expected, actual);
  }

  lists(expected, actual, path) {
    if (expected.length !== actual.length) return this.fail(`${path}.length`, expected.length, actual.length);
    if (this.unordered) return this.multiset(expected, actual, path);
    return expected.every((item, at) => this.same(item, actual[at], `${path}[${at}]`));
  }

  multiset(expected, actual, path) {
    const rest = [...actual];
    for (const item of expected) {
      const at = rest.findIndex((candidate) => {
        const trial = new Comparison(this);
        trial.pairs = new Map(this.pairs);
        return trial.same(item, candidate);
      });
      if (at < 0) return this.fail(path, item, 'nothing like it');
      rest.splice(at, 1);
    }
    return true;
  }

  objects(expected, actual, path) {
    const [left, right] = [Object.keys(expected), Object.keys(actual)];
    const missing = left.filter((name) => !(name in actual));
    const extra = right.filter((name) => !(name in expected));
    // The name of a member may be a document's id, as in {"relation/123": …}.
    if (missing.length > 0 || extra.length > 0) {
      if (missing.length === extra.length && missing.every((name) => /\/\d+$/.test(name))) {
        return this.lists(left.map((name) => expected[name]), right.map((name) => actual[name]), path);
      }
      return this.fail(path, `members ${missing.join(', ') || '-'}`, `members ${extra.join(', ') || '-'}`);
    }
    if (left.join() !== right.join() && !this.reordered) this.reordered = `${path || 'value'}: expected ${left.join(', ')}; got ${right.join(', ')}`;
    return left.every((name) => this.same(expected[name], actual[name], `${path}.${name}`, name));
  }
}

// Splits a text into its constant parts (`frame`) and the numbers, revisions and times that differ
// between servers (`own`).
function parts(text) {
  const own = [];
  const frame = text.replace(/_[A-Za-z0-9_-]{8}[A-Z_-][A-Za-z0-9_-]?(?![A-Za-z0-9])|\bh[0-9A-F]+(?=\/)|\d{4}-\d\d-\d\dT[\d:.]+Z|\d\d:\d\d:\d\d\.\d+Z|(?<![\d.])\d{2,}(?![\d.])/g, (found) => {
    own.push(found);
    return '#';
  });
  return { frame: frame.replace(/\/#\b/g, '/#'), own };
}

// Returns the members and types of a value without the values themselves; only these are compared
// for measured figures and plans.
function shape(value) {
  if (value instanceof Token) return parts(value.text).frame;
  if (Array.isArray(value)) return value.length === 0 ? [] : [shape(value[0])];
  if (value && typeof value === 'object') return Object.fromEntries(Object.keys(value).sort().map((name) => [name, shape(value[name])]));
  return typeof value;
}

function sameShape(expected, actual) {
  const comparison = new Comparison();
  const bare = (value) => JSON.parse(JSON.stringify(shape(value)));
  comparison.shapes = (left, right, path) => {
    if (Array.isArray(left) && Array.isArray(right)) return left.length === 0 || right.length === 0 || comparison.shapes(left[0], right[0], `${path}[]`);
    if (left && right && typeof left === 'object' && typeof right === 'object') {
      const missing = Object.keys(left).filter((name) => !(name in right));
      if (missing.length > 0) return comparison.fail(path, `members ${missing.join(', ')}`, 'none');
      return Object.keys(left).every((name) => comparison.shapes(left[name], right[name], `${path}.${name}`));
    }
    return typeof left === typeof right || comparison.fail(path, left, right);
  };
  return { same: comparison.shapes(bare(expected), bare(actual), ''), problem: comparison.problem };
}

function brief(value) {
  const text = value instanceof Token ? value.text : JSON.stringify(value);
  return text === undefined ? 'undefined' : text.length > 160 ? `${text.slice(0, 160)}…` : text;
}

module.exports = { Comparison, sameShape, brief };
