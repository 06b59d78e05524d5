/** Which requests are repeated, against a scripted peer. */

import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import net from "node:net";
import { test } from "node:test";

import * as vctx from "../src/index.js";
import { LOST_MAX, LOST_MS, Lost } from "../src/lost.js";
import { runtimeDir } from "../src/paths.js";

const answer = (status, body, ...headers) =>
  [`HTTP/1.1 ${status} X`, ...headers, `content-length: ${Buffer.byteLength(body)}`, "", body].join("\r\n");

const CUT = (stream) => stream.destroy();
const HALF = (stream) => stream.end("HTTP/1.1 200 X\r\ncontent-length: 100\r\n\r\n{");
const SILENCE = () => {};
const GOOD = '{"_rev": "_r", "receipt": {"seq": 3}, "replayed": true}';

/** Reads and records requests, and answers each with the next reply; disconnects after the last one. */
async function peer(t, replies, options) {
  const home = mkdtempSync("/tmp/v.");
  const seen = [];
  const streams = new Set();
  const listener = net.createServer((stream) => {
    streams.add(stream);
    let got = "";
    stream.on("error", () => {});
    stream.on("data", (piece) => {
      got += piece;
      const [head, rest] = got.split("\r\n\r\n");
      const length = Number(/content-length: (\d+)/i.exec(head)?.[1] ?? 0);
      if (rest === undefined || Buffer.byteLength(rest) < length) return;
      seen.push(got);
      got = "";
      const reply = replies.shift() ?? CUT;
      if (typeof reply === "function") reply(stream);
      else stream.write(reply);
    });
  });
  await new Promise((resolve) => listener.listen(`${home}/s`, resolve));
  const client = new vctx.Client(`${home}/s`, options);
  t.after(() => {
    client.close();
    for (const stream of streams) stream.destroy();
    listener.close();
    rmSync(home, { recursive: true });
  });
  return { agent: client.agent("a"), seen };
}

test("a cut call is sent again with the same key and revision", async (t) => {
  const { agent, seen } = await peer(t, [CUT, HALF, answer(200, GOOD)]);
  const came = await agent.appendFifo("hi", "user", {}, { key: "k-1", rev: vctx.ANY });
  assert.equal(came.receipt.seq, 3);
  assert.equal(seen.length, 3);
  for (const text of seen) {
    assert.match(text, /^POST \/v1\/agents\/a\/tools\/append_fifo HTTP\/1\.1\r\n/);
    assert.match(text, /Idempotency-Key: k-1\r\n/);
    assert.match(text, /If-Match: \*\r\n/);
    assert.ok(text.endsWith('{"message":"hi","role":"user"}'), text);
  }
});

test("a fresh key is made once for all attempts", async (t) => {
  const { agent, seen } = await peer(t, [CUT, answer(200, GOOD)]);
  await agent.appendFifo("hi", "user", {}, { rev: "_r" });
  const keys = new Set(seen.map((text) => /Idempotency-Key: (.*)\r\n/.exec(text)[1]));
  assert.deepEqual([seen.length, keys.size], [2, 1]);
});

test("attempts have an end and silence a deadline", async (t) => {
  const { agent, seen } = await peer(t, [CUT, SILENCE, HALF], { patienceMs: 800, timeoutMs: 300 });
  await assert.rejects(agent.appendFifo("hi", "user", {}, { key: "k", rev: "*" }), (problem) => {
    assert.ok(problem instanceof vctx.Unanswered, String(problem));
    assert.deepEqual([problem.key, problem.passing], ["k", true]);
    return true;
  });
  assert.ok(seen.length >= 3, String(seen.length));
});

test("a repetition of a lost call has its key, and the next equal call has not", async (t) => {
  const { agent, seen } = await peer(t, [CUT, answer(200, GOOD), answer(200, GOOD)], { patienceMs: 0 });
  await assert.rejects(agent.appendFifo("hi"), vctx.Unanswered);
  await agent.appendFifo("hi");
  await agent.appendFifo("hi");
  const [first, again, other] = seen.map((text) => /Idempotency-Key: (.*)\r\n/.exec(text)[1]);
  assert.equal(first, again);
  assert.notEqual(again, other);
});

