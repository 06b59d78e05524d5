//! Checks that each query with which `vctx doctor` probes a database is a file of `aql/doctor/`,
//! and that each assumption in `fidelity.md` names the doctor's check that confirms or refutes the
//! assumption.

use std::collections::BTreeSet;

use arango_embedded::syntax::parse;
use vctx::checks::{INFERRED, by_hand};
use vctx::store::{QUERIES, probe::PROBES};

use super::sources::{files, text, working};

/// The text before the name of a check in a row of `docs/reference/fidelity.md`.
const SETTLED: &str = "settled by `vctx doctor --only ";

#[test]
fn every_probe_is_a_file_and_every_file_is_listed_and_used() {
    let listed: BTreeSet<String> =
        PROBES.iter().map(|probe| format!("aql/{}.aql", probe.name)).collect();
    let there: BTreeSet<String> = files("aql/doctor", ".aql").into_iter().collect();
    assert_eq!(there, listed, "files of aql/doctor/ and store::probe::PROBES differ");
    let store = working(&["src/server/store"]);
    let owner =
        store.iter().find(|source| source.path == "src/server/store/probe.rs").expect("probes");
    let doctor = working(&["src/server/doctor"]);
    for probe in PROBES {
        assert!(!QUERIES.iter().any(|query| query.name == probe.name), "{} is both", probe.name);
        let line = format!(" = \"{}\",", probe.name);
        let named = owner.spoken.lines().find(|spoken| spoken.contains(&line)).expect(probe.name);
        let constant =
            named.trim_start().trim_start_matches("pub ").split(' ').next().expect("a name");
        let used = format!("probe::{constant}");
        let by = doctor.iter().any(|source| {
            source.bare.match_indices(&used).any(|(at, _)| {
                !source.bare[at + used.len()..]
                    .starts_with(|c: char| c.is_alphanumeric() || c == '_')
            })
        });
        assert!(by, "no file of src/server/doctor uses {used}");
    }
}

#[test]
fn a_probe_that_writes_has_its_collection_bound() {
    for probe in PROBES {
        let body = parse(probe.text).unwrap_or_else(|e| panic!("{}: {e:?}", probe.name));
        let tree = format!("{body:?}");
        for word in ["into: Name(", "from: Name("] {
            assert!(
                !tree.contains(word),
                "aql/{}.aql writes to a collection of the server",
                probe.name
            );
        }
        for word in ["Reads: ", "Writes: ", "Returns: "] {
            let said = probe.text.lines().any(|line| line.starts_with("//") && line.contains(word));
            assert!(said, "aql/{}.aql: its comment has no `{word}`", probe.name);
        }
        let writes =
            ["into: CollectionBind(", "from: CollectionBind(", "into: Bind(", "from: Bind("]
                .iter()
                .any(|word| tree.contains(word));
        assert_eq!(writes, probe.text.contains("Writes: @@"), "aql/{}.aql: Writes", probe.name);
    }
}

#[test]
fn every_inferred_row_of_fidelity_names_a_check_and_every_such_check_its_row() {
    let fidelity = text("docs/reference/fidelity.md");
    let rows =
        fidelity.lines().filter(|line| line.starts_with("| `") && line.contains("| *inferred* |"));
    let named = |row: &str| {
        let request = row.trim_start_matches("| `").split("` |").next().expect("a request");
        let check = row.split_once(SETTLED).and_then(|(_, rest)| rest.split('`').next());
        let check = check.unwrap_or_else(|| panic!("no check settles this guess: {row}"));
        (request.to_owned(), check.to_owned())
    };
    let named: BTreeSet<(String, String)> = rows.map(named).collect();
    let owned = |(request, check): &(&str, &str)| ((*request).to_owned(), (*check).to_owned());
    let settled: BTreeSet<(String, String)> = INFERRED.iter().map(owned).collect();
    assert_eq!(named, settled, "docs/reference/fidelity.md and checks::INFERRED differ");
    for (_, id) in &named {
        assert!(by_hand().any(|check| check.id == id), "{id} is no check");
    }
    assert!(!named.is_empty());
}

#[test]
fn the_page_of_the_doctor_has_the_row_of_every_check_as_the_program_tells_it() {
    let page = text("docs/reference/doctor.md");
    let rows: BTreeSet<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
    let told = |text: &str| text.replace('<', "&lt;").replace('|', "\\|");
    let missing: Vec<String> = by_hand()
        .map(|c| format!("| `{}` | {} | {} |", c.id, told(c.expected), told(c.why)))
        .filter(|row| !rows.contains(row.as_str()))
        .collect();
    assert!(missing.is_empty(), "docs/reference/doctor.md lacks:\n{}", missing.join("\n"));
}
