//! Composition: what the commands hand over to start a server, an engine or a setup. The starting itself comes with the server.

use std::path::PathBuf;
use std::process::ExitCode;

/// What `vctx serve` was told; what is absent has the defaults of `client::paths`.
#[derive(Debug, Clone)]
pub struct ServeOptions {
    /// Socket to listen on.
    pub socket: PathBuf,
    /// Directory of the engine's data, its socket and the root password.
    pub data_dir: PathBuf,
    /// Configuration file.
    pub config: Option<PathBuf>,
}

/// What `vctx setup` was told; the endpoint comes from `ARANGO_RW_UDS` and its companions.
#[derive(Debug, Clone)]
pub struct SetupOptions {
    /// Answer in JSON.
    pub json: bool,
}

/// What `vctx engine` was told; the root password comes from `ARANGO_ROOT_PASSWORD`.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// Socket for reading and writing.
    pub socket: PathBuf,
    /// Socket for reading only.
    pub ro_socket: Option<PathBuf>,
    /// Directory of the data.
    pub data_dir: PathBuf,
}

/// Runs the server until it is told to stop.
pub fn serve(options: ServeOptions) -> ExitCode {
    absent("serve", &options)
}

/// Applies the schema to an endpoint.
pub fn setup(options: SetupOptions) -> ExitCode {
    absent("setup", &options)
}

/// Runs the engine alone until it is told to stop.
pub fn engine(options: EngineOptions) -> ExitCode {
    absent("engine", &options)
}

fn absent(what: &str, options: &dyn std::fmt::Debug) -> ExitCode {
    eprintln!("vctx: {what} is not in this build ({options:?})");
    ExitCode::from(70)
}