test("a lost call is kept for a while and as one of many", () => {
  let now = 0;
  const lost = new Lost(() => now);
  lost.note("POST", "/a", "x", "k1", undefined);
  lost.note("POST", "/a", "x", "k2", "r");
  assert.deepEqual(lost.guarded("").map((call) => call.key), ["k2"]);
  assert.deepEqual([1, 2, 3].map(() => lost.take("POST", "/a", "x")), ["k1", "k2", undefined]);
  lost.note("POST", "/a", "x", "k3", undefined);
  now = LOST_MS + 1;
  assert.equal(lost.take("POST", "/a", "x"), undefined);
  for (let number = 0; number <= LOST_MAX; number += 1) lost.note("POST", "/a", "x", String(number), undefined);
  assert.equal(lost.take("POST", "/a", "x"), "1");
});

test("a busy server is asked again and a refusal is final", async (t) => {
  const busy = await peer(t, [answer(503, '{"error": "OVERLOADED", "detail": "d"}'), answer(200, GOOD)]);
  assert.equal((await busy.agent.state())._rev, "_r");
  assert.equal(busy.seen.length, 2);
  const reused = await peer(t, [answer(409, '{"error": "IDEMPOTENCY_KEY_REUSED", "detail": "d"}'), answer(200, GOOD)]);
  await assert.rejects(reused.agent.state(), vctx.IdempotencyKeyReused);
  assert.equal(reused.seen.length, 1);
});

test("a beat that has to wait is not sent again", async (t) => {
  const reply = answer(429, '{"error": "HEARTBEAT_COOLDOWN", "detail": "d", "retry_after_ms": 700}', "retry-after: 1");
  const { agent, seen } = await peer(t, [reply, answer(200, GOOD)]);
  await assert.rejects(agent.recordHeartbeat("continue"), (problem) => {
    assert.ok(problem instanceof vctx.HeartbeatCooldown);
    assert.deepEqual([problem.retryAfterMs, problem.retryAfterS, seen.length], [700, 1, 1]);
    return true;
  });
});

test("what is no answer of this server is garbled", async (t) => {
  for (const reply of [answer(200, "{{"), answer(200, "[]"), "SSH-2.0-x\r\n\r\n"]) {
    const { agent, seen } = await peer(t, [reply, answer(200, GOOD)]);
    await assert.rejects(agent.state(), vctx.Garbled);
    assert.equal(seen.length, 1);
  }
  const { agent } = await peer(t, [answer(200, '{"messages": [], "next_seq": 5}')]);
  await assert.rejects(agent.allMessages(5).next(), vctx.Garbled);
});

test("a caller may give a call up", async (t) => {
  const { agent, seen } = await peer(t, [SILENCE, answer(200, GOOD)]);
  const giveUp = new AbortController();
  const watch = setInterval(() => seen.length > 0 && giveUp.abort(), 5);
  t.after(() => clearInterval(watch));
  await assert.rejects(agent.appendFifo("hi", "user", {}, { rev: "*", signal: giveUp.signal }), { name: "AbortError" });
  assert.equal(seen.length, 1);
});

test("no server is unreachable and says what to do", async () => {
  await assert.rejects(new vctx.Client("/nonexistent/s", { patienceMs: 50 }).agents(), (problem) => {
    assert.ok(problem instanceof vctx.Unreachable, String(problem));
    assert.match(problem.message, /vctx serve/);
    return true;
  });
});

test("headers carry visible ASCII alone", async () => {
  const agent = new vctx.Client("/nonexistent/s").agent("a");
  await assert.rejects(agent.appendFifo("hi", "user", {}, { key: "a\r\nb", rev: "*" }), (problem) => problem.field === "idempotency-key");
});

test("the socket is where the command line looks", () => {
  const nobody = 4_000_000_001;
  assert.equal(runtimeDir({ XDG_RUNTIME_DIR: "/run/user/7" }, nobody), "/run/user/7/vctx");
  assert.equal(runtimeDir({}, nobody), "/tmp/vctx-4000000001");
  assert.equal(runtimeDir({ XDG_RUNTIME_DIR: "run" }, nobody), "/tmp/vctx-4000000001");
  assert.equal(runtimeDir({ XDG_RUNTIME_DIR: `/${"x".repeat(100)}` }, nobody), "/tmp/vctx-4000000001");
  const longest = `/${"x".repeat(107 - 20 - 1 - "/vctx".length)}`;
  assert.equal(runtimeDir({ XDG_RUNTIME_DIR: longest }, nobody), `${longest}/vctx`);
});
