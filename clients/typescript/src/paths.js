/** The socket of the server, found in the same way as by the command line. */

import { existsSync, statSync } from "node:fs";
import { isAbsolute, join } from "node:path";

/** Longest path of a Unix socket on Linux (unix(7)), and the length that the longest name next to the socket needs. */
const SOCKET_PATH_BYTES_MAX = 107;
const NEIGHBOUR_BYTES_MAX = 20;

/**
 * The socket of the default data directory's server, or where a server would listen if there is none:
 * `$XDG_RUNTIME_DIR/vctx/vctx.sock`, or a short path of the user's own when that is unset or too long.
 */
export function defaultSocket() {
  const data = dataDir(process.env);
  const link = data === undefined ? undefined : join(data, "server.sock");
  return link !== undefined && existsSync(link) ? link : join(runtimeDir(process.env, userId()), "vctx.sock");
}

/** @param {Record<string, string | undefined>} environment */
function dataDir(environment) {
  const { XDG_STATE_HOME: stated = "", HOME: home = "" } = environment;
  if (isAbsolute(stated)) return join(stated, "vctx");
  return isAbsolute(home) ? join(home, ".local/state/vctx") : undefined;
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

/** The user of this process: the owner of `/proc/self`, or of the home directory where there is no `/proc`. */
function userId() {
  for (const path of ["/proc/self", process.env.HOME ?? ""]) {
    const found = path === "" ? undefined : statSync(path, { throwIfNoEntry: false });
    if (found !== undefined) return found.uid;
  }
  return 0;
}
