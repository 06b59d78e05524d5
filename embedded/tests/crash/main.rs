//! Power loss and kill: what was answered as synced is there, commits are whole, indexes agree with documents.
//!
//! A child does synced commits under `strace`. From the trace the directory is rebuilt as a power loss could leave it at
//! many moments: what was synced is kept, everything else is kept, dropped, torn or reordered page by page. The engine
//! has to open each of these and show a legal state. The same with syncs switched off has to show losses.

#![allow(
    clippy::disallowed_methods,
    reason = "a test reads its own settings from the environment and measures with real clocks"
)]

mod disk;
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

/// Moments at which the power fails, per trace and kind of loss; `CRASH_CUTS` asks for more.
const CUTS: usize = 60;
/// Rounds of kills; `CRASH_ROUNDS` asks for more.
const KILLS: usize = 15;

/// What the environment asks for by name, else all with `VCTX_ROUNDS=full`, else a fifth.
fn asked(name: &str, full: usize) -> usize {
    let whole = std::env::var("VCTX_ROUNDS").is_ok_and(|rounds| rounds == "full");
    let usual = if whole { full } else { full.div_ceil(5) };
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
    synced_commits_survive_power_losses(Load::LARGE, |disk, _| journal_moments(disk));
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

/// Kills the child without warning, again and again on the same directory; the page cache survives, the process not.
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
            // Also while it opens.
            std::thread::sleep(Duration::from_millis(20 + random.below(250)));
        } else {
            // In the midst of the writing, and often enough after the engine was closed and opened again.
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

/// Runs the child to its end and reads what it did to its files.
fn traced(load: Load, sync: bool) -> Disk {
    let home = tempfile::tempdir().unwrap();
    let (directory, output) = (home.path().join("engine"), home.path().join("trace"));
    std::fs::create_dir(&directory).unwrap();
    let run = child(&directory, load, sync, Some(&output)).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let text = std::fs::read_to_string(&output).unwrap();
    Disk::replay(&directory.canonicalize().unwrap(), &trace::parse(&text))
}

/// Moments right after an answer, just before a sync is through, right after one, and anywhere.
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

/// Moments around each making of a journal.
fn journal_moments(disk: &Disk) -> Vec<usize> {
    let made = disk.made(".jnl");
    assert!(made.len() > 1, "the load fills a journal");
    made[1..].iter().flat_map(|line| (*line - 4..*line + 14).step_by(4)).collect()
}

/// Moments while everything is written into new files: anywhere, and around each change of a name.
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

/// Fails the power at each moment in one way; answers the texts of what was wrong.
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
    for (seed, loss) in
        [Loss::Dropped, Loss::Torn, Loss::Reordered, Loss::Kept].into_iter().enumerate()
    {
        let mut random = Random::new(seed as u64);
        let moments = choose(&disk, &mut random);
        let wrong = power_losses(&disk, load, &moments, loss, &mut random);
        assert!(
            wrong.is_empty(),
            "{} of {} power losses:\n{}",
            wrong.len(),
            moments.len(),
            wrong.join("\n")
        );
        println!("{loss:?}: {} power losses survived", moments.len());
    }
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
