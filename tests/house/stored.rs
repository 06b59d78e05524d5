//! Compares the list of stored attributes with the collections, with the queries that remove texts,
//! and with the page that is printed from the list.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;

use serde_json::Value;
use vctx::memory::stored::{Attribute, Holds, Selection, attributes};

use super::golden::golden;
use super::sources::root;

#[test]
fn the_list_has_every_collection_and_every_required_attribute() {
    let text = fs::read_to_string(root().join("arango-setup/collections.json")).expect("a file");
    let collections: Value = serde_json::from_str(&text).expect("JSON");
    let mut names = BTreeSet::new();
    for collection in collections.as_array().expect("collections") {
        let name = collection["name"].as_str().expect("a name").to_owned();
        let required = collection["schema"]["rule"]["required"].as_array();
        for attribute in required.into_iter().flatten().filter_map(Value::as_str) {
            let listed = attributes()
                .any(|one| one.stored && one.collection == name && one.name == attribute);
            assert!(listed, "src/core/memory/stored.rs has no line for {name}.{attribute}");
        }
        names.insert(name);
    }
    let listed: BTreeSet<String> = attributes().map(|one| one.collection.to_owned()).collect();
    assert_eq!(listed, names);
}

#[test]
fn each_removal_names_a_query_that_writes_the_collection() {
    for one in attributes().filter(Attribute::holds_text) {
        for (by, query) in one.removed {
            let path = root().join(format!("aql/{query}.aql"));
            let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{query}: {e}"));
            let writes = text.split("Writes: ").nth(1).and_then(|rest| rest.split('.').next());
            let writes = writes.unwrap_or_default();
            let known = writes.split(", ").any(|name| name.trim() == one.collection);
            assert!(
                known,
                "{}.{} ({}): {query} writes {writes}",
                one.collection,
                one.name,
                by.text()
            );
            // The query removes the row, names the attribute, or writes a whole row of a change.
            let removes =
                text.contains("REMOVE") && text.contains(&format!(" IN {}", one.collection));
            let whole = ["core_change", "forget_mark"].contains(query);
            assert!(removes || whole || text.contains(one.name), "{query}: {}", one.name);
        }
    }
}

/// Prints `docs/reference/stored-texts.md`.
#[test]
fn the_page_of_stored_texts() {
    let mut text = String::from(
        "# Stored texts\n\nPrinted from `src/core/memory/stored.rs` (`cargo bless`): every attribute of the database that can hold a text\n\
         of a caller or of a model, or a vector computed from one. Names, ids, provenance and options are texts. A\n\
         column names the query (`aql/`) by which a forget operation or retention removes the text; `-` means that\n\
         this selection leaves it. *Taint*: the taint rules look at the text. *Withheld*: answers withhold the text\n\
         while it is in quarantine, and show its place, rules and length.\n\n\
         | Attribute | Exported | By id | By match | By age | Whole agent | Taint | Withheld |\n|---|---|---|---|---|---|---|---|\n",
    );
    let yes = |flag: bool| if flag { "yes" } else { "-" };
    for one in attributes().filter(|one| one.stored && one.holds_text()) {
        let query = |by| one.query(by).map_or("-".to_owned(), |query| format!("`{query}`"));
        let vector = if one.holds == Holds::Vector { " (vector)" } else { "" };
        writeln!(
            text,
            "| `{}.{}`{vector} | {} | {} | {} | {} | {} | {} | {} |",
            one.collection,
            one.name,
            yes(one.exported),
            query(Selection::Id),
            query(Selection::Match),
            query(Selection::Age),
            query(Selection::Agent),
            yes(one.scanned),
            yes(one.withheld),
        )
        .expect("a text takes all");
    }
    text.push_str(
        "\n`forgets` and `vctx_meta` hold names and rows only while a forget operation or a move is under way. The names\n\
         of agents and tenants are in many rows; a forgotten agent's name stays in `forgets`, `directory` and\n\
         `departures`, so that no later agent gets it. Events (`memory_events`) have digests in place of names.\n\n\
         These answers show the original of a withheld text: `GET …/export` and `GET …/prompts/{turn}`, because a copy\n\
         and a replay must be exact; `GET …/messages?originals=true`, by which `vctx verify` computes digests;\n\
         `GET …/quarantine?id=…`, for the reviewer; and the window (`GET …/context` and the model's requests), in which\n\
         the newest results of tools stand fenced. Names of schedules are shown, because they are addresses.\n",
    );
    golden("../../docs/reference/stored-texts.md", &text);
}
