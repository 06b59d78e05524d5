//! What a tool is: its name, its schema, what it builds on, and its step.

use schemars::{JsonSchema, generate::SchemaSettings};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::append_fifo::{AppendFifo, own_flush};
use super::bury_chain::BuryChain;
use super::edit_core::{EditCore, ViewCore};
use super::evict_fifo::EvictFifo;
use super::expire_recall::ExpireRecall;
use super::fetch_core::FetchCore;
use super::fire_tick::FireTick;
use super::forget::{Forget, ForgetStep};
use super::hold_run::{EndRun, HoldRun};
use super::ingest_archival::IngestArchival;
use super::nulls::without_nulls;
use super::patch_agent::PatchAgent;
use super::post_event::PostEvent;
use super::recall_dates::RecallDates;
use super::record_answer::RecordAnswer;
use super::record_heartbeat::RecordHeartbeat;
use super::record_prompt::RecordPrompt;
use super::release_tainted::ReleaseTainted;
use super::say::Say;
use super::search_archival::SearchArchival;
use super::search_recall::SearchRecall;
use super::store_core::StoreCore;
use super::trace_memory::TraceMemory;
use super::write_recall::WriteRecall;
use crate::error::{Code, Error, Result};
use crate::memory::change::Change;
use crate::memory::core::Core;
use crate::policy::{Answers, Depends, Draft, Finish, Question, Surroundings};

/// What a step came to.
#[derive(Debug)]
pub enum Step {
    /// Something must be known first.
    Ask(Question),
    /// A reading tool's result.
    Read(Map<String, Value>),
    /// To be written.
    Write(Box<Change>),
    /// To be written alone, then the call is thought anew.
    Part(Box<Change>),
}

impl From<Finish> for Step {
    fn from(finish: Finish) -> Self {
        match finish {
            Finish::Ask(question) => Self::Ask(question),
            Finish::Write(change) => Self::Write(change),
            Finish::Part(change) => Self::Part(change),
        }
    }
}

/// What is said of a tool outside.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    /// Its name.
    pub name: &'static str,
    /// For the model: what it does and when to use it.
    pub description: &'static str,
    /// Whether it writes; then it needs a key and a revision.
    pub writes: bool,
    schema: fn() -> Value,
}

/// A decoded call.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "one variant for each tool")]
pub enum Call {
    StoreCore(StoreCore),
    FetchCore(FetchCore),
    AppendFifo(AppendFifo),
    EvictFifo(EvictFifo),
    SearchRecall(SearchRecall),
    WriteRecall(WriteRecall),
    SearchArchival(Box<SearchArchival>),
    IngestArchival(Box<IngestArchival>),
    RecordHeartbeat(RecordHeartbeat),
    TraceMemory(TraceMemory),
    PostEvent(PostEvent),
    PatchAgent(PatchAgent),
    BuryChain(BuryChain),
    ExpireRecall(ExpireRecall),
    ReleaseTainted(ReleaseTainted),
    FireTick(FireTick),
    Forget(Box<Forget>),
    ForgetStep(ForgetStep),
    EditCore(EditCore),
    ViewCore(ViewCore),
    Say(Say),
    RecallDates(RecallDates),
    HoldRun(HoldRun),
    EndRun(Box<EndRun>),
    RecordPrompt(Box<RecordPrompt>),
    RecordAnswer(Box<RecordAnswer>),
}

/// The tools of the card, in the order in which they are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "one variant for each tool")]
pub enum Tool {
    StoreCore,
    FetchCore,
    AppendFifo,
    EvictFifo,
    SearchRecall,
    WriteRecall,
    SearchArchival,
    IngestArchival,
    RecordHeartbeat,
    TraceMemory,
}

