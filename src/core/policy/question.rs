//! The questions that a decision asks the database or a model, and the answers to these questions.
//! Each kind of question is a variant of [`Question`], and its answer is a field of [`Answers`].

use std::ops::{Range, RangeInclusive};

use jiff::civil::Date;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::forget::{CallPlace, ForgetAsked, ForgetFound, ForgetLook};
use super::retention::Due;
use super::step::Stop;
use crate::error::Result;
use crate::memory::Fingerprint;
use crate::memory::archive::{FoundPassage, Manifest, StagedPart, VectorSetting};
use crate::memory::message::Message;
use crate::memory::model_role::ModelAsk;
use crate::memory::page::Page;
use crate::memory::schedule::Schedule;
use crate::search::{
    Entries, Likeness, Look, LookFound, NearQuery, NearResult, RecallList, RecallQuery, WordQuery,
    WordResult,
};
use crate::trust::{Trace, TraceQuery, Vertex, VertexId};

/// A line of the conversation, as the summarizer reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Position of the message in the log.
    pub seq: u64,
    /// Day of the message in the agent's time zone; UTC if the window shows no times.
    pub day: Date,
    /// Name or role of the speaker.
    pub speaker: String,
    /// Text of the speaker's message.
    pub text: String,
}

/// Who writes a summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SummaryWriter {
    /// The local summariser, for calls that must not wait.
    Local,
    /// A model, or the local summariser if no answer of the model is usable.
    Any,
    /// A model; without a usable answer there is no new summary.
    Model,
}

