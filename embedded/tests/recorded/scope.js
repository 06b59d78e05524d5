// The recorded examples that the engine does not support on purpose, by category and with the
// reason.
'use strict';

const OUT = [
  ['cluster', /_cluster\b|cluster/i, /^(?!.*)/, 'answers of coordinators and DB-Servers'],
  ['JavaScript transactions', null, /\/_api\/transaction["'`][^]*\baction\b|_executeTransaction/, 'there is no JavaScript in the server'],
  ['user-defined functions', /Aqlfunction/i, /aqlfunction|@arangodb\/aql\/functions/, 'there is no JavaScript in the server'],
  ['tasks', /^RestTasks/, /_api\/tasks/, 'there is no JavaScript in the server'],
  ['Foxx', /foxx/i, /_api\/foxx/, 'there is no JavaScript in the server'],
  ['Enterprise graphs', /smart|satellite|enterprise|disjoint/i, /smart-graph|satellite-graph|isSmart|isDisjoint|satellites/, 'need the Enterprise Edition’s cluster'],
  ['hot backup', /backup/i, /hotbackup|_admin\/backup/, 'an enterprise feature of arangod’s files'],
  ['replication and WAL', /^RestWal|replication/i, /_api\/wal|_api\/replication|@arangodb\/replication/, 'no replication'],
  ['geo', /geo/i, /\bGEO_|\bDISTANCE\(|geo_s2|geopoint|geojson/, 'geo queries are refused by name'],
  ['fulltext queries', null, /\bFULLTEXT\(/, 'indexes of type fulltext are definitions only'],
  ['query profile', /profileQuery|profiling/i, /_profileQuery|profileQuery\(/, 'the layout of a tool, with measured times'],
  ['query debug packages', /debug/i, /debugDump|inspectDump/, 'a tool of arangosh'],
  ['metrics and statistics', /metrics|statistics/i, /_admin\/metrics|_admin\/statistics|_admin\/usage-metrics/, 'other figures than arangod’s'],
];

// Returns the category and the reason why an example is out of scope, or null.
function outOfScope(name, request) {
  for (const [category, names, texts, reason] of OUT) {
    if ((names && names.test(name)) || texts.test(request)) return { category, reason };
  }
  return null;
}

module.exports = { outOfScope, OUT };
