//! Tells what a context shows and what it leaves out, for the answer of a build and for the context
//! pack.

use jiff::tz::TimeZone;
use serde_json::{Value, json};

use crate::context::{BuildVerdict, Candidate, Grade, Pack, PackItem};
use crate::memory::core::Core;
use crate::memory::local_time::zone_of;
use crate::memory::message::Message;
use crate::memory::pack::{Fate, LeftOut, Origin, PackContent, ShownItem};
use crate::memory::page::plain;
use crate::memory::tokens::TokenCounter;
use crate::policy::Ctx;
use crate::trust::TaintReport;

/// Number of candidates that were left out that an answer with `explain` names.
const LEFT_OUT_MAX: usize = 40;
/// Steps into which a grade is rounded in an answer.
const GRADE_UNITS: f64 = 100_000.0;

/// Returns the content of the context's pack.
pub(super) fn content_of(
    candidates: &[Candidate],
    packed: &Pack,
    question_seq: Option<u64>,
    best: &dyn Fn(usize) -> Grade,
) -> PackContent {
    let item = |item: &PackItem| ShownItem {
        origin: item.origin.clone(),
        spans: item.spans.clone(),
        part: item.part,
        grade: rounded(best(item.candidate).grade),
        tokens: item.tokens,
    };
    PackContent {
        question_seq,
        tokens: packed.tokens,
        pieces: packed.pieces.clone(),
        items: packed.items().map(item).collect(),
        left_out: left_out(candidates, packed, best),
    }
}

/// Returns the sections of a context with their items. `explain` adds the parts of each grade.
pub(super) fn sections(
    packed: &Pack,
    items: &[ShownItem],
    explain: Option<&dyn Fn(usize) -> Grade>,
) -> Value {
    let (memory, documents) = items.split_at(packed.memory.len());
    let of = |name: &str, texts: &[PackItem], items: &[ShownItem]| {
        let item = |(text, item): (&PackItem, &ShownItem)| {
            let mut told = json!(item);
            told["text"] = text.text.as_str().into();
            if text.is_lasting {
                told["lasting"] = true.into();
            }
            if let Some(best) = explain {
                told["grade_parts"] = parts_of(&best(text.candidate));
            }
            told
        };
        let tokens: u64 = items.iter().map(|item| item.tokens).sum();
        let items: Vec<Value> = texts.iter().zip(items).map(item).collect();
        json!({"name": name, "tokens": tokens, "items": items})
    };
    let all = [("memory", &packed.memory, memory), ("documents", &packed.documents, documents)];
    let filled = all.into_iter().filter(|(_, _, items)| !items.is_empty());
    filled.map(|(name, texts, items)| of(name, texts, items)).collect()
}

/// Returns the parts of a grade.
fn parts_of(grade: &Grade) -> Value {
    let mut told = json!(grade);
    if let Value::Object(parts) = &mut told {
        parts.remove("grade");
        for part in parts.values_mut() {
            if let Some(number) = part.as_f64() {
                *part = rounded(number);
            }
        }
    }
    told
}

/// Returns the share of the given documents' tokens that the context has; without documents, the
/// share of the shown texts' tokens.
pub(super) fn ratio(
    candidates: &[Candidate],
    packed: &Pack,
    counter: &dyn TokenCounter,
) -> Option<(String, Value)> {
    let is_given = |one: &Candidate| matches!(one.origin, Origin::Document { .. });
    let any_given = candidates.iter().any(is_given);
    let counted = |at: usize| match any_given {
        true => is_given(&candidates[at]),
        false => packed.fates[at] == Fate::Shown,
    };
    let items = packed.items().filter(|item| counted(item.candidate));
    let kept: u64 = items.map(|item| item.tokens).sum();
    let whole = (0..candidates.len()).filter(|at| counted(*at));
    let whole: u64 = whole.map(|at| counter.count(&candidates[at].text)).sum();
    (whole > 0).then(|| ("compression_ratio".to_owned(), rounded(kept as f64 / whole as f64)))
}

/// Lists the candidates that the context does not show, best first, without their texts.
fn left_out(
    candidates: &[Candidate],
    packed: &Pack,
    best: &dyn Fn(usize) -> Grade,
) -> Vec<LeftOut> {
    let hidden = |at: &usize| packed.fates[*at] != Fate::Shown;
    let mut order: Vec<usize> = (0..candidates.len()).filter(hidden).collect();
    order.sort_by(|a, b| best(*b).grade.total_cmp(&best(*a).grade));
    let one = |at: usize| LeftOut {
        origin: candidates[at].origin.clone(),
        reason: packed.fates[at],
        grade: rounded(best(at).grade),
    };
    order.into_iter().take(LEFT_OUT_MAX).map(one).collect()
}

/// Returns the verdict on a build as an answer has it.
pub(super) fn verdict_told(verdict: BuildVerdict) -> Value {
    json!({"grade": verdict.grade, "number": rounded(verdict.number)})
}

/// Returns a grade or a share as an answer has it.
pub(super) fn rounded(value: f64) -> Value {
    plain((value * GRADE_UNITS).round() / GRADE_UNITS)
}

/// Returns why a message must not be shown where nothing fences its text, if it must not.
pub(super) fn barred(ctx: &Ctx<'_>, message: &Message) -> Option<Fate> {
    let TaintReport { rules, held } = ctx.around.taint.untrusted(ctx.core, message);
    let is_tainted = (!rules.is_empty()).then_some(Fate::Tainted);
    held.map(|_| Fate::Quarantined).or(is_tainted)
}

/// Returns the zone of the days in a context.
pub(super) fn zone(core: &Core) -> TimeZone {
    let clock = core.window_clock.as_ref();
    clock.and_then(|clock| zone_of(&clock.zone)).unwrap_or(TimeZone::UTC)
}
