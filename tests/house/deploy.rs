//! Checks that alerts, dashboard and runbooks name only exported metrics with their labels, and
//! only existing files.

use std::collections::BTreeSet;

use serde_json::Value;
use vctx::metric::{ALL, Kind, Meter};

use super::sources::{files, root, text};

/// One rule in the file of alert rules.
#[derive(Default)]
struct Rule {
    alert: String,
    expression: String,
    severity: String,
    summary: String,
    runbook: String,
    wait: String,
}

/// Reads the alert rules line by line. Each attribute has its own line, and any other line fails
/// the test.
fn rules() -> Vec<Rule> {
    let file = text("deploy/alerts/vctx.rules.yml");
    let mut rules: Vec<Rule> = Vec::new();
    let structure = ["groups:", "- name: vctx", "rules:", "labels:", "annotations:"];
    for line in file.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
        if structure.contains(&line) {
            continue;
        }
        let (name, value) =
            line.split_once(": ").unwrap_or_else(|| panic!("a line that is no rule: {line}"));
        let value = value.trim_matches('"').to_owned();
        if name == "- alert" {
            rules.push(Rule { alert: value, ..Rule::default() });
            continue;
        }
        let rule = rules.last_mut().expect("an attribute stands below its alert");
        match name {
            "expr" => rule.expression = value,
            "for" => rule.wait = value,
            "severity" => rule.severity = value,
            "summary" => rule.summary = value,
            "runbook" => rule.runbook = value,
            other => panic!("{}: unknown attribute {other}", rule.alert),
        }
    }
    assert!(rules.len() >= 10, "{} rules", rules.len());
    rules
}

/// Returns the names of vctx metrics in an expression.
fn names(expression: &str) -> Vec<&str> {
    let words = expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("vctx_") || word.starts_with("token_")).collect()
}

/// Finds a metric by its exported name, and a histogram by the name of any of its series.
fn meter(name: &str) -> Option<&'static Meter> {
    ALL.iter().find(|meter| {
        let exported = meter.exported();
        match meter.kind {
            Kind::Histogram => ["_bucket", "_sum", "_count"]
                .iter()
                .any(|series| name.strip_suffix(series) == Some(&exported)),
            Kind::Counter | Kind::Gauge => name == exported,
        }
    })
}

/// Fails for a metric that is not exported, and for a label that the metric does not have.
fn check(place: &str, expression: &str) -> BTreeSet<&'static str> {
    let mut used = BTreeSet::new();
    let mut labels: BTreeSet<&str> = BTreeSet::from(["le"]);
    for name in names(expression) {
        let meter =
            meter(name).unwrap_or_else(|| panic!("{place}: nothing exports {name}: {expression}"));
        labels.extend(meter.labels);
        used.insert(meter.name);
    }
    assert!(!used.is_empty(), "{place}: no metric of ours: {expression}");
    for opened in ["{", "by ("] {
        for (at, _) in expression.match_indices(opened) {
            let inside =
                expression[at + opened.len()..].split(['}', ')']).next().unwrap_or_default();
            for part in inside.split(',') {
                let label = part.split(['=', '!', '~']).next().unwrap_or_default().trim();
                assert!(labels.contains(label), "{place}: no label {label}: {expression}");
            }
        }
    }
    used
}

#[test]
fn every_alert_asks_for_metrics_that_are_exported_and_has_a_runbook() {
    let mut seen = BTreeSet::new();
    for rule in rules() {
        let name = rule.alert.clone();
        assert!(seen.insert(name.clone()), "{name} stands twice");
        check(&name, &rule.expression);
        assert!(["critical", "warning"].contains(&rule.severity.as_str()), "{name}: severity");
        assert!(!rule.summary.is_empty() && rule.wait.ends_with(['s', 'm', 'h']), "{name}");
        let runbook = text(&rule.runbook);
        assert!(runbook.contains(&format!("`{name}`")), "{} does not name {name}", rule.runbook);
    }
    for path in files("deploy/runbooks", ".md") {
        let named = text(&path);
        let alerts = named.split('`').skip(1).step_by(2).filter(|word| word.starts_with("Vctx"));
        for alert in alerts {
            assert!(seen.contains(alert), "{path}: there is no alert {alert}");
        }
        for name in names(&named) {
            let known = ALL.iter().any(|meter| meter.exported() == name);
            assert!(known, "{path}: nothing exports {name}");
        }
        for other in named.split('`').filter(|word| word.starts_with("deploy/runbooks/")) {
            assert!(root().join(other).is_file(), "{path}: no {other}");
        }
    }
}

#[test]
fn what_the_seed_wants_an_alert_for_has_one() {
    let asked: BTreeSet<&str> =
        rules().iter().flat_map(|rule| check(&rule.alert, &rule.expression)).collect();
    for name in [
        vctx::metric::HB_DEPTH,
        vctx::metric::HB_DURATION_MS,
        vctx::metric::ZERO_PROPAGATION,
        vctx::metric::DRIFT_ALARMS,
        vctx::metric::WINDOW_SHARE,
        vctx::metric::STORE_UNANSWERED,
        vctx::metric::RECALL_SECONDS,
        vctx::metric::ARCHIVAL_SECONDS,
        vctx::metric::CORE_WRITE_SECONDS,
    ] {
        assert!(asked.contains(name), "no alert watches {name}");
    }
}

#[test]
fn the_dashboard_shows_every_metric_and_no_other() {
    let dashboard: Value =
        serde_json::from_str(&text("deploy/dashboards/vctx.json")).expect("JSON");
    let mut shown = BTreeSet::new();
    for panel in dashboard["panels"].as_array().expect("panels") {
        let title = panel["title"].as_str().expect("a title");
        for target in panel["targets"].as_array().expect("targets") {
            shown.extend(check(title, target["expr"].as_str().expect("an expression")));
        }
    }
    let all: BTreeSet<&str> = ALL.iter().map(|meter| meter.name).collect();
    let unseen: Vec<&&str> = all.difference(&shown).collect();
    assert!(unseen.is_empty(), "metrics without a panel: {unseen:?}");
}
