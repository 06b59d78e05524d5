//! The program `vctx`: passes the command line to the library, and returns the exit code.

/// The batches, results and cursors of the engine consist of many small allocations. One thread may
/// allocate them and another thread may free them. mimalloc handles such allocations faster than
/// the system's allocator (`loadtest/results/2026-11-22-engine.md`).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    #[cfg(feature = "local-embedder")]
    local_embedder::offer();
    vctx::run(std::env::args_os())
}

/// Prepares the program for a model in this process.
#[cfg(feature = "local-embedder")]
mod local_embedder {
    use std::os::unix::process::CommandExt as _;
    use std::process::Command;
    use std::{env, io};

    /// Variable from which candle reads the number of threads of each product.
    const THREADS: &str = "RAYON_NUM_THREADS";

    pub(super) fn offer() {
        let serves = env::args_os().nth(1).is_some_and(|command| command == "serve");
        if serves && env::var_os(THREADS).is_none() {
            let error = again();
            eprintln!("vctx: a local model is slow, as the program cannot start again: {error}");
        }
        vctx_embed_bert::offer();
    }

    /// Starts this program again in its own place, with one thread for each product: the model
    /// reads several batches side by side, so that threads within each of them only wait for each
    /// other (`loadtest/results/2026-12-01-context.md`). A program with threads must not change its
    /// environment.
    fn again() -> io::Error {
        let mut arguments = env::args_os();
        let name = arguments.next().unwrap_or_default();
        match env::current_exe() {
            Ok(own) => Command::new(own).arg0(name).args(arguments).env(THREADS, "1").exec(),
            Err(error) => error,
        }
    }
}
