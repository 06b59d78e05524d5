//! Makes the looks of a context: searches of recall storage and of the archive.

use serde_json::{Map, json};

use super::answer::RECALL_PAIR_SEQS_MAX;
use super::call::{QUESTIONS_MAX, curious};
use super::executor::Executor;
use crate::store;
use vctx_core::error::{Code, Error, Result};
use vctx_core::memory::core::Core;
use vctx_core::memory::message::Message;
use vctx_core::policy::{Answers, Ctx, Question, Stop, Surroundings, Unobserved};
use vctx_core::search::{
    ARCHIVE_ROWS_MAX, LOOK_ROWS_MAX, LOOKS_MAX, Look, LookFound, PARTNERS_MAX, RecallMode,
    RecallQuery,
};
use vctx_core::tools::{Call, Tool};
use vctx_core::trust::{Actor, Scope};

/// Number of chunks of an agent up to which a look compares all vectors, if
/// `archive.exact_rows_max` is not smaller. A build makes up to a dozen looks, which must not take
/// the time of a dozen exact searches, and joins what they find.
const LOOK_EXACT_ROWS_MAX: u64 = 4_000;

impl Executor {
    /// Returns what each look found, in the order of the looks. A look that only this moment cannot
    /// answer, because its model is away, fails by itself.
    pub(super) async fn looks(
        &self,
        scope: &Scope,
        core: &Core,
        looks: &[Look],
    ) -> Result<Vec<LookFound>> {
        let looks = &looks[..looks.len().min(LOOKS_MAX)];
        match looks {
            [] => Ok(Vec::new()),
            [look] => Ok(vec![self.look_into(scope, core, look).await?]),
            _ => {
                // Both halves wait for the database at the same time.
                let (first, second) = looks.split_at(looks.len() / 2);
                let first = Box::pin(self.looks(scope, core, first));
                let second = Box::pin(self.looks(scope, core, second));
                let (mut found, rest) = tokio::try_join!(first, second)?;
                found.extend(rest);
                Ok(found)
            }
        }
    }

    async fn look_into(&self, scope: &Scope, core: &Core, look: &Look) -> Result<LookFound> {
        let found = match look {
            Look::Partners { ids } => self.look_at_partners(scope, core, ids).await,
            Look::Lasting => Ok(LookFound::Lasting(store::lasting(&self.kernel.ro, scope).await?)),
            Look::Recall { query, rows } => {
                let rows = (*rows).min(LOOK_ROWS_MAX);
                self.look_in_recall(scope, core, (query, rows), RecallMode::Auto).await
            }
            Look::Meaning { query, rows, archive: false } => {
                let by_meaning = RecallMode::Vector { similarity_min: Some(0) };
                let rows = (*rows).min(LOOK_ROWS_MAX);
                self.look_in_recall(scope, core, (query, rows), by_meaning).await
            }
            Look::Archive { query, rows } => {
                let rows = (*rows).min(ARCHIVE_ROWS_MAX);
                self.look_in_archive(scope, core, (query, rows), false).await
            }
            Look::Meaning { query, rows, archive: true } => {
                let rows = (*rows).min(ARCHIVE_ROWS_MAX);
                self.look_in_archive(scope, core, (query, rows), true).await
            }
        };
        match found {
            Err(error) if error.code == Code::EmbedderUnavailable => {
                Ok(LookFound::Failed("embedder"))
            }
            Err(error) if error.code == Code::VectorSettingMismatch => {
                Ok(LookFound::Failed("vectors"))
            }
            found => found,
        }
    }

