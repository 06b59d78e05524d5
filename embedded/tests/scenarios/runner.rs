//! Parses and runs the steps of a scenario, and reports every unexpected answer.

use std::collections::BTreeMap;
use std::path::Path;
use std::thread::JoinHandle;
use std::time::Duration;

use arango_embedded::Options;
use serde_json::Value;

use super::wire::{Answer, Client, Server};

/// Pause between two tries of `until`.
const PAUSE: Duration = Duration::from_millis(100);
/// Pause after a request of `later`, in which the request begins. A request that waits for a lock
/// gives up after a second.
const LATER_PAUSE: Duration = Duration::from_millis(300);

/// The options of a request, parsed from its prefix.
#[derive(Default)]
struct Manner {
    headers: Vec<(String, String)>,
    user: Option<String>,
    connection: Option<String>,
    database: Option<String>,
    later: Option<String>,
    tries: usize,
    read_only: bool,
}

/// The state of one case: its database, its stored values and its connections.
struct Case<'a> {
    server: &'a Server,
    database: String,
    names: BTreeMap<String, String>,
    connections: BTreeMap<String, Client>,
    later: BTreeMap<String, JoinHandle<Answer>>,
}

/// Runs a scenario file and returns an error text for each failed case; a case ends at its first
/// fault.
pub(crate) fn run(file: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(file).expect("a scenario");
    let name = file.file_name().expect("a name").to_string_lossy().into_owned();
    let lines = joined(&text);
    let options = lines.iter().find_map(|(_, line)| line.strip_prefix("options "));
    let mut server = Server::start_with(options.map_or_else(|| options_of("{}"), options_of));
    let starts: Vec<usize> =
        (0..lines.len()).filter(|at| lines[*at].1.starts_with("case ")).collect();
    assert!(!starts.is_empty(), "{name} has no case");
    let mut faults = Vec::new();
    for (number, start) in starts.iter().enumerate() {
        let end = starts.get(number + 1).copied().unwrap_or(lines.len());
        let (title, steps) = (&lines[*start].1, &lines[start + 1..end]);
        let has_source = steps.first().is_some_and(|(_, line)| line.starts_with("from "));
        assert!(has_source, "{name}:{}: a case begins with its source", lines[*start].0);
        if let Err((line, fault)) = run_case(&mut server, number, &steps[1..]) {
            faults.push(format!("{name}:{line}, {title}:\n{fault}"));
        }
    }
    println!("{name}: {} of {} cases", starts.len() - faults.len(), starts.len());
    faults
}

fn run_case(
    server: &mut Server,
    number: usize,
    steps: &[(usize, String)],
) -> Result<(), (usize, String)> {
    let database = format!("case{number}");
    let body = serde_json::json!({ "name": database }).to_string();
    assert_eq!(server.root().post("/_api/database", &body).status, 201);
    let mut rest = steps;
    let mut names = BTreeMap::new();
    loop {
        let (now, after) = match rest.iter().position(|(_, line)| line == "restart") {
            Some(at) => (&rest[..at], Some(&rest[at + 1..])),
            None => (rest, None),
        };
        let mut case = Case {
            server,
            database: database.clone(),
            names,
            connections: BTreeMap::new(),
            later: BTreeMap::new(),
        };
        for (line, step) in now {
            case.step(step).map_err(|fault| (*line, format!("{step}\n{fault}")))?;
        }
        assert!(case.later.is_empty(), "every answer is asked for");
        names = std::mem::take(&mut case.names);
        drop(case);
        let Some(after) = after else { return Ok(()) };
        server.restart();
        rest = after;
    }
}

/// Returns the numbered lines of a file, without comments and with continuation lines joined.
fn joined(text: &str) -> Vec<(usize, String)> {
    let mut lines: Vec<(usize, String)> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if let Some(more) = line.strip_prefix('|') {
            let (_, before) = lines.last_mut().expect("a line to go on with");
            before.push(' ');
            before.push_str(more.trim());
        } else if !line.is_empty() && !line.starts_with('#') {
            lines.push((number + 1, line.to_owned()));
        }
    }
    lines
}

fn options_of(json: &str) -> Options {
    let given: BTreeMap<String, u64> = serde_json::from_str(json).expect("options are numbers");
    let mut options = Options { sync: false, ..Options::default() };
    for (name, value) in given {
        match name.as_str() {
            "stream_idle_ms" => options.stream_idle_ms = value,
            "stream_lock_wait_ms" => options.stream_lock_wait_ms = value,
            "stream_size_bytes_max" => options.stream_size_bytes_max = value,
            "stream_sweeps" => options.stream_sweeps = value == 1,
            "late_commit_lies" => options.late_commit_lies = value == 1,
            "view_commit_ms" => options.view_commit_ms = value,
            "vector_index" => options.vector_index = value == 1,
            _ => panic!("unknown option {name}"),
        }
    }
    options
}

