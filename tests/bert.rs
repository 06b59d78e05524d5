//! The local embedder: a tiny BERT made here, against numbers of an independent forward pass; and all-MiniLM-L6-v2 where a path to it is given.
#![cfg(feature = "local-embedder")]

use std::fs;
use std::io::{Read as _, Write as _};
use std::ops::Range;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use vctx::models::{EmbedderKind, EmbedderSettings, Embedders, Kind};

const HIDDEN: usize = 32;
const LAYERS: usize = 2;
const INNER: usize = 64;
/// So few places that a document of forty tokens takes four windows.
const PLACES: usize = 16;
const VOCABULARY: [&str; 29] = [
    "[PAD]", "[CLS]", "[SEP]", "[UNK]", "the", "boat", "sails", "to", "lisbon", "in", "march",
    "harbour", "master", "wants", "four", "##teen", "euros", ".", ",", "a", "cat", "sleeps", "on",
    "deck", "and", "tide", "turns", "at", "seven",
];
const SENTENCES: [&str; 5] = [
    "The boat sails to Lisbon in March.",
    "The harbour master wants fourteen euros.",
    "A cat sleeps on the deck.",
    "The tide turns at seven, and the boat sails.",
    "The cat wants the harbour.",
];
/// First components of the sentences' vectors within their document: each token's state is the mean over the windows it is in.
const SPANS: [[f32; 6]; 5] = [
    [0.040319, 0.209837, -0.112047, 0.034160, -0.332297, 0.262655],
    [-0.212502, 0.162880, -0.075823, -0.024828, -0.231884, 0.340566],
    [-0.086043, 0.268752, 0.065197, 0.013013, -0.140610, 0.218905],
    [0.048145, 0.183425, 0.090907, 0.113781, -0.220911, 0.234458],
    [-0.090720, 0.175780, -0.064302, -0.023865, -0.312948, 0.184050],
];

/// Knuth's linear congruential generator: the same weights wherever they are made.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> f64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as f64 / f64::from(1 << 24) - 0.5
    }
}

/// Tensors in the layout of safetensors: length of the header, header, numbers.
#[derive(Default)]
struct Tensors {
    header: serde_json::Map<String, Value>,
    data: Vec<u8>,
}

impl Tensors {
    fn put(&mut self, chance: &mut Chance, name: &str, shape: &[usize], scale: f64, base: f64) {
        let start = self.data.len();
        for _ in 0..shape.iter().product() {
            let number = (base + scale * chance.next()) as f32;
            self.data.extend(number.to_le_bytes());
        }
        let place =
            json!({"dtype": "F32", "shape": shape, "data_offsets": [start, self.data.len()]});
        self.header.insert(name.into(), place);
    }

    fn bytes(&self) -> Vec<u8> {
        let mut header = Value::Object(self.header.clone()).to_string().into_bytes();
        header.resize(header.len().next_multiple_of(8), b' ');
        let length = header.len() as u64;
        [&length.to_le_bytes()[..], &header, &self.data].concat()
    }
}

fn weights() -> Tensors {
    let (mut tensors, mut chance) = (Tensors::default(), Chance(7));
    let mut put = |name: &str, shape: &[usize], scale, base| {
        tensors.put(&mut chance, name, shape, scale, base)
    };
    put("embeddings.word_embeddings.weight", &[VOCABULARY.len(), HIDDEN], 1.0, 0.0);
    put("embeddings.position_embeddings.weight", &[PLACES, HIDDEN], 0.5, 0.0);
    put("embeddings.token_type_embeddings.weight", &[2, HIDDEN], 0.2, 0.0);
    put("embeddings.LayerNorm.weight", &[HIDDEN], 0.2, 1.0);
    put("embeddings.LayerNorm.bias", &[HIDDEN], 0.2, 0.0);
    for layer in 0..LAYERS {
        let mut linear = |name: &str, shape: [usize; 2]| {
            let name = format!("encoder.layer.{layer}.{name}");
            put(&format!("{name}.weight"), &shape, 0.5, 0.0);
            put(&format!("{name}.bias"), &shape[..1], 0.1, 0.0);
            if !name.contains("self") && !name.contains("intermediate") {
                let norm = name.replace("dense", "LayerNorm");
                put(&format!("{norm}.weight"), &[HIDDEN], 0.2, 1.0);
                put(&format!("{norm}.bias"), &[HIDDEN], 0.2, 0.0);
            }
        };
        for part in ["query", "key", "value"] {
            linear(&format!("attention.self.{part}"), [HIDDEN, HIDDEN]);
        }
        linear("attention.output.dense", [HIDDEN, HIDDEN]);
        linear("intermediate.dense", [INNER, HIDDEN]);
        linear("output.dense", [HIDDEN, INNER]);
    }
    tensors
}

