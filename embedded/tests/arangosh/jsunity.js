// Test suites: setUpAll, setUp, test…, tearDown, tearDownAll, and the assertions of the suites.
'use strict';
const { isDeepStrictEqual } = require('util');
const { printed } = require('./print');

class AssertionFailed extends Error {}

const state = { passed: 0, failed: [], only: null };

function fail(message, said) {
  throw new AssertionFailed(said === undefined ? message : `${message} (${said})`);
}

const text = (value) => printed(value === undefined ? 'undefined' : value);
const plain = (value) => (value === undefined ? undefined : JSON.parse(JSON.stringify(value)));
const same = (a, b) => a === b || isDeepStrictEqual(a, b)
  || (typeof a === 'object' && typeof b === 'object' && a !== null && b !== null && isDeepStrictEqual(plain(a), plain(b)));

// jsunity itself uses the argument order assertEqual(expected, actual).
const assertions = {
  fail: (message) => fail(message || 'fail() was called'),
  assert: (value, said) => { if (!value) fail('not true', said); },
  assertTrue: (value, said) => { if (value !== true) fail(`${text(value)} is not true`, said); },
  assertFalse: (value, said) => { if (value !== false) fail(`${text(value)} is not false`, said); },
  assertNull: (value, said) => { if (value !== null) fail(`${text(value)} is not null`, said); },
  assertNotNull: (value, said) => { if (value === null) fail('null', said); },
  assertUndefined: (value, said) => { if (value !== undefined) fail(`${text(value)} is not undefined`, said); },
  assertNotUndefined: (value, said) => { if (value === undefined) fail('undefined', said); },
  assertEqual: (expected, value, said) => { if (!same(expected, value)) fail(`expected ${text(expected)}, got ${text(value)}`, said); },
  assertNotEqual: (expected, value, said) => { if (same(expected, value)) fail(`did not expect ${text(value)}`, said); },
  assertIdentical: (expected, value, said) => { if (expected !== value) fail(`expected ${text(expected)}, got ${text(value)}`, said); },
  assertNotIdentical: (expected, value, said) => { if (expected === value) fail(`did not expect ${text(value)}`, said); },
  assertMatch: (pattern, value, said) => { if (!pattern.test(value)) fail(`${text(value)} does not match ${pattern}`, said); },
  assertTypeOf: (type, value, said) => { if (typeof value !== type) fail(`${text(value)} is no ${type}`, said); },
  assertInstanceOf: (type, value, said) => { if (!(value instanceof type)) fail('instance of something else', said); },
  assertNotInstanceOf: (type, value, said) => { if (value instanceof type) fail('instance of that', said); },
  assertNaN: (value, said) => { if (!Number.isNaN(value)) fail(`${text(value)} is a number`, said); },
  assertException(run, pattern, said) {
    try {
      run();
    } catch (error) {
      if (pattern instanceof RegExp && !pattern.test(String(error))) fail(`threw ${error}`, said);
      return;
    }
    fail('nothing was thrown', said);
  },
  assertNoException: (run, said) => { try { run(); } catch (error) { fail(`threw ${error}`, said); } },
  assertAlmostEqual(expected, value, said) { if (Math.abs(expected - value) > 1e-6) fail(`expected about ${expected}, got ${value}`, said); },
};
assertions.assertEquals = assertions.assertEqual;

function runSuite(make, write) {
  const suite = typeof make === 'function' ? make() : make;
  const title = typeof make === 'function' ? make.name : 'suite';
  const call = (name) => { if (typeof suite[name] === 'function') suite[name](title); };
  let broken = null;
  try { call('setUpAll'); } catch (error) { broken = error; }
  const names = Object.getOwnPropertyNames(suite).filter((name) => /^test/.test(name) && (!state.only || state.only.test(name)));
  for (const name of names) {
    let problem = broken;
    if (!problem) {
      try {
        call('setUp');
        suite[name]();
      } catch (error) {
        problem = error;
      }
      try { call('tearDown'); } catch (error) { problem = problem || error; }
    }
    if (problem) {
      state.failed.push({ suite: title, name, problem });
      write(`[FAILED] ${title} ${name}: ${String(problem.stack || problem).split('\n').slice(0, 4).join(' | ')}`);
    } else {
      state.passed += 1;
      write(`[PASSED] ${title} ${name}`);
    }
  }
  try { call('tearDownAll'); } catch (error) { write(`[FAILED] ${title} tearDownAll: ${error}`); state.failed.push({ suite: title, name: 'tearDownAll', problem: error }); }
}

function jsunity(write) {
  const run = (...suites) => suites.forEach((suite) => runSuite(suite, write));
  return {
    jsUnity: { assertions },
    run,
    done() {
      write(`${state.passed} passed, ${state.failed.length} failed`);
      return { status: state.failed.length === 0, passed: state.passed, failed: state.failed.length };
    },
    state,
  };
}

module.exports = { jsunity, assertions, state };
