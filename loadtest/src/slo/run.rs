//! Runs scenarios: seeds through the public API, loads on a timetable with writers beside, judges against the promised level.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::corpus::Corpus;
use super::open_loop::{self, Outcome, Sender};
use super::report::{self, Finding, Origin, QUANTILES};
use super::scenario::{Kind, Scenario};
use super::server::{Agent, Server};
use super::vectors::{Vectors, exact};
use crate::Fault;
use crate::arguments::SloOptions;
use crate::machine;
use crate::meters::Samples;

/// The agent that is searched, and the one that writers write to in scenarios of core writes.
const AGENT: &str = "slo";
/// Its window in tokens: wide, so that a page of results never meets its end.
const WINDOW: u64 = 1_000_000;
/// Entries of one `write_recall`, and chunks of one `ingest_archival`: vectors make bodies long, and a body has its limit.
const ENTRIES: u64 = 256;
const CHUNKS: u64 = 100;
/// Seeds of what is stored, of questions, and of what writers add.
const STORED: u64 = 1;
const ASKED: u64 = 2;
const ADDED: u64 = 3;
/// Documents that the writers of the archive replace in turns.
const ADDED_DOCUMENTS: u64 = 8;
/// Vectors that the recall of a search is measured against; stored vectors kept in memory for it, in components.
const QUESTIONS: u64 = 50;
const KEPT_COMPONENTS_MAX: u64 = 800_000_000;
/// Longest wait until the vector index answers.
const INDEX_WAIT: Duration = Duration::from_secs(900);
/// Pause between two looks at it.
const INDEX_LOOK: Duration = Duration::from_millis(500);
/// Longest pause between seeding and load, in seconds.
const SETTLE_S_MAX: u64 = 600;
/// Lines of progress while seeding.
const PROGRESS_LINES: u64 = 10;

/// Everything one scenario needs.
struct Stage<'a> {
    scenario: &'a Scenario,
    options: &'a SloOptions,
    server: Server,
    texts: Arc<Corpus>,
    queries: Arc<Corpus>,
    vectors: Arc<Vectors>,
    questions: Arc<Vectors>,
    rows: u64,
}

/// Runs what the options name, prints the report and writes it where they say. An unmet level is a fault.
pub(crate) fn run(options: &SloOptions) -> Result<(), Fault> {
    let load_before = machine::load_average();
    let mut findings = Vec::new();
    let folder = match &options.dir {
        Some(dir) => tempfile::tempdir_in(dir)?,
        None => tempfile::tempdir()?,
    };
    for (name, scenario) in Scenario::named(&options.scenario)? {
        let at = folder.path().join(format!("{:?}", scenario.kind));
        fs::create_dir(&at)?;
        let server = match &options.socket {
            Some(socket) => Server::running(socket),
            None => Server::start(&program(options)?, &at)?,
        };
        let stage = Stage::prepare(&scenario, options, server)?;
        let outcome = stage.play(&name);
        match outcome {
            Ok(found) => findings.extend(found),
            Err(fault) => {
                return Err(format!(
                    "{name}: {fault}\n--- the server said last ---\n{}",
                    stage.server.tail()
                )
                .into());
            }
        }
        stage.server.stop()?;
    }
    let origin = Origin {
        commit: options.commit.clone().unwrap_or_else(machine::commit),
        disk: machine::file_system(folder.path()),
        embedded: options.socket.is_none(),
        load_before,
        external: options.external(),
    };
    let text = report::markdown(&origin, &findings);
    println!("{text}");
    if let Some(out) = &options.out {
        fs::write(out, &text).map_err(|e| format!("{}: {e}", out.display()))?;
    }
    let missed: Vec<&str> =
        findings.iter().filter(|f| f.judged && !f.met()).map(|f| f.title.as_str()).collect();
    match missed.is_empty() {
        true => Ok(()),
        false => Err(format!("not met: {}", missed.join("; ")).into()),
    }
}

fn program(options: &SloOptions) -> Result<PathBuf, Fault> {
    let path = match &options.vctx {
        Some(path) => path.clone(),
        None => std::env::current_exe()?.with_file_name("vctx"),
    };
    match path.is_file() {
        true => Ok(path.canonicalize()?),
        false => {
            Err(format!("{} is not there: `cargo build`, or give --vctx PROGRAM", path.display())
                .into())
        }
    }
}

