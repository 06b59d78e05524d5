/** Packages of other projects that tests need: without them a test is skipped, but not in the long check of CI. */

import { existsSync } from "node:fs";

const MAY_SKIP = process.env.CI === undefined || process.env.VCTX_ROUNDS !== "full";

/** Whether a package is installed here. */
export function there(name) {
  try {
    return Boolean(import.meta.resolve(name)) && (name === "vctx" || existsSync(new URL(`../node_modules/${name}`, import.meta.url)));
  } catch {
    return false;
  }
}

/** Why tests that need a package are skipped; false if they run. */
export function skipWithout(name) {
  return MAY_SKIP && !there(name) && `no package ${name}`;
}
