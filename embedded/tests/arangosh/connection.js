// `arango`: requests with credentials and the current database, bodies as JSON.
'use strict';
const { Transport } = require('./transport');
const { ArangoError } = require('./error');

class Connection {
  constructor(socketPath, user = 'root', password = '') {
    this.transport = new Transport(socketPath);
    this.socketPath = socketPath;
    this.user = user;
    this.database = '_system';
    this.extra = {};
    this.reconnectAs(user, password);
  }

  reconnectAs(user, password) {
    this.user = user;
    this.authorization = `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`;
  }

  // Answers { code, headers, body (Buffer), parsedBody?, error, statusText }.
  raw(method, target, body, headers = {}) {
    const path = /^\/_(db|open\/)/.test(target) || this.database === '_system' ? target
      : `/_db/${encodeURIComponent(this.database)}${target}`;
    let bytes;
    if (Buffer.isBuffer(body)) bytes = body;
    else if (typeof body === 'string') bytes = Buffer.from(body);
    else if (body !== undefined && body !== null) bytes = Buffer.from(JSON.stringify(body));
    const all = { accept: 'application/json', authorization: this.authorization, ...this.extra, ...headers };
    if (/bearer/i.test(all.Authorization || '')) delete all.authorization;
    const answer = this.transport.request(method, encodeTarget(path), bytes, all);
    const out = { code: answer.status, statusText: answer.statusText, headers: answer.headers, body: answer.body,
      error: answer.status >= 400 };
    if (/json/.test(answer.headers['content-type'] || '') && answer.body.length > 0) {
      out.parsedBody = parsed(answer.body.toString());
      if (out.parsedBody && typeof out.parsedBody === 'object' && 'errorNum' in out.parsedBody) {
        out.errorNum = out.parsedBody.errorNum;
        out.errorMessage = out.parsedBody.errorMessage;
      }
    }
    return out;
  }

  // What arangosh's plain methods answer: the body, with `code` and `error` where there is none.
  plain(method, target, body, headers) {
    const answer = this.raw(method, target, body, headers);
    if (answer.parsedBody !== undefined) return answer.parsedBody;
    if (answer.body.length > 0) return answer.body.toString();
    return { code: answer.code, error: answer.error };
  }

  // Like plain, but throws what the server says is wrong.
  ask(method, target, body, headers) {
    const answer = this.raw(method, target, body, headers);
    const value = answer.parsedBody;
    if (answer.code >= 400) {
      throw new ArangoError(value && typeof value === 'object' && 'errorNum' in value ? value
        : { errorNum: answer.code, code: answer.code, errorMessage: answer.statusText });
    }
    return value;
  }
}

for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'HEAD']) {
  const bare = method === 'GET' || method === 'HEAD';
  Connection.prototype[method] = function (target, body, headers) {
    return bare ? this.plain(method, target, undefined, body) : this.plain(method, target, body, headers);
  };
  Connection.prototype[`${method}_RAW`] = function (target, body, headers) {
    return bare ? this.raw(method, target, undefined, body) : this.raw(method, target, body, headers);
  };
}

function addArangoshNames() {
  Connection.prototype.getDatabaseName = function () { return this.database; };
  Connection.prototype.setDatabaseName = function (name) { this.database = name; };
  Connection.prototype.connectedUser = function () { return this.user; };
  Connection.prototype.getEndpoint = function () { return `http+unix://${this.socketPath}`; };
  Connection.prototype.isConnected = () => true;
  Connection.prototype.protocol = () => 'http';
  Connection.prototype.getRole = () => 'SINGLE';
  Connection.prototype.timeout = () => 600;
  Connection.prototype.reconnect = function (endpoint, database, user, password = '') {
    this.database = database || this.database;
    this.reconnectAs(user || this.user, password);
    return true;
  };
  Connection.prototype.connectHandle = function () { return this.user; };
}
addArangoshNames();

// Spaces and other bytes that may not stand in a request line, leaving what is already encoded.
function encodeTarget(target) {
  return target.replace(/[^\x21-\x7e]/g, (character) => encodeURIComponent(character));
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

module.exports = { Connection };
