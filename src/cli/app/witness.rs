//! Runs a witness of servers.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use tokio::sync::watch;

use super::{Stop, cannot, cannot_bind, exit, io_loop, make_private, on_signal, on_stop};
use crate::config::Config;
use vctx_base::{socket, systemd, telemetry};
use vctx_server::witness::Witness;

/// Runs a witness on a socket until a signal stops it. Its key and what it has seen are in a
/// directory.
pub fn witness(listen: &Path, data_dir: &Path, config: Option<&Path>) -> ExitCode {
    exit(run_witness(listen, data_dir, config))
}

fn run_witness(listen: &Path, data_dir: &Path, config: Option<&Path>) -> Result<(), Stop> {
    let config = Config::load(config)?;
    telemetry::start_logs(&config.log).map_err(Stop::Configuration)?;
    systemd::no_core_dumps();
    make_private(data_dir)?;
    let witness = Witness::open(data_dir).map_err(Stop::CannotCreate)?;
    let (stop, stopping) = watch::channel(false);
    io_loop()?.block_on(async move {
        let listening = socket::bind(listen).map_err(cannot_bind("listen"))?;
        on_signal(stop)?;
        on_stop(stopping.clone());
        let (at, key) = (listen.display(), witness.public_key());
        eprintln!("vctx witness listens on {at}; its public key is {key}");
        systemd::ready(&format!("witnesses on {at}"));
        let served = socket::serve(listening, Arc::new(witness).router(), stopping);
        served.await.map_err(cannot("serve"))
    })
}
