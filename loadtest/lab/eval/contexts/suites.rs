//! The suites of contexts: which of them run, on which data.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::ValueEnum;

use super::arms::Arms;
use super::figures::{Figures, report_of};
use super::ranked::{self, RankedSuite};
use super::{conversations, documents, evidence, fusion, grades, harm, keys, month};
use crate::eval::corpus;
use crate::eval::host::Host;
use crate::eval::progress;
use crate::eval::recall::StoredTalk;
use crate::eval::report::Report;
use vctx_base::clock;
use vctx_cli::exit::Failure;

/// Window of an agent that only builds contexts.
pub(super) const WINDOW: u64 = 131_072;

/// A suite of questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(in crate::eval) enum Suite {
    /// Paragraphs: the answer in 42 and 31 % of the tokens
    Xquad,
    /// Meetings: the relevant turns in 1024 to 4096 tokens
    Qmsum,
    /// Conversations: the answer in 256 and 512 tokens
    BfclMemory,
    /// Documents with noise: the better grade
    Ramdocs,
    /// Two paragraphs that answer together
    Hotpotqa,
    /// Two to four paragraphs that answer together
    Musique,
    /// Chunks of code
    Code,
    /// Lead of the better single method on the three sets before; needs a model
    Fusion,
    /// Verdicts without gold documents; grades of unanswerable questions
    Grades,
    /// Messages that need no context
    Harm,
    /// Several messages that answer together
    Locomo,
    /// Messages of long chats, by ability
    Beam,
    /// Facts of a month of chats
    Month,
    /// Nested keys
    Pairs,
}

/// Which suites run, and how.
pub(in crate::eval) struct ContextSetting<'a> {
    /// Directory of all data.
    pub(in crate::eval) data: &'a Path,
    /// Suites to run; all whose data exist if the list is empty.
    pub(in crate::eval) suites: &'a [Suite],
    pub(in crate::eval) arms: Arms,
    /// Maximum number of questions of each text or set.
    pub(in crate::eval) most: usize,
    /// First seed of generated stores.
    pub(in crate::eval) seed: u64,
}

/// The stored conversations of a data set, which several suites ask.
type Stored = Vec<Arc<StoredTalk>>;

/// Why a suite has no figures.
enum NoFigures {
    /// The data that are missing.
    Missing(String),
    Failed(Failure),
}

impl From<Failure> for NoFigures {
    fn from(failure: Failure) -> Self {
        NoFigures::Failed(failure)
    }
}

impl ContextSetting<'_> {
    fn wants(&self, suite: Suite) -> bool {
        match (self.suites, suite) {
            ([], Suite::Fusion) => self.arms.has_model(),
            ([], _) => true,
            (some, _) => some.contains(&suite),
        }
    }

    fn is_named(&self, suite: Suite) -> bool {
        self.suites.contains(&suite)
    }

    /// Whether a set is ranked: for itself, or for the suite `fusion`.
    fn is_ranked(&self, suite: Suite) -> bool {
        self.wants(suite) || self.wants(Suite::Fusion)
    }

    /// Returns a file below the directory of contexts.
    fn file(&self, name: &str) -> Result<PathBuf, NoFigures> {
        let directory = corpus::directory(self.data, "context");
        let directory = directory.unwrap_or_else(|| self.data.join("context"));
        let path = directory.join(name);
        match path.is_file() {
            true => Ok(path),
            false => Err(NoFigures::Missing(format!("no file {}", path.display()))),
        }
    }

    /// Returns the directory of a data set.
    fn directory(&self, name: &str) -> Result<PathBuf, NoFigures> {
        let missing = || format!("no directory {name} in {}", self.data.display());
        corpus::directory(self.data, name).ok_or_else(|| NoFigures::Missing(missing()))
    }
}

impl Suite {
    fn name(self) -> String {
        let value = self.to_possible_value().expect("no suite is hidden");
        value.get_name().to_owned()
    }

    fn ranked(self) -> Option<RankedSuite> {
        match self {
            Suite::Hotpotqa => Some(ranked::HOTPOTQA),
            Suite::Musique => Some(ranked::MUSIQUE),
            Suite::Code => Some(ranked::CODE),
            Suite::Xquad
            | Suite::Qmsum
            | Suite::BfclMemory
            | Suite::Ramdocs
            | Suite::Fusion
            | Suite::Grades
            | Suite::Harm
            | Suite::Locomo
            | Suite::Beam
            | Suite::Month
            | Suite::Pairs => None,
        }
    }
}

/// Runs the suites. A suite whose data are missing is skipped, unless it was named.
pub(in crate::eval) async fn run(
    host: &Host,
    setting: &ContextSetting<'_>,
) -> Result<Report, Failure> {
    let (mut all, mut skipped) = (Vec::new(), Vec::new());
    let mut locomo: Option<Stored> = None;
    for suite in Suite::value_variants() {
        let is_run = match suite.ranked() {
            Some(_) => setting.is_ranked(*suite),
            None => setting.wants(*suite),
        };
        if !is_run {
            continue;
        }
        let began = clock::now();
        match one(host, setting, *suite, (&all, &mut locomo)).await {
            Ok(figures) => {
                let seconds = began.elapsed().as_secs_f64();
                progress::note(&format!("context {}: {seconds:.1} s", suite.name()));
                all.extend(figures);
            }
            Err(NoFigures::Failed(failure)) => return Err(failure),
            Err(NoFigures::Missing(why)) if setting.is_named(*suite) => {
                let message = format!("the suite {} has no data: {why}", suite.name());
                let step = "docs/how-to/eval.md says what belongs below --data";
                return Err(Failure::data(message).next(step));
            }
            Err(NoFigures::Missing(why)) => {
                skipped.push(format!("context {}: {why}", suite.name()))
            }
        }
    }
    let mut report = report_of(&all);
    report.skipped = skipped;
    Ok(report)
}

