//! Runs script files, each of which sets up its own database, runs queries and contains the
//! expected answers; `UPDATE_GOLDENFILES=1` rewrites these answers.
//!
//! These lines create data and definitions: `collection NAME`, `edges NAME`,
//! `graph NAME edges:from>to …`, `index NAME a,b.c [unique] [sparse]`,
//! `vectors NAME field metric dimension nLists [sparse]`, `insert NAME {…}`, `view NAME {links}`,
//! `analyzer NAME {type, properties, features}`, `inverted COLLECTION NAME {definition}`,
//! `alias NAME COLLECTION/INDEX …`. `tick` commits the views. `> AQL` runs a query: a line that
//! begins with `| ` continues it, and a line `@ {…}` before it sets its bind parameters.
//! `stats> AQL` also shows the counters, and `plan> AQL` shows the plan nodes instead of rows. All
//! lines after a query up to an empty line are its answer. The bind value `{"$rev": "c/key"}` is
//! the revision of that document. Answers show each revision as `REV`.

use std::fmt::Write as _;
use std::sync::Arc;

use arango_embedded::error::Result;
use arango_embedded::query::{Query, QueryOptions, prepare};
use arango_embedded::schema::{
    Analyzer, Collection, CollectionKind, EdgeDefinition, Graph, Index, IndexKind, Metric,
    VectorParams, View,
};
use arango_embedded::txn::{Declared, WriteOptions};
use arango_embedded::value::{Object, Value, parse};
use arango_embedded::{Engine, Options};

const DATABASE: &str = "_system";

struct Session {
    engine: Arc<Engine>,
    _directory: tempfile::TempDir,
}