    async fn look_in_recall(
        &self,
        scope: &Scope,
        core: &Core,
        (query, rows): (&str, usize),
        mode: RecallMode,
    ) -> Result<LookFound> {
        // A part without a word finds nothing.
        let Ok(query) = RecallQuery::parse(query) else {
            return Ok(LookFound::Recall(Vec::new(), Vec::new()));
        };
        let query = RecallQuery { mode, ..query };
        let queue = core.queue.head_seq..core.queue.next_seq;
        let now_ms = self.kernel.clock.unix_ms();
        let mut list = self.recall(scope, core.outbound(), query, queue.clone(), now_ms).await?;
        list.hits.truncate(rows);
        let ids: Vec<String> = list.hits.iter().map(|hit| hit.id.clone()).collect();
        if ids.is_empty() {
            return Ok(LookFound::Recall(Vec::new(), Vec::new()));
        }
        let entries = store::entries(&self.kernel.ro, scope, &ids, queue.start).await?;
        Ok(LookFound::Recall(list.hits, entries.found))
    }

    async fn look_at_partners(
        &self,
        scope: &Scope,
        core: &Core,
        ids: &[String],
    ) -> Result<LookFound> {
        let ro = &self.kernel.ro;
        let ids = &ids[..ids.len().min(PARTNERS_MAX)];
        let pairs = store::pairs(ro, scope, ids, RECALL_PAIR_SEQS_MAX).await?;
        let partners: Vec<String> = pairs.iter().map(|pair| pair.id.clone()).collect();
        let entries = store::entries(ro, scope, &partners, core.queue.head_seq).await?;
        let of = |message: &Message| pairs.iter().find(|pair| pair.id == message.key);
        let found = entries.found.into_iter();
        let found = found.filter_map(|message| Some((of(&message)?.of.clone(), message)));
        Ok(LookFound::Partners(found.collect()))
    }

    async fn look_in_archive(
        &self,
        scope: &Scope,
        core: &Core,
        (query, rows): (&str, usize),
        by_meaning: bool,
    ) -> Result<LookFound> {
        let mode = by_meaning.then_some("vector");
        let arguments = json!({"query_text": query, "limit": rows, "mode": mode});
        let arguments: Map<_, _> = arguments.as_object().cloned().unwrap_or_default();
        let Call::SearchArchival(search) = Tool::SearchArchival.decode(arguments)? else {
            return Err(Error::new(Code::Internal, "the search of the archive is another call"));
        };
        let (mut answers, stages) = (Answers::default(), Unobserved);
        for _ in 0..QUESTIONS_MAX {
            let around = self.around_look(scope, core, &stages);
            match search.passages(&Ctx { around, core, answers: &answers }) {
                Ok(passages) => return Ok(LookFound::Archive(passages)),
                Err(Stop::Fail(error)) => return Err(error),
                Err(Stop::Ask(question)) => match *question {
                    Question::Vectors { chunks } => {
                        let setting = store::vector_setting(&self.kernel.ro).await?;
                        let most = self.archive.settings.exact_rows_max.min(LOOK_EXACT_ROWS_MAX);
                        answers.vectors = Some(self.vectors(setting, chunks, most).await?);
                    }
                    question => Box::pin(self.answer(question, &mut answers, scope, core)).await?,
                },
            }
        }
        Err(curious())
    }

    /// Returns the surroundings of a search that is not a call of its own.
    pub(super) fn around_look<'a>(
        &'a self,
        scope: &'a Scope,
        core: &Core,
        stages: &'a Unobserved,
    ) -> Surroundings<'a> {
        static OWN: Actor = Actor { uid: 0, pid: 0, label: None };
        Surroundings {
            counter: &**self.kernel.counters.of(core.encoding),
            unix_ms: self.kernel.clock.unix_ms(),
            ids: &*self.kernel.ids,
            scope,
            actor: &OWN,
            tool: Tool::SearchArchival.spec().name,
            embedder: self.kernel.embedders.fingerprint(),
            next_embedder: self.kernel.embedders.next(),
            key_hash: "",
            wording: None,
            told: None,
            asked: "",
            capture: None,
            taint: self.taint,
            summary: self.summary,
            context: self.context,
            stages,
            blocks_bytes_max: self.kernel.blocks_bytes_max,
            tokens_per_day: self.kernel.tokens_per_day,
            roles: self.kernel.roles_of(core),
        }
    }
}
