//! Checks the systemd units, the package and the runbooks: the start order, the restrictions, and
//! whether all files, commands and units that they name exist.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use super::needs::left_out;
use super::sources::{files, root, text};

/// The values of a unit file by `Section.Key`; repeated keys keep the order of the file.
type Unit = BTreeMap<String, Vec<String>>;

fn unit(name: &str) -> Unit {
    let (mut unit, mut section) = (Unit::new(), String::new());
    for line in text(&format!("deploy/systemd/{name}")).lines() {
        if let Some(inside) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
            section = inside.to_owned();
        } else if let Some((key, value)) = line.split_once('=').filter(|_| !line.starts_with('#')) {
            unit.entry(format!("{section}.{key}")).or_default().push(value.to_owned());
        }
    }
    unit
}

fn words<'a>(unit: &'a Unit, key: &str) -> BTreeSet<&'a str> {
    unit.get(key).into_iter().flatten().flat_map(|value| value.split_whitespace()).collect()
}

/// Returns the names of all units, including templates.
fn units() -> Vec<String> {
    let folder = "deploy/systemd/";
    let all = files("deploy/systemd", "").into_iter();
    let names = all.filter_map(|path| path.strip_prefix(folder).map(str::to_owned));
    names.filter(|name| name.ends_with(".service") || name.ends_with(".socket")).collect()
}

/// The units whose processes serve agents' memories or forward requests for them.
const OURS: &[&str] = &[
    "vctx.service",
    "vctx@.service",
    "vctx-proxy-ro.service",
    "vctx-proxy-rw.service",
    "vctx-engine.service",
];

#[test]
fn the_database_comes_first_then_the_guards_then_the_server() {
    let guards = unit("vctx-guards.service");
    assert_eq!(guards["Service.Type"], ["oneshot"], "units after it wait for its end");
    assert!(words(&guards, "Unit.Requires").contains("vctx-database.service"));
    assert!(words(&guards, "Unit.After").contains("vctx-database.service"));
    let run: String = guards["Service.ExecStart"].join("\n");
    for guard in ["vector-flag.sh", "auth.sh", "uds.sh", "sockets.sh"] {
        assert!(run.contains(guard), "{guard} is not run before the server");
    }
    assert!(
        guards["Service.ExecStart"].iter().all(|line| !line.starts_with('-')),
        "no failure is ignored"
    );
    for proxy in ["vctx-proxy-ro.service", "vctx-proxy-rw.service"] {
        let unit = unit(proxy);
        assert!(words(&unit, "Unit.Requires").contains("vctx-database.service"), "{proxy}");
        assert!(words(&unit, "Unit.After").contains("vctx-database.service"), "{proxy}");
        assert_eq!(
            unit["Service.Type"],
            ["notify"],
            "{proxy}: the guards look when its socket is there"
        );
        assert!(words(&guards, "Unit.After").contains(proxy), "the guards look at {proxy}");
    }
    for server in ["vctx.service", "vctx@.service"] {
        let unit = unit(server);
        // With `Requires` and `After`, the server does not start if a guard fails.
        assert!(words(&unit, "Unit.Requires").contains("vctx-guards.service"), "{server}");
        assert!(words(&unit, "Unit.After").contains("vctx-guards.service"), "{server}");
        assert_eq!(unit["Service.Type"], ["notify"], "{server}");
        assert!(unit.contains_key("Service.WatchdogSec"), "{server}");
    }
    for database in ["arangod-vctx.service", "vctx-engine.service"] {
        let aliases = unit(database);
        assert!(words(&aliases, "Install.Alias").contains("vctx-database.service"), "{database}");
    }
}

#[test]
fn sockets_are_unix_sockets_of_one_owner() {
    let mut sockets = 0;
    for name in units().iter().filter(|name| name.ends_with(".socket")) {
        let unit = unit(name);
        sockets += 1;
        let owner = match name.contains('@') {
            true => "%i",
            false => "vctx",
        };
        for listen in &unit["Socket.ListenStream"] {
            assert_eq!(*listen, format!("/run/vctx/{owner}/vctx.sock"), "{name}");
        }
        assert_eq!(unit["Socket.SocketMode"], ["0660"], "{name}");
        assert_eq!(unit["Socket.DirectoryMode"], ["0700"], "{name}");
        assert_eq!(unit["Socket.SocketUser"], [owner], "{name}");
        let made = unit["Socket.ExecStartPre"].last().expect("a directory is made");
        assert!(
            made.contains("-m 0700") && made.contains(&format!("-o {owner}")),
            "{name}: {made}"
        );
    }
    assert_eq!(sockets, 2);
    for name in units() {
        let text = text(&format!("deploy/systemd/{name}"));
        assert!(!text.contains("0.0.0.0") && !text.contains("tcp://"), "{name} names a network");
    }
}