impl Session {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        // Views are committed only by the script's command `tick`.
        let options = Options { sync: false, view_commit_ms: u64::MAX / 2, ..Options::default() };
        let engine = Engine::open(directory.path(), options).expect("an empty engine");
        Self { engine, _directory: directory }
    }

    fn set_up(&self, line: &str) -> Result<()> {
        let words: Vec<&str> = line.splitn(3, ' ').collect();
        match words.as_slice() {
            ["collection", name] => self.collection(name, CollectionKind::Document),
            ["edges", name] => self.collection(name, CollectionKind::Edge),
            ["graph", name] => self.graph(name, ""),
            ["graph", name, rest] => self.graph(name, rest),
            ["index", name, rest] => self.index(name, rest),
            ["vectors", name, rest] => self.vectors(name, rest),
            ["insert", name, json] => self.insert(name, &parse(json.as_bytes())?),
            ["view", name, links] => self.view(name, &parse(links.as_bytes())?),
            ["inverted", name, rest] => self.inverted(name, rest),
            ["alias", name, rest] => self.alias(name, rest),
            ["analyzer", name, json] => self.analyzer(name, &parse(json.as_bytes())?),
            ["tick"] => self.engine.commit_views(),
            _ => panic!("unknown line: {line}"),
        }
    }

    fn collection(&self, name: &str, kind: CollectionKind) -> Result<()> {
        let collection = Collection::new(name, kind);
        self.engine.create_collection(DATABASE, collection).map(|_| ())
    }

    fn graph(&self, name: &str, rest: &str) -> Result<()> {
        let names = |text: &str| text.split(',').map(str::to_owned).collect();
        let definition = |text: &str| {
            let (collection, ends) = text.split_once(':').expect("edges:from>to");
            let (from, to) = ends.split_once('>').expect("from>to");
            EdgeDefinition { collection: collection.to_owned(), from: names(from), to: names(to) }
        };
        let graph = Graph {
            name: name.to_owned(),
            rev: String::new(),
            edge_definitions: rest.split_whitespace().map(definition).collect(),
            orphan_collections: Vec::new(),
        };
        self.engine.put_graph(DATABASE, graph)
    }

    fn index(&self, collection: &str, rest: &str) -> Result<()> {
        let mut words = rest.split(' ');
        let fields = words.next().expect("fields").split(',');
        let flags: Vec<&str> = words.collect();
        let index = Index {
            id: 0,
            name: format!("idx_{}", rest.replace([',', '.', ' '], "_")),
            kind: IndexKind::Persistent,
            fields: fields.map(|field| field.split('.').map(str::to_owned).collect()).collect(),
            unique: flags.contains(&"unique"),
            sparse: flags.contains(&"sparse"),
            definition: Value::object(Object::new()),
        };
        self.engine.create_index(DATABASE, collection, index).map(|_| ())
    }

    fn vectors(&self, collection: &str, rest: &str) -> Result<()> {
        let words: Vec<&str> = rest.split(' ').collect();
        let metric = Metric::ALL.into_iter().find(|metric| metric.name() == words[1]);
        let params = VectorParams {
            metric: metric.expect("a metric"),
            dimension: words[2].parse().expect("a dimension"),
            ..VectorParams::of_cells(words[3].parse().expect("a number of lists"))
        };
        let index = Index {
            id: 0,
            name: format!("vec_{}_{}", words[0].replace('.', "_"), words[1]),
            kind: IndexKind::Vector(params),
            fields: vec![words[0].split('.').map(str::to_owned).collect()],
            unique: false,
            sparse: words.contains(&"sparse"),
            definition: Value::object(Object::new()),
        };
        self.engine.create_index(DATABASE, collection, index).map(|_| ())
    }

    fn view(&self, name: &str, links: &Value) -> Result<()> {
        let mut properties = Object::new();
        properties.push_new("links", links.clone());
        let view = View {
            id: 0,
            name: name.to_owned(),
            kind: "arangosearch".to_owned(),
            properties: Value::object(properties),
        };
        self.engine.put_view(DATABASE, view).map(|_| ())
    }

    fn inverted(&self, collection: &str, rest: &str) -> Result<()> {
        let (name, definition) = rest.split_once(' ').expect("a name and a definition");
        let index = Index {
            id: 0,
            name: name.to_owned(),
            kind: IndexKind::DefinitionOnly("inverted".to_owned()),
            fields: Vec::new(),
            unique: false,
            sparse: true,
            definition: parse(definition.as_bytes())?,
        };
        self.engine.create_index(DATABASE, collection, index).map(|_| ())
    }

    fn alias(&self, name: &str, rest: &str) -> Result<()> {
        let entry = |text: &str| {
            let (collection, index) = text.split_once('/').expect("collection/index");
            let mut entry = Object::new();
            entry.push_new("collection", collection.into());
            entry.push_new("index", index.into());
            Value::object(entry)
        };
        let mut properties = Object::new();
        let indexes: Vec<Value> = rest.split_whitespace().map(entry).collect();
        properties.push_new("indexes", indexes.into());
        let view = View {
            id: 0,
            name: name.to_owned(),
            kind: "search-alias".to_owned(),
            properties: Value::object(properties),
        };
        self.engine.put_view(DATABASE, view).map(|_| ())
    }

    fn analyzer(&self, name: &str, definition: &Value) -> Result<()> {
        let features = definition.attribute("features");
        let features = features.as_array().unwrap_or_default().iter();
        let analyzer = Analyzer {
            name: name.to_owned(),
            kind: definition.text_of("type").expect("a type").to_owned(),
            properties: definition.attribute("properties"),
            features: features.filter_map(Value::as_str).map(str::to_owned).collect(),
        };
        self.engine.put_analyzer(DATABASE, analyzer)
    }

    fn insert(&self, collection: &str, document: &Value) -> Result<()> {
        let declared = Declared { write: vec![collection.to_owned()], ..Declared::default() };
        let transaction = self.engine.begin(DATABASE, &declared, false)?;
        let database = transaction.database();
        transaction.insert(
            &database.collections[collection],
            document,
            &WriteOptions::default(),
        )?;
        transaction.commit(false)
    }

    fn bind(&self, value: &Value) -> Value {
        let Some(id) = value.text_of("$rev") else { return value.clone() };
        let (name, key) = id.split_once('/').expect("an id");
        let declared = Declared { read: vec![name.to_owned()], ..Declared::default() };
        let transaction = self.engine.begin(DATABASE, &declared, false).expect("a transaction");
        let database = transaction.database();
        let document = transaction.get(&database.collections[name], key).expect("a read");
        document.expect("a document").attribute("_rev")
    }

    fn query(&self, kind: &str, text: &str, binds: &Object) -> String {
        self.try_query(kind, text, binds).unwrap_or_else(|error| {
            format!(
                "error {} {}: {}\n",
                error.status(),
                error.code.num(),
                without_nodes(&error.message.replace('\n', " "))
            )
        })
    }

    fn try_query(&self, kind: &str, text: &str, binds: &Object) -> Result<String> {
        let database = self.engine.database(DATABASE)?;
        let options = QueryOptions { full_count: kind == "count", ..QueryOptions::default() };
        let query = Query { text: text.to_owned(), binds: binds.clone(), options };
        let prepared = prepare(&database, &query)?;
        if kind == "plan" {
            return Ok(plan_text(&prepared.explain()));
        }
        let access = &prepared.access;
        let declared = Declared {
            read: access.read.clone(),
            write: access.write.clone(),
            exclusive: access.exclusive.clone(),
            allow_implicit: true,
        };
        let transaction = self.engine.begin(DATABASE, &declared, false)?;
        let answer = prepared.run(&database, &transaction)?;
        transaction.commit(false)?;
        let mut out = String::new();
        for row in &answer.rows {
            writeln!(out, "{}", masked(row).to_json()).expect("a string takes all");
        }
        for (code, message) in &answer.warnings {
            writeln!(out, "warning {}: {message}", code.num()).expect("a string takes all");
        }
        if kind == "stats" || kind == "count" {
            let s = &answer.stats;
            writeln!(
                out,
                "executed {} ignored {} full {} index {} filtered {} count {:?}",
                s.writes_executed,
                s.writes_ignored,
                s.scanned_full,
                s.scanned_index,
                s.filtered,
                s.full_count
            )
            .expect("a string takes all");
        }
        Ok(out)
    }
}