impl Tool {
    /// All of them.
    pub const ALL: &'static [Self] = &[
        Self::StoreCore,
        Self::FetchCore,
        Self::AppendFifo,
        Self::EvictFifo,
        Self::SearchRecall,
        Self::WriteRecall,
        Self::SearchArchival,
        Self::IngestArchival,
        Self::RecordHeartbeat,
        Self::TraceMemory,
    ];

    /// The tool of that name.
    pub fn named(name: &str) -> Result<Self> {
        Self::ALL.iter().copied().find(|t| t.spec().name == name).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|t| t.spec().name).collect();
            Error::new(
                Code::ToolNotFound,
                format!("no tool of that name: use one of {}", names.join(", ")),
            )
            .with("tools", names)
        })
    }

    /// What is said of it outside.
    pub fn spec(self) -> Spec {
        match self {
            Self::StoreCore => Spec {
                name: "store_core",
                description: "Write a block of working memory that stays in view. Use it for facts, preferences and plans that must not be \
                    evicted; mode `append` adds a line, `delete` removes the block.",
                writes: true,
                schema: schema_of::<StoreCore>,
            },
            Self::FetchCore => Spec {
                name: "fetch_core",
                description: "Read a block of working memory with its revision and token cost.",
                writes: false,
                schema: schema_of::<FetchCore>,
            },
            Self::AppendFifo => Spec {
                name: "append_fifo",
                description: "Append a message to the conversation queue. When the window would reach 90 %, the oldest messages move to recall \
                    storage in the same transaction.",
                writes: true,
                schema: schema_of::<AppendFifo>,
            },
            Self::EvictFifo => Spec {
                name: "evict_fifo",
                description: "Move the oldest messages of the queue into recall storage until the window holds at most `target_tokens`, and fold \
                    them into the summary.",
                writes: true,
                schema: schema_of::<EvictFifo>,
            },
            Self::SearchRecall => Spec {
                name: "search_recall",
                description: "Find earlier messages that have left the window, by a question, words or a \"quoted phrase\". What fits comes back \
                    into the conversation as marked copies, of a long message the passage that matters; `next_page_token` goes on with the rest.",
                writes: true,
                schema: schema_of::<SearchRecall>,
            },
            Self::WriteRecall => Spec {
                name: "write_recall",
                description: "Write entries straight into recall storage, where they can be found later without taking room in the window.",
                writes: true,
                schema: schema_of::<WriteRecall>,
            },
            Self::SearchArchival => Spec {
                name: "search_archival",
                description: "Find the passages of archived documents that answer a question, in words (`query_text`), as a vector, or both. \
                    A page holds at most 512 tokens; `next_page_token` goes on with the rest.",
                writes: true,
                schema: schema_of::<SearchArchival>,
            },
            Self::IngestArchival => Spec {
                name: "ingest_archival",
                description: "Take a document into the archive so that search_archival finds its passages. Give its whole text as `document`, \
                    or chunks, alone or with vectors that were made late (the whole document encoded, then pooled for each chunk). The \
                    same `doc_id` again replaces the document; `delete` takes it away.",
                writes: true,
                schema: schema_of::<IngestArchival>,
            },
            Self::RecordHeartbeat => Spec {
                name: "record_heartbeat",
                description: "Ask to be called again at once (`continue`) so that you can take the next step before anything else happens, or \
                    give control back (`yield`). A chain of such calls ends at its caps of depth, time and tokens.",
                writes: true,
                schema: schema_of::<RecordHeartbeat>,
            },
            Self::TraceMemory => Spec {
                name: "trace_memory",
                description: "See what something in memory is joined to: what was said around a message, which passages an answer cites and \
                    which answers cite a passage, what a passage or summary was made from, where an evicted message went. Begin with an \
                    `id` or `seq` that a search showed, or with `agent`. A page holds at most 512 tokens.",
                writes: true,
                schema: schema_of::<TraceMemory>,
            },
        }
    }

    /// JSON Schema (2020-12) of its arguments: closed object, sub-schemas inlined.
    pub fn schema(self) -> Value {
        (self.spec().schema)()
    }
}

/// JSON Schema (2020-12) of arguments: closed object, sub-schemas inlined.
pub fn schema_of<T: JsonSchema>() -> Value {
    let mut settings = SchemaSettings::draft2020_12().for_deserialize();
    settings.inline_subschemas = true;
    settings.meta_schema = None;
    let schema = settings.into_generator().into_root_schema_for::<T>();
    serde_json::to_value(schema).expect("a schema is JSON")
}

