//! Mutation test of the guards: without one of its lines, or with one condition inverted, a guard
//! fails at least one test case.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;

use super::{CHANGED, GUARDS, changed};

/// A guard with one change.
struct Mutant {
    guard: &'static str,
    line: usize,
    /// The unchanged line, without its indentation.
    code: String,
    what: String,
    text: String,
}

/// Pairs of texts for inverting conditions, in the shell and in awk: each occurrence of the first
/// text is replaced with the second, one at a time.
const TURNS: &[(&str, &str)] = &[
    ("&&", "||"),
    ("||", "&&"),
    ("[ -n ", "[ -z "),
    ("[ -z ", "[ -n "),
    ("[ -f ", "[ ! -f "),
    ("[ -r ", "[ ! -r "),
    ("[ -S ", "[ ! -S "),
    (" -gt ", " -le "),
    ("\" = ", "\" != "),
    (" == ", " != "),
    (" != ", " == "),
    (" ~ ", " !~ "),
    (" !~ ", " ~ "),
    ("!index(", "index("),
    (" index(", " !index("),
    ("(index(", "(!index("),
    ("(!found", "(found"),
    ("exit bad", "exit !bad"),
    ("exit 1", "exit 0"),
    ("|| !", "|| "),
    ("&& !", "&& "),
    ("(!on", "(on"),
    ("= on &&", "= !on &&"),
    ("'/", "'!/"),
    ("  /^", "  !/^"),
    ("; /^", "; !/^"),
    (" > 1", " <= 1"),
    (" <= ", " > "),
    (" < ", " >= "),
    ("in held", "in none"),
    ("start {", "!start {"),
    ("*) fail", "nothing) fail"),
];

fn mutants(guard: &'static str, script: &str) -> Vec<Mutant> {
    let lines: Vec<&str> = script.lines().collect();
    let mut all = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let code = line.trim();
        if code.is_empty() || code.starts_with('#') {
            continue;
        }
        let mut add = |what: String, changed: Option<String>| {
            let mut text: Vec<&str> = lines.clone();
            match &changed {
                Some(changed) => text[at] = changed,
                None => drop(text.remove(at)),
            }
            let text = text.join("\n") + "\n";
            all.push(Mutant { guard, line: at + 1, code: code.to_owned(), what, text });
        };
        add("removed".into(), None);
        for (from, to) in TURNS {
            for (place, _) in line.match_indices(from) {
                let changed = format!("{}{to}{}", &line[..place], &line[place + from.len()..]);
                add(format!("`{from}` at {place} is `{to}`"), Some(changed));
            }
        }
        // Changes each branch of a `case`, one at a time, so that no value matches it.
        if line.contains(";;") || line.contains("case ") {
            let starts = line.match_indices(" in ").map(|(at, _)| at + 4);
            let starts = starts.chain(line.match_indices(";; ").map(|(at, _)| at + 3));
            let first = line.len() - line.trim_start().len();
            let own = (!code.starts_with("case ") && !code.starts_with('[')).then_some(first);
            for start in starts.chain(own) {
                let Some(length) = line[start..].find(')') else { continue };
                let pattern = &line[start..start + length];
                if pattern.contains(['$', ';', '(']) || pattern.starts_with("esac") {
                    continue;
                }
                let rest = &line[start + length..];
                let changed = format!("{}nothing-of-this{rest}", &line[..start]);
                add(format!("the branch `{pattern})` is never taken"), Some(changed));
            }
        }
    }
    all
}

/// `(guard, part of the line, part of the change, reason why no case can detect the change)`.
const EQUIVALENT: &[(&str, &str, &str, &str)] = &[];

/// Returns the names of the tests that run a guard.
fn judges(guard: &str) -> &'static [&'static str] {
    match guard {
        "uds.sh" => &[
            "uds::uds_knows_good_hosts_from_bad_ones",
            "uds::uds_fails_closed",
            "uds::a_listener_without_owner_is_passed_over_only_beside_an_engine_we_may_look_into",
            "each_guard_explains_itself",
        ],
        "vector-flag.sh" => &[
            "options::the_vector_flag_is_found_in_every_form_and_missed_when_absent",
            "each_guard_explains_itself",
        ],
        "auth.sh" => &[
            "options::authentication_has_to_be_switched_on_by_name_and_in_fact",
            "each_guard_explains_itself",
        ],
        "restore.sh" => {
            &["options::dumps_and_restores_need_the_flag", "each_guard_explains_itself"]
        }
        "sockets.sh" => &[
            "uds::a_socket_lets_in_its_owner_and_a_group_only_where_it_is_named",
            "each_guard_explains_itself",
        ],
        _ => &[
            "options::the_vector_flag_is_found_in_every_form_and_missed_when_absent",
            "uds::uds_knows_good_hosts_from_bad_ones",
            "options::authentication_has_to_be_switched_on_by_name_and_in_fact",
        ],
    }
}

/// Whether the tests of a guard pass with the guards in the given directory.
fn passes(guard: &str, directory: &Path) -> bool {
    let mut inner = Command::new(std::env::current_exe().expect("this program"));
    inner.arg("--exact").args(judges(guard)).env(CHANGED, directory);
    inner.output().expect("this program runs").status.success()
}

#[test]
fn without_any_line_or_with_any_condition_turned_a_guard_fails_a_case() {
    if std::env::var_os(CHANGED).is_some() {
        return;
    }
    let mut all = Vec::new();
    for guard in GUARDS.iter().chain(&["options.awk"]) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("guards").join(guard);
        let script = fs::read_to_string(path).expect("a guard");
        let directory = tempfile::tempdir().expect("a directory");
        changed(directory.path(), guard, &script);
        assert!(passes(guard, directory.path()), "{guard}: its tests fail on an unchanged copy");
        all.extend(mutants(guard, &script));
    }
    assert!(all.len() > 300, "{} changes are few", all.len());
    // Tests a fifth of the changes by default, and all of them with `VCTX_ROUNDS=full`.
    let whole = std::env::var_os("VCTX_ROUNDS").is_some_and(|rounds| rounds == "full");
    let chosen = all.iter().step_by(if whole { 1 } else { 5 });
    let (left, unnoticed) = (Mutex::new(chosen), Mutex::new(Vec::new()));
    let work = || {
        while let Some(mutant) = { left.lock().expect("a list").next() } {
            let directory = tempfile::tempdir().expect("a directory");
            changed(directory.path(), mutant.guard, &mutant.text);
            if passes(mutant.guard, directory.path()) {
                unnoticed.lock().expect("a list").push(mutant);
            }
        }
    };
    // There are more threads than processors, because the threads mostly wait for child processes.
    let threads = 16 * std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    let unnoticed = unnoticed.into_inner().expect("a list");
    let matches = |m: &Mutant, e: &(&str, &str, &str, &str)| {
        m.guard == e.0 && m.code.contains(e.1) && m.what.contains(e.2)
    };
    let mut unexplained: Vec<String> = unnoticed
        .iter()
        .filter(|m| !EQUIVALENT.iter().any(|e| matches(m, e)))
        .map(|m| format!("{}:{} {}\n    {}", m.guard, m.line, m.what, m.code))
        .collect();
    unexplained.sort();
    let told = unexplained.len();
    assert!(unexplained.is_empty(), "{told} of {} changes:\n{}", all.len(), unexplained.join("\n"));
    for e in EQUIVALENT.iter().filter(|_| whole) {
        assert!(
            unnoticed.iter().any(|m| matches(m, e)),
            "explained, but noticed or not there: {e:?}"
        );
    }
}
