/** Many writers at once, a server that is killed under them, and lost answers: nothing is lost, doubled or refused. */

import assert from "node:assert/strict";
import net from "node:net";
import { after, before, test } from "node:test";

import * as vctx from "../src/index.js";
import { server } from "./server.js";

/** Callers, messages of each, and kills of the server while they append; the everyday check tries a part. */
const [CALLERS, MESSAGES, KILLS] = process.env.VCTX_ROUNDS === "full" ? [20, 25, 8] : [20, 4, 1];
const BETWEEN_MS = 300;

/** @type {Awaited<ReturnType<typeof server>>} */
let own;
before(async () => {
  own = await server();
});
after(() => own.stop());

const said = async (agent) => {
  const client = new vctx.Client(own.socket);
  const texts = [];
  for await (const row of client.agent(agent).allMessages()) texts.push(row.content);
  client.close();
  return texts;
};

test("the appends of many callers survive kills of the server", async () => {
  const client = new vctx.Client(own.socket);
  const ada = await client.createAgent("last-ada", { context_window: 32_768 });
  const one = async (number) => {
    for (let at = 0; at < MESSAGES; at += 1) await ada.appendFifo(`${number} ${at}`);
  };
  const all = Promise.all(Array.from({ length: CALLERS }, (_, number) => one(number)));
  for (let kill = 0; kill < KILLS; kill += 1) {
    await new Promise((resolve) => setTimeout(resolve, BETWEEN_MS));
    await own.kill();
  }
  await all;
  client.close();
  const expected = Array.from({ length: CALLERS * MESSAGES }, (_, at) => `${Math.floor(at / MESSAGES)} ${at % MESSAGES}`);
  assert.deepEqual((await said("last-ada")).sort(), expected.sort());
});

test("a feed continues over a kill and ends with its agent", async () => {
  const client = new vctx.Client(own.socket);
  const fay = await client.createAgent("last-fay", { context_window: 32_768 });
  const numbers = [];
  const follow = async () => {
    for await (const change of fay.changes({ after: 0 })) numbers.push(change.n);
  };
  const following = follow();
  for (let number = 0; number < 20; number += 1) {
    if (number === 5) await own.kill();
    await fay.appendFifo(`message ${number}`);
  }
  while (numbers.length < 21) await new Promise((resolve) => setTimeout(resolve, 20));
  await fay.forget({ all: true });
  await following;
  client.close();
  assert.deepEqual(numbers, Array.from({ length: 21 }, (_, at) => at + 1));
});

/** A socket in front of the server's that loses answers: the server has done what was asked, and the client is cut off. */
async function relay(t) {
  const path = `${own.home}/relay.sock`;
  const state = { path, losing: false, lost: 0 };
  const listener = net.createServer((stream) => {
    const behind = net.connect(own.socket);
    const both = () => (stream.destroy(), behind.destroy());
    for (const end of [stream, behind]) end.on("error", both).on("close", both);
    stream.on("data", (piece) => behind.write(piece));
    behind.on("data", (piece) => {
      if (!state.losing) return stream.write(piece);
      state.losing = false;
      state.lost += 1;
      return both();
    });
  });
  await new Promise((resolve) => listener.listen(path, () => resolve(undefined)));
  t.after(() => listener.close());
  return state;
}

/** Repeats a call as a caller would that knows nothing of keys; ends after ten failures. */
async function untilTold(call) {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await call();
    } catch (problem) {
      if (attempt === 10 || !problem.passing) throw problem;
    }
  }
}

test("calls whose answers were lost are repeated without a key", async (t) => {
  const through = await relay(t);
  const client = new vctx.Client(through.path, { patienceMs: 0 });
  const bea = await client.createAgent("last-bea", { context_window: 8192 });
  for (let number = 0; number < 12; number += 1) {
    const calls = [
      () => bea.appendFifo(`message ${number}`),
      () => bea.storeCore("plan", `step ${number}`),
      () => bea.ingestArchival("log.md", `Entry ${number} of the log.`),
    ];
    for (const [at, call] of calls.entries()) {
      through.losing = number % 3 === at;
      await untilTold(call);
    }
  }
  through.losing = true;
  await assert.rejects(bea.storeCore("plan", "step 12"), vctx.Unanswered);
  await bea.storeCore("plan", "step 13");
  assert.equal((await bea.fetchCore("plan")).result.content, "step 13");
  assert.equal(through.lost, 13);
  client.close();
  assert.deepEqual(await said("last-bea"), Array.from({ length: 12 }, (_, number) => `message ${number}`));
});

test("a block is written again after many messages, but not over another's change", async () => {
  const client = new vctx.Client(own.socket);
  const cid = await client.createAgent("last-cid", { context_window: 8192 });
  await cid.storeCore("plan", "Sail.");
  for (let number = 0; number < 30; number += 1) await cid.appendFifo(`more ${number}`);
  await cid.storeCore("plan", "Paint.");
  assert.match(await cid.tell("store_core", { block_id: "other", content: "x" }), /^Done/);
  await client.agent("last-cid").storeCore("plan", "Swim.", undefined, { rev: vctx.ANY });
  for (let number = 0; number < 30; number += 1) await cid.appendFifo(`again ${number}`);
  await assert.rejects(cid.storeCore("plan", "Walk."), vctx.RevisionStale);
  client.close();
});

test("the second run of a script changes only what is new, and lists have iterators", async () => {
  const script = async (system) => {
    const client = new vctx.Client(own.socket);
    const eve = await client.getOrCreate("last-eve", { context_window: 8192, system });
    const { result } = await eve.ingestArchival("boat.md", "The boat is green.");
    client.close();
    return result;
  };
  const [first, again] = [await script("You are Eve."), await script("You are Eve, a sailor.")];
  assert.deepEqual([first.inserted, again.inserted, again.unchanged, again._rev], [1, 0, true, first._rev]);
  const client = new vctx.Client(own.socket);
  const eve = client.agent("last-eve");
  assert.equal((await eve.state()).system, "You are Eve, a sailor.");
  const appended = await eve.appendMessages(Array.from({ length: 300 }, (_, number) => `The boat, part ${number}.`));
  assert.deepEqual(appended.map((row) => row.seq), appended.map((_, at) => at + 1));
  const names = [];
  for await (const row of client.allAgents()) names.push(row.agent);
  assert.ok(names.includes("last-eve"));
  const found = new Set();
  for await (const row of eve.allFound("boat", { limit: 10 })) found.add(row.seq);
  assert.ok(found.size > 20, String(found.size));
  client.close();
});
