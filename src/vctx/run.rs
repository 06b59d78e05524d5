//! Parses the command line, runs one command, and converts the command's result to an exit code.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser, Subcommand};

use super::completions;
use super::man;
use vctx_cli::agent;
use vctx_cli::changes;
use vctx_cli::chat;
use vctx_cli::checkpoints;
use vctx_cli::config_show;
use vctx_cli::context;
use vctx_cli::conveyance;
use vctx_cli::doctor;
use vctx_cli::embedder;
use vctx_cli::engine;
use vctx_cli::exit::{Exit, Failure};
use vctx_cli::export;
use vctx_cli::forget;
use vctx_cli::history;
use vctx_cli::judge;
use vctx_cli::limits;
use vctx_cli::mcp;
use vctx_cli::messages;
use vctx_cli::places;
use vctx_cli::proxy;
use vctx_cli::quarantine;
use vctx_cli::reindex;
use vctx_cli::replay;
use vctx_cli::rewrite;
use vctx_cli::search;
use vctx_cli::serve;
use vctx_cli::setup;
use vctx_cli::state;
use vctx_cli::status;
use vctx_cli::tool;
use vctx_cli::tools;
use vctx_cli::trace;
use vctx_cli::verify;
use vctx_cli::why;
use vctx_cli::witness;
use vctx_importers as import;
use vctx_lab::demo;
use vctx_lab::eval;
use vctx_lab::report;
use vctx_lab::scripted_model;

/// A memory server for language models: messages that do not fit into the window are evicted in one
/// transaction, and no message is lost.
#[derive(Debug, Parser)]
#[command(name = "vctx", version, disable_help_subcommand = true, after_help = EXAMPLES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
First steps:
  vctx demo                                  watch a long conversation flow through a small window
  vctx serve                                 start the server (nothing to configure)
  vctx agent create ada --window 32768       make an agent
  vctx tool append_fifo --agent ada --rev '*' --args '{\"message\": \"Hello\", \"role\": \"user\"}'
  vctx tools                                 the eleven tools; `vctx tool --help` has an example of each
  vctx state --agent ada                     how full the window is
  vctx chat ada                              talk with it, where a chat model is configured
  vctx verify --agent ada                    prove that nothing was lost or changed
  vctx forget --agent ada --seq 17           take a message away, with everything that was made of it
  vctx replay ada --turn 17                  what was sent to the model, byte by byte
  vctx why ada \"a fact\"                     why the model knew it, or did not
  vctx judge ada                             how good answers with a built context are
  vctx report ada.html --agent ada           one page of figures for a reviewer
  vctx limits                                all limits, and the settings that change them
  vctx doctor                                everything the server relies on, tried on your database
  vctx export --agent ada --out ada.jsonl.gz everything that the agent is, in one file; `vctx import` takes it
  vctx reindex start --watch                 change the archive to another embedder while it serves
  vctx move --agent ada --to east            take an agent to another database while it answers
  vctx eval --data ./data                    measure recall and archive on benchmarks that need no model

Exit codes: 0 done, 64 wrong argument, 65 wrong data or failed proof, 66 no input, 67 no such agent, block or document,
69 server not there, 70 internal, 73 cannot create, 75 try again, 76 refused by the state of the memory, 77 not allowed,
78 configuration.";

/// The limits of the crates that depend on the crate of the commands.
pub const BOUNDS: &[limits::FileBounds] = &[("src/importers/limits.rs", import::LIMITS)];

#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::Serve),
    Setup(setup::Setup),
    Demo(demo::Demo),
    Doctor(doctor::Doctor),
    Agent(agent::Agent),
    Chat(chat::Chat),
    Search(search::Search),
    Tool(tool::Tool),
    State(state::State),
    Context(context::Context),
    Messages(messages::Messages),
    History(history::History),
    Changes(changes::Changes),
    Trace(trace::Trace),
    Replay(replay::Replay),
    Why(why::Why),
    Judge(judge::Judge),
    Quarantine(quarantine::Quarantine),
    Conveyance(conveyance::Conveyance),
    Config(config_show::ConfigCommand),
    Tools(tools::Tools),
    Limits(limits::Limits),
    Verify(verify::Verify),
    Checkpoints(checkpoints::Checkpoints),
    Forget(forget::Forget),
    Report(report::Report),
    Rewrite(rewrite::Rewrite),
    Status(status::Status),
    Stop(status::Stop),
    Embedder(embedder::Embedder),
    Reindex(reindex::Reindex),
    Places(places::Places),
    Move(places::Move),
    Eval(eval::Eval),
    Mcp(mcp::Mcp),
    Export(export::Export),
    Import(import::Import),
    ScriptedModel(scripted_model::ScriptedModel),
    Completions(completions::Completions),
    Man(man::Man),
    Proxy(proxy::Proxy),
    Witness(witness::Witness),
    #[command(hide = true)]
    Engine(engine::Engine),
}

/// Returns the definition of the whole command line, for printing help and completions.
pub fn tree() -> clap::Command {
    Arguments::command()
}

