//! After a power loss or a kill, all commits that were reported as synced are present, every commit
//! is complete, and indexes agree with documents.
//!
//! A child process does synced commits under `strace`. From the trace, the test rebuilds the
//! directory as a power loss at many points in time could leave it. Synced changes are always kept;
//! all other changes are kept, dropped, torn or reordered page by page. The engine must open each
//! rebuilt directory and show a legal state. A control run without syncs must show losses.

#![allow(
    clippy::disallowed_methods,
    reason = "a test reads its own settings from the environment and measures with real clocks"
)]

mod disk;
#[path = "../../src/random.rs"]
mod random;
mod trace;
mod workload;

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use disk::{Disk, Loss};
use random::Random;
use workload::Load;

/// Number of simulated power losses for each trace and kind of loss; `CRASH_CUTS` overrides it.
const CUTS: usize = 60;
/// Number of rounds that each kill the child once; `CRASH_ROUNDS` overrides it.
const KILLS: usize = 15;

/// Whether all rounds are to run, as in `.ci/full`.
fn whole() -> bool {
    std::env::var("VCTX_ROUNDS").is_ok_and(|rounds| rounds == "full")
}

/// Returns the number of rounds: the value of the environment variable `name` if it is set, all
/// rounds with `VCTX_ROUNDS=full`, and a fifth of them otherwise.
fn asked(name: &str, full: usize) -> usize {
    let usual = if whole() { full } else { full.div_ceil(5) };
    std::env::var(name).ok().and_then(|number| number.parse().ok()).unwrap_or(usual)
}

fn cuts() -> usize {
    asked("CRASH_CUTS", CUTS)
}

fn main() {
    if let Ok(directory) = std::env::var("CRASH_DIRECTORY") {
        let sync = std::env::var("CRASH_SYNC").as_deref() != Ok("off");
        let load = Load::named(&std::env::var("CRASH_LOAD").unwrap_or_default());
        return workload::run(Path::new(&directory), load, sync);
    }
    kills();
    if Command::new("strace").arg("--version").output().is_err() {
        assert!(
            std::env::var_os("CI").is_none(),
            "CI must not leave out power losses: install strace"
        );
        println!("crash: power losses are left out, because strace is not installed");
        return;
    }
    synced_commits_survive_power_losses(Load::SMALL, moments);
    // Fjall begins a new journal after 64 MB, whose trace and power losses take two minutes.
    if whole() {
        synced_commits_survive_power_losses(Load::LARGE, |disk, _| journal_moments(disk));
    }
    synced_commits_survive_power_losses(Load::REWRITTEN, rewrite_moments);
    without_syncs_losses_are_seen();
}

fn child(directory: &Path, load: Load, sync: bool, strace: Option<&Path>) -> Command {
    let program = std::env::current_exe().expect("a test knows its program");
    let mut command = match strace {
        None => Command::new(program),
        Some(output) => {
            let mut command = Command::new("strace");
            command.args(["-f", "-y", "-xx", "-s", "100000000", "-e", trace::CALLS, "-o"]);
            command.arg(output).arg(program);
            command
        }
    };
    command.env("CRASH_DIRECTORY", directory).env("CRASH_SYNC", if sync { "on" } else { "off" });
    command.env("CRASH_LOAD", load.name());
    command.stdout(Stdio::piped());
    command
}

/// Kills the child repeatedly on the same directory. The operating system's page cache survives
/// such a kill, but would not survive a power loss.
fn kills() {
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join("engine");
    let mut random = Random::new(7);
    let mut answered = 0;
    let rounds = asked("CRASH_ROUNDS", KILLS);
    for round in 0..rounds {
        let mut running = child(&directory, Load::SMALL, true, None).spawn().unwrap();
        let mut said = BufReader::new(running.stdout.take().unwrap());
        let mut text = String::new();
        if round % 2 == 0 {
            // Some kills happen while the engine opens.
            std::thread::sleep(Duration::from_millis(20 + random.below(250)));
        } else {
            // Other kills happen while the engine writes, often after it was closed and reopened.
            let acks = 1 + random.below(Load::SMALL.commits() as u64);
            while text.lines().count() as u64 <= acks && said.read_line(&mut text).unwrap() > 0 {}
            std::thread::sleep(Duration::from_millis(random.below(5)));
        }
        running.kill().unwrap();
        said.read_to_string(&mut text).unwrap();
        running.wait().unwrap();
        let acks = workload::Acks::read(&text);
        let found = workload::check(&directory, Load::SMALL, &acks)
            .unwrap_or_else(|error| panic!("kill {round}: {error}"));
        println!("kill {round}: answered {acks}, found {found}");
        answered += acks.lines();
    }
    println!("{rounds} kills survived, {answered} synced commits were answered and found");
}