fn tokenizer() -> Value {
    let special = |id: usize| {
        json!({"id": id, "content": VOCABULARY[id], "single_word": false, "lstrip": false,
        "rstrip": false, "normalized": false, "special": true})
    };
    let mark = |id: &str| json!({"SpecialToken": {"id": id, "type_id": 0}});
    let text = json!({"Sequence": {"id": "A", "type_id": 0}});
    let known = |id: usize| json!({"id": VOCABULARY[id], "ids": [id], "tokens": [VOCABULARY[id]]});
    let vocabulary: serde_json::Map<String, Value> =
        VOCABULARY.iter().enumerate().map(|(id, word)| ((*word).to_owned(), json!(id))).collect();
    json!({
        "version": "1.0",
        // What a published tokenizer file may say; it must not hold here.
        "truncation": {"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0},
        "padding": {"strategy": {"Fixed": 16}, "direction": "Right", "pad_to_multiple_of": null, "pad_id": 0,
            "pad_type_id": 0, "pad_token": "[PAD]"},
        "added_tokens": [special(0), special(1), special(2), special(3)],
        "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null, "lowercase": true},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "TemplateProcessing", "single": [mark("[CLS]"), text, mark("[SEP]")], "pair": [mark("[CLS]"), text, mark("[SEP]")],
            "special_tokens": {"[CLS]": known(1), "[SEP]": known(2)}},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100, "vocab": vocabulary},
    })
}

fn config() -> Value {
    json!({"model_type": "bert", "vocab_size": VOCABULARY.len(), "hidden_size": HIDDEN, "num_hidden_layers": LAYERS,
        "num_attention_heads": 4, "intermediate_size": INNER, "hidden_act": "gelu", "hidden_dropout_prob": 0.1,
        "max_position_embeddings": PLACES, "type_vocab_size": 2, "initializer_range": 0.02, "layer_norm_eps": 1e-12, "pad_token_id": 0})
}

/// Writes the tiny model into a directory, with some fields of its configuration changed.
fn write(directory: &Path, changes: Value) -> PathBuf {
    let mut config = config();
    for (name, value) in changes.as_object().unwrap() {
        config[name] = value.clone();
    }
    let model = directory.join("tiny");
    fs::create_dir_all(&model).unwrap();
    fs::write(model.join("config.json"), config.to_string()).unwrap();
    fs::write(model.join("tokenizer.json"), tokenizer().to_string()).unwrap();
    fs::write(model.join("model.safetensors"), weights().bytes()).unwrap();
    model
}

fn settings(model_dir: &Path) -> EmbedderSettings {
    EmbedderSettings {
        kind: EmbedderKind::Local,
        model: String::new(),
        version: String::new(),
        dimension: 1,
        socket: PathBuf::new(),
        tcp: String::new(),
        path: String::new(),
        timeout_ms: 60_000,
        model_dir: model_dir.to_owned(),
        next: None,
    }
}

fn near(made: &[f32], wanted: &[f32], bound: f32) {
    let length: f32 = made.iter().map(|c| c * c).sum();
    assert!((length - 1.0).abs() < 1e-4, "{length}");
    for (made, wanted) in made.iter().zip(wanted) {
        assert!((made - wanted).abs() < bound, "{made} {wanted}");
    }
}

async fn one(embedders: &Embedders, text: &str) -> Vec<f32> {
    embedders.configured().embed(&[text.to_owned()], Kind::Passage).await.unwrap().remove(0)
}

#[tokio::test]
async fn vectors_are_those_of_an_independent_forward_pass() {
    let directory = tempfile::tempdir().unwrap();
    let embedders = settings(&write(directory.path(), json!({}))).open(None).unwrap();
    let fingerprint = embedders.fingerprint();
    assert_eq!((fingerprint.model_id.as_str(), fingerprint.dimension), ("tiny", 32));
    let sentence = one(&embedders, "The boat sails to Lisbon.").await;
    near(&sentence, &[0.026789, 0.231912, -0.137952, -0.000622, -0.288974, 0.221771], 1e-5);
    near(
        &one(&embedders, "").await,
        &[-0.217562, 0.225804, -0.349433, -0.061473, -0.174508, -0.020896],
        1e-5,
    );
    // A batch of different lengths gives the vectors of its texts alone, in their order.
    let texts =
        ["", "A cat sleeps on the deck.", "the", "The boat sails to Lisbon."].map(str::to_owned);
    let batch = embedders.configured().embed(&texts, Kind::Query).await.unwrap();
    for (text, made) in texts.iter().zip(&batch) {
        near(made, &one(&embedders, text).await, 1e-5);
    }
}