#[test]
fn users_and_files_of_the_units_are_made_by_the_package() {
    let sysusers = text("deploy/debian/sysusers.conf");
    let manifest = text("Cargo.toml");
    let known = |user: &str| {
        let from_elsewhere = ["root", "arangodb", "%i"].contains(&user);
        from_elsewhere
            || sysusers.lines().any(|l| {
                let mut words = l.split_whitespace();
                words.next().is_some_and(|kind| ["u", "g"].contains(&kind))
                    && words.next() == Some(user)
            })
    };
    for name in units() {
        let unit = unit(&name);
        for key in [
            "Service.User",
            "Service.Group",
            "Service.SupplementaryGroups",
            "Socket.SocketUser",
            "Socket.SocketGroup",
        ] {
            for user in words(&unit, key) {
                assert!(known(user), "{name}: no file makes the user {user}");
            }
        }
        for line in unit.get("Service.ExecStart").into_iter().flatten() {
            let program = line.split(' ').next().unwrap_or_default();
            let there = match program.strip_prefix("/usr/share/vctx/guards/") {
                Some(guard) => root().join("guards").join(guard).is_file(),
                None => ["/usr/bin/vctx", "/usr/sbin/arangod"].contains(&program),
            };
            assert!(there, "{name} starts {program}, which the package does not install");
        }
        let environment = words(&unit, "Service.EnvironmentFile");
        for file in environment.iter().filter(|file| !file.starts_with('-')) {
            assert!(manifest.contains(file.trim_start_matches('/')), "{name}: no {file}");
        }
        let text = text(&format!("deploy/systemd/{name}"));
        let lower = text.to_lowercase();
        assert!(!lower.contains("password="), "{name} holds a password");
    }
    let sources: Vec<&str> = manifest
        .lines()
        .skip_while(|line| !line.starts_with("assets = ["))
        .skip(1)
        .take_while(|line| *line != "]")
        .filter_map(|line| line.split('"').nth(1))
        .collect();
    assert!(sources.len() > 15, "{sources:?}");
    for source in sources.iter().filter(|source| !source.starts_with("target/")) {
        let (folder, name) = source.rsplit_once('/').unwrap_or(("", source));
        let matching = match name.strip_prefix('*') {
            Some(end) => files(folder, end).len(),
            None => usize::from(root().join(source).is_file()),
        };
        assert!(matching > 0, "the package has nothing of {source}");
    }
}

/// Copies the units to a temporary directory. In the copies, the paths of programs are replaced
/// with paths that exist on the test machine.
fn laid_out() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    let guards = root().join("guards");
    for name in units() {
        let unit = text(&format!("deploy/systemd/{name}"))
            .replace("/usr/bin/vctx ", &format!("{} ", env!("CARGO_BIN_EXE_vctx")))
            .replace("/usr/share/vctx/guards", &guards.to_string_lossy())
            .replace("/usr/sbin/arangod ", "/bin/sh ");
        fs::write(directory.path().join(&name), &unit).expect("a file");
        if name.contains('@') {
            fs::write(directory.path().join(name.replace('@', "@alice")), unit).expect("a file");
        }
    }
    symlink("arangod-vctx.service", directory.path().join("vctx-database.service"))
        .expect("a link");
    directory
}

/// Runs `systemd-analyze`; returns `None` if this machine does not have it.
fn analyze(directory: &Path, arguments: &[&str]) -> Option<(bool, String)> {
    let mut analyze = Command::new("systemd-analyze");
    analyze
        .args(arguments)
        .current_dir(directory)
        .env("SYSTEMD_UNIT_PATH", format!("{}:", directory.display()));
    let output = analyze.env("LC_ALL", "C.UTF-8").output().ok()?;
    let said = [output.stdout, output.stderr].concat();
    Some((output.status.success(), String::from_utf8_lossy(&said).into_owned()))
}

#[test]
fn systemd_finds_no_fault_in_the_units() {
    let directory = laid_out();
    for name in units() {
        let name = name.replace('@', "@alice");
        let arguments = ["verify", "--man=no", "--recursive-errors=yes", &format!("./{name}")];
        let Some((sound, said)) = analyze(directory.path(), &arguments) else {
            left_out("systemd-analyze is not installed");
            return;
        };
        assert!(sound && said.is_empty(), "{name}: {said}");
    }
}

