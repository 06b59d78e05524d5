//! What a decision asks before it can be made, and the answers so far: one variant and one field for each kind of question.

use std::ops::{Range, RangeInclusive};

use serde::Deserialize;
use serde_json::{Map, Value};

use super::forget::{CallPlace, ForgetAsked, ForgetFound, ForgetLook};
use super::fusion::Worded;
use super::nearest::{Near, Nearest};
use super::recall::{Entries, Found, RecallQuery};
use super::retention::Due;
use super::trace::{Place, TraceQuery, Traced, Vertex};
use super::worded::Words;
use crate::memory::Fingerprint;
use crate::memory::archive::{FoundPassage, Manifest, StagedPart, VectorSetting};
use crate::memory::message::Message;
use crate::memory::page::Page;
use crate::memory::schedule::Schedule;

/// A line of conversation for the summariser.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Name or role of the speaker.
    pub speaker: String,
    /// What was said.
    pub text: String,
}

/// What a decision asks before it can be made.
#[derive(Clone, Debug, PartialEq)]
pub enum Question {
    /// The messages of the queue, from this seq on.
    Queue {
        /// First seq.
        head_seq: u64,
    },
    /// Calls of tools and their results between two places.
    Calls {
        /// First seq.
        first_seq: u64,
        /// Last seq.
        last_seq: u64,
    },
    /// The entries of recall storage that match a query.
    Recall {
        /// What is looked for.
        query: RecallQuery,
        /// Server time of the question, in milliseconds.
        now_ms: u64,
    },
    /// Messages of recall storage, and their copies in the queue.
    Entries {
        /// Their keys.
        ids: Vec<String>,
        /// Where the queue begins.
        head_seq: u64,
        /// Whether replies, and what is replied to, are wanted with them.
        pairs: bool,
    },
    /// A stored result list.
    Page {
        /// Its handle.
        handle: String,
    },
    /// A new summary.
    Summary {
        /// What it is for: first seq that leaves, first that stays, revision of the summary it continues, cap.
        of: (u64, u64, u64, u64),
        /// The summary it continues.
        previous: String,
        /// What leaves.
        lines: Vec<Line>,
        /// Least and most tokens of its text. The least is 0 unless the window leaves less than
        /// the cap: then the old summary stands rather than a smaller one of the local summariser.
        tokens: RangeInclusive<u64>,
        /// Whether the caller may wait for a model.
        may_wait: bool,
    },
    /// What stands in the archive before an ingest.
    Archive {
        /// Key of the document's manifest.
        manifest_key: String,
        /// Messages that the document is derived from.
        messages: Vec<String>,
    },
    /// What the vectors of this database are, and whether an index serves them.
    Vectors {
        /// Chunks of the agent.
        chunks: u64,
    },
    /// The chunks nearest to a vector.
    Nearest(Box<Near>),
    /// The chunks that hold words of a question.
    Words(Box<Words>),
    /// Chunks by their keys.
    Passages {
        /// Document keys.
        keys: Vec<String>,
    },
    /// A schedule of the agent.
    Schedule {
        /// Its name.
        name: String,
    },
    /// Entries of recall storage of a span of time.
    Dated(Dated),
    /// What is due to go by its age.
    Due {
        /// The moment before which its time is over.
        before: String,
    },
    /// What there is of what is to be forgotten.
    Forget(Box<ForgetAsked>),
    /// How it stands with a forgetting.
    ForgetStep {
        /// Its key.
        key: String,
    },
    /// What is joined to an entry of the memory.
    Trace(Box<TraceQuery>),
    /// Entries of the memory by their places.
    Traced {
        /// Where they are.
        places: Vec<Place>,
    },
    /// Chunks that a message cites.
    Cited {
        /// Document keys.
        keys: Vec<String>,
    },
    /// The vector of a question.
    EmbedQuery {
        /// The question.
        text: String,
        /// Which kind of vector.
        with: Fingerprint,
    },
    /// Vectors of some texts, each made alone by the configured embedder.
    EmbedAlone {
        /// The texts.
        texts: Vec<String>,
        /// Which kind of vector.
        with: Fingerprint,
    },
    /// The same vectors as another embedder makes them, for the setting that the archive changes to; the call goes on without them.
    EmbedNext {
        /// The document.
        document: String,
        /// Where its chunks lie in it, in bytes, in order.
        spans: Vec<Range<usize>>,
        /// Which kind of vector.
        with: Fingerprint,
    },
    /// Vectors of the chunks of a long document, made part by part and kept, so that a call that is cut off is gone on with by the next.
    EmbedParts(Box<Upload>),
    /// A part of a document is kept; are all there now?
    KeepPart(Box<PartGiven>),
    /// Vectors of the chunks of one document, each in the light of the whole.
    Embed {
        /// The document.
        document: String,
        /// Where its chunks lie in it, in bytes, in order.
        spans: Vec<Range<usize>>,
        /// Which kind of vector.
        with: Fingerprint,
    },
}

/// A long document that is being taken in.
#[derive(Clone, Debug, PartialEq)]
pub struct Upload {
    /// Hash of everything that its vectors depend on: the same document goes on where it was cut off, whoever sends it again.
    pub name: String,
    /// The document.
    pub document: String,
    /// Where its chunks lie in it, in bytes, in order.
    pub spans: Vec<Range<usize>>,
    /// Which kind of vector.
    pub with: Fingerprint,
}