impl Case<'_> {
    fn step(&mut self, step: &str) -> Result<(), String> {
        if let Some(time) = step.strip_prefix("sleep ") {
            std::thread::sleep(Duration::from_millis(time.parse().expect("milliseconds")));
            return Ok(());
        }
        if let Some(rest) = step.strip_prefix("answer ") {
            let (name, expected) = rest.split_once(" -> ").expect("an arrow");
            let thread = self.later.remove(name.trim()).expect("a request that was sent");
            let answer = thread.join().map_err(|_| "the answer did not come".to_owned())?;
            return self.check(&answer, expected);
        }
        let (manner, request) = manner_of(step);
        let (request, expected) = match request.rsplit_once(" -> ") {
            Some((request, expected)) => (request, Some(expected)),
            None => (request, None),
        };
        let request = self.filled(request);
        let mut parts = request.trim().splitn(3, ' ');
        let method = parts.next().expect("a method").to_owned();
        let target = parts.next().expect("a target").to_owned();
        let body = parts.next().unwrap_or_default().trim().to_owned();
        let mut client = self.client(&manner);
        if let Some(name) = manner.later {
            assert!(expected.is_none(), "the answer is checked where it is asked for");
            let send = move || client.call(&method, &target, &body);
            self.later.insert(name, std::thread::spawn(send));
            // The pause ensures that the next step's request arrives after this one.
            std::thread::sleep(LATER_PAUSE);
            return Ok(());
        }
        let expected = expected.expect("an arrow");
        let mut tries = manner.tries.max(1);
        let checked = loop {
            tries -= 1;
            let checked = self.check(&client.call(&method, &target, &body), expected);
            if checked.is_ok() || tries == 0 {
                break checked;
            }
            std::thread::sleep(PAUSE);
        };
        if let Some(name) = manner.connection {
            self.connections.insert(name, client);
        }
        checked
    }

    /// Returns the step's connection, with the step's headers set.
    fn client(&mut self, manner: &Manner) -> Client {
        let known = manner.connection.as_ref().and_then(|name| self.connections.remove(name));
        let mut client =
            known.unwrap_or_else(|| self.server.client(if manner.read_only { "ro" } else { "rw" }));
        client.forget_headers();
        client = match &manner.user {
            Some(user) => client.login(user, user),
            None => client.login("root", super::wire::ROOT_PASSWORD),
        };
        for (name, value) in &manner.headers {
            client = client.with(name, &self.filled(value));
        }
        client.within(manner.database.as_ref().unwrap_or(&self.database))
    }

    /// Replaces the names of stored values in a text with the values.
    fn filled(&self, text: &str) -> String {
        // Longer names are replaced first, so that no name is mistaken for the beginning of
        // another.
        let mut names: Vec<_> = self.names.iter().collect();
        names.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        let mut text = text.replace("$database", &self.database);
        for (name, value) in names {
            text = text.replace(&format!("${name}"), value);
        }
        text
    }

    fn check(&mut self, answer: &Answer, expected: &str) -> Result<(), String> {
        let expected = expected.trim();
        let (verdict, claims) = expected.split_once(' ').unwrap_or((expected, ""));
        let mut claims = claims.to_owned();
        let shown = || format!("{}\n{:?}\n{}", answer.verdict(), answer.headers, answer.text);
        if answer.verdict() != verdict {
            return Err(format!("expected {verdict}, got {}", shown()));
        }
        while !claims.trim().is_empty() {
            // The name in `>$name` is a target and is not replaced. Values that an earlier
            // condition of this step stored can already be used.
            let text = self.filled(&claims.replace(">$", ">\u{1}"));
            let (claim, rest) = Claim::read(text.trim());
            if !claim.holds(answer) {
                return Err(format!("expected {claim:?}, got {}", shown()));
            }
            if let Claim::Keep(path, name) = claim {
                let value = match look(answer, &path) {
                    Some(Value::String(text)) => text,
                    Some(value) => value.to_string(),
                    None => return Err(format!("nothing at {path} in {}", shown())),
                };
                self.names.insert(name, value);
            }
            claims = rest.replace(">\u{1}", ">$");
        }
        Ok(())
    }
}

/// Splits a step into its options and the request; the options end at the first `: ` that a method
/// follows.
fn manner_of(step: &str) -> (Manner, &str) {
    const METHODS: [&str; 7] = ["GET ", "POST ", "PUT ", "PATCH ", "DELETE ", "HEAD ", "OPTIONS "];
    let mut manner = Manner::default();
    if METHODS.iter().any(|method| step.starts_with(method)) {
        return (manner, step);
    }
    let places = step.match_indices(": ").map(|(at, _)| at);
    let at = places
        .into_iter()
        .find(|at| METHODS.iter().any(|method| step[at + 2..].starts_with(method)))
        .unwrap_or_else(|| panic!("no method in {step}"));
    for word in step[..at].split(", ") {
        let (what, value) = word.split_once(' ').unwrap_or((word, ""));
        let value = value.to_owned();
        match what {
            "in" => manner.headers.push(("x-arango-trx-id".into(), value)),
            "with" => {
                let (name, value) = value.split_once('=').expect("a header and its value");
                manner.headers.push((name.into(), value.into()));
            }
            "as" => manner.user = Some(value),
            "on" => manner.connection = Some(value),
            "at" => manner.database = Some(value),
            "later" => manner.later = Some(value),
            "until" => manner.tries = value.parse().expect("how often"),
            "read" => manner.read_only = true,
            _ => panic!("unknown word {what} in {step}"),
        }
    }
    (manner, &step[at + 2..])
}