/// Maximum exposure level of a unit that serves memories; `systemd-analyze security` reports 0
/// (safest) to 10.
const EXPOSURE_MAX: f64 = 2.0;

#[test]
fn what_serves_memories_is_hardly_exposed() {
    let directory = laid_out();
    for name in OURS {
        let name = name.replace('@', "@alice");
        let arguments = ["security", "--offline=true", "--no-pager", &format!("./{name}")];
        let Some((_, said)) = analyze(directory.path(), &arguments) else {
            left_out("systemd-analyze is not installed");
            return;
        };
        let (_, level) = said
            .split_once("Overall exposure level for ")
            .unwrap_or_else(|| panic!("{name}: {said}"));
        let level: f64 =
            level.split_whitespace().nth(1).and_then(|l| l.parse().ok()).expect("a number");
        assert!(level <= EXPOSURE_MAX, "{name}: {level}\n{said}");
        println!("{name}: {level}");
    }
    for name in OURS {
        // With `PrivateUsers`, the kernel could not report the caller's user to the server.
        assert_eq!(unit(name)["Service.PrivateUsers"], ["no"], "{name}");
        assert_eq!(unit(name)["Service.LimitCORE"], ["0"], "{name}");
    }
}

/// Returns the commands in the `sh` blocks of a document, with continued lines joined.
fn commands(document: &str) -> Vec<String> {
    let blocks = document.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    let joined = blocks.map(|block| block.replace("\\\n", " ")).collect::<Vec<_>>();
    joined.iter().flat_map(|block| block.lines()).map(str::to_owned).collect()
}

/// Files that the runbooks create in addition to those of the package.
const MADE: &[&str] = &["/etc/vctx/credentials", "/etc/vctx/proxy-", "/etc/vctx/direct.env"];

#[test]
fn runbooks_name_commands_options_units_and_files_that_are_there() {
    let mut seen = 0;
    let manifest = text("Cargo.toml");
    let mut documents = files("deploy/runbooks", ".md");
    documents.push("deploy/cluster.md".into());
    for path in documents {
        let document = text(&path);
        for line in commands(&document) {
            let line = line.split(" # ").next().unwrap_or_default();
            for call in line.split("vctx ").skip(1).filter(|_| line.contains("vctx ")) {
                let call = call.split(['|', ';', '&', '>', ')']).next().unwrap_or_default();
                let words: Vec<&str> = call.split_whitespace().collect();
                let plain = |w: &&&str| {
                    w.chars().all(|c| c.is_ascii_lowercase() || c == '-' || c == '_')
                        && !w.starts_with('-')
                };
                let names: Vec<&str> = words.iter().take_while(plain).copied().collect();
                // A line may contain `vctx` as a user or a directory instead of a command.
                let Some(help) = help_of(&names) else { continue };
                seen += 1;
                for option in words.iter().filter(|word| word.starts_with("--")) {
                    let option = option.split('=').next().unwrap_or_default();
                    assert!(
                        help.contains(option),
                        "{path}: `vctx {}` has no {option}: {line}",
                        names.join(" ")
                    );
                }
            }
        }
        for word in document.split(|c: char| c.is_whitespace() || "`()<>\"',;:".contains(c)) {
            let word = word.trim_end_matches('.');
            let unit = word.ends_with(".service") || word.ends_with(".socket");
            if unit && word.contains("vctx") && !word.contains('/') && !word.contains("database") {
                let template = word.split_once('@').map_or(word.to_owned(), |(name, rest)| {
                    format!("{name}@.{}", rest.rsplit('.').next().unwrap_or_default())
                });
                assert!(
                    root().join("deploy/systemd").join(&template).is_file(),
                    "{path}: no unit {word}"
                );
            }
            if word.starts_with("/etc/vctx/") && word.len() > "/etc/vctx/".len() {
                let there = manifest.contains(word.trim_start_matches('/'))
                    || MADE.iter().any(|m| word.starts_with(m));
                assert!(there || word.contains("USER"), "{path}: no file or command makes {word}");
            }
            if let Some(guard) = word.strip_prefix("/usr/share/vctx/guards/") {
                assert!(root().join("guards").join(guard).is_file(), "{path}: no {word}");
            }
        }
    }
    assert!(seen > 10, "{seen} commands of vctx in all runbooks");
}

/// Returns the help text for the longest prefix of `names` that is a command.
fn help_of(names: &[&str]) -> Option<String> {
    (1..=names.len().min(3)).rev().find_map(|count| {
        let output =
            Command::new(env!("CARGO_BIN_EXE_vctx")).args(&names[..count]).arg("--help").output();
        let output = output.expect("the program runs");
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    })
}
