//! `vctx completions`: prints shell completions, which are generated from the definitions of the
//! command line.

use std::io::{self, Write as _};

use clap::Args;
use clap_complete::Shell;

use crate::run::tree;
use vctx_cli::exit::Failure;

const EXAMPLES: &str = "\
Examples:
  vctx completions bash > ~/.local/share/bash-completion/completions/vctx
  vctx completions zsh > ~/.zfunc/_vctx
  vctx completions fish > ~/.config/fish/completions/vctx.fish

The Debian package brings all three along.";

/// Print shell completions
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Completions {
    /// Shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Runs `vctx completions`.
pub(crate) fn run(asked: &Completions) -> Result<(), Failure> {
    let mut text = Vec::new();
    clap_complete::generate(asked.shell, &mut tree(), "vctx", &mut text);
    io::stdout().write_all(&text).map_err(|error| Failure::writing("stdout", &error))
}