#[tokio::test]
async fn spans_are_pooled_from_windows_that_overlap() {
    let directory = tempfile::tempdir().unwrap();
    let embedders = settings(&write(directory.path(), json!({}))).open(None).unwrap();
    let document = SENTENCES.join(" ");
    let mut spans: Vec<Range<usize>> = Vec::new();
    for sentence in SENTENCES {
        let start = spans.last().map_or(0, |span| span.end + 1);
        spans.push(start..start + sentence.len());
    }
    let made = embedders.configured().embed_spans(&document, &spans).await.unwrap();
    for (made, wanted) in made.iter().zip(&SPANS) {
        near(made, wanted, 1e-5);
    }
    // Late: the same words alone, or in another document, have another vector.
    let alone = one(&embedders, SENTENCES[4]).await;
    assert!(made[4].iter().zip(&alone).any(|(a, b)| (a - b).abs() > 1e-3));
    // A text of several windows is not cut: its end counts.
    let long = one(&embedders, &document).await;
    let other = one(&embedders, &document.replace("the harbour.", "the euros.")).await;
    assert!(long.iter().zip(&other).any(|(a, b)| (a - b).abs() > 1e-3));
    // White space has no token of its own and takes its neighbour's.
    let odd = embedders.configured().embed_spans(&document, &[6..6, 8..9]).await.unwrap();
    assert!(odd.iter().flatten().all(|c| c.is_finite()));
    assert_eq!(
        embedders
            .configured()
            .embed_spans("  \n", std::slice::from_ref(&(0..3)))
            .await
            .unwrap()
            .len(),
        1
    );
}

#[tokio::test]
async fn other_weights_are_another_fingerprint_and_what_is_no_bert_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let model = write(directory.path(), json!({}));
    let first = settings(&model).open(None).unwrap().fingerprint().clone();
    let mut bytes = fs::read(model.join("model.safetensors")).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(model.join("model.safetensors"), bytes).unwrap();
    let named = EmbedderSettings { model: "tiny".into(), ..settings(&model) };
    let second = named.open(None).unwrap().fingerprint().clone();
    assert_eq!(first.model_id, second.model_id);
    assert_ne!(first.embedding_version, second.embedding_version);

    for (changes, why) in [
        (json!({"model_type": "roberta"}), "not bert"),
        (json!({"model_type": null}), "not bert"),
        (json!({"hidden_size": 64}), "model.safetensors"),
        (json!({"max_position_embeddings": 2}), "no room"),
        (json!({"vocab_size": "many"}), "config.json"),
    ] {
        let error = settings(&write(directory.path(), changes)).open(None).err().unwrap();
        assert!(error.message.contains(why), "{why}: {error}");
    }
    let model = write(directory.path(), json!({}));
    fs::create_dir(model.join("1_Pooling")).unwrap();
    fs::write(model.join("1_Pooling/config.json"), r#"{"pooling_mode_mean_tokens": false}"#)
        .unwrap();
    assert!(settings(&model).open(None).err().unwrap().message.contains("pooled otherwise"));
    fs::remove_file(model.join("tokenizer.json")).unwrap();
    assert!(settings(&model).open(None).is_err());
}

#[tokio::test]
async fn a_question_overtakes_a_long_document() {
    let directory = tempfile::tempdir().unwrap();
    let embedders = settings(&write(directory.path(), json!({}))).open(None).unwrap();
    let document = SENTENCES.join(" ").repeat(2_000);
    let long = tokio::spawn({
        let embedders = embedders.clone();
        async move {
            embedders
                .configured()
                .embed_spans(&document, std::slice::from_ref(&(0..document.len())))
                .await
        }
    });
    tokio::task::yield_now().await;
    let question = embedders.configured().embed(&["the tide".into()], Kind::Query).await;
    assert!(question.is_ok());
    assert!(!long.is_finished(), "the question waited for the document");
    assert!(long.await.unwrap().is_ok());
}

/// Looks for a server that starts, or for vectors that are on their way, and the pause between two.
const LOOKS_MAX: usize = 1_200;
const LOOK: Duration = Duration::from_millis(50);
/// Every request has a key of its own.
static KEYS: AtomicUsize = AtomicUsize::new(0);

/// The program itself with this model, in a directory of its own; it ends with this value.
struct Server {
    process: Child,
    socket: PathBuf,
}

