//! The program: hands the command line to `cli`, gives back its exit code.

fn main() -> std::process::ExitCode {
    vctx::cli::run(std::env::args_os())
}
