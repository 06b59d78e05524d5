//! Reads and checks definitions of vector indexes. As in ArangoDB, a start option must enable
//! vector indexes.

use std::sync::Arc;

use crate::compat::Release;
use crate::error::{Error, Result};
use crate::limits::VECTOR_TIERS_MAX;
use crate::schema::{Index, IndexKind, Metric, Scaling, VectorParams};
use crate::value::{Object, Value};
use crate::vector::Factory;

use super::index_body::{bad, build, fields, flag, paths, stored_values, texts};
use super::reply::object;

/// Default values of a scaling `nLists` (3.12.10): factor, minimum, and fixed numbers of lists for
/// large collections.
const MULTIPLIER: u32 = 4;
const LISTS_MIN: u32 = 2;
const TIERS: [(u64, u32); 3] = [(1_000_000, 16_384), (10_000_000, 65_536), (300_000_000, 131_072)];
/// Number of training vectors per list in releases where it cannot be set.
const DOCUMENTS_PER_LIST_FIXED: u32 = 256;
/// The attributes that `params` can have; ArangoDB refuses all others.
const PARAMS: [&str; 7] = [
    "metric",
    "dimension",
    "nLists",
    "defaultNProbe",
    "trainingIterations",
    "numberOfDocsPerCentroid",
    "factory",
];

/// Reads the definition of a vector index. The start option is checked first, so that a client can
/// recognise the error for a missing start option.
pub(super) fn index(body: &Value, enabled: bool, release: Release) -> Result<Index> {
    if !enabled {
        let option = release.vector_option();
        let how = format!("Run ArangoDB with `{option}` flag turned on.");
        return Err(bad(format!("vector index feature is not enabled. {how}")));
    }
    let fields = fields(body, 1)?;
    if fields[0].contains("[*]") {
        return Err(bad("vector index cannot be created on an expanded attribute"));
    }
    if flag(body, "unique", false)? {
        return Err(bad("a vector index cannot be unique"));
    }
    let sparse = flag(body, "sparse", false)?;
    if sparse && !release.sparse_vectors() {
        return Err(bad("a vector index cannot be sparse before 3.12.6"));
    }
    // `parallelism` is checked but not stored, because the engine always trains with one thread.
    whole(body, "parallelism", Some(2))?;
    let (params, shown) = params(&body.attribute("params"), release)?;
    let mut definition = Object::new();
    definition.push_new("estimates", false.into());
    definition.push_new("fields", texts(&fields));
    definition.push_new("params", shown);
    if release.vector_stored_values()
        && let Some(stored) = stored_values(body)?
    {
        definition.push_new("storedValues", stored_paths(stored)?);
    }
    definition.push_new("type", "vector".into());
    let kind = IndexKind::Vector(params);
    build(body, kind, paths(&fields), false, sparse, Value::object(definition))
}

/// Reads `storedValues`, a list of paths without `[*]`.
fn stored_paths(stored: Value) -> Result<Value> {
    let paths = stored.as_array().unwrap_or_default();
    let wrong = |path: &Value| {
        path.as_str().is_none_or(|path| {
            path.split('.').any(|part| part.is_empty() || part.contains(['[', ']', '*']))
        })
    };
    if paths.iter().any(wrong) {
        return Err(bad("'storedValues' of a vector index must be attribute paths without [*]"));
    }
    Ok(stored)
}

