//! Writes the files of a tiny BERT model with weights from a fixed seed.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

const HIDDEN: usize = 32;
const LAYERS: usize = 2;
const INNER: usize = 64;
/// Maximum number of tokens in one window of the model, so small that a document of forty tokens
/// needs four windows.
const PLACES: usize = 16;
const VOCABULARY: [&str; 29] = [
    "[PAD]", "[CLS]", "[SEP]", "[UNK]", "the", "boat", "sails", "to", "lisbon", "in", "march",
    "harbour", "master", "wants", "four", "##teen", "euros", ".", ",", "a", "cat", "sleeps", "on",
    "deck", "and", "tide", "turns", "at", "seven",
];
pub(crate) const SENTENCES: [&str; 5] = [
    "The boat sails to Lisbon in March.",
    "The harbour master wants fourteen euros.",
    "A cat sleeps on the deck.",
    "The tide turns at seven, and the boat sails.",
    "The cat wants the harbour.",
];
/// Knuth's linear congruential generator, which gives the model the same weights on every machine.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> f64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as f64 / f64::from(1 << 24) - 0.5
    }
}

/// Tensors in the safetensors file layout: length of the header, the header, and the numbers.
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
        // Truncation and padding settings as in published tokenizer files, which the embedder must
        // ignore.
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

/// Writes the tiny model into a directory; `changes` overrides fields of its configuration.
pub(crate) fn write(directory: &Path, changes: Value) -> PathBuf {
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
