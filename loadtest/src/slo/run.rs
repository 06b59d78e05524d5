//! Runs scenarios: stores data, sends calls on a timetable while other clients write, and compares
//! the durations of the calls with the promised service level.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::corpus::Corpus;
use super::open_loop::{self, Outcome, Sender};
use super::report::{self, Finding, QUANTILES};
use super::scenario::{Kind, Scenario};
use super::server::Server;
use super::vectors::{Vectors, exact};
use crate::Fault;
use crate::agent::Agent;
use crate::meters::Samples;
use crate::options::SloOptions;
use crate::session::{Session, program};

/// Name of the agent that the test searches and writes to.
const AGENT: &str = "slo";
/// Size of the agent's window in tokens, large enough for any page of results.
const WINDOW: u64 = 1_000_000;
/// Number of entries in one `write_recall` call, and number of chunks in one `ingest_archival`
/// call. The number of chunks is lower because their vectors make the request body long.
const ENTRIES: u64 = 256;
const CHUNKS: u64 = 100;
/// Seeds for the generated data: stored rows, questions, and rows that writers add during the
/// measurement.
const STORED: u64 = 1;
const ASKED: u64 = 2;
const ADDED: u64 = 3;
/// Number of documents that writers to the archive replace, one after another.
const ADDED_DOCUMENTS: u64 = 8;
/// Number of questions for measuring the recall of searches, and maximum number of vector
/// components that are kept in main memory to compute the exact answers.
const QUESTIONS: u64 = 50;
const KEPT_COMPONENTS_MAX: u64 = 800_000_000;
/// Maximum time to wait until searches use the vector index.
const INDEX_WAIT: Duration = Duration::from_secs(900);
/// Pause between two checks of the vector index.
const INDEX_LOOK: Duration = Duration::from_millis(500);
/// Maximum pause that a scenario may set between storing the data and sending calls, in seconds.
const SETTLE_S_MAX: u64 = 600;
/// Number of progress lines that are printed while the data is stored.
const PROGRESS_LINES: u64 = 10;

/// One scenario with its server and its data.
struct ScenarioRun<'a> {
    scenario: &'a Scenario,
    options: &'a SloOptions,
    server: Server,
    texts: Arc<Corpus>,
    queries: Arc<Corpus>,
    vectors: Arc<Vectors>,
    questions: Arc<Vectors>,
    rows: u64,
}

/// Runs the scenarios and writes the report. Returns an error if a scenario does not meet the
/// promised service level.
pub(crate) fn run(options: &SloOptions) -> Result<(), Fault> {
    let session = Session::begin(&options.options.common)?;
    let mut findings = Vec::new();
    for (name, scenario) in Scenario::by_name(&options.scenario)? {
        let server = match &options.socket {
            Some(socket) => Server::running(socket),
            None => {
                let program = program(options.options.vctx.as_deref(), "vctx")?;
                Server::start(&program, &session.subfolder(&format!("slo-{}", findings.len()))?)?
            }
        };
        let run = ScenarioRun::prepare(&scenario, options, server)?;
        findings.extend(run.play(&name).map_err(|fault| {
            format!("{name}: {fault}\n--- end of the server's log ---\n{}", run.server.tail())
        })?);
        run.server.stop()?;
    }
    let head = session.head("Service levels under an open loop");
    let text = report::markdown(head, options, &findings);
    session.publish(&text, &text)?;
    let missed: Vec<&str> =
        findings.iter().filter(|f| f.judged && !f.met()).map(|f| f.title.as_str()).collect();
    match missed.is_empty() {
        true => Ok(()),
        false => Err(format!("not met: {}", missed.join("; ")).into()),
    }
}

