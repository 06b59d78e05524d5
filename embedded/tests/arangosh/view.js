// Views and analyzers with the properties and methods that scripts of arangosh use.
'use strict';

class View {
  constructor(database, info) {
    this.database = database;
    this._id = info.id;
    this._name = info.name;
    this._type = info.type;
  }

  url(rest = '') { return this.database.path(`/_api/view/${encodeURIComponent(this._name)}${rest}`); }
  name() { return this._name; }
  type() { return this._type; }
  toString() { return `[ArangoView: ${this._id}]`; }
  _PRINT() { return `[ArangoView ${this._id}, "${this._name}" (type ${this._type})]`; }

  properties(change, partial = true) {
    const ask = (...parts) => this.database._connection.ask(...parts);
    const answer = change === undefined ? ask('GET', this.url('/properties')) : ask(partial ? 'PATCH' : 'PUT', this.url('/properties'), change);
    const { id, name, type, globallyUniqueId, code, error, ...rest } = answer;
    return rest;
  }

  rename(name) {
    this.database._connection.ask('PUT', this.url('/rename'), { name });
    this.database.forget();
    this._name = name;
  }

  drop() {
    this.database._connection.ask('DELETE', this.url());
    this.database.forget();
  }
}

class Analyzer {
  constructor(database, info) {
    this.database = database;
    this.info = info;
  }

  name() { return this.info.name; }
  type() { return this.info.type; }
  properties() { return this.info.properties; }
  features() { return this.info.features; }
  toString() { return this._PRINT(); }
  _PRINT(depth, show) {
    return depth === undefined || !this.info.shownWhole ? `[ArangoAnalyzer "${this.info.name}" (type ${this.info.type})]` : show(this.info, depth);
  }
}

function analyzersOf(database) {
  const ask = (method, rest, body) => database._connection.ask(method, database.path(`/_api/analyzer${rest}`), body);
  return {
    save(name, type, properties = {}, features = []) {
      const { error, code, ...made } = ask('POST', '', { name, type, properties, features });
      return made;
    },
    analyzer(name) {
      try {
        const { error, code, ...info } = ask('GET', `/${encodeURIComponent(name)}`);
        return new Analyzer(database, info);
      } catch (error) {
        if (error.code === 404) return null;
        throw error;
      }
    },
    toArray() { return ask('GET', '').result.map((info) => new Analyzer(database, info)); },
    remove(name, force = false) { ask('DELETE', `/${encodeURIComponent(name)}?force=${Boolean(force)}`); },
  };
}

module.exports = { View, Analyzer, analyzersOf };
