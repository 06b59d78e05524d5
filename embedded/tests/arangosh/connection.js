// The object `arango`: sends requests with JSON bodies and credentials to the current database.
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

  // Returns { code, headers, body (Buffer), parsedBody?, error, statusText }.
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

  // Returns what arangosh's plain methods return: the response body, with `code` and `error` added
  // if they are missing.
  plain(method, target, body, headers) {
    const answer = this.raw(method, target, body, headers);
    if (answer.parsedBody !== undefined) return answer.parsedBody;
    if (answer.body.length > 0) return answer.body.toString();
    return { code: answer.code, error: answer.error };
  }

  // Like `plain`, but throws an error that the server reports.
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

// Percent-encodes spaces and other bytes that a request line must not contain. Parts that are
// already encoded stay unchanged.
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
