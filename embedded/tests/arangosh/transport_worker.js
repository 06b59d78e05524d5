// The thread that owns the connection of transport.js: keeps the connection open and reconnects
// when the server has closed it.
'use strict';
const net = require('net');
const { workerData } = require('worker_threads');

const { socketPath, flag, port } = workerData;
let socket = null;
let pending = null;
let received = Buffer.alloc(0);

function finish(message) {
  pending = null;
  port.postMessage(message);
  Atomics.store(flag, 0, 1);
  Atomics.notify(flag, 0);
}

function lost(reason) {
  const request = pending;
  socket = null;
  received = Buffer.alloc(0);
  if (!request) return;
  if (!request.fresh && !request.retried) {
    request.retried = true;
    send(request);
  } else {
    finish({ failure: reason });
  }
}

function connect() {
  const made = net.createConnection(socketPath);
  made.on('data', (chunk) => {
    received = received.length === 0 ? chunk : Buffer.concat([received, chunk]);
    read();
  });
  made.on('error', (error) => { if (socket === made) lost(error.message); });
  made.on('close', () => { if (socket === made) lost('the connection was closed'); });
  return made;
}

function send(request) {
  request.fresh = socket === null;
  if (socket === null) socket = connect();
  const body = request.body ? Buffer.from(request.body) : Buffer.alloc(0);
  let head = `${request.method} ${request.target} HTTP/1.1\r\nHost: localhost\r\n`;
  for (const [name, value] of Object.entries(request.headers || {})) head += `${name}: ${value}\r\n`;
  head += `Content-Length: ${body.length}\r\n\r\n`;
  pending = request;
  socket.write(Buffer.concat([Buffer.from(head), body]));
}

function read() {
  if (!pending) return;
  const end = received.indexOf('\r\n\r\n');
  if (end < 0) return;
  const lines = received.subarray(0, end).toString('latin1').split('\r\n');
  const [, status, statusText] = /^HTTP\/1\.\d (\d+) ?(.*)$/.exec(lines[0]);
  const headers = {};
  for (const line of lines.slice(1)) {
    const colon = line.indexOf(':');
    headers[line.slice(0, colon).toLowerCase()] = line.slice(colon + 1).trim();
  }
  const empty = pending.method === 'HEAD' || status === '204' || status === '304' || status.startsWith('1');
  const length = empty ? 0 : Number(headers['content-length'] || 0);
  if (received.length < end + 4 + length) return;
  const body = received.subarray(end + 4, end + 4 + length);
  received = received.subarray(end + 4 + length);
  if (status.startsWith('1')) return read();
  if ((headers.connection || '').toLowerCase() === 'close') {
    socket.destroy();
    socket = null;
    received = Buffer.alloc(0);
  }
  finish({ status: Number(status), statusText, headers, body: new Uint8Array(body) });
}

port.on('message', send);