/// Runs the child process to its end and reads its trace of system calls.
fn traced(load: Load, sync: bool) -> Disk {
    let home = tempfile::tempdir().unwrap();
    let (directory, output) = (home.path().join("engine"), home.path().join("trace"));
    std::fs::create_dir(&directory).unwrap();
    let run = child(&directory, load, sync, Some(&output)).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let text = std::fs::read_to_string(&output).unwrap();
    Disk::replay(&directory.canonicalize().unwrap(), &trace::parse(&text))
}

/// Returns the trace lines at which power losses are simulated: after an answer, around the end of
/// a sync, and at random lines.
fn moments(disk: &Disk, random: &mut Random) -> Vec<usize> {
    let moment = |number: usize| {
        let sync = disk.syncs[random.below(disk.syncs.len() as u64) as usize];
        match number % 4 {
            0 => disk.answers[random.below(disk.answers.len() as u64) as usize] + 1,
            1 => sync,
            2 => sync + random.below(3) as usize,
            _ => random.below(disk.end as u64) as usize,
        }
    };
    (0..cuts()).map(moment).collect()
}

/// Returns trace lines for power losses around each creation of a further journal.
fn journal_moments(disk: &Disk) -> Vec<usize> {
    let made = disk.made(".jnl");
    assert!(made.len() > 1, "the load fills a journal");
    made[1..].iter().flat_map(|line| (*line - 4..*line + 14).step_by(4)).collect()
}

/// Returns the trace lines at which the test simulates a power loss during a rewrite: random lines,
/// and lines around each rename.
fn rewrite_moments(disk: &Disk, random: &mut Random) -> Vec<usize> {
    let line = |text| disk.said(text).expect("the child rewrites");
    let (first, last) = (line("rewriting"), line("rewritten"));
    let named = ["store.old", "store"].iter().flat_map(|name| disk.made(name));
    let swap = named.filter(|at| (first..last).contains(at)).flat_map(|at| at - 2..at + 4);
    let anywhere = (0..cuts()).map(|_| first + random.below((last - first) as u64) as usize);
    let moments: Vec<usize> = anywhere.chain(swap).collect();
    assert!(moments.len() > cuts(), "the swap is seen");
    moments
}

/// Simulates a power loss at each given line of the trace. Returns the error texts.
fn power_losses(
    disk: &Disk,
    load: Load,
    moments: &[usize],
    loss: Loss,
    random: &mut Random,
) -> Vec<String> {
    let mut wrong = Vec::new();
    for moment in moments {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("engine");
        disk.write_state(&directory, *moment, loss, random);
        let acks = workload::Acks::read(&disk.answered(*moment));
        if let Err(error) = workload::check(&directory, load, &acks) {
            wrong.push(format!("{loss:?} at line {moment}: {error}"));
        }
    }
    wrong
}

fn synced_commits_survive_power_losses(load: Load, choose: fn(&Disk, &mut Random) -> Vec<usize>) {
    let disk = traced(load, true);
    println!(
        "{load:?}: {} answers, {} syncs, {} lines",
        disk.answers.len(),
        disk.syncs.len(),
        disk.end
    );
    assert!(disk.answers.len() >= load.commits(), "the child answers each synced commit");
    let losses = [Loss::Dropped, Loss::Torn, Loss::Reordered, Loss::Kept];
    std::thread::scope(|scope| {
        for (seed, loss) in losses.into_iter().enumerate() {
            let disk = &disk;
            scope.spawn(move || {
                let mut random = Random::new(seed as u64);
                let moments = choose(disk, &mut random);
                let wrong = power_losses(disk, load, &moments, loss, &mut random);
                assert!(
                    wrong.is_empty(),
                    "{} of {} power losses:\n{}",
                    wrong.len(),
                    moments.len(),
                    wrong.join("\n")
                );
                println!("{loss:?}: {} power losses survived", moments.len());
            });
        }
    });
}

fn without_syncs_losses_are_seen() {
    let disk = traced(Load::SMALL, false);
    let mut random = Random::new(1);
    let moments = moments(&disk, &mut random);
    let wrong = power_losses(&disk, Load::SMALL, &moments, Loss::Dropped, &mut random);
    assert!(
        wrong.iter().any(|error| error.contains("lost")),
        "the proof sees no loss without syncs: {wrong:?}"
    );
    println!(
        "without syncs: {} of {} power losses are seen to lose commits",
        wrong.len(),
        moments.len()
    );
}
