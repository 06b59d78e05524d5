//! Searches of recall storage and of the archive: parses queries, plans the searches, and ranks the
//! found entries and chunks. Also finds a text behind escapes of JSON and across chunks.

mod archive;
mod archive_words;
mod bm25;
pub mod borders;
pub mod escaped;
mod lasting;
mod lists;
mod look;
mod nearest;
mod order;
mod page;
mod passage;
mod query;
mod rank;
mod recall;
mod recall_near;
mod stop_words;

pub use archive::{Fusion, RankedChunk, ScoreParts, WordResult, WordRow, ranked};
pub(crate) use archive::{spread, standard};
pub use archive_words::{WordQuery, words_of_question};
pub use lasting::lasting_requests;
pub use lists::{
    ListMeasurement, RECALL_WANTED, is_due, is_outgrown, ladder, lists_for, questions, recall,
};
pub use look::{
    ARCHIVE_ROWS_MAX, LASTING_MAX, LOOK_ROWS, LOOK_ROWS_MAX, LOOKS_MAX, Likeness, Look, LookFound,
    PARTNERS_MAX,
};
pub use nearest::{
    Conditions, LookCounts, NearPlan, NearQuery, NearResult, NearRows, first_plan, wider_plan,
};
pub use order::Order;
pub use page::{PageRequest, PageToken, new_page, page_token};
pub use passage::passages;
pub(crate) use query::phrases_of;
pub use query::{RecallFilter, RecallMode, RecallQuery, RecallSettings, thousandths};
pub(crate) use rank::{
    PartScore, content_words, near_known, part_scores, part_scores_of, telling_words, turn_values,
    word_values, words_held,
};
pub use rank::{RecallEntry, day_of, held_words, part_names, related_words, relevance};
pub use recall::{
    Entries, ListedEntry, Partner, QueueCopy, RecallHit, RecallList, RecallRows, Unviewed, listed,
};
pub use recall_near::{RecallNear, recall_plan};
pub use stop_words::StopWords;