impl Server {
    fn start(directory: &Path, model: &Path) -> Server {
        let socket = directory.join("s");
        let process = Command::new(env!("CARGO_BIN_EXE_vctx"))
            .args(["serve", "--socket"])
            .arg(&socket)
            .arg("--data-dir")
            .arg(directory.join("data"))
            .env("VCTX_EMBEDDER__KIND", "local")
            .env("VCTX_EMBEDDER__MODEL_DIR", model)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let server = Server { process, socket };
        for _ in 0..LOOKS_MAX {
            if server.ask("GET", "/readyz", &Value::Null).is_some_and(|(status, _)| status == 200) {
                return server;
            }
            std::thread::sleep(LOOK);
        }
        panic!("the server is never ready");
    }

    /// Status and body of an answer; none while nobody listens.
    fn ask(&self, method: &str, path: &str, body: &Value) -> Option<(u16, Value)> {
        let mut stream = UnixStream::connect(&self.socket).ok()?;
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let key = KEYS.fetch_add(1, Ordering::Relaxed);
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\nif-match: *\r\nidempotency-key: k{key}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(head.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        Some((head.split(' ').nth(1)?.parse().ok()?, serde_json::from_str(body).ok()?))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // One that ended by itself is as good as killed.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

#[test]
fn a_server_with_a_model_in_it_finds_what_was_said_and_what_was_taken_in() {
    let directory = tempfile::Builder::new().prefix("b").tempdir().unwrap();
    let server = Server::start(directory.path(), &write(directory.path(), json!({})));
    let agent = "/v1/agents/ada";
    let done = |method: &str, path: &str, body: Value| {
        let (status, answer) = server.ask(method, &format!("{agent}{path}"), &body).unwrap();
        assert!(status < 300, "{path}: {answer}");
        answer
    };
    done("PUT", "", json!({"context_window": 4096, "system": "Be kind."}));
    let entries: Vec<Value> = SENTENCES.iter().map(|text| json!({"content": text})).collect();
    done("POST", "/tools/write_recall", json!({"entries": entries}));
    let asked = json!({"query": SENTENCES[2], "mode": "vector", "similarity_min": 0, "limit": 5, "rehydrate": false});
    let mut found = Value::Null;
    for _ in 0..LOOKS_MAX {
        found = done("POST", "/tools/search_recall", asked.clone())["result"].clone();
        if found["results"].as_array().unwrap().len() == SENTENCES.len() {
            break;
        }
        std::thread::sleep(LOOK);
    }
    assert_eq!(found["results"].as_array().unwrap().len(), SENTENCES.len(), "{found}");
    assert_eq!(found["results"][0]["content"], SENTENCES[2], "{found}");
    done("POST", "/tools/ingest_archival", json!({"doc_id": "log", "chunks": SENTENCES}));
    let asked = json!({"query_text": SENTENCES[1], "mode": "vector", "limit": 5});
    let found = done("POST", "/tools/search_archival", asked)["result"].clone();
    assert_eq!(found["results"].as_array().unwrap().len(), SENTENCES.len(), "{found}");
    assert_eq!(found["results"][0]["text"], SENTENCES[1], "{found}");
}

/// Directory of all-MiniLM-L6-v2 (the files of its publication), for those who have it.
const MINILM: &str = "VCTX_TEST_MINILM";

#[tokio::test]
async fn minilm_is_met_where_it_is() {
    let Some(directory) = std::env::var_os(MINILM) else {
        eprintln!("{MINILM} is not set: nothing was compared with all-MiniLM-L6-v2");
        return;
    };
    let embedders = settings(Path::new(&directory)).open(None).unwrap();
    for (text, wanted) in [
        (
            "Where does Ada rent a flat?",
            [0.017015, -0.054956, -0.042746, 0.081840, -0.025886, 0.023316],
        ),
        (
            "Ada moved to Lisbon in March and rents a flat near the river.",
            [0.040610, -0.048197, -0.003492, 0.047987, -0.005610, 0.028450],
        ),
        (
            "Naïve café 🦀 — überall 1999.",
            [-0.034499, 0.020500, 0.028053, 0.014707, -0.008487, 0.037268],
        ),
        ("", [-0.118838, 0.048299, -0.002548, -0.011011, 0.051951, 0.010292]),
    ] {
        near(&one(&embedders, text).await, &wanted, 2e-6);
    }
    let texts: Vec<String> =
        (0..64).map(|n| format!("{} and number {n}", SENTENCES[n % 5])).collect();
    let begun = vctx::clock::now();
    embedders.configured().embed(&texts, Kind::Passage).await.unwrap();
    eprintln!("64 short texts in {:?}", begun.elapsed());
    let begun = vctx::clock::now();
    for n in 0..10 {
        embedders
            .configured()
            .embed(&[format!("Where does number {n} rent?")], Kind::Query)
            .await
            .unwrap();
    }
    eprintln!("a question in {:?}", begun.elapsed() / 10);
}