/// A part of a document that its caller sends in parts.
#[derive(Clone, Debug, PartialEq)]
pub struct PartGiven {
    /// Hash of everything that all its parts say alike.
    pub upload: String,
    /// Its place among them, from 0.
    pub place: usize,
    /// How many they are.
    pub of: usize,
    /// What it brings.
    pub content: StagedPart,
}

/// What is there of such a document.
#[derive(Clone, Debug, Default)]
pub struct Gathered {
    /// Places of parts that are missing.
    pub missing: Vec<usize>,
    /// All parts in order, if none is missing.
    pub parts: Vec<StagedPart>,
}

/// What a search of the archive builds on.
#[derive(Clone, Debug)]
pub struct VectorsAnswer {
    /// What the vectors of this database have in common; none before the first ingest.
    pub setting: Option<VectorSetting>,
    /// Whether a vector index is ready; not asked for an archive that is compared one by one.
    pub index_ready: bool,
    /// Chunks of one agent up to which its archive is compared one by one.
    pub exact_rows_max: u64,
    /// Whether conditions stand before a search through the index instead of behind it.
    pub filters_first: bool,
}

/// What an ingest builds on.
#[derive(Clone, Debug, Default)]
pub struct ArchiveAnswer {
    /// The document as it was last taken in.
    pub manifest: Option<Manifest>,
    /// What the vectors of this database have in common; none before the first ingest.
    pub setting: Option<VectorSetting>,
    /// Those of the messages asked for that are there.
    pub messages: Vec<String>,
    /// Whether a vector index serves the archive.
    pub index_ready: bool,
}

/// A summary that was asked for.
#[derive(Clone, Debug)]
pub struct SummaryAnswer {
    /// The question's `of`.
    pub of: (u64, u64, u64, u64),
    /// The text.
    pub content: String,
    /// Numbers about it, for the event.
    pub details: Map<String, Value>,
}

/// A schedule as it stands.
#[derive(Clone, Debug)]
pub struct ScheduleSeen {
    /// What time it is for the database, in milliseconds since 1970.
    pub now_ms: u64,
    /// The schedule; none: it is gone.
    pub schedule: Option<Schedule>,
}

/// Answers so far.
#[derive(Clone, Debug, Default)]
pub struct Answers {
    /// Messages of the queue, oldest first.
    pub queue: Option<Vec<Message>>,
    /// Calls of tools and their results, oldest first.
    pub calls: Option<Vec<CallPlace>>,
    /// What a search of recall storage found.
    pub recall: Option<Found>,
    /// Messages of recall storage.
    pub entries: Option<Entries>,
    /// The stored list, or that there is none.
    pub page: Option<Option<Page>>,
    /// The summary.
    pub summary: Option<SummaryAnswer>,
    /// What stands in the archive.
    pub archive: Option<ArchiveAnswer>,
    /// What the vectors of this database are.
    pub vectors: Option<VectorsAnswer>,
    /// The chunks nearest to a vector.
    pub nearest: Option<Nearest>,
    /// The chunks that hold words of a question.
    pub worded: Option<Worded>,
    /// Chunks by their keys.
    pub passages: Option<Vec<FoundPassage>>,
    /// What is there of a document that comes in parts.
    pub gathered: Option<Gathered>,
    /// Entries of recall storage of a span of time.
    pub dated: Option<DatedFound>,
    /// What is due to go by its age.
    pub due: Option<Due>,
    /// What there is of what is to be forgotten.
    pub forget: Option<ForgetFound>,
    /// How it stands with a forgetting.
    pub forget_step: Option<ForgetLook>,
    /// The schedule that was asked for.
    pub schedule: Option<ScheduleSeen>,
    /// What is joined to an entry of the memory.
    pub traced: Option<Traced>,
    /// Entries of the memory by their places.
    pub vertices: Option<Vec<Vertex>>,
    /// Chunks that a message cites, as they stand in the archive.
    pub cited: Option<Vec<FoundPassage>>,
    /// Vectors of texts; none at all for a question whose embedder failed.
    pub embeddings: Option<Vec<Vec<f64>>>,
    /// Of which kind those of a document are: while they were made, others may have begun to serve.
    pub embedded_with: Option<Fingerprint>,
    /// Vectors for the setting that the archive changes to, and their kind; none at all if its embedder failed.
    pub next_embeddings: Option<(Fingerprint, Vec<Vec<f64>>)>,
    /// Vectors of texts alone; none at all if the embedder failed.
    pub alone: Option<Vec<Vec<f64>>>,
    /// What failed without ending the call (`embedder`); told in its answer.
    pub degraded: Option<&'static str>,
}

impl Answers {
    /// Those that do not depend on the revision of the core that they were asked for: what a search or a trace found stays its result even
    /// if it is thought again on a newer core. Entries of recall storage are so as long as none comes back into the window, and a search
    /// that may bring them back is none that reads first.
    pub fn lasting(self) -> Self {
        Self {
            recall: self.recall,
            entries: self.entries,
            vectors: self.vectors,
            nearest: self.nearest,
            worded: self.worded,
            passages: self.passages,
            traced: self.traced,
            vertices: self.vertices,
            embeddings: self.embeddings,
            degraded: self.degraded,
            ..Self::default()
        }
    }
}

/// A span of time, and a part of the list of what was appended in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dated {
    /// First moment (ISO 8601 with milliseconds).
    pub after: String,
    /// First moment behind it.
    pub before: String,
    /// Entries that are passed over.
    pub offset: u64,
    /// Most entries.
    pub limit: u64,
}

/// Entries of a span of time, oldest first.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct DatedFound {
    /// This part of the list.
    pub results: Vec<Value>,
    /// Length of the list, as far as it is counted.
    pub total: u64,
}
