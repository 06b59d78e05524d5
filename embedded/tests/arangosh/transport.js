// HTTP over a Unix socket, one request at a time, for callers that cannot wait asynchronously.
'use strict';
const { Worker, MessageChannel, receiveMessageOnPort } = require('worker_threads');
const path = require('path');

const ANSWER_WAIT_MS = 600000;

class Transport {
  constructor(socketPath) {
    this.flag = new Int32Array(new SharedArrayBuffer(4));
    const { port1, port2 } = new MessageChannel();
    this.port = port1;
    this.worker = new Worker(path.join(__dirname, 'transport_worker.js'), {
      workerData: { socketPath, flag: this.flag, port: port2 },
      transferList: [port2],
    });
    this.worker.unref();
    this.port.unref();
  }

  // `body` is a Buffer or undefined; returns { status, statusText, headers, body }.
  request(method, target, body, headers) {
    Atomics.store(this.flag, 0, 0);
    this.port.postMessage({ method, target, body, headers });
    if (Atomics.wait(this.flag, 0, 0, ANSWER_WAIT_MS) === 'timed-out') {
      throw new Error(`no answer to ${method} ${target} within ${ANSWER_WAIT_MS} ms`);
    }
    const { message } = receiveMessageOnPort(this.port);
    if (message.failure) throw new Error(`${method} ${target}: ${message.failure}`);
    message.body = Buffer.from(message.body);
    return message;
  }

  close() {
    this.worker.terminate();
  }
}

module.exports = { Transport };
