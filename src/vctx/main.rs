//! The program `vctx`: passes the command line to the library, and returns the exit code.

/// The batches, results and cursors of the engine consist of many small allocations. One thread may
/// allocate them and another thread may free them. mimalloc handles such allocations faster than
/// the system's allocator (`loadtest/results/2026-11-22-engine.md`).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    #[cfg(feature = "local-embedder")]
    vctx_embed_bert::offer();
    vctx::run(std::env::args_os())
}
