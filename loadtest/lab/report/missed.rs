//! Draws the searches that missed: how many searches of each store found nothing, or nothing that
//! an answer cites, and which they were.

use std::fmt::Write as _;

use serde_json::Value;

use super::html::{note, numbers, second, section, share, table};
use super::searches::{Counts, MISSED_MAX, Search, Searched};
use vctx_cli::output::number;

/// Classes and names of the three parts of a bar.
const PARTS: [(&str, &str); 3] = [
    ("missed", "found nothing"),
    ("unused", "found something, but no answer cites it"),
    ("hit", "found something"),
];

/// Returns the section of the page. `texts` says whether queries are shown.
pub(super) fn section_of(searches: &[Search], state: &Value, texts: bool) -> String {
    let counts = Searched::ALL.map(|of| (of, Counts::of(searches, of)));
    let (life, hits) =
        (number(state, "/counters/recall_searches"), number(state, "/counters/recall_hits"));
    let about = format!(
        "Searches that wrote are on record: those of a model's run, and those that put copies into the window or kept a page. \
         In the agent's whole life, {} of recall storage wrote, {} of them without a result.",
        if life == 1 { "1 search".to_owned() } else { format!("{life} searches") },
        life.saturating_sub(hits)
    );
    let body = match searches.is_empty() {
        true => note("No search is on record."),
        false => format!("{}{}{}", picture(&counts), as_table(&counts), list(searches, texts)),
    };
    section("Searches that missed", &format!("{}{body}", note(&about)))
}

fn picture(counts: &[(Searched, Counts)]) -> String {
    let most = counts.iter().map(|(_, counts)| counts.all()).max().unwrap_or(1).max(1);
    let bar = |(of, counts): &(Searched, Counts)| {
        let (mut shapes, mut x) = (String::new(), 0.0);
        for ((class, name), count) in PARTS.iter().zip(parts(*counts)) {
            let width = share(count, most) * 10.0;
            write!(
                shapes,
                "<rect class=\"{class}\" x=\"{x:.2}\" y=\"0\" width=\"{width:.2}\" height=\"20\"><title>{count} {name}</title></rect>"
            )
            .expect("a String");
            x += width;
        }
        let name = of.name();
        let id = name.replace(' ', "-");
        format!(
            "<div class=\"turn wider\"><span>{name}</span><svg viewBox=\"0 0 1000 20\" preserveAspectRatio=\"none\" role=\"img\" aria-labelledby=\"{id}\">\
             <title id=\"{id}\">Searches of {name}: {} of {} found nothing</title>{shapes}</svg><span>{} of {} missed</span></div>",
            counts.missed,
            counts.all(),
            counts.missed,
            counts.all()
        )
    };
    let keys: String = PARTS
        .iter()
        .map(|(class, name)| {
            format!("<span class=\"entry\"><span class=\"key {class}\"></span>{name}</span>")
        })
        .collect();
    format!(
        "<figure class=\"turns\">{}</figure><p class=\"legend\">{keys}</p>",
        counts.iter().map(bar).collect::<String>()
    )
}

fn parts(counts: Counts) -> [u64; 3] {
    [counts.missed, counts.unused, counts.other]
}

fn as_table(counts: &[(Searched, Counts)]) -> String {
    let row = |(of, counts): &(Searched, Counts)| {
        let mut row = vec![of.name().to_owned(), counts.all().to_string()];
        row.extend(parts(*counts).map(|count| count.to_string()));
        row
    };
    let rows: Vec<Vec<String>> = counts.iter().map(row).collect();
    let [missed, unused, hit] = PARTS.map(|(_, name)| name);
    numbers(&["searches of", "on record", missed, unused, hit], &rows, "")
}

/// Lists the searches that missed, newest first.
fn list(searches: &[Search], texts: bool) -> String {
    let is_missed = |search: &&Search| search.found == 0 || search.cited == Some(false);
    let missed = searches.iter().rev().filter(is_missed);
    let row = |search: &Search| {
        let what = if search.found == 0 { PARTS[0].1 } else { PARTS[1].1 };
        let mut row = vec![second(&search.at), search.of.name().to_owned(), what.to_owned()];
        if texts {
            row.push(match search.query.as_str() {
                "" => "not on record".to_owned(),
                query => query.to_owned(),
            });
        }
        row
    };
    let all = missed.clone().count();
    let rows: Vec<Vec<String>> = missed.take(MISSED_MAX).map(row).collect();
    let mut heads = vec!["when", "searched", "result"];
    heads.extend(texts.then_some("query"));
    let left_out = match all.saturating_sub(MISSED_MAX) {
        0 => String::new(),
        out => note(&format!("Only the newest {MISSED_MAX} are listed: {out} older ones are not.")),
    };
    let hint =
        if texts { "" } else { "<p class=\"quiet\">The queries are shown with --with-text.</p>" };
    let hint = if rows.is_empty() { "" } else { hint };
    format!("{}{hint}{left_out}", table(&heads, &rows, "No search missed."))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn missed_searches_are_counted_and_their_queries_are_shown_on_request() {
        let search = |of: Searched, found: u64, cited: Option<bool>, query: &str| Search {
            of,
            at: "t".into(),
            found,
            cited,
            query: query.into(),
        };
        let searches = [
            search(Searched::Recall, 0, None, "<whale>"),
            search(Searched::Recall, 3, None, "boat"),
            search(Searched::Archive, 1, Some(false), "tide"),
        ];
        let state = json!({"counters": {"recall_searches": 5, "recall_hits": 3}});
        let open = section_of(&searches, &state, true);
        for shown in
            ["&lt;whale&gt;", "tide", "1 of 2 missed", "0 of 1 missed", "5 searches", "2 of them"]
        {
            assert!(open.contains(shown), "{shown} in {open}");
        }
        assert!(!open.contains("boat"), "a search with a result is not listed");
        let plain = section_of(&searches, &state, false);
        assert!(
            !plain.contains("whale") && !plain.contains("tide") && plain.contains("--with-text")
        );
        assert!(section_of(&[], &state, true).contains("No search is on record."));
        let many: Vec<Search> =
            (0..MISSED_MAX + 2).map(|_| search(Searched::Recall, 0, None, "")).collect();
        assert!(section_of(&many, &state, true).contains("2 older ones are not."));
    }
}
