// The example graphs and data sets of the manual, from graphs.json.
'use strict';
const { generalGraph } = require('./graph');
const { errors, raise } = require('./error');
const { datasets, ...graphs } = require('./graphs.json');

function fill(database, graph) {
  for (const [name, rows] of Object.entries(graph.vertices)) for (const row of rows) database[name].insert(row);
  for (const [name, field] of Object.entries(graph.geo || {})) database[name].ensureIndex({ type: 'geo', fields: [field], geoJson: true });
  for (const [name, rows] of Object.entries(graph.edges)) for (const [from, to, data] of rows) database[name].insert({ ...data, _from: from, _to: to });
}

function exampleGraphs(database) {
  const graphModule = generalGraph(database);
  const managed = (name) => name.replace(/UnManaged$/, '');
  return {
    loadGraph(name) {
      const graph = graphs[managed(name)];
      if (!graph) return false;
      const taken = [...Object.keys(graph.vertices), ...Object.keys(graph.edges)].filter((collection) => database._collection(collection));
      if (taken.length > 0) raise(errors.ERROR_ARANGO_DUPLICATE_NAME.code, 409, `the collection: ${JSON.stringify(taken)} already exists. Please clean up and try again.`);
      if (managed(name) !== name) {
        for (const collection of Object.keys(graph.vertices)) database._create(collection);
        for (const collection of Object.keys(graph.edges)) database._createEdgeCollection(collection);
        fill(database, graph);
        return undefined;
      }
      const made = graphModule._create(name, graph.relations.map(([edges, from, to]) => graphModule._relation(edges, from, to)));
      fill(database, graph);
      return made;
    },
    dropGraph(name) {
      const graph = graphs[managed(name)];
      if (!graph) return false;
      if (managed(name) !== name) {
        for (const collection of [...Object.keys(graph.vertices), ...Object.keys(graph.edges)]) database._drop(collection);
        return undefined;
      }
      return graphModule._exists(name) ? graphModule._drop(name, true) : undefined;
    },
  };
}

// Creates a data set that an AQL example names in its front matter.
function loadDataset(database, name) {
  if (graphs[name]) {
    exampleGraphs(database).loadGraph(name);
    return;
  }
  if (!datasets[name]) throw new Error(`no data set ${name}`);
  for (const [collection, rows] of Object.entries(datasets[name])) {
    database._drop(collection);
    database._create(collection).insert(rows);
  }
}

function dropDataset(database, name) {
  if (graphs[name]) exampleGraphs(database).dropGraph(name);
  else for (const collection of Object.keys(datasets[name] || {})) database._drop(collection);
}

module.exports = { exampleGraphs, loadDataset, dropDataset };