/// A question to the database or to a model, whose answer a decision needs.
#[derive(Clone, Debug, PartialEq)]
pub enum Question {
    /// The messages of the queue.
    Queue {
        /// Seq of the queue's first message.
        head_seq: u64,
    },
    /// The messages with tool calls or results, in a range of the log.
    Calls {
        /// First seq of the range.
        first_seq: u64,
        /// Last seq of the range.
        last_seq: u64,
    },
    /// The entries of recall storage that match a query.
    Recall {
        /// The query.
        query: RecallQuery,
        /// Positions of the queue's messages that the search also looks at.
        queue: Range<u64>,
        /// Server time of the search, in milliseconds.
        now_ms: u64,
    },
    /// Looks into several stores of the memory at once.
    Looks {
        /// The looks, at most [`crate::search::LOOKS_MAX`].
        looks: Vec<Look>,
    },
    /// Messages of recall storage, and their copies in the queue.
    Entries {
        /// Keys of the messages.
        ids: Vec<String>,
        /// Seq of the queue's first message.
        head_seq: u64,
        /// Whether the answer also includes the replies to these messages, and the messages that
        /// these messages answer.
        pairs: bool,
    },
    /// A stored list of search results.
    Page {
        /// Handle of the stored result list.
        handle: String,
    },
    /// A new summary of the evicted messages.
    Summary {
        /// The values that identify the summary: seq of the first evicted message, seq of the first
        /// remaining message, revision of the previous summary, and token limit.
        of: (u64, u64, u64, u64),
        /// The summary that the new summary continues.
        previous: String,
        /// The evicted messages, except messages in quarantine (tainted, and hidden until a
        /// reviewer releases them).
        lines: Vec<Line>,
        /// Minimum and maximum number of tokens in the summary. The minimum is 0, unless the window
        /// leaves fewer tokens than the usual maximum. If the minimum is above 0 and the new
        /// summary would be shorter than the minimum, the old summary is kept instead.
        tokens: RangeInclusive<u64>,
        /// Who writes the summary.
        by: SummaryWriter,
    },
    /// The archive's state, which an ingest needs.
    Archive {
        /// Key of the document's manifest.
        manifest_key: String,
        /// Keys of the messages that the document is derived from.
        messages: Vec<String>,
    },
    /// The vector setting of this database, and whether a vector index is ready.
    Vectors {
        /// Number of chunks in the agent's archive, on which the choice between vector index and
        /// full comparison depends.
        chunks: u64,
    },
    /// The chunks whose vectors are nearest to the query's vector.
    Nearest(Box<NearQuery>),
    /// The chunks that contain words of a query.
    Words(Box<WordQuery>),
    /// Chunks of the archive with the given keys.
    Passages {
        /// Document keys of the chunks.
        keys: Vec<String>,
    },
    /// A schedule of the agent.
    Schedule {
        /// Name of the schedule.
        name: String,
    },
    /// Entries of recall storage that were appended in a span of time.
    Dated(Dated),
    /// Texts that are older than the retention policy allows.
    Due {
        /// Texts from before this time exceed the retention age.
        before: String,
    },
    /// Evicted messages that still have their texts, from a time on.
    Evicted {
        /// Time in ISO 8601 form.
        since: String,
    },
    /// All rows that a forget operation would remove.
    Forget(Box<ForgetAsked>),
    /// The progress of a forget operation.
    ForgetStep {
        /// Key of the forget operation's row.
        key: String,
    },
    /// The vertices of the memory's graph that a trace reaches from its start, within bounds.
    Trace(Box<TraceQuery>),
    /// Vertices of the memory's graph (such as messages and chunks) with the given ids.
    Traced {
        /// Ids of the requested vertices.
        places: Vec<VertexId>,
    },
    /// The chunks that a message cites, as stored in the archive.
    Cited {
        /// Document keys of the chunks.
        keys: Vec<String>,
    },
    /// The vector of a search query.
    EmbedQuery {
        /// Text of the query.
        text: String,
        /// Fingerprint of the model that computes the vector.
        with: Fingerprint,
    },
    /// How near in meaning texts are to questions, by the configured embedder.
    Compare {
        /// The questions.
        questions: Vec<String>,
        /// The texts.
        texts: Vec<String>,
    },
    /// An answer of the model that the configuration names for a role.
    AskModel(Box<ModelAsk>),
    /// Vectors of texts that the configured embedder computes one by one, without the context of a
    /// document.
    EmbedAlone {
        /// The texts to embed.
        texts: Vec<String>,
        /// Fingerprint of the model that computes the vectors.
        with: Fingerprint,
    },
    /// While a reindex runs: the vectors of a document's chunks under the next vector setting. The
    /// embedder of the next setting computes these vectors. If the embedder fails, the call
    /// continues without these vectors.
    EmbedNext {
        /// Text of the document.
        document: String,
        /// Byte ranges of the document's chunks, in order.
        spans: Vec<Range<usize>>,
        /// Fingerprint of the model that computes the vectors.
        with: Fingerprint,
    },
    /// Vectors of a long document's chunks, computed and stored part by part. After an
    /// interruption, a later call continues with the missing parts.
    EmbedParts(Box<Upload>),
    /// The stored parts of an uploaded document, after the given part was also stored.
    KeepPart(Box<PartGiven>),
    /// Vectors of a document's chunks, computed with the context of the whole document.
    Embed {
        /// Text of the document.
        document: String,
        /// Byte ranges of the document's chunks, in order.
        spans: Vec<Range<usize>>,
        /// Fingerprint of the model that computes the vectors.
        with: Fingerprint,
    },
}

impl Question {
    /// Whether the answer may take so long that other calls should write to the agent meanwhile;
    /// `has_model` says whether a model writes summaries.
    pub fn is_slow(&self, has_model: bool) -> bool {
        match self {
            Self::Summary { by: SummaryWriter::Any | SummaryWriter::Model, .. } => has_model,
            Self::EmbedParts(_) | Self::AskModel(_) => true,
            Self::Summary { by: SummaryWriter::Local, .. }
            | Self::Queue { .. }
            | Self::Calls { .. }
            | Self::Recall { .. }
            | Self::Looks { .. }
            | Self::Entries { .. }
            | Self::Page { .. }
            | Self::Archive { .. }
            | Self::Vectors { .. }
            | Self::Nearest(_)
            | Self::Words(_)
            | Self::Passages { .. }
            | Self::Schedule { .. }
            | Self::Dated(_)
            | Self::Due { .. }
            | Self::Evicted { .. }
            | Self::Forget(_)
            | Self::ForgetStep { .. }
            | Self::Trace(_)
            | Self::Traced { .. }
            | Self::Cited { .. }
            | Self::EmbedQuery { .. }
            | Self::Embed { .. }
            | Self::EmbedAlone { .. }
            | Self::Compare { .. }
            | Self::EmbedNext { .. }
            | Self::KeepPart(_) => false,
        }
    }
}