/// Runs one suite, after the suites with the figures `before`.
async fn one(
    host: &Host,
    setting: &ContextSetting<'_>,
    suite: Suite,
    (before, locomo): (&[Figures], &mut Option<Stored>),
) -> Result<Vec<Figures>, NoFigures> {
    let (arms, most) = (&setting.arms, setting.most);
    let file = |name: &str| setting.file(name);
    let figures = match suite {
        Suite::Xquad => {
            let path = file("condense/xquad-en.jsonl")?;
            vec![documents::paragraphs(host, &path, arms, most).await?]
        }
        Suite::Qmsum => {
            let path = file("condense/qmsum.jsonl")?;
            vec![documents::meetings(host, &path, arms, most).await?]
        }
        Suite::BfclMemory => {
            let path = file("memory/bfcl-memory.json")?;
            conversations::run(host, &path, arms, most).await?
        }
        Suite::Ramdocs => {
            let path = file("grade/ramdocs.jsonl")?;
            vec![documents::noise(host, &path, arms, most).await?]
        }
        Suite::Hotpotqa | Suite::Musique | Suite::Code => {
            let Some(set) = suite.ranked() else { return Ok(Vec::new()) };
            let path = file(set.file)?;
            let is_fused = setting.wants(Suite::Fusion);
            vec![ranked::run(host, &path, set, (arms, is_fused), most).await?]
        }
        Suite::Fusion => match before.iter().any(|set| set.values(None, ranked::FUSED).is_some()) {
            true => vec![fusion::regrets(before)],
            false => return Err(NoFigures::Missing("no set of ranked documents".to_owned())),
        },
        Suite::Grades => {
            let path = file(ranked::HOTPOTQA.file)?;
            let talks = setting.directory("locomo")?;
            let stored = held(host, &talks, locomo).await?;
            let unanswerable = grades::unanswerable(&stored, most).await?;
            vec![grades::ablated(host, &path, most).await?, unanswerable]
        }
        Suite::Harm => {
            let memory = file("memory/bfcl-memory.json")?;
            let commands = file("route/clinc150.json")?;
            vec![harm::run(host, &memory, &commands, most).await?]
        }
        Suite::Locomo => {
            let path = setting.directory("locomo")?;
            let stored = held(host, &path, locomo).await?;
            vec![evidence::run("locomo", &stored, most).await?]
        }
        Suite::Beam => {
            let path = setting.directory("beam")?;
            let stored = evidence::hold(host, "beam", &path).await?;
            vec![evidence::run("beam", &stored, most).await?]
        }
        Suite::Month => month::run(host, setting.directory("month").ok().as_deref(), most).await?,
        Suite::Pairs => {
            let path = setting.directory("nested-kv").ok();
            vec![keys::run(host, path.as_deref(), setting.seed, most).await?]
        }
    };
    Ok(figures)
}

/// Returns the stored conversations of LoCoMo; stores them when they are first asked for.
async fn held(host: &Host, path: &Path, locomo: &mut Option<Stored>) -> Result<Stored, Failure> {
    if let Some(stored) = locomo {
        return Ok(stored.clone());
    }
    let stored = evidence::hold(host, "locomo", path).await?;
    Ok(locomo.insert(stored).clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eval::contexts::arms::Arm;

    fn setting<'a>(data: &'a Path, suites: &'a [Suite]) -> ContextSetting<'a> {
        let host = Host::running("/nowhere".into());
        let arms = Arms::open(&host, &[Arm::Bm25], None, None).unwrap();
        ContextSetting { data, suites, arms, most: 1, seed: 1 }
    }

    #[test]
    fn without_names_all_suites_run_that_need_no_model() {
        let all = setting(Path::new("/nowhere"), &[]);
        let run: Vec<String> = Suite::value_variants()
            .iter()
            .filter(|suite| !all.wants(**suite))
            .map(|suite| suite.name())
            .collect();
        assert_eq!(run, ["fusion"]);
        let some = setting(Path::new("/nowhere"), &[Suite::Fusion]);
        assert!(some.is_ranked(Suite::Code) && !some.wants(Suite::Code));
        assert!(!some.wants(Suite::Month));
    }

    #[tokio::test]
    async fn missing_data_are_skipped_and_an_error_for_a_named_suite() {
        let dir = tempfile::tempdir().unwrap();
        let host = Host::running("/nowhere".into());
        let named = setting(dir.path(), &[Suite::Code]);
        let failure = run(&host, &named).await.unwrap_err();
        assert!(failure.message.contains("the suite code has no data: no file"), "{failure:?}");
        assert!(failure.message.contains("contextual-queries.jsonl"), "{failure:?}");
        let missing = setting(dir.path(), &[Suite::Fusion]);
        let failure = run(&host, &missing).await.unwrap_err();
        assert!(failure.message.contains("no set of ranked documents"), "{failure:?}");
    }

    #[test]
    fn a_method_by_meaning_needs_a_configured_model() {
        let host = Host::running("/nowhere".into());
        for (arms, also) in [(&[Arm::Zsum][..], None), (&[][..], Some("fusion"))] {
            let failure = Arms::open(&host, arms, also, None).err().unwrap();
            assert!(failure.message.contains("needs an embedding model"), "{failure:?}");
        }
    }
}
