/** The socket of the server, found in the same way as by the command line. */
/**
 * The socket of the default data directory's server, or where a server would listen if there is none:
 * `$XDG_RUNTIME_DIR/vctx/vctx.sock`, or a short path of the user's own when that is unset or too long.
 */
export declare function defaultSocket(): string;
/** @param {Record<string, string | undefined>} environment @param {number} user */
export declare function runtimeDir(environment: Record<string, string | undefined>, user: number): string;