/// A long document whose ingest is in progress.
#[derive(Clone, Debug, PartialEq)]
pub struct Upload {
    /// Hash of everything that the document's vectors depend on. A call with the same hash
    /// continues an interrupted ingest.
    pub name: String,
    /// Text of the document.
    pub document: String,
    /// Byte ranges of the document's chunks, in order.
    pub spans: Vec<Range<usize>>,
    /// Fingerprint of the model that computes the vectors.
    pub with: Fingerprint,
}

/// A part of a document that a caller sends in parts.
#[derive(Clone, Debug, PartialEq)]
pub struct PartGiven {
    /// Hash of all values that the parts of one document have in common; it identifies the upload.
    pub upload: String,
    /// Index of the part in the document, from 0.
    pub place: usize,
    /// Number of parts of the whole document.
    pub of: usize,
    /// The part's content.
    pub content: StagedPart,
}

/// The stored parts of an uploaded document.
#[derive(Clone, Debug, Default)]
pub struct Gathered {
    /// Indexes of the missing parts of an uploaded document.
    pub missing: Vec<usize>,
    /// All parts of the uploaded document in order; empty while a part is missing.
    pub parts: Vec<StagedPart>,
}

/// The state of the database's vectors, which a search of the archive needs.
#[derive(Clone, Debug)]
pub struct VectorsAnswer {
    /// Vector setting of this database; `None` before the first ingest.
    pub setting: Option<VectorSetting>,
    /// Whether a vector index is ready. This is not checked for an archive so small that a search
    /// compares every vector.
    pub index_ready: bool,
    /// Maximum number of chunks in an agent's archive at which a search still compares every
    /// vector.
    pub exact_rows_max: u64,
    /// Whether the vector index itself applies a search's filters. Otherwise, the search filters
    /// the rows that the index returns.
    pub filters_first: bool,
}

/// The state of the archive that an ingest needs to know.
#[derive(Clone, Debug, Default)]
pub struct ArchiveAnswer {
    /// The manifest from the last ingest of the same document, if any.
    pub manifest: Option<Manifest>,
    /// The setting of this database's vectors; `None` before the first ingest.
    pub setting: Option<VectorSetting>,
    /// Keys of those source messages that exist.
    pub messages: Vec<String>,
    /// Whether a vector index serves the archive.
    pub index_ready: bool,
}

/// A newly written summary.
#[derive(Clone, Debug)]
pub struct SummaryAnswer {
    /// The values of the question's `of`, which identify the summary.
    pub of: (u64, u64, u64, u64),
    /// Text of the summary; empty if a model had to write it and no answer was usable.
    pub content: String,
    /// Measures of the summary's drift (how much evicted text it misses), for the summary's event.
    /// `degraded` is the reason why a model's answer was not used.
    pub details: Map<String, Value>,
}

/// The stored state of a schedule.
#[derive(Clone, Debug)]
pub struct ScheduleSeen {
    /// The database's time, in milliseconds since 1970.
    pub now_ms: u64,
    /// The stored schedule; `None` if it does not exist.
    pub schedule: Option<Schedule>,
}

