/** Where the server's socket is when nobody says otherwise: the answer that the command line gives. */

import { statSync } from "node:fs";
import { isAbsolute, join } from "node:path";

/** Longest path that a Unix socket can be bound to on Linux (unix(7)), and what the longest name beside the socket takes of it. */
const SOCKET_PATH_BYTES_MAX = 107;
const NEIGHBOUR_BYTES_MAX = 20;

/** `$XDG_RUNTIME_DIR/vctx/vctx.sock`, or a short path of the user's own when that is unset or too long. */
export function defaultSocket() {
  return join(runtimeDir(process.env, userId()), "vctx.sock");
}

/** @param {Record<string, string | undefined>} environment @param {number} user */
export function runtimeDir(environment, user) {
  const stated = environment.XDG_RUNTIME_DIR ?? "";
  if (isAbsolute(stated)) {
    const directory = join(stated, "vctx");
    if (Buffer.byteLength(directory) + NEIGHBOUR_BYTES_MAX <= SOCKET_PATH_BYTES_MAX) return directory;
  }
  const own = `/run/user/${user}`;
  return statSync(own, { throwIfNoEntry: false })?.isDirectory() ? join(own, "vctx") : `/tmp/vctx-${user}`;
}

/** The user of this process; `/proc/self` belongs to them, elsewhere the home directory does. */
function userId() {
  for (const path of ["/proc/self", process.env.HOME ?? ""]) {
    const found = path === "" ? undefined : statSync(path, { throwIfNoEntry: false });
    if (found !== undefined) return found.uid;
  }
  return 0;
}
