//! Counts false positives of the rules for tainted text, in conversations without an attack.

use std::collections::BTreeMap;

use super::corpus::Talk;
use super::report::{Report, Section, percent};
use vctx_core::trust::{RULES, rules_of};

/// Checks every message of a data set for tainted text; needs no server.
pub(super) fn run(name: &str, talks: &[Talk]) -> Report {
    let mut marked: BTreeMap<&str, u64> = BTreeMap::new();
    let (mut messages, mut any) = (0_u64, 0_u64);
    for message in talks.iter().flat_map(|talk| &talk.messages) {
        let rules = rules_of(&message.text);
        messages += 1;
        any += u64::from(!rules.is_empty());
        for rule in rules {
            *marked.entry(rule).or_default() += 1;
        }
    }
    let share = |count: u64| percent(count as f64 / messages.max(1) as f64);
    let row = |name: &str, count: u64| vec![name.to_owned(), count.to_string(), share(count)];
    let mut rows = vec![row("any rule", any)];
    rows.extend(RULES.iter().map(|rule| row(rule.id, marked.get(rule.id).copied().unwrap_or(0))));
    let section = Section {
        title: format!("{name}: {messages} messages, each checked like a text from outside"),
        heads: ["rule", "marked", "%"].map(str::to_owned).to_vec(),
        rows,
        notes: vec!["the data set has no attack, so each taint mark is a false positive".into()],
        bars: Vec::new(),
    };
    Report { sections: vec![section], ..Report::default() }
}