impl<'a> Stage<'a> {
    fn prepare(
        scenario: &'a Scenario,
        options: &'a SloOptions,
        server: Server,
    ) -> Result<Self, Fault> {
        let corpus =
            |path: &Option<PathBuf>, made: Corpus| path.as_deref().map_or(Ok(made), Corpus::read);
        let dimension = scenario.dimension.max(1);
        let vectors = |path: &Option<PathBuf>, seed| {
            path.as_deref().map_or_else(|| Ok(Vectors::made(seed, dimension)), Vectors::read)
        };
        let stored = vectors(&options.vectors, STORED)?;
        let asked = match (&options.query_vectors, &options.vectors) {
            // Without questions of their own, read vectors are asked for themselves.
            (None, Some(path)) => Vectors::read(path)?,
            (path, _) => vectors(path, ASKED)?,
        };
        if stored.dimension() != asked.dimension() {
            return Err("stored vectors and questions have different dimensions".into());
        }
        let scaled = (scenario.rows as f64 * options.scale).ceil() as u64;
        let rows = match (scenario.kind, stored.count()) {
            (Kind::Archival, Some(count)) => scaled.min(count),
            _ => scaled,
        };
        Ok(Self {
            scenario,
            options,
            server,
            texts: Arc::new(corpus(&options.corpus, Corpus::texts(STORED))?),
            queries: Arc::new(corpus(&options.queries, Corpus::queries(ASKED))?),
            vectors: Arc::new(stored),
            questions: Arc::new(asked),
            rows,
        })
    }

    fn play(&self, name: &str) -> Result<Vec<Finding>, Fault> {
        let seeded = Instant::now();
        for number in 0..self.agents() {
            self.server.agent(&agent_name(number))?.create(WINDOW)?;
        }
        match self.scenario.kind {
            Kind::Recall => {
                self.seed(ENTRIES, |agent, from, to| self.write_recall(agent, from, to))?
            }
            Kind::Archival => {
                self.seed(CHUNKS, |agent, from, to| self.ingest(agent, from, to))?;
                self.wait_for_index()?;
            }
            Kind::CoreWrite => {}
        }
        let seeding = seeded.elapsed();
        thread::sleep(Duration::from_secs(self.scenario.settle_s.min(SETTLE_S_MAX)));
        let mut findings = Vec::new();
        match self.scenario.kind {
            Kind::Archival => {
                let most = self.scenario.n_probes.len();
                for (at, n_probe) in self.scenario.n_probes.iter().enumerate() {
                    let found = self.recall_of(*n_probe)?;
                    let title = format!("{name}, nProbe {n_probe}");
                    let mut finding = self.load(title, Some(*n_probe), 1, seeding)?;
                    finding.recall = found;
                    finding.judged = at + 1 == most;
                    findings.push(finding);
                }
            }
            Kind::Recall if !self.scenario.agents.is_empty() => {
                for agents in &self.scenario.agents {
                    let title = format!("{name}, {agents} agents");
                    findings.push(self.load(title, None, *agents, seeding)?);
                }
            }
            Kind::Recall | Kind::CoreWrite => {
                findings.push(self.load(name.to_owned(), None, 1, seeding)?);
            }
        }
        Ok(findings)
    }

    /// Agents that the rows are spread over.
    fn agents(&self) -> u64 {
        self.scenario.agents.iter().copied().max().unwrap_or(1)
    }

    /// Stores all rows in batches over the public API.
    fn seed(
        &self,
        batch: u64,
        store: impl Fn(&mut Agent, u64, u64) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let step = (self.rows / PROGRESS_LINES).max(1);
        let (mut from, mut told, agents) = (0, 0, self.agents());
        for number in 0..agents {
            let mut agent = self.server.agent(&agent_name(number))?;
            let end = self.rows * (number + 1) / agents;
            while from < end {
                let to = (from + batch).min(end);
                store(&mut agent, from, to)?;
                if to / step > told {
                    told = to / step;
                    eprintln!("seeded {to} of {}", self.rows);
                }
                from = to;
            }
        }
        Ok(())
    }

    fn write_recall(&self, agent: &mut Agent, from: u64, to: u64) -> Result<(), Fault> {
        let entries: Vec<Value> =
            (from..to).map(|n| json!({"content": self.texts.get(n), "role": "user"})).collect();
        agent.write("write_recall", &json!({"entries": entries}), "*").map(|_| ())
    }