/// Runs a command line and returns the exit code. It starts an async runtime, so it must not be
/// called inside another async runtime.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    match Arguments::try_parse_from(arguments) {
        Ok(arguments) => perform(arguments.command),
        Err(error) => {
            // If printing this error message fails, no further output is possible.
            drop(error.print());
            match error.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => ExitCode::SUCCESS,
                _ => ExitCode::from(Exit::Usage as u8),
            }
        }
    }
}

fn perform(command: Command) -> ExitCode {
    match command {
        Command::Serve(serve) => serve::run(serve),
        Command::Setup(setup) => setup::run(setup),
        Command::Witness(asked) => witness::run(asked),
        Command::Engine(engine) => engine::run(engine),
        Command::Proxy(asked) if asked.rules => finish(asked.json, proxy::rules(asked)),
        Command::Proxy(asked) => proxy::run(asked),
        Command::Demo(demo) => finish(demo.json, demo::run(demo)),
        Command::Doctor(asked) => finish(asked.json, doctor::run(asked)),
        Command::Chat(asked) => finish(asked.target.json, chat::run(asked)),
        Command::Completions(asked) => finish(false, async { completions::run(&asked) }),
        Command::Man(asked) => finish(false, async { man::run(&asked) }),
        Command::ScriptedModel(asked) => finish(false, scripted_model::run(asked)),
        Command::Agent(agent) => finish(agent.target().json, agent::run(agent)),
        Command::Tool(tool) => finish(tool.target.json, tool::run(tool)),
        Command::Search(asked) => finish(asked.target.json, search::run(asked)),
        Command::State(state) => finish(state.target.json, state::run(state)),
        Command::Context(context) => finish(context.target.json, context::run(context)),
        Command::Messages(messages) => finish(messages.target.json, messages::run(messages)),
        Command::History(asked) => finish(asked.target.json, history::run(asked)),
        Command::Changes(asked) => finish(asked.target.json, changes::run(asked)),
        Command::Trace(asked) => finish(asked.target.json, trace::run(asked)),
        Command::Replay(asked) => finish(asked.target.json, replay::run(asked)),
        Command::Why(asked) => finish(asked.target.json, why::run(asked)),
        Command::Judge(asked) => finish(asked.target.json, judge::run(asked)),
        Command::Quarantine(asked) => finish(asked.target().json, quarantine::run(asked)),
        Command::Conveyance(asked) => finish(asked.target.json, conveyance::run(asked)),
        Command::Config(asked) => finish(asked.json(), config_show::run(asked)),
        Command::Tools(tools) => finish(tools.target.json, tools::run(tools)),
        Command::Limits(asked) => finish(asked.json, limits::run(asked, BOUNDS)),
        Command::Eval(asked) => finish(asked.json, eval::run(asked)),
        Command::Export(asked) => finish(asked.target.json, export::run(asked)),
        Command::Import(asked) => finish(asked.target.json, import::run(asked)),
        Command::Mcp(mcp) => finish(mcp.json(), mcp::run(mcp)),
        Command::Forget(asked) => finish(asked.target.json, forget::run(asked)),
        Command::Checkpoints(asked) => finish(asked.json(), checkpoints::run(asked)),
        Command::Verify(verify) => finish(verify.target.json, verify::run(verify)),
        Command::Rewrite(asked) => finish(asked.json, rewrite::run(asked)),
        Command::Status(asked) => finish(asked.json, status::status(asked)),
        Command::Embedder(asked) => finish(asked.json(), embedder::run(asked)),
        Command::Stop(asked) => finish(asked.json, status::stop(asked)),
        Command::Places(asked) => finish(asked.target.json, places::show(asked)),
        Command::Move(asked) => finish(asked.target.json, places::run(asked)),
        Command::Reindex(asked) => finish(asked.target().json, reindex::run(asked)),
        Command::Report(report) => finish(report.target.json, report::run(report)),
    }
}

/// Runs a command on an async runtime with one thread, and returns its exit code.
fn finish(as_json: bool, work: impl Future<Output = Result<(), Failure>>) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let done = match runtime {
        Ok(runtime) => runtime.block_on(work),
        Err(error) => Err(Failure::internal(format!("cannot start a runtime: {error}"))),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.tell(as_json);
            ExitCode::from(failure.exit as u8)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(line: &str) -> String {
        format!("{:?}", run(line.split(' ').map(OsString::from)))
    }

    #[test]
    fn the_command_line_is_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn usage_errors_end_with_64_and_help_with_0() {
        let (ok, usage) = (format!("{:?}", ExitCode::SUCCESS), format!("{:?}", ExitCode::from(64)));
        assert_eq!(code("vctx --help"), ok);
        assert_eq!(code("vctx --version"), ok);
        assert_eq!(code("vctx fly"), usage);
        assert_eq!(code("vctx tool"), usage);
        assert_eq!(code("vctx demo --window many"), usage);
    }

    #[test]
    fn a_server_that_is_not_there_ends_with_69() {
        assert_eq!(
            code("vctx state --agent a --socket /nonexistent/s"),
            format!("{:?}", ExitCode::from(69))
        );
    }
}