/// A condition on an answer.
#[derive(Debug)]
enum Claim {
    Equals(String, Value),
    Has(String, Value),
    Contains(String, String),
    Length(String, u64),
    Absent(String),
    Keep(String, String),
}

impl Claim {
    /// Parses the first condition of a text; also returns the rest of the text.
    fn read(text: &str) -> (Self, &str) {
        if let Some(rest) = text.strip_prefix('!') {
            let (path, rest) = rest.split_once(' ').unwrap_or((rest, ""));
            return (Self::Absent(path.into()), rest);
        }
        let at = text.find(['=', '<', '~', '>']).unwrap_or_else(|| panic!("no claim: {text}"));
        let (path, rest) = (text[..at].to_owned(), &text[at + 1..]);
        match &text[at..=at] {
            ">" => {
                let (name, rest) = rest.split_once(' ').unwrap_or((rest, ""));
                (Self::Keep(path, name.trim_start_matches('\u{1}').to_owned()), rest)
            }
            "~" => {
                let (value, rest) = json(rest);
                (Self::Contains(path, value.as_str().expect("a text").to_owned()), rest)
            }
            "<" => {
                let (value, rest) = json(rest.strip_prefix('=').expect("<="));
                (Self::Has(path, value), rest)
            }
            _ => {
                let (value, rest) = json(rest);
                match path.strip_prefix('#') {
                    Some(path) => {
                        (Self::Length(path.into(), value.as_u64().expect("a length")), rest)
                    }
                    None => (Self::Equals(path, value), rest),
                }
            }
        }
    }

    fn holds(&self, answer: &Answer) -> bool {
        match self {
            Self::Equals(path, value) => {
                look(answer, path).is_some_and(|found| covers(&found, value, true))
            }
            Self::Has(path, value) => {
                look(answer, path).is_some_and(|found| covers(&found, value, false))
            }
            Self::Contains(path, text) => match look(answer, path) {
                Some(Value::String(found)) => found.contains(text),
                Some(found) => found.to_string().contains(text),
                None => false,
            },
            Self::Length(path, length) => {
                let found = match look(answer, path) {
                    Some(Value::Array(list)) => list.len(),
                    Some(Value::Object(object)) => object.len(),
                    Some(Value::String(text)) => text.len(),
                    _ => return false,
                };
                found as u64 == *length
            }
            Self::Absent(path) => look(answer, path).is_none(),
            Self::Keep(..) => true,
        }
    }
}

/// Parses the JSON value at the beginning of a text; also returns the rest of the text.
fn json(text: &str) -> (Value, &str) {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let value = values.next().expect("a value");
    let value = value.unwrap_or_else(|error| panic!("{error}: {text}"));
    (value, &text[values.byte_offset()..])
}

fn look(answer: &Answer, path: &str) -> Option<Value> {
    if let Some(header) = path.strip_prefix('@') {
        return answer.headers.get(header).map(|text| Value::String(text.clone()));
    }
    let mut value: Value = serde_json::from_str(&answer.text).ok()?;
    for part in path.split('.').filter(|part| !part.is_empty()) {
        value = match value {
            Value::Object(mut object) => object.remove(part)?,
            Value::Array(mut list) => {
                let at = part.parse::<usize>().ok().filter(|at| *at < list.len())?;
                list.swap_remove(at)
            }
            _ => return None,
        };
    }
    Some(value)
}

/// Whether `found` equals `wanted`; if `whole` is false, objects in `found` may have additional
/// attributes.
fn covers(found: &Value, wanted: &Value, whole: bool) -> bool {
    match (found, wanted) {
        (Value::Object(found), Value::Object(wanted)) => {
            (!whole || found.len() == wanted.len())
                && wanted
                    .iter()
                    .all(|(name, value)| found.get(name).is_some_and(|f| covers(f, value, whole)))
        }
        (Value::Array(found), Value::Array(wanted)) => {
            found.len() == wanted.len()
                && found.iter().zip(wanted).all(|(found, wanted)| covers(found, wanted, whole))
        }
        (Value::Number(found), Value::Number(wanted)) => {
            found == wanted || found.as_f64() == wanted.as_f64()
        }
        _ => found == wanted,
    }
}