/// Defines [`Answers`] from a list of fields. A `passing` answer is valid for one revision of the
/// core only; for another revision, the question is asked again. A `lasting` answer stays valid
/// when the step is computed again on a newer core.
macro_rules! answers {
    ($($(#[doc = $doc:literal])+ $tag:ident $name:ident: $kind:ty;)*) => {
        /// The answers to a step's questions so far.
        #[derive(Clone, Debug, Default)]
        pub struct Answers { $($(#[doc = $doc])+ pub $name: Option<$kind>,)* }

        impl Answers {
            $($(#[doc = $doc])+ ///
            /// Returns the answer. If it is not yet known, the step stops with the given question.
            pub fn $name(&self, question: impl FnOnce() -> Question) -> Result<&$kind, Stop> {
                self.$name.as_ref().ok_or_else(|| question().into())
            })*

            /// Drops the `passing` answers, which may be outdated on another revision of the core.
            pub fn keep_lasting(&mut self) {
                $(answers!(@$tag self.$name);)*
            }
        }
    };
    (@passing $answer:expr) => { $answer = None };
    (@lasting $answer:expr) => {};
}

answers! {
    /// Messages of the queue, oldest first.
    passing queue: Vec<Message>;
    /// Tool calls and their results, oldest first.
    passing calls: Vec<CallPlace>;
    /// The result of a search of recall storage.
    lasting recall: RecallList;
    /// What each look found, round by round, in the order of the looks.
    lasting looks: Vec<Vec<LookFound>>;
    /// Messages of recall storage.
    lasting entries: Entries;
    /// The stored list of search results, if it exists.
    lasting page: Option<Page>;
    /// The new summary of the evicted messages.
    lasting summary: SummaryAnswer;
    /// The archive's state before an ingest.
    passing archive: ArchiveAnswer;
    /// State of the vectors in this database.
    lasting vectors: VectorsAnswer;
    /// The chunks nearest to a vector.
    lasting nearest: NearResult;
    /// The chunks that contain words of a query.
    lasting worded: WordResult;
    /// Chunks of the archive with the requested keys.
    lasting passages: Vec<FoundPassage>;
    /// The stored parts of an uploaded document.
    lasting gathered: Gathered;
    /// Entries of recall storage in a span of time.
    lasting dated: DatedFound;
    /// Texts that are older than the retention policy allows.
    passing due: Due;
    /// Evicted messages that still have their texts, oldest first.
    passing evicted: Vec<Message>;
    /// All rows that a forget operation would remove.
    passing forget: ForgetFound;
    /// The progress of a forget operation.
    passing forget_step: ForgetLook;
    /// The stored state of a schedule.
    passing schedule: ScheduleSeen;
    /// The vertices of the memory's graph that a trace reaches from its start, within bounds.
    lasting traced: Trace;
    /// Vertices of the memory's graph with the requested ids.
    lasting vertices: Vec<Vertex>;
    /// The chunks that a message cites, as stored in the archive.
    passing cited: Vec<FoundPassage>;
    /// Vectors of the texts in the question; an empty list if the embedder failed.
    lasting embeddings: Vec<Vec<f64>>;
    /// Fingerprint of the document's vectors. The current vector setting may already differ from
    /// this fingerprint.
    lasting embedded_with: Fingerprint;
    /// While a reindex runs: fingerprint and vectors under the next vector setting; no vectors if
    /// the embedder failed.
    lasting next_embeddings: (Fingerprint, Vec<Vec<f64>>);
    /// For each question, how near each text is to it; empty if the embedder failed.
    lasting likeness: Vec<Vec<Likeness>>;
    /// The answers of models to the step's asks, in their order; `None` for an ask without an
    /// answer in time.
    lasting models: Vec<Option<String>>;
    /// Vectors of texts embedded one by one; empty if the embedder failed.
    lasting alone: Vec<Vec<f64>>;
    /// Name of a component, for example `embedder`, that failed without making the call fail; the
    /// answer reports this name.
    lasting degraded: &'static str;
}

impl Answers {
    /// Returns what the looks of a round found. If it is not yet known, the step stops with the
    /// given question.
    pub fn look_round(
        &self,
        round: usize,
        question: impl FnOnce() -> Question,
    ) -> Result<&[LookFound], Stop> {
        let known = self.looks.as_ref().and_then(|rounds| rounds.get(round));
        known.map(Vec::as_slice).ok_or_else(|| question().into())
    }

    /// Returns the answer of a model to the step's ask with this number; `None` if it gave none in
    /// time. If the answer is not yet known, the step stops with the ask.
    pub fn of_model(
        &self,
        number: usize,
        ask: impl FnOnce() -> ModelAsk,
    ) -> Result<Option<&str>, Stop> {
        let known = self.models.as_ref().and_then(|answers| answers.get(number));
        known.map(Option::as_deref).ok_or_else(|| Question::AskModel(Box::new(ask())).into())
    }
}

/// A span of time, and the requested page of the entries that were appended in this span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dated {
    /// Start of the span of time (ISO 8601 with milliseconds).
    pub after: String,
    /// End of the span of time (exclusive).
    pub before: String,
    /// Number of entries in the span to skip.
    pub offset: u64,
    /// Maximum number of entries on the page.
    pub limit: u64,
}

/// Entries that were appended in a span of time, oldest first.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct DatedFound {
    /// The entries of the requested page.
    pub results: Vec<Value>,
    /// Number of entries in the span of time, up to the counting limit.
    pub total: u64,
}