impl<'a> ScenarioRun<'a> {
    fn prepare(
        scenario: &'a Scenario,
        options: &'a SloOptions,
        server: Server,
    ) -> Result<Self, Fault> {
        let corpus =
            |path: &Option<PathBuf>, made: Corpus| path.as_deref().map_or(Ok(made), Corpus::read);
        let dimension = scenario.dimension.max(1);
        let vectors = |path: &Option<PathBuf>, seed| {
            path.as_deref().map_or_else(|| Ok(Vectors::generate(seed, dimension)), Vectors::read)
        };
        let stored = vectors(&options.files.vectors, STORED)?;
        let asked = match (&options.files.query_vectors, &options.files.vectors) {
            // If a file of stored vectors is given, but no file of questions, the stored vectors
            // are also the questions.
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
            texts: Arc::new(corpus(&options.files.corpus, Corpus::texts(STORED))?),
            queries: Arc::new(corpus(&options.files.queries, Corpus::queries(ASKED))?),
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

    /// Returns the number of agents over which the stored rows are spread.
    fn agents(&self) -> u64 {
        self.scenario.agents.iter().copied().max().unwrap_or(1)
    }

    /// Stores all rows of the scenario in batches through the public API.
    fn seed(
        &self,
        batch: u64,
        store: impl Fn(&mut Agent, u64, u64) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let step = (self.rows / PROGRESS_LINES).max(1);
        let (mut from, mut lines, agents) = (0, 0, self.agents());
        for number in 0..agents {
            let mut agent = self.server.agent(&agent_name(number))?;
            let end = self.rows * (number + 1) / agents;
            while from < end {
                let to = (from + batch).min(end);
                store(&mut agent, from, to)?;
                if to / step > lines {
                    lines = to / step;
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

    /// Returns ingest arguments for a document. No model computed the document's vectors, so the
    /// argument `late_chunking` contains invented values.
    fn document(&self, doc_id: &str, seed: u64, from: u64, to: u64) -> Value {
        let vectors = match (&*self.vectors, seed) {
            (Vectors::Made { dimension, .. }, seed) => &Vectors::generate(seed, *dimension),
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

    /// Waits until searches use the vector index. Returns immediately if the archive is so small
    /// that the server searches it without an index.
    fn wait_for_index(&self) -> Result<(), Fault> {
        let mut agent = self.server.agent(AGENT)?;
        let until = Instant::now() + INDEX_WAIT;
        loop {
            let answer = agent.read("search_archival", &self.archival_query(0, None))?;
            let plan = answer["result"]["plan"].as_str().unwrap_or_default().to_owned();
            if plan == "vector" || self.rows <= 20_000 {
                eprintln!("searches of the archive use the plan `{plan}`");
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

    /// Returns the share of the exact nearest vectors that searches find; `None` if the vectors do
    /// not fit into main memory.
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
            // The token limit of a page may allow fewer results than requested. Therefore the
            // search is compared with only as many exact results as it found.
            let question = self.questions.get(number);
            for at in exact(&stored, &question, found.len()) {
                let (document, chunk) = (at / CHUNKS * CHUNKS, at % CHUNKS);
                let name = (format!("doc-{document}"), format!("{chunk:04}"));
                hits += usize::from(found.contains(&name));
            }
            asked += found.len();
        }
        Ok((asked > 0).then(|| hits as f64 / asked as f64))
    }

    /// Sends the calls of one timetable. Other clients write at the same time.
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
        // If the server was already running, its metrics socket may have another path, so missing
        // metrics are no error.
        let scrape = || {
            let samples = Samples::scrape(&self.server.socket);
            samples
                .inspect_err(|fault| eprintln!("the server's histograms cannot be read: {fault}"))
                .ok()
        };
        let before = scrape();
        let (outcome, writes) = thread::scope(|scope| {
            let writing = scope.spawn(|| self.writers());
            let outcome = open_loop::run(rate, self.options.options.common.time, senders);
            let writes = writing.join().map_err(|_| "a writer panicked")?;
            Ok::<_, Fault>((outcome?, writes?))
        })?;
        let (before, after) = (before.as_ref(), scrape());
        let histogram = self.scenario.kind.histogram();
        let server_s =
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
            server_ms: server_s.map(|seconds| seconds.map(|seconds| seconds * 1e3)),
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
                    check_results(&agent.read("search_recall", &query)?)
                })
            }
            Kind::Archival => {
                let (mut agent, questions) =
                    (self.server.agent(AGENT)?, Arc::clone(&self.questions));
                Box::new(move |number| {
                    let query = json!({"query_vector": questions.get(number), "limit": limit, "nProbe": n_probe});
                    check_results(&agent.read("search_archival", &query)?)
                })
            }
            Kind::CoreWrite => {
                // Each sender has a separate agent. A second writer to the same agent would change
                // the revision that the sender's next write names.
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

    /// Writes to the memory during the measurement, on a separate timetable. Returns `None` if the
    /// scenario has no writers.
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
        open_loop::run(rate, self.options.options.common.time, vec![write]).map(Some)
    }
}

/// Returns the name of an agent of the scenario.
fn agent_name(number: u64) -> String {
    match number {
        0 => AGENT.to_owned(),
        number => format!("{AGENT}-{number}"),
    }
}

fn text(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_default().to_owned()
}

/// Returns an error if the answer to a search has no result list.
fn check_results(answer: &Value) -> Result<(), Fault> {
    match answer["result"]["results"].is_array() {
        true => Ok(()),
        false => Err("a search without results".into()),
    }
}