/// Decodes a tool's arguments; a fault names the argument and what is expected there.
pub fn decode(tool: Tool, arguments: Map<String, Value>) -> Result<Call> {
    let arguments = without_nulls(arguments, || tool.schema());
    Ok(match tool {
        Tool::StoreCore => Call::StoreCore(decode_as::<StoreCore>(arguments)?.checked()?),
        Tool::FetchCore => Call::FetchCore(decode_as::<FetchCore>(arguments)?.checked()?),
        Tool::AppendFifo => Call::AppendFifo(decode_as::<AppendFifo>(arguments)?.checked()?),
        Tool::EvictFifo => Call::EvictFifo(decode_as::<EvictFifo>(arguments)?.checked()?),
        Tool::SearchRecall => Call::SearchRecall(decode_as::<SearchRecall>(arguments)?.checked()?),
        Tool::WriteRecall => Call::WriteRecall(decode_as::<WriteRecall>(arguments)?.checked()?),
        Tool::SearchArchival => {
            Call::SearchArchival(Box::new(decode_as::<SearchArchival>(arguments)?.checked()?))
        }
        Tool::IngestArchival => {
            Call::IngestArchival(Box::new(decode_as::<IngestArchival>(arguments)?.checked()?))
        }
        Tool::RecordHeartbeat => {
            Call::RecordHeartbeat(decode_as::<RecordHeartbeat>(arguments)?.checked()?)
        }
        Tool::TraceMemory => Call::TraceMemory(decode_as::<TraceMemory>(arguments)?.checked()?),
    })
}

/// Decodes a closed object; nulls count as absent, since strict tool calls send them for optional arguments.
pub fn decode_as<T: DeserializeOwned>(mut arguments: Map<String, Value>) -> Result<T> {
    arguments.retain(|_, v| !v.is_null());
    serde_path_to_error::deserialize(Value::Object(arguments)).map_err(|fault| {
        let path = shown(&fault.path().to_string());
        let message = shown(&fault.inner().to_string());
        let field =
            if path == "." { named_in(&message).unwrap_or("arguments").to_owned() } else { path };
        Error::argument(&field, message)
    })
}

/// Characters of a fault that are told; serde repeats a wrong value whole, however long it is.
const FAULT_CHARS_MAX: usize = 240;