/// Returns the value with `REV` in place of each revision.
fn masked(value: &Value) -> Value {
    match value {
        Value::String(text) if text.len() == 11 && text.starts_with('_') => "REV".into(),
        Value::Array(items) => Value::array(items.iter().map(masked).collect()),
        Value::Object(object) => {
            Value::object(object.iter().map(|(name, v)| (name.clone(), masked(v))).collect())
        }
        other => other.clone(),
    }
}

/// Returns an error message without the plan nodes in which the error occurred, because the node
/// numbers depend on the optimizer rules.
fn without_nodes(message: &str) -> String {
    match (message.find(" [node #"), message.rfind("] (while")) {
        (Some(from), Some(to)) => format!("{}{}", &message[..from], &message[to + 1..]),
        _ => message.to_owned(),
    }
}

/// Returns the node types of a plan with the collections or views that they read, and the rules.
fn plan_text(plan: &Value) -> String {
    let mut out = String::new();
    for node in plan.attribute("nodes").as_array().expect("nodes") {
        write!(out, "{}", node.text_of("type").expect("a type")).expect("a string takes all");
        if let Some(collection) = node.text_of("collection").or(node.text_of("view")) {
            write!(out, " {collection}").expect("a string takes all");
        }
        if node.text_of("type") == Some("TraversalNode") {
            let part = |name: &str| node.attribute(name).to_json();
            write!(out, " {} {} {}", part("edgeCollections"), part("directions"), part("options"))
                .expect("a string takes all");
        } else if let Some([index]) = node.attribute("indexes").as_array() {
            let condition = node.attribute("condition").to_json();
            let backwards = if node.attribute("reverse").is_true() { " backwards" } else { "" };
            write!(out, " {} {condition}{backwards}", index.text_of("name").expect("a name"))
                .expect("a string takes all");
        } else if let Some(index) = node.attribute("index").text_of("name") {
            let text = |name: &str| node.attribute(name).to_json();
            let (query, filters) = (text("inVariable"), text("filterExpression"));
            write!(out, " {index} {query} {} {filters}", text("searchParameters"))
                .expect("a string takes all");
        } else if let Some(expression) = node.text_of("expression") {
            write!(out, " {}", expression.replace('\n', " ")).expect("a string takes all");
        }
        out.push('\n');
    }
    writeln!(out, "rules {}", plan.attribute("rules").to_json()).expect("a string takes all");
    out
}

/// Runs a script, and returns its text with the actual answers in place of the expected ones.
fn run(script: &str) -> String {
    let session = Session::new();
    let mut out = String::new();
    let mut binds = Object::new();
    let mut lines = script.lines().peekable();
    while let Some(line) = lines.next() {
        writeln!(out, "{line}").expect("a string takes all");
        if let Some(json) = line.strip_prefix("@ ") {
            let value = parse(json.as_bytes()).unwrap_or_else(|e| panic!("{line}: {e}"));
            let given = value.as_object().expect("an object");
            binds = given.iter().map(|(name, v)| (name.clone(), session.bind(v))).collect();
            continue;
        }
        let found = ["> ", "stats> ", "count> ", "plan> "]
            .iter()
            .find_map(|p| Some((p, line.strip_prefix(p)?)));
        let Some((prefix, text)) = found else {
            if !line.is_empty() && !line.starts_with('#') {
                session.set_up(line).unwrap_or_else(|e| panic!("{line}: {e}"));
            }
            continue;
        };
        let mut text = text.to_owned();
        while let Some(more) = lines.next_if(|line| line.starts_with("| ")) {
            writeln!(out, "{more}").expect("a string takes all");
            text.push('\n');
            text.push_str(&more[2..]);
        }
        while lines.next_if(|line| !line.is_empty()).is_some() {}
        let kind = prefix.trim_end_matches("> ");
        let first = session.query(kind, &text, &binds);
        out.push_str(&first);
        binds = Object::new();
    }
    out
}

/// Returns the script files of a folder, sorted by name.
fn texts(folder: &str) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).expect(folder);
    let mut files: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "aql"));
    files.sort();
    files
}

#[test]
fn scripts_answer_as_they_say() {
    let mut files = texts(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/scripts"));
    if cfg!(feature = "conformance") {
        files.extend(texts(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/scripts/conformance")));
    }
    assert!(!files.is_empty());
    let mut wrong = Vec::new();
    for file in files {
        let script = std::fs::read_to_string(&file).expect("a script");
        let now = run(&script);
        if now == script {
            continue;
        }
        if std::env::var_os("UPDATE_GOLDENFILES").is_some() {
            std::fs::write(&file, &now).expect("a writable script");
            continue;
        }
        let place = now.lines().zip(script.lines()).position(|(a, b)| a != b);
        let at = place.unwrap_or_else(|| now.lines().count().min(script.lines().count()));
        wrong.push(format!(
            "{}:{}\n  is:        {:?}\n  should be: {:?}",
            file.display(),
            at + 1,
            now.lines().nth(at),
            script.lines().nth(at)
        ));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
