#!/usr/bin/env node
/** Runs the program `vctx` from the package of this platform. */

import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { constants } from "node:os";

const wanted = `vctx-${process.platform}-${process.arch}`;

/** The path of the program in the package of this platform. */
function program() {
  try {
    return createRequire(import.meta.url).resolve(`${wanted}/bin/vctx`);
  } catch {
    return undefined;
  }
}

const path = program();
if (path === undefined || !existsSync(path)) {
  const text = [
    `vctx: NO_PROGRAM: the package ${wanted} is not installed`,
    "  next: install it with: npm install vctx; on a platform without a package, build the program with cargo (README)",
  ];
  process.stderr.write(`${text.join("\n")}\n`);
  process.exit(69);
}

const child = spawn(path, process.argv.slice(2), { stdio: "inherit" });
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
child.on("error", (error) => {
  process.stderr.write(`vctx: NO_PROGRAM: cannot run ${path}: ${error.message}\n`);
  process.exit(69);
});
child.on("exit", (code, signal) => process.exit(code ?? 128 + (constants.signals[signal] ?? 0)));
