//! The program: hands the command line to `cli`, gives back its exit code.

/// Batches, results and cursors are made of many small pieces that another thread may free; this allocator is faster at both than
/// the system's (`loadtest/results/2026-11-22-engine.md`).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    #[cfg(feature = "local-embedder")]
    vctx_embed_bert::offer();
    vctx::run(std::env::args_os())
}