    fn ingest(&self, agent: &mut Agent, from: u64, to: u64) -> Result<(), Fault> {
        let document = self.document(&format!("doc-{from}"), STORED, from, to);
        agent.write("ingest_archival", &document, "*").map(|_| ())
    }

    /// A document of made chunks. Its vectors are stand-ins for those of a model, and so is the evidence of how they were made.
    fn document(&self, doc_id: &str, seed: u64, from: u64, to: u64) -> Value {
        let vectors = match (&*self.vectors, seed) {
            (Vectors::Made { dimension, .. }, seed) => &Vectors::made(seed, *dimension),
            (read, _) => read,
        };
        let numbers = from..to;
        let chunks: Vec<String> = numbers.clone().map(|n| self.texts.get(n)).collect();
        let embeddings: Vec<Vec<f32>> = numbers.map(|n| vectors.get(n)).collect();
        let spans: Vec<Value> =
            (0..chunks.len()).map(|at| json!({"start": at * 32, "end": at * 32 + 32})).collect();
        json!({
            "doc_id": doc_id, "chunks": chunks, "embeddings": embeddings, "dimension": self.vectors.dimension(),
            "metric": "cosine", "embedding_version": "1", "model_id": "loadtest",
            "late_chunking": {"mode": "late", "pooling": "mean", "model": "loadtest",
                "document_tokens": spans.len() * 32, "spans": spans},
        })
    }

    /// Waits until the vector index answers; a collection that is searched exactly needs none.
    fn wait_for_index(&self) -> Result<(), Fault> {
        let mut agent = self.server.agent(AGENT)?;
        let until = Instant::now() + INDEX_WAIT;
        loop {
            let answer = agent.read("search_archival", &self.archival_query(0, None))?;
            let plan = answer["result"]["plan"].as_str().unwrap_or_default().to_owned();
            if plan == "vector" || self.rows <= 20_000 {
                eprintln!("archival is searched by the plan `{plan}`");
                return Ok(());
            }
            if Instant::now() > until {
                return Err(
                    format!("no vector index after {INDEX_WAIT:?}: the plan is `{plan}`").into()
                );
            }
            thread::sleep(INDEX_LOOK);
        }
    }

    fn archival_query(&self, number: u64, n_probe: Option<u32>) -> Value {
        let mut query =
            json!({"query_vector": self.questions.get(number), "limit": self.scenario.limit});
        if let Some(n_probe) = n_probe {
            query["nProbe"] = n_probe.into();
        }
        query
    }

    /// The share of the exact answer that the first page's results hold, over some questions; none when the vectors do not fit.
    fn recall_of(&self, n_probe: u32) -> Result<Option<f64>, Fault> {
        let components = self.rows * self.vectors.dimension() as u64;
        if components > KEPT_COMPONENTS_MAX {
            return Ok(None);
        }
        let stored: Vec<Vec<f32>> = (0..self.rows).map(|n| self.vectors.get(n)).collect();
        let mut agent = self.server.agent(AGENT)?;
        let (mut hits, mut asked) = (0, 0);
        for number in 0..QUESTIONS {
            let answer =
                agent.read("search_archival", &self.archival_query(number, Some(n_probe)))?;
            let found: Vec<(String, String)> = answer["result"]["results"]
                .as_array()
                .ok_or("a search without results")?
                .iter()
                .map(|r| (text(r, "doc_id"), text(r, "chunk_id")))
                .collect();
            // A page holds as many as fit into it; the exact answer is taken as long.
            let question = self.questions.get(number);
            for at in exact(&stored, &question, found.len()) {
                let (document, place) = (at as u64 / CHUNKS * CHUNKS, at as u64 % CHUNKS);
                let name = (format!("doc-{document}"), format!("{place:04}"));
                hits += usize::from(found.contains(&name));
            }
            asked += found.len();
        }
        Ok((asked > 0).then(|| hits as f64 / asked as f64))
    }

