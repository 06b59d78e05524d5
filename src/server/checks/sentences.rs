//! The sentences that failed checks report, identical to those in the guard scripts (checks of the
//! setup in `guards/`).

/// Why a check failed or could not run, and how to fix it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sentence {
    /// Short name of the failure, for logs and readiness responses.
    pub name: &'static str,
    /// The fault and its remedy, in lower case and without a full stop.
    pub text: &'static str,
}

macro_rules! sentences {
    ($($constant:ident = $name:literal, $text:literal;)*) => {
        $(#[doc = $text] pub const $constant: Sentence = Sentence { name: $name, text: $text };)*

        /// All sentences of failed checks, for tables and tests.
        pub const ALL: &[Sentence] = &[$($constant,)*];
    };
}

sentences! {
    ARGUMENTS = "arguments", "the arguments of this check are not understood, read its --help";
    TOOL_MISSING = "tool_missing", "a tool that this check needs is not on PATH, install it";
    TOOL_SILENT = "tool_silent", "a tool failed or printed nothing, run it by hand and correct the fault";
    UNREADABLE = "unreadable", "the configuration cannot be read, name a readable file or start line";
    TCP_LISTENER = "tcp_listener", "the engine listens on TCP, leave it no endpoint but its Unix socket";
    OWNER_UNSEEN = "owner_unseen", "the owner of a TCP listener cannot be seen, run this check as root";
    SOCKET_NOT_HELD = "socket_not_held", "the engine does not hold the expected Unix socket, start it there or correct the path";
    ENDPOINT = "endpoint", "an endpoint other than the Unix socket is configured, let server.endpoint be unix:// and its path";
    VECTOR_OFF = "vector_off", "the vector index is not switched on, start the engine with vector-index (up to 3.12.5 experimental-vector-index) true";
    VERSION = "version", "this version has no vector index that vctx knows, use 3.12.4 or a later 3.12";
    AUTHENTICATION_OFF = "authentication_off", "authentication is not switched on, set server.authentication and server.authentication-unix-sockets to true";
    AUTHENTICATION_OPEN = "authentication_open", "the engine answers without credentials, switch its authentication on";
    SOCKET_SILENT = "socket_silent", "the engine does not answer on its socket, start it or correct the path";
    MODES = "modes", "users other than the owner and the named group can reach the socket, correct modes and owners of it and its directory";
    RESTORE_WITHOUT_VECTOR = "restore_without_vector", "a dump or restore runs without the vector index, start its engine with vector-index true or call vector-flag.sh first";
}
