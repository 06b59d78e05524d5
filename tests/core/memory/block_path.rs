//! Tests which block each path of a file-based memory tool names.

use vctx_core::memory::block_path::{MemoryPath, PathFault, lies_in, moved, path_of, place_of};
use vctx_core::trust::check_name;

fn name(path: &str) -> String {
    match place_of(path) {
        Ok(MemoryPath::Named(name)) => name,
        other => panic!("{path}: {other:?}"),
    }
}

#[test]
fn a_path_is_written_so_that_it_can_be_read() {
    for (path, expected) in [
        ("/memories/human", "human"),
        ("/memories/notes.txt", "notes.txt"),
        ("/memories/projects/sail/plan.md", "projects..sail..plan.md"),
        ("/memories//projects///plan.md/", "projects..plan.md"),
        ("/memories/to do.md", "to-x20do.md"),
        ("/memories/Zürich", "Z-xc3-xbcrich"),
        ("/memories/a..b", "a-x2e.b"),
        ("/memories/a./b", "a-x2e..b"),
        ("/memories/a/.b", "a..-x2eb"),
        ("/memories/.hidden", ".hidden"),
        ("/memories/x-x20y", "x-x2dx20y"),
        ("/memories/x-xyz", "x-xyz"),
        ("/memories/@home", "-x40home"),
        ("/memories/@my-x41", "my-x41"),
        ("/memories/@-x40my-x41", "-x40my-x41"),
        ("/memories/@a..", "a.."),
        ("/memories/@.", "-x40."),
        ("/memories/@..", "-x40-x2e."),
    ] {
        assert_eq!(name(path), expected, "{path}");
        assert_eq!(name(&path_of(expected)), expected, "{path}");
    }
}

#[test]
fn every_name_has_a_path_that_leads_back() {
    let alphabet: Vec<char> = "x2e.-@/é".chars().collect();
    let mut seen = std::collections::HashMap::new();
    // The test uses every text of up to five characters of `alphabet` as a path. If such a text is
    // a valid block name, the test also uses it as a block name.
    let mut texts = vec![String::new()];
    let mut longest = texts.clone();
    for _ in 0..5 {
        longest = longest
            .iter()
            .flat_map(|text| alphabet.iter().map(move |c| format!("{text}{c}")))
            .collect();
        texts.extend(longest.iter().cloned());
    }
    for text in texts {
        if check_name("block", &text).is_ok() {
            let path = path_of(&text);
            assert_eq!(name(&path), text, "the name {text} by its path {path}");
        }
        let Ok(MemoryPath::Named(name)) = place_of(&format!("/memories/{text}")) else {
            continue;
        };
        let path = path_of(&name);
        assert!(check_name("block", &name).is_ok(), "{text} became {name}");
        assert_eq!(place_of(&path), Ok(MemoryPath::Named(name.clone())), "{text}");
        if let Some(other) = seen.insert(name.clone(), path.clone()) {
            assert_eq!(other, path, "two paths are {name}");
        }
    }
}

#[test]
fn what_would_lead_elsewhere_is_refused() {
    for path in [
        "/memories/..",
        "/memories/../etc/passwd",
        "/memories/a/../../b",
        "/memories/./a",
        "/memories/%2e%2e%2fetc",
        "/memories/%2E%2E/etc",
        "/memories/..\\etc",
        "/memories/a\\b",
        "/memories/a%5Cb",
        "/memories/a\0b",
        "/memories/a\nb",
    ] {
        assert_eq!(place_of(path), Err(PathFault::Climbs), "{path}");
    }
    for path in ["", "/", "/etc/passwd", "memories/a", "/memoriesx/a", "/Memories/a", "~"] {
        assert_eq!(place_of(path), Err(PathFault::Outside), "{path}");
    }
    let long = format!("/memories/{}", "ü".repeat(40));
    assert_eq!(place_of(&long), Err(PathFault::Long(320)));
    assert_eq!(
        place_of(&format!("/memories/{}", "u".repeat(1 << 20))),
        Err(PathFault::Long(1 << 20))
    );
    assert_eq!(place_of("/memories"), Ok(MemoryPath::Root));
    assert_eq!(place_of("/memories/"), Ok(MemoryPath::Root));
}

#[test]
fn a_directory_is_what_lies_in_it() {
    let directory = MemoryPath::Named("a".into());
    for (name, inside) in
        [("a..b", true), ("a..b..c", true), ("a", false), ("ab..c", false), ("a....b", false)]
    {
        assert_eq!(lies_in(name, &directory), inside, "{name}");
        assert!(lies_in(name, &MemoryPath::Root));
    }
    assert_eq!(moved("a..b..c.md", "a..b", "z"), "z..c.md");
    assert_eq!(moved("a..b", "a", "x..y"), "x..y..b");
}
