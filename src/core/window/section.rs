//! Describes the sections of the window; a macro generates the enum `Section` from the list of
//! sections.

use serde::Serialize;
use serde_json::Value;

use crate::memory::core::Core;
use crate::memory::message::Message;
use crate::memory::pack::ShownContext;
use crate::memory::prompt::{RenderedPrompt, Texts};
use crate::memory::receipt;
use crate::memory::tokens::TokenCounter;

/// Description of a section of the window. Each section's file defines this description as the
/// constant `SECTION`.
pub struct Spec {
    /// Name of the section in answers, in the manifest of the window, and in pictures of the
    /// window.
    pub name: &'static str,
    /// Name of the metric that reports the section's tokens.
    pub gauge: &'static str,
    /// Help text of the section's metric.
    pub help: &'static str,
    /// Name of the core's attribute that contains the section's text, and the function that returns
    /// what a stored version contains of it; `None` if the text is stored outside the core. Each
    /// change of the attribute writes a version, so that old prompts can be replayed.
    pub kept: Option<(&'static str, fn(&Core) -> Value)>,
    /// Returns the cost of the section in tokens, as stored in the core.
    pub(super) tokens: fn(&Core) -> u64,
    /// Counts the tokens of the section's texts again, after a change of the agent's encoding or
    /// window size.
    pub(super) recount: fn(&dyn TokenCounter, &mut Core),
    /// Returns the section's messages, in order. For a section with messages, the sum of their
    /// costs equals `tokens`.
    pub(super) items: fn(&Core, &[Message]) -> Vec<Item>,
    /// Restores the section of a past prompt into the core. If the section's text was removed,
    /// returns which part of the prompt is missing.
    pub(crate) restore: fn(&Past<'_>, &mut Core) -> Option<Gone>,
}

/// A message of the window, with the reason why the window contains the message.
pub(super) struct Item {
    pub(super) id: String,
    /// Position of the message in the log; `None` for a message that is not in the log, such as a
    /// block.
    pub(super) seq: Option<u64>,
    pub(super) tokens: u64,
    pub(super) message: Value,
    pub(super) digest: String,
    pub(super) why: &'static str,
    /// Taint rules that the message's text matches.
    pub(super) tainted: Vec<String>,
    /// Whether the text continues the message of the item before.
    pub(super) joins: bool,
    /// Where the strict form of the window shows the item.
    pub(super) place: Position,
    /// The line with which the text begins if the strict form joins it to another text.
    pub(super) line: &'static str,
}

/// Where the strict form of the window shows an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Position {
    /// In the system message.
    Head,
    /// In a user message, at the item's place in the conversation.
    Said,
    /// In a user message, but not between calls and their answer.
    Aside,
    /// At the beginning of the newest user message.
    Fence,
    /// In a message of the assistant.
    Answer,
    /// At the end of a message of the assistant, which makes calls.
    Calls,
    /// In a tool message.
    Result,
}

impl Position {
    /// Whether a user message shows the item at its place in the conversation.
    pub(super) fn is_of_user(self) -> bool {
        matches!(self, Self::Said | Self::Aside)
    }
}

impl Item {
    /// Returns a message of the window that is not in the log; its digest is computed from the
    /// rendered message. `at` is its place and its first line in the strict form.
    pub(super) fn new(
        id: &str,
        tokens: u64,
        message: Value,
        why: &'static str,
        at: (Position, &'static str),
    ) -> Self {
        let (place, line) = at;
        let digest = receipt::sha256(&receipt::canonical_json(&message));
        Self {
            id: id.into(),
            seq: None,
            tokens,
            message,
            digest,
            why,
            tainted: Vec::new(),
            joins: false,
            place,
            line,
        }
    }
}

/// The stored data from which a past prompt is restored.
pub(crate) struct Past<'a> {
    /// The window as it was stored with the prompt.
    pub window: &'a RenderedPrompt,
    /// Copy of the core's texts at the time of the prompt; `None` if the copy is missing.
    pub texts: Option<&'a Texts>,
    /// Messages of the queue at the time of the prompt, counted in the prompt's encoding.
    pub queue: &'a [Message],
    /// The built context that the prompt showed; `None` if there was none, or if it is missing.
    pub context: Option<ShownContext>,
}

/// A part of a prompt whose text is no longer stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Gone {
    /// Name of the section, or `texts` for the copy of the core's texts.
    pub section: &'static str,
    /// Position of the removed message; `None` if the part is not a message of the log.
    pub seq: Option<u64>,
    /// Id of the removed part of the prompt.
    pub id: String,
    /// Time when the text was removed; `None` if the time is unknown.
    pub expired_at: Option<String>,
    /// Time when a request to forget removed the text; `None` if no such request removed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forgotten_at: Option<String>,
}

/// Defines the enum `Section` from a list of names and modules; each module has a constant
/// `SECTION`.
macro_rules! sections {
    ($($section:ident: $file:ident,)*) => {
        /// A section of the window.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs, reason = "the file of each section describes it")]
        pub enum Section {
            $($section,)*
        }

        impl Section {
            /// All sections of the window, in order.
            pub const ALL: [Self; [$(Self::$section),*].len()] = [$(Self::$section),*];

            /// Returns the description of the section.
            pub const fn spec(self) -> &'static $crate::window::Spec {
                match self {
                    $(Self::$section => &$file::SECTION,)*
                }
            }
        }
    };
}
pub(super) use sections;

use super::Section;

/// The sections that every answer reports, in the order of the program's first version.
const FIRST_REPORTED: [Section; 6] = [
    Section::System,
    Section::Working,
    Section::Queue,
    Section::Summary,
    Section::Notices,
    Section::Tools,
];

impl Section {
    /// Returns the name of the section.
    pub const fn name(self) -> &'static str {
        self.spec().name
    }

    /// Returns all sections in the order of answers and metrics; sections that later versions added
    /// are last.
    pub fn reported() -> impl Iterator<Item = Self> {
        let later = Self::ALL.into_iter().filter(|section| !section.is_always_reported());
        FIRST_REPORTED.into_iter().chain(later)
    }

    /// Whether answers report the section even if it is empty. A section that a later version added
    /// is reported only once it is used, so that existing answers do not change.
    pub(super) fn is_always_reported(self) -> bool {
        FIRST_REPORTED.contains(&self)
    }

    /// Returns all sections in the order in which pictures of the window show them; the queue is
    /// last, because it changes most.
    pub fn drawn() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|section| *section != Self::Queue).chain([Self::Queue])
    }
}