/// Reads `params`; missing attributes get the defaults of the release.
fn params(given: &Value, release: Release) -> Result<(VectorParams, Value)> {
    let Some(object) = given.as_object() else {
        return Err(bad("vector index needs an object 'params'"));
    };
    let known = |name: &str| {
        PARAMS.contains(&name)
            && (release.documents_per_list() || name != "numberOfDocsPerCentroid")
    };
    if let Some((name, _)) = object.iter().find(|(name, _)| !known(name)) {
        return Err(bad(format!("found unexpected attribute '{name}' in 'params'")));
    }
    let (lists, scaling) = lists(&given.attribute("nLists"), release)?;
    let documents_per_list = match release.documents_per_list() {
        true => whole(given, "numberOfDocsPerCentroid", Some(100))?,
        false => DOCUMENTS_PER_LIST_FIXED,
    };
    let params = VectorParams {
        metric: metric(given, release)?,
        dimension: whole(given, "dimension", None)?,
        lists,
        scaling: scaling.map(Arc::new),
        factory: factory(given)?,
        default_probes: whole(given, "defaultNProbe", Some(1))?,
        training_rounds: whole(given, "trainingIterations", Some(25))?,
        documents_per_list,
    };
    let mut shown = Object::with_capacity(PARAMS.len());
    shown.push_new("metric", params.metric.name().into());
    shown.push_new("dimension", u64::from(params.dimension).into());
    shown.push_new("nLists", lists_shown(&params));
    if let Some(factory) = params.factory.as_deref() {
        shown.push_new("factory", factory.into());
    }
    shown.push_new("trainingIterations", u64::from(params.training_rounds).into());
    shown.push_new("defaultNProbe", u64::from(params.default_probes).into());
    if release.documents_per_list() {
        shown.push_new("numberOfDocsPerCentroid", u64::from(documents_per_list).into());
    }
    Ok((params, Value::object(shown)))
}

fn lists_shown(params: &VectorParams) -> Value {
    let Some(scaling) = &params.scaling else { return u64::from(params.lists).into() };
    let tiers = scaling.tiers.iter().map(|(threshold, lists)| {
        object! { "threshold" => *threshold, "fixedValue" => u64::from(*lists) }
    });
    object! {
        "strategy" => "autoSqrt",
        "multiplier" => u64::from(scaling.multiplier),
        "minNLists" => u64::from(params.lists),
        "tiers" => tiers.collect::<Vec<_>>(),
    }
}

/// Reads `nLists`, which is a number. In 3.12.10 it may also be missing or a scaling object, whose
/// `tiers` are optional.
fn lists(given: &Value, release: Release) -> Result<(u32, Option<Scaling>)> {
    let scaled = |multiplier, lists, tiers| (lists, Some(Scaling { multiplier, tiers }));
    match given {
        Value::Object(_) | Value::Null if !release.scaling_lists() => {
            Err(bad("'nLists' of a vector index must be a whole number from 1"))
        }
        Value::Null => Ok(scaled(MULTIPLIER, LISTS_MIN, TIERS.to_vec())),
        Value::Object(object) => {
            let known = ["strategy", "multiplier", "minNLists", "tiers"];
            if let Some((name, _)) = object.iter().find(|(name, _)| !known.contains(&&***name)) {
                return Err(bad(format!("found unexpected attribute '{name}' in 'nLists'")));
            }
            if given.text_of("strategy") != Some("autoSqrt") {
                return Err(bad("'nLists.strategy' must be autoSqrt"));
            }
            let multiplier = whole(given, "multiplier", None)?;
            let lists = whole(given, "minNLists", None)?;
            Ok(scaled(multiplier, lists, tiers(&given.attribute("tiers"))?))
        }
        _ => Ok((positive_number("nLists", given, None)?, None)),
    }
}

fn tiers(given: &Value) -> Result<Vec<(u64, u32)>> {
    let list = match given {
        Value::Null => return Ok(TIERS.to_vec()),
        Value::Array(list) if list.len() <= VECTOR_TIERS_MAX => list,
        _ => {
            return Err(bad(format!(
                "'nLists.tiers' must be a list of at most {VECTOR_TIERS_MAX}"
            )));
        }
    };
    let tier = |tier: &Value| {
        let threshold = match tier.attribute("threshold") {
            Value::Int(threshold) if threshold >= 1 => threshold.unsigned_abs(),
            _ => return Err(bad("'threshold' of a tier must be a whole number from 1")),
        };
        Ok((threshold, whole(tier, "fixedValue", None)?))
    };
    list.iter().map(tier).collect()
}

