/** Every example runs: its real package, the real server, and a model that follows a script. */

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdirSync, readFileSync, readdirSync, symlinkSync } from "node:fs";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import { Client } from "../src/index.js";
import { skipWithout } from "./packages.js";
import { server } from "./server.js";

const SAID = "I moored the Swallow at pier 4.";
/** The package that each example needs beside this one. */
const NEEDS = { "ai-sdk": "@ai-sdk/openai-compatible", "function-calling": "vctx", "openai-chat": "openai" };

const examples = new URL("../examples/", import.meta.url);
const run = promisify(execFile);
let running;

before(async () => {
  running = await server();
});

after(() => running.stop());

for (const [name, needed] of Object.entries(NEEDS)) {
  test(name, { skip: skipWithout(needed) }, async () => {
    const agent = `ex-${name}`;
    const given = [SAID, "--agent", agent, "--socket", running.socket, "--model-socket", running.modelSocket];
    const came = await run(process.execPath, [fileURLToPath(new URL(`${name}.js`, examples)), ...given]);
    assert.equal(came.stdout, "Noted: the Swallow lies at pier 4.\n");
    const client = new Client(running.socket);
    const memory = client.agent(agent);
    assert.equal((await memory.fetchCore("human")).result.content, "Their boat, the Swallow, lies at pier 4.");
    const roles = [];
    for await (const row of memory.allMessages()) roles.push(row.role);
    assert.deepEqual(roles, ["user", "assistant", "tool", "assistant"]);
    client.close();
  });
}

test("what the document shows runs as it stands", async () => {
  const directory = `${running.home}/run/vctx`;
  mkdirSync(directory, { recursive: true });
  symlinkSync(running.socket, `${directory}/vctx.sock`);
  const readme = readFileSync(new URL("../README.md", import.meta.url), "utf8");
  const shown = readme.split("```ts\n").slice(1).map((text) => text.split("```")[0]);
  assert.ok(shown.length > 0, "README.md shows nothing");
  const cwd = fileURLToPath(new URL("..", import.meta.url));
  for (const text of shown) {
    await run(process.execPath, ["--input-type=module", "-e", text], { cwd, env: { ...process.env, XDG_RUNTIME_DIR: `${running.home}/run` } });
  }
});

test("every example is run", () => {
  const there = readdirSync(examples).filter((name) => name.endsWith(".js"));
  assert.deepEqual(there.sort(), Object.keys(NEEDS).map((name) => `${name}.js`).sort());
});
