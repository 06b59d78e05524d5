/** The real server for tests: the one on `VCTX_SOCKET`, or one that is started (`VCTX_PROGRAM`, else `target/debug/vctx`). */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { fileURLToPath } from "node:url";

import { Client, Problem } from "../src/index.js";

/** Longest wait for a started server, on a busy machine. */
const READY_MS_MAX = 60_000;

/** @returns {Promise<{socket: string, stop: () => Promise<void>}>} */
export async function server() {
  const given = process.env.VCTX_SOCKET;
  if (given) return { socket: given, stop: async () => {} };
  const program = process.env.VCTX_PROGRAM ?? fileURLToPath(new URL("../../../target/debug/vctx", import.meta.url));
  const home = mkdtempSync("/tmp/v.");
  const socket = `${home}/vctx.sock`;
  const child = spawn(program, ["serve", "--socket", socket, "--data-dir", `${home}/data`], { stdio: "ignore" });
  const client = new Client(socket);
  const until = Date.now() + READY_MS_MAX;
  for (;;) {
    try {
      await client.readyz();
      break;
    } catch (problem) {
      if (!(problem instanceof Problem) || Date.now() > until) throw problem;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
  client.close();
  return {
    socket,
    stop: async () => {
      child.kill();
      await once(child, "exit");
      rmSync(home, { recursive: true });
    },
  };
}
