// Prints values as arangosh does: JSON with spaces around colons, one item per line, a space before
// each line end.
'use strict';

const WIDE = 2;

function quoted(text) {
  return JSON.stringify(text);
}

function show(value, depth) {
  const pad = ' '.repeat(depth * WIDE);
  const inner = ' '.repeat((depth + 1) * WIDE);
  if (value === null) return 'null';
  switch (typeof value) {
    case 'undefined': return 'undefined';
    case 'string': return quoted(value);
    case 'number': return Object.is(value, -0) ? '-0' : String(value);
    case 'boolean': case 'bigint': return String(value);
    case 'function': return `${/^[^(]*(\([^)]*\))/.exec(String(value))?.[1] ?? '()'} { ... }`;
    default: break;
  }
  if (typeof value._PRINT === 'function') return value._PRINT(depth, show);
  if (value instanceof Error || Object.prototype.toString.call(value) === '[object Error]') return `[${value}]`;
  if (Object.prototype.toString.call(value) === '[object Date]') return quoted(JSON.parse(JSON.stringify(value)));
  if (Buffer.isBuffer(value)) return `[Buffer ${value.length}]`;
  if (Array.isArray(value)) {
    if (value.length === 0) return '[ ]';
    return `[ \n${value.map((item) => inner + show(item, depth + 1)).join(', \n')} \n${pad}]`;
  }
  return showMembers(Object.entries(value), depth);
}

function showMembers(members, depth, prefix = '{') {
  const pad = ' '.repeat(depth * WIDE);
  const inner = ' '.repeat((depth + 1) * WIDE);
  if (members.length === 0) return `${prefix} \n${pad}}`;
  const lines = members.map(([name, value]) => `${inner}${quoted(name)} : ${show(value, depth + 1)}`);
  return `${prefix} \n${lines.join(', \n')} \n${pad}}`;
}

// Returns the output of `print`: strings unchanged, all other values in arangosh's format.
function printed(value) {
  return typeof value === 'string' ? value : show(value, 0);
}

module.exports = { show, showMembers, printed };