    /// One timetable with writers beside it.
    fn load(
        &self,
        title: String,
        n_probe: Option<u32>,
        agents: u64,
        seeding: Duration,
    ) -> Result<Finding, Fault> {
        let rate = self.options.rate.unwrap_or(self.scenario.rate_per_s);
        let senders = (0..self.scenario.senders)
            .map(|at| self.sender(at, n_probe, agents))
            .collect::<Result<Vec<Sender>, Fault>>()?;
        // A running server may keep its metrics elsewhere.
        let look = || {
            let samples = Samples::scrape(&self.server.socket);
            samples
                .inspect_err(|fault| eprintln!("the server's histograms are not read: {fault}"))
                .ok()
        };
        let before = look();
        let (outcome, writes) = thread::scope(|scope| {
            let writing = scope.spawn(|| self.writers());
            let outcome = open_loop::run(rate, self.options.time, senders);
            let writes = writing.join().map_err(|_| "a writer panicked")?;
            Ok::<_, Fault>((outcome?, writes?))
        })?;
        let (before, after) = (before.as_ref(), look());
        let histogram = self.scenario.kind.histogram();
        let told =
            QUANTILES.map(|quantile| after.as_ref()?.quantile_since(before?, histogram, quantile));
        Ok(Finding {
            title,
            level_ms: self.scenario.slo_p99_ms,
            rows: self.rows,
            full_rows: self.scenario.rows,
            seeding,
            resident_mib: self.server.resident_mib(),
            outcome,
            writes,
            histogram,
            told_ms: told.map(|seconds| seconds.map(|seconds| seconds * 1e3)),
            recall: None,
            judged: true,
        })
    }

    fn sender(&self, at: usize, n_probe: Option<u32>, agents: u64) -> Result<Sender, Fault> {
        let limit = self.scenario.limit;
        Ok(match self.scenario.kind {
            Kind::Recall => {
                let name = agent_name(at as u64 % agents);
                let (mut agent, queries) = (self.server.agent(&name)?, Arc::clone(&self.queries));
                Box::new(move |number| {
                    let query =
                        json!({"query": queries.get(number), "limit": limit, "rehydrate": false});
                    found(&agent.read("search_recall", &query)?)
                })
            }
            Kind::Archival => {
                let (mut agent, questions) =
                    (self.server.agent(AGENT)?, Arc::clone(&self.questions));
                Box::new(move |number| {
                    let query = json!({"query_vector": questions.get(number), "limit": limit, "nProbe": n_probe});
                    found(&agent.read("search_archival", &query)?)
                })
            }
            Kind::CoreWrite => {
                // Each sender has an agent of its own: one revision has one writer.
                let mut agent = self.server.agent(&format!("{AGENT}-core-{at}"))?;
                agent.create(WINDOW)?;
                let mut rev = agent.revision()?;
                let texts = Arc::clone(&self.texts);
                Box::new(move |number| {
                    let block = json!({"block_id": "human", "content": texts.get(number)});
                    let answer = agent.write("store_core", &block, &rev)?;
                    answer["_rev"].as_str().ok_or("an answer without _rev")?.clone_into(&mut rev);
                    Ok(())
                })
            }
        })
    }

    /// Writes to the memory that is searched, on a timetable of its own as long as the load's.
    fn writers(&self) -> Result<Option<Outcome>, Fault> {
        let rate = self.scenario.writers_per_s;
        if rate <= 0.0 {
            return Ok(None);
        }
        let mut agent = self.server.agent(AGENT)?;
        let write: Sender = match self.scenario.kind {
            Kind::Archival => {
                let documents: Vec<Value> = (0..ADDED_DOCUMENTS)
                    .map(|n| self.document(&format!("added-{n}"), ADDED, n * 16, n * 16 + 16))
                    .collect();
                Box::new(move |number| {
                    let document = &documents[(number % ADDED_DOCUMENTS) as usize];
                    agent.write("ingest_archival", document, "*").map(|_| ())
                })
            }
            Kind::Recall | Kind::CoreWrite => {
                let texts = Corpus::texts(ADDED);
                Box::new(move |number| {
                    let entry =
                        json!({"entries": [{"content": texts.get(number), "role": "user"}]});
                    agent.write("write_recall", &entry, "*").map(|_| ())
                })
            }
        };
        open_loop::run(rate, self.options.time, vec![write]).map(Some)
    }
}

/// The name of one of the agents that are searched.
fn agent_name(number: u64) -> String {
    match number {
        0 => AGENT.to_owned(),
        number => format!("{AGENT}-{number}"),
    }
}

fn text(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_default().to_owned()
}

/// A search must answer with a list.
fn found(answer: &Value) -> Result<(), Fault> {
    match answer["result"]["results"].is_array() {
        true => Ok(()),
        false => Err("a search without results".into()),
    }
}