/// Reads `factory`. Accepts factories that describe the engine's only kind of index, and factories
/// with which every training fails; refuses the other factories of Faiss.
fn factory(given: &Value) -> Result<Option<Arc<str>>> {
    match given.attribute("factory") {
        Value::Null => Ok(None),
        Value::String(text) => match Factory::of(&text) {
            Factory::Beyond => {
                Err(Error::unsupported(format_args!("the vector index factory '{text}'")))
            }
            Factory::Flat(_) | Factory::NoInvertedFile => Ok(Some(Arc::from(&*text))),
        },
        _ => Err(bad("'factory' of a vector index must be a string")),
    }
}

fn metric(given: &Value, release: Release) -> Result<Metric> {
    let name = given.text_of("metric");
    let there = |metric: &Metric| *metric != Metric::InnerProduct || release.inner_product();
    let mut metrics = Metric::ALL.into_iter().filter(there);
    let known = metrics.find(|metric| Some(metric.name()) == name);
    known.ok_or_else(|| {
        bad("'metric' of a vector index must be cosine, l2 or innerProduct (from 3.12.6)")
    })
}

fn whole(given: &Value, name: &str, default: Option<u32>) -> Result<u32> {
    positive_number(name, &given.attribute(name), default)
}

fn positive_number(name: &str, given: &Value, default: Option<u32>) -> Result<u32> {
    let number = match (given, default) {
        (Value::Int(number), _) => u32::try_from(*number).ok(),
        (Value::Null, default) => default,
        _ => None,
    };
    let wrong = || bad(format!("'{name}' of a vector index must be a whole number from 1"));
    number.filter(|number| *number >= 1).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::parse;

    fn made(params: &str, release: &str) -> Result<Index> {
        let text = format!(r#"{{"fields":["v"],"params":{{"dimension":4,{params}}}}}"#);
        let release = release.parse().expect(release);
        index(&parse(text.as_bytes()).expect(&text), true, release)
    }

    #[test]
    fn each_release_takes_its_own_parameters() {
        // Each row has `params`, then the result in 3.12.5, .6, .9 and .10: `.` if accepted,
        // otherwise the error's number.
        let table = [
            (r#""metric":"l2","nLists":2"#, ". . . ."),
            (r#""metric":"cosine","nLists":2,"defaultNProbe":9,"trainingIterations":3"#, ". . . ."),
            (r#""metric":"innerProduct","nLists":2"#, "10 . . ."),
            (r#""metric":"l2""#, "10 10 10 ."),
            (r#""metric":"l2","nLists":null"#, "10 10 10 ."),
            (
                r#""metric":"l2","nLists":{"strategy":"autoSqrt","multiplier":4,"minNLists":2}"#,
                "10 10 10 .",
            ),
            (
                r#""metric":"l2","nLists":{"strategy":"autoSqrt","multiplier":4,"minNLists":2,"tiers":[]}"#,
                "10 10 10 .",
            ),
            (
                r#""metric":"l2","nLists":{"strategy":"autoSqrt","multiplier":4,"minNLists":2,"tiers":[{"threshold":5,"fixedValue":3}]}"#,
                "10 10 10 .",
            ),
            (
                r#""metric":"l2","nLists":{"strategy":"autoSqrt","multiplier":4,"minNLists":2,"tiers":[{"threshold":0,"fixedValue":3}]}"#,
                "10 10 10 10",
            ),
            (
                r#""metric":"l2","nLists":{"strategy":"autoSqrt","multiplier":0,"minNLists":2}"#,
                "10 10 10 10",
            ),
            (
                r#""metric":"l2","nLists":{"strategy":"autoSqrt","multiplier":4,"minNLists":0}"#,
                "10 10 10 10",
            ),
            (
                r#""metric":"l2","nLists":{"strategy":"log","multiplier":4,"minNLists":1}"#,
                "10 10 10 10",
            ),
            (r#""metric":"l2","nLists":{"multiplier":4,"minNLists":1}"#, "10 10 10 10"),
            (r#""metric":"l2","nLists":2,"numberOfDocsPerCentroid":7"#, "10 10 10 ."),
            (r#""metric":"l2","nLists":2,"numberOfDocsPerCentroid":0"#, "10 10 10 10"),
            (r#""metric":"l2","nLists":2,"lists":7"#, "10 10 10 10"),
            (r#""metric":"l2","nLists":2,"factory":"IVF2,Flat""#, ". . . ."),
            (r#""metric":"l2","nLists":2,"factory":"IVF{},Flat""#, ". . . ."),
            (r#""metric":"l2","nLists":2,"factory":"IVF9,Flat""#, ". . . ."),
            (r#""metric":"l2","nLists":2,"factory":"HNSW32""#, ". . . ."),
            (r#""metric":"l2","nLists":2,"factory":"IVF2,SQ8""#, "9 9 9 9"),
            (r#""metric":"l2","nLists":2,"factory":"IVF2_HNSW5,Flat""#, "9 9 9 9"),
            (r#""metric":"l2","nLists":2,"factory":2"#, "10 10 10 10"),
        ];
        for (params, expected) in table {
            let found = ["3.12.5", "3.12.6", "3.12.9", "3.12.10"].map(|release| {
                made(params, release).map_or_else(|e| e.code.num().to_string(), |_| ".".to_owned())
            });
            assert_eq!(found.join(" "), expected, "{params}");
        }
    }

    #[test]
    fn a_number_of_lists_that_is_not_given_scales() {
        let made = made(r#""metric":"l2""#, "3.12.10").expect("taken");
        let shown = made.definition.attribute("params");
        assert_eq!(
            shown.attribute("nLists").to_json(),
            r#"{"strategy":"autoSqrt","multiplier":4,"minNLists":2,"tiers":[{"threshold":1000000,"fixedValue":16384},{"threshold":10000000,"fixedValue":65536},{"threshold":300000000,"fixedValue":131072}]}"#
        );
        let IndexKind::Vector(params) = made.kind else { panic!("a vector index") };
        for (vectors, lists) in [
            (0, 2),
            (1, 4),
            (100, 40),
            (999_999, 3999),
            (1_000_000, 16_384),
            (20_000_000, 65_536),
            (u64::MAX, 131_072),
        ] {
            assert_eq!(params.lists_for(vectors), lists, "{vectors}");
        }
    }

    #[test]
    fn the_feature_is_checked_before_the_definition() {
        let good = r#"{"type":"vector","fields":["v"],"params":{"metric":"cosine","dimension":4,"nLists":2}}"#;
        let table = [
            (false, "{}", Some("`--vector-index`")),
            (false, good, Some("`--vector-index`")),
            (true, good, None),
            (true, r#"{"fields":["v"]}"#, Some("'params'")),
            (
                true,
                r#"{"fields":["v"],"params":{"metric":"cosine","dimension":0}}"#,
                Some("dimension"),
            ),
            (
                true,
                r#"{"fields":["v"],"params":{"metric":"manhattan","dimension":4}}"#,
                Some("metric"),
            ),
            (
                true,
                r#"{"fields":["v","w"],"params":{"metric":"l2","dimension":4}}"#,
                Some("fields"),
            ),
            (
                true,
                r#"{"fields":["v"],"params":{"metric":"l2","dimension":4,"nLists":0}}"#,
                Some("nLists"),
            ),
        ];
        for (enabled, text, expected) in table {
            let body = parse(text.as_bytes()).expect(text);
            match (index(&body, enabled, Release::LATEST), expected) {
                (Ok(made), None) => {
                    assert_eq!(
                        made.definition.attribute("params").text_of("metric"),
                        Some("cosine")
                    );
                }
                (Err(error), Some(word)) => {
                    assert_eq!((error.status(), error.code.num()), (400, 10), "{text}");
                    assert!(error.message.contains(word), "{text}: {}", error.message);
                }
                (outcome, _) => panic!("{text}: {outcome:?}"),
            }
        }
    }
}
