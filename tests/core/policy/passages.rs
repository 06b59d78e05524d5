//! Tests that pages of passages stay within their token limit and cause no eviction.

use serde_json::{Value, json};
use vctx_core::chunk;
use vctx_core::ids::SeededIds;
use vctx_core::limits::{BLOCKS_BYTES_MAX, PAGE_TOKENS_MAX};
use vctx_core::memory::archive::FoundPassage;
use vctx_core::memory::engineer::ContextSettings;
use vctx_core::memory::model_role::ModelRoles;
use vctx_core::memory::{Encoding, TokenCounter};
use vctx_core::policy::{
    Answers, Ctx, Step, SummarySettings, Surroundings, Unobserved, VectorsAnswer,
};
use vctx_core::search::{LookCounts, NearPlan, NearResult};
use vctx_core::text::{Tiktoken, lexical};
use vctx_core::tools::Tool;
use vctx_core::trust::TaintMode;
use vctx_core::window::tokens;

use crate::world::{FourBytes, World};

fn passage(doc_id: &str, chunk_id: &str, text: &str, provenance: &Value) -> FoundPassage {
    serde_json::from_value(json!({"key": "9f86d081884c7d659a2feaa0c55ad015", "doc_id": doc_id, "chunk_id": chunk_id, "text": text,
        "similarity": 0.123_456, "provenance": provenance, "chunk_links": {"previous": chunk_id, "next": chunk_id},
        "offset": {"start": 1_234_567, "end": 2_345_678}, "freshness_ts": "2026-01-02T03:04:05.678Z", "revision": "r"}))
    .unwrap()
}

fn whole_view(passage: &FoundPassage) -> chunk::View<'_> {
    chunk::View { passage, parts: chunk::Detail::Whole(None) }
}

#[test]
fn no_page_is_larger_than_it_may_be_whatever_a_passage_is_called() {
    let counter = Tiktoken::new(Encoding::O200kBase);
    let rare = "\u{1EFFB}".repeat(64);
    assert_eq!(rare.len(), 256, "as long as a doc_id may be");
    let dotted = "qXzK".repeat(32);
    let provenance = json!({"source": "\u{1EFFB}".repeat(12), "owner": "qXzK".repeat(12), "note": "n ".repeat(900)});
    for (doc_id, chunk_id) in [(rare.as_str(), dotted.as_str()), (&rare, "0000"), ("d", &dotted)] {
        for text in ["short", &"a word and another ".repeat(400), &"\u{13000}".repeat(900)] {
            let rows = [passage(doc_id, chunk_id, text, &provenance)];
            let views = [whole_view(&rows[0])];
            let pieces = chunk::pages(&counter, &views, PAGE_TOKENS_MAX);
            let mut whole = String::new();
            for piece in &pieces {
                let shown = chunk::part_value(&counter, &views[0], piece.start, piece.end);
                whole.push_str(shown["text"].as_str().unwrap());
                let cost = chunk::page_cost(&counter, std::slice::from_ref(&shown));
                assert!(cost <= PAGE_TOKENS_MAX, "{cost}: {shown}");
            }
            assert_eq!(whole, text);
        }
    }
}

/// A token counter that records how many bytes it was given to count.
struct Weighing(std::sync::atomic::AtomicUsize);

impl TokenCounter for Weighing {
    fn encoding(&self) -> Encoding {
        Encoding::O200kBase
    }

    fn count(&self, text: &str) -> u64 {
        self.0.fetch_add(text.len(), std::sync::atomic::Ordering::Relaxed);
        FourBytes.count(text)
    }
}

#[test]
fn cutting_large_passages_counts_each_of_their_bytes_a_few_times_only() {
    let text = "Die Gezeiten kommen zweimal am Tag. ".repeat(1800);
    let rows: Vec<FoundPassage> =
        (0..40).map(|_| passage("d", "0000", &text, &json!({"owner": "a"}))).collect();
    let counter = Weighing(Default::default());
    let views: Vec<chunk::View<'_>> = rows.iter().map(whole_view).collect();
    let pieces = chunk::pages(&counter, &views, PAGE_TOKENS_MAX);
    assert!(pieces.len() > 40 * 32);
    let (counted, given) = (counter.0.into_inner(), 40 * text.len());
    assert!(counted < 20 * given, "{} times", counted / given);
}

#[test]
fn a_page_that_is_spooled_never_pushes_anything_out() {
    let counter = Tiktoken::new(Encoding::O200kBase);
    let ids = SeededIds::new(1);
    let call = Tool::SearchArchival
        .decode(json!({"query_vector": [1.0, 0.0]}).as_object().cloned().unwrap())
        .unwrap();
    let setting = json!({"dimension": 2, "metric": "cosine", "embedding_version": "1", "model_id": "m", "defaultNProbe": 8, "created_at": ""});
    let vectors = VectorsAnswer {
        setting: Some(serde_json::from_value(setting).unwrap()),
        index_ready: false,
        exact_rows_max: 100,
        filters_first: false,
    };
    let rows = vec![passage("d", "0000", &"a word ".repeat(200), &json!({"owner": "ada"}))];
    let looked = LookCounts::default();
    let nearest = NearResult { plan: NearPlan::Exact, k: 10, rows: Some(rows), looked };
    let answers = Answers { vectors: Some(vectors), nearest: Some(nearest), ..Answers::default() };
    let mut spooled = 0;
    for taken in 0..225 {
        let mut world = World::new(1000, "Be kind.");
        world.core.queue.tokens = 600 + taken;
        world.core.queue.count = 1;
        let around = Surroundings {
            counter: &counter,
            unix_ms: 5_000,
            ids: &ids,
            scope: &world.scope,
            actor: &world.actor,
            tool: call.name(),
            embedder: &lexical::OWN,
            next_embedder: None,
            key_hash: "k",
            wording: None,
            told: None,
            asked: "",
            capture: None,
            taint: TaintMode::default(),
            summary: SummarySettings::default(),
            context: ContextSettings::default(),
            stages: &Unobserved,
            blocks_bytes_max: BLOCKS_BYTES_MAX,
            tokens_per_day: 0,
            roles: ModelRoles::default(),
        };
        match call.step(&Ctx { around, core: &world.core, answers: &answers }).unwrap() {
            Step::Write(change) => {
                spooled += usize::from(change.spooled());
                let now = tokens(&change.after);
                assert!(now.occupancy < change.after.token_budget.flush, "{now:?}");
            }
            other => panic!("{taken}: {other:?}"),
        }
    }
    assert!(spooled > 100, "{spooled}");
}
