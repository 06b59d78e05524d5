/** The real server for tests, and its scripted model: from the program in `VCTX_PROGRAM`, else `target/debug/vctx`. */

import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import { Client, Problem } from "../src/index.js";

/** Longest wait for a started program, on a busy machine, and the pause between two polls. */
const READY_MS_MAX = 60_000;
const LOOK_MS = 20;

const run = promisify(execFile);

/** @returns {Promise<{socket: string, modelSocket: string, home: string, kill: () => Promise<void>, stop: () => Promise<void>}>} */
export async function server() {
  const program = process.env.VCTX_PROGRAM ?? fileURLToPath(new URL("../../../target/debug/vctx", import.meta.url));
  const home = mkdtempSync("/tmp/v.");
  const [socket, modelSocket] = [`${home}/vctx.sock`, `${home}/model.sock`];
  const script = fileURLToPath(new URL("../../examples/harbour.jsonl", import.meta.url));
  const env = { ...process.env, VCTX_CHAT__SOCKET: modelSocket, VCTX_CHAT__MODEL: "scripted" };
  const serve = () => spawn(program, ["serve", "--socket", socket, "--data-dir", `${home}/data`], { stdio: "ignore", env });
  const children = [spawn(program, ["scripted-model", "--socket", modelSocket, "--script", script], { stdio: "ignore", env }), serve()];
  const client = new Client(socket);
  const until = Date.now() + READY_MS_MAX;
  while (!existsSync(modelSocket) || !(await isReady(client))) {
    if (Date.now() > until) throw new Error(`${program} does not serve`);
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
  // Kills the server as a power failure would, and starts it again; does not wait until it is ready.
  const kill = async () => {
    const ended = once(children[1], "exit");
    children[1].kill("SIGKILL");
    await ended;
    children[1] = serve();
  };
  const stop = async () => {
    try {
      // `vctx verify` must succeed for every agent's memory.
      for (const { agent } of (await client.agents()).agents) await run(program, ["verify", "--agent", agent, "--socket", socket]);
    } finally {
      client.close();
      for (const child of children.toReversed()) {
        child.kill();
        if (child.exitCode === null) await once(child, "exit");
      }
      rmSync(home, { recursive: true });
    }
  };
  return { socket, modelSocket, home, kill, stop };
}

async function isReady(client) {
  try {
    return Boolean(await client.readyz());
  } catch (problem) {
    if (problem instanceof Problem) return false;
    throw problem;
  }
}
