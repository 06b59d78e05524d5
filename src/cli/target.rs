//! Options that all client commands share: the server, the deadline and the output format.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use vctx_client::serving::server_socket;
use vctx_client::{Client, Settings};

/// Options shared by every command that talks to a server.
#[derive(Debug, Clone, Args)]
pub struct Target {
    /// Socket of the server [default: that of the default data directory's server]
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,

    /// Seconds to wait for one answer
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub deadline_s: u64,

    /// Answer in JSON, including errors
    #[arg(long)]
    pub json: bool,
}

impl Target {
    /// Creates a client of the server that the options select.
    pub fn client(&self) -> Client {
        self.client_within(Duration::from_secs(self.deadline_s))
    }

    /// Creates a client of the server that the options select, but with the given deadline for
    /// a call with all its attempts.
    pub fn client_within(&self, deadline: Duration) -> Client {
        let socket = self.socket.clone().unwrap_or_else(server_socket);
        Client::new(Settings { deadline, patience: deadline, ..Settings::new(socket) })
    }
}
