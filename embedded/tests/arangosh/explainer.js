// The module "@arangodb/aql/explainer": prints the nodes, indexes and rules of a plan, but not in
// the real tool's layout.
'use strict';

function explain(database, query, bindVars, options, write = console.log) {
  const data = query && typeof query === 'object' && query.query ? { ...query } : { query: String(query && query.toAQL ? query.toAQL() : query), bindVars };
  if (query && typeof query === 'object' && query.query) options = bindVars;
  const { colors, ...rest } = { ...(data.options || {}), ...(options || {}) };
  const { plan, plans } = database.ask('POST', '/_api/explain', { ...data, options: rest });
  const lines = [`Query String (${data.query.length} chars):`, ...data.query.split('\n').map((line) => ` ${line}`), ''];
  for (const one of plans || [plan]) {
    lines.push('Execution plan:', ' Id   NodeType   Comment');
    for (const node of one.nodes) lines.push(` ${String(node.id).padStart(2)}   ${node.type}`);
    const used = one.nodes.flatMap((node) => (Array.isArray(node.indexes) ? node.indexes : (node.indexes || {}).base || []));
    lines.push('', 'Indexes used:', ...(used.length === 0 ? [' none'] : used.map((index) => ` ${index.name} ${index.type} [ ${index.fields.join(', ')} ]`)));
    lines.push('', 'Optimization rules applied:', ...(one.rules.length === 0 ? [' none'] : one.rules.map((rule, at) => ` ${at + 1} ${rule}`)), '');
  }
  write(lines.join('\n'));
}

function profile(database, query, bindVars, options, write = console.log) {
  const { colors, ...rest } = options || {};
  const extra = database._query(query, bindVars, {}, { ...rest, profile: 2 }).getExtra();
  const lines = [`Query String (${query.length} chars):`, ...query.split('\n').map((line) => ` ${line}`), '', 'Execution plan:'];
  for (const node of (extra.plan || { nodes: [] }).nodes) lines.push(` ${String(node.id).padStart(2)}   ${node.type}`);
  lines.push('', 'Query Statistics:', JSON.stringify(extra.stats));
  write(lines.join('\n'));
}

module.exports = { explain, profile };