fn shown(text: &str) -> String {
    match text.char_indices().nth(FAULT_CHARS_MAX) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

/// The name between back-ticks in serde's "missing field `x`" and "unknown field `x`".
fn named_in(message: &str) -> Option<&str> {
    message.split('`').nth(1)
}

impl Call {
    /// The name in logs, metrics and audit rows.
    pub fn name(&self) -> &'static str {
        match self {
            Self::StoreCore(_) => "store_core",
            Self::FetchCore(_) => "fetch_core",
            Self::AppendFifo(_) => "append_fifo",
            Self::EvictFifo(_) => "evict_fifo",
            Self::SearchRecall(_) => "search_recall",
            Self::WriteRecall(_) => "write_recall",
            Self::SearchArchival(_) => "search_archival",
            Self::IngestArchival(_) => "ingest_archival",
            Self::RecordHeartbeat(_) => "record_heartbeat",
            Self::TraceMemory(_) => "trace_memory",
            Self::PostEvent(_) => "post_event",
            Self::PatchAgent(_) => "patch_agent",
            Self::BuryChain(_) => "bury_chain",
            Self::ExpireRecall(_) => "expire_recall",
            Self::ReleaseTainted(_) => "release_tainted",
            Self::FireTick(_) => "fire_tick",
            Self::Forget(_) => "forget",
            Self::ForgetStep(_) => "forget_step",
            Self::EditCore(_) => "edit_core",
            Self::ViewCore(_) => "view_core",
            Self::Say(_) => "say",
            Self::RecallDates(_) => "recall_dates",
            Self::HoldRun(_) => "hold_run",
            Self::EndRun(_) => "end_run",
            Self::RecordPrompt(_) => "record_prompt",
            Self::RecordAnswer(_) => "record_answer",
        }
    }

    /// Whether it may write: then it goes to the socket for writes, and takes a key. One that only reads may still find that
    /// it has something to keep, if its key may be minted.
    pub fn writes(&self) -> bool {
        match self {
            Self::FetchCore(_) | Self::ViewCore(_) | Self::TraceMemory(_) => false,
            Self::Forget(forget) => !forget.dry_run,
            Self::SearchRecall(search) => search.rehydrate || search.heartbeat,
            Self::SearchArchival(search) => search.heartbeat,
            Self::RecallDates(search) => search.heartbeat,
            Self::StoreCore(_)
            | Self::AppendFifo(_)
            | Self::EvictFifo(_)
            | Self::WriteRecall(_)
            | Self::IngestArchival(_)
            | Self::PostEvent(_)
            | Self::PatchAgent(_)
            | Self::RecordHeartbeat(_)
            | Self::BuryChain(_)
            | Self::ExpireRecall(_)
            | Self::ReleaseTainted(_)
            | Self::FireTick(_)
            | Self::ForgetStep(_)
            | Self::HoldRun(_)
            | Self::EndRun(_)
            | Self::RecordPrompt(_)
            | Self::RecordAnswer(_)
            | Self::EditCore(_)
            | Self::Say(_) => true,
        }
    }

    /// Whether it counts when a chain of heartbeats goes in circles: every tool's call but the beat itself.
    pub fn goes_round(&self) -> bool {
        match self {
            Self::StoreCore(_)
            | Self::FetchCore(_)
            | Self::AppendFifo(_)
            | Self::EvictFifo(_)
            | Self::SearchRecall(_)
            | Self::WriteRecall(_)
            | Self::SearchArchival(_)
            | Self::IngestArchival(_)
            | Self::TraceMemory(_)
            | Self::EditCore(_)
            | Self::ViewCore(_)
            | Self::RecallDates(_)
            | Self::Say(_) => true,
            Self::RecordHeartbeat(_)
            | Self::PostEvent(_)
            | Self::PatchAgent(_)
            | Self::BuryChain(_)
            | Self::ExpireRecall(_)
            | Self::ReleaseTainted(_)
            | Self::FireTick(_)
            | Self::Forget(_)
            | Self::ForgetStep(_) => false,
            Self::HoldRun(_) | Self::EndRun(_) | Self::RecordPrompt(_) | Self::RecordAnswer(_) => {
                false
            }
        }
    }

    /// Whether a caller that names no revision means any: what the call does cannot overwrite what its caller has not seen.
    pub fn any_revision(&self) -> bool {
        match self {
            Self::PostEvent(_)
            | Self::SearchRecall(_)
            | Self::SearchArchival(_)
            | Self::RecallDates(_)
            | Self::TraceMemory(_)
            | Self::RecordHeartbeat(_)
            | Self::BuryChain(_)
            | Self::ExpireRecall(_)
            | Self::ReleaseTainted(_)
            | Self::ForgetStep(_)
            | Self::FireTick(_) => true,
            Self::HoldRun(_) | Self::EndRun(_) | Self::RecordPrompt(_) | Self::RecordAnswer(_) => {
                true
            }
            Self::FetchCore(_)
            | Self::ViewCore(_)
            | Self::EditCore(_)
            | Self::StoreCore(_)
            | Self::AppendFifo(_)
            | Self::EvictFifo(_)
            | Self::WriteRecall(_)
            | Self::IngestArchival(_)
            | Self::PatchAgent(_)
            | Self::Forget(_)
            | Self::Say(_) => false,
        }
    }

    /// Whether a caller that names no key is given one with the answer.
    pub fn mints_key(&self) -> bool {
        match self {
            Self::SearchRecall(_)
            | Self::SearchArchival(_)
            | Self::RecallDates(_)
            | Self::TraceMemory(_)
            | Self::RecordHeartbeat(_)
            | Self::BuryChain(_)
            | Self::ExpireRecall(_)
            | Self::ForgetStep(_)
            | Self::HoldRun(_)
            | Self::EndRun(_) => true,
            Self::FetchCore(_)
            | Self::ViewCore(_)
            | Self::EditCore(_)
            | Self::StoreCore(_)
            | Self::AppendFifo(_)
            | Self::EvictFifo(_)
            | Self::WriteRecall(_)
            | Self::IngestArchival(_)
            | Self::PostEvent(_)
            | Self::ReleaseTainted(_)
            | Self::PatchAgent(_)
            | Self::FireTick(_)
            | Self::Forget(_)
            | Self::Say(_)
            | Self::RecordPrompt(_)
            | Self::RecordAnswer(_) => false,
        }
    }

    /// What a given revision must still hold for.
    pub fn depends(&self) -> Depends {
        match self {
            Self::StoreCore(input) => Depends::Block(input.block_id.clone()),
            Self::EditCore(edit) => edit.depends(),
            Self::EvictFifo(_) => Depends::Eviction,
            Self::PatchAgent(_) | Self::Forget(_) => Depends::All,
            Self::IngestArchival(_) => Depends::Manifest,
            Self::AppendFifo(_)
            | Self::SearchRecall(_)
            | Self::WriteRecall(_)
            | Self::SearchArchival(_)
            | Self::TraceMemory(_)
            | Self::RecordHeartbeat(_)
            | Self::BuryChain(_)
            | Self::ExpireRecall(_)
            | Self::ReleaseTainted(_)
            | Self::FireTick(_)
            | Self::ForgetStep(_)
            | Self::HoldRun(_)
            | Self::EndRun(_)
            | Self::RecordPrompt(_)
            | Self::RecordAnswer(_)
            | Self::PostEvent(_)
            | Self::Say(_)
            | Self::RecallDates(_)
            | Self::ViewCore(_)
            | Self::FetchCore(_) => Depends::Queue,
        }
    }

    /// Thinks: what the call does to this core, given the answers so far. One that only reads writes what it found where it is captured.
    pub fn step(&self, around: Surroundings<'_>, core: &Core, answers: &Answers) -> Result<Step> {
        match self.thought(around, core, answers)? {
            Step::Read(mut result) if around.capture.is_some() => {
                if let Self::FetchCore(_) = self {
                    // What was read is as of the revision that this write makes.
                    result.insert("_rev".into(), Value::Null);
                }
                Ok(Draft::new(around, core).finish(own_flush(core), answers, result)?.into())
            }
            other => Ok(other),
        }
    }

    fn thought(&self, around: Surroundings<'_>, core: &Core, answers: &Answers) -> Result<Step> {
        match self {
            Self::StoreCore(input) => input.step(around, core, answers),
            Self::FetchCore(input) => input.step(core),
            Self::AppendFifo(input) => input.step(around, core, answers),
            Self::EvictFifo(input) => input.step(around, core, answers),
            Self::SearchRecall(input) => input.step(around, core, answers),
            Self::WriteRecall(input) => input.step(around, core, answers),
            Self::SearchArchival(input) => input.step(around, core, answers),
            Self::IngestArchival(input) => input.step(around, core, answers),
            Self::RecordHeartbeat(input) => input.step(around, core, answers),
            Self::TraceMemory(input) => input.step(around, core, answers),
            Self::PostEvent(input) => input.step(around, core, answers),
            Self::PatchAgent(input) => input.step(around, core, answers),
            Self::BuryChain(input) => input.step(around, core, answers),
            Self::ExpireRecall(input) => input.step(around, core, answers),
            Self::ReleaseTainted(input) => input.step(around, core, answers),
            Self::FireTick(input) => input.step(around, core, answers),
            Self::Forget(input) => input.step(around, core, answers),
            Self::ForgetStep(input) => input.step(around, core, answers),
            Self::EditCore(input) => input.step(around, core, answers),
            Self::ViewCore(input) => input.step(core),
            Self::Say(input) => input.step(around, core, answers),
            Self::RecallDates(input) => input.step(around, core, answers),
            Self::HoldRun(input) => input.step(around, core, answers),
            Self::EndRun(input) => input.step(around, core, answers),
            Self::RecordPrompt(input) => input.step(around, core, answers),
            Self::RecordAnswer(input) => input.step(around, core, answers),
        }
    }
}
