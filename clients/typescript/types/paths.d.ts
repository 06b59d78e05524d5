/** The default path of the server's socket, the same as that of the command line. */
/** `$XDG_RUNTIME_DIR/vctx/vctx.sock`, or a short path of the user's own when that is unset or too long. */
export declare function defaultSocket(): string;
/** @param {Record<string, string | undefined>} environment @param {number} user */
export declare function runtimeDir(environment: Record<string, string | undefined>, user: number): string;
