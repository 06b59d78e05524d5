//! Power loss and kill: what was answered as synced is there, commits are whole, indexes agree with documents.
//!
//! A child does synced commits under `strace`. From the trace the directory is rebuilt as a power loss could leave it at
//! many moments: what was synced is kept, everything else is kept, dropped, torn or reordered page by page. The engine
//! has to open each of these and show a legal state. The same with syncs switched off has to show losses.

mod disk;
mod random;
mod trace;
mod workload;

use std::path::Path;
use std::process::{Command, Stdio};

use disk::{Disk, Loss};
use random::Random;

/// Moments at which the power fails, per trace and kind of loss; `CRASH_CUTS` asks for more.
const CUTS: usize = 60;
const KILLS: usize = 15;

fn cuts() -> usize {
    std::env::var("CRASH_CUTS").ok().and_then(|cuts| cuts.parse().ok()).unwrap_or(CUTS)
}

fn main() {
    if let Ok(directory) = std::env::var("CRASH_DIRECTORY") {
        let sync = std::env::var("CRASH_SYNC").as_deref() != Ok("off");
        return workload::run(Path::new(&directory), sync);
    }
    kills();
    if Command::new("strace").arg("--version").output().is_err() {
        println!("crash: power losses are skipped, because strace is not installed");
        return;
    }
    synced_commits_survive_power_losses();
    without_syncs_losses_are_seen();
}

fn child(directory: &Path, sync: bool, strace: Option<&Path>) -> Command {
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
    command.stdout(Stdio::piped());
    command
}

/// Kills the child without warning, again and again on the same directory; the page cache survives, the process not.
fn kills() {
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join("engine");
    let mut random = Random::new(7);
    for round in 0..KILLS {
        let mut running = child(&directory, true, None).spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(20 + random.below(250)));
        running.kill().unwrap();
        let output = running.wait_with_output().unwrap();
        let acks = workload::Acks::read(&String::from_utf8_lossy(&output.stdout));
        let found = workload::check(&directory, &acks)
            .unwrap_or_else(|error| panic!("kill {round}: {error}"));
        println!("kill {round}: answered {acks}, found {found}");
    }
}

/// Runs the child to its end and reads what it did to its files.
fn traced(sync: bool) -> Disk {
    let home = tempfile::tempdir().unwrap();
    let (directory, output) = (home.path().join("engine"), home.path().join("trace"));
    std::fs::create_dir(&directory).unwrap();
    let run = child(&directory, sync, Some(&output)).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let text = std::fs::read_to_string(&output).unwrap();
    Disk::replay(&directory.canonicalize().unwrap(), &trace::parse(&text))
}

/// Tries many power losses of one kind; answers the texts of what was wrong.
fn power_losses(disk: &Disk, loss: Loss, seed: u64) -> Vec<String> {
    let mut random = Random::new(seed);
    let mut wrong = Vec::new();
    for number in 0..cuts() {
        // Right after an answer, just before a sync is through, right after one, and anywhere.
        let moment = match number % 4 {
            0 => disk.answers[random.below(disk.answers.len() as u64) as usize] + 1,
            1 => {
                disk.syncs[random.below(disk.syncs.len() as u64) as usize]
                    + random.below(3) as usize
            }
            _ => random.below(disk.end as u64) as usize,
        };
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("engine");
        disk.write_state(&directory, moment, loss, &mut random);
        let acks = workload::Acks::read(&disk.answered(moment));
        if let Err(error) = workload::check(&directory, &acks) {
            wrong.push(format!("{loss:?}, seed {seed}, cut {number} at line {moment}: {error}"));
        }
    }
    wrong
}

fn synced_commits_survive_power_losses() {
    let disk = traced(true);
    println!("{} answers, {} syncs, {} lines", disk.answers.len(), disk.syncs.len(), disk.end);
    assert!(disk.answers.len() >= workload::COMMITS, "the child answers each commit");
    for (seed, loss) in
        [Loss::Dropped, Loss::Torn, Loss::Reordered, Loss::Kept].into_iter().enumerate()
    {
        let wrong = power_losses(&disk, loss, seed as u64);
        assert!(
            wrong.is_empty(),
            "{} of {} power losses:\n{}",
            wrong.len(),
            cuts(),
            wrong.join("\n")
        );
        println!("{loss:?}: {} power losses survived", cuts());
    }
}

fn without_syncs_losses_are_seen() {
    let wrong = power_losses(&traced(false), Loss::Dropped, 1);
    assert!(
        wrong.iter().any(|error| error.contains("lost")),
        "the proof sees no loss without syncs: {wrong:?}"
    );
    println!("without syncs: {} of {} power losses are seen to lose commits", wrong.len(), cuts());
}
