//! Reports which taint rules a stored text matches. Also hides a tainted text in quarantine until a
//! reviewer releases the text.

use serde_json::{Map, Value, json};

use super::{TaintMode, rules_of, rules_of_message, rules_with_names, texts_of};
use crate::memory::LABELS;
use crate::memory::archive::{FoundPassage, Parent};
use crate::memory::core::Core;
use crate::memory::message::{Message, tainted};
use crate::memory::receipt::sha256;
use crate::memory::schedule::Schedule;
use crate::trust::trace::Vertex;

/// The taint rules that a text matches, and a replacement if the text is in quarantine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaintReport {
    /// The taint rules that the text matches.
    pub rules: Vec<String>,
    /// The text to show instead of the original; `None` if the original may be shown.
    pub held: Option<String>,
}

/// Number of hex digits in the name of an item released from quarantine: 128 bits.
const NAME_DIGITS: usize = 32;

/// Returns the name of an item in an agent's list of items released from quarantine. `place` is the
/// key of a message, or the result of [`chunk_place`]. `revision` is the revision of a chunk, so
/// that a later text under the same key is not released. For a message, which never changes,
/// `revision` is empty.
pub fn released_name(place: &str, revision: &str) -> String {
    let mut name = sha256(&format!("released\0{place}\0{revision}"));
    name.truncate(NAME_DIGITS);
    name
}

/// Returns the name of the text that is shown again when a chunk is released from quarantine: the
/// larger passage around the chunk, or the chunk alone.
pub fn chunk_place(key: &str, doc_id: &str, parent: Option<Parent>) -> String {
    match parent {
        Some(parent) => format!("{doc_id}\0{}", parent.first),
        None => key.to_owned(),
    }
}

/// Returns the explanation that replaces a text in quarantine.
fn notice(rules: &[String], text: &str) -> String {
    format!("[quarantined: {} characters, {}]", text.chars().count(), rules.join(", "))
}

impl TaintMode {
    /// Returns the taint rules that a message matches. In the mode `off`, returns only the rules
    /// that were stored with the message.
    pub fn rules_of(self, message: &Message) -> Vec<String> {
        match self {
            Self::Off => tainted(&message.meta).into_iter().map(str::to_owned).collect(),
            Self::Mark | Self::Quarantine => rules_of_message(message),
        }
    }

    /// Returns the taint report on a message.
    pub fn untrusted(self, core: &Core, message: &Message) -> TaintReport {
        let original = message.copy_of.as_ref().unwrap_or(&message.key);
        self.guarded(core, self.rules_of(message), original, "", &message.content)
    }

    /// Returns a message for an answer. If the message is in quarantine, an explanation replaces
    /// its text, and its other fields that the sender may have chosen are left out.
    pub fn shown_message(self, core: &Core, message: &Message) -> Map<String, Value> {
        let mut shown = message.public();
        let TaintReport { rules, held } = self.untrusted(core, message);
        if let Some(told) = held {
            shown.insert("content".into(), told.into());
            shown.insert("meta".into(), json!({}));
            shown.remove(LABELS);
            shown.insert("tainted".into(), json!(rules));
            shown.insert("quarantined".into(), true.into());
        }
        shown
    }

    /// Returns a schedule for an answer. If its text is tainted, the mode `quarantine` shows an
    /// explanation in its place: nothing releases the text of a schedule.
    pub fn shown_schedule(self, schedule: &Schedule) -> Value {
        let mut shown = schedule.public();
        if self != Self::Quarantine {
            return shown;
        }
        let rules = self.rules_in(&schedule.content, &[&schedule.name]);
        if !rules.is_empty() {
            shown["content"] = notice(&rules, &schedule.content).into();
            shown["tainted"] = json!(rules);
            shown["quarantined"] = true.into();
        }
        shown
    }

    /// Returns the explanation that replaces a text for a server on another machine, if the text is
    /// in quarantine.
    pub fn withheld(self, text: &str) -> Option<String> {
        let rules = if self == Self::Quarantine { rules_of(text) } else { Vec::new() };
        let rules: Vec<String> = rules.into_iter().map(str::to_owned).collect();
        (!rules.is_empty()).then(|| notice(&rules, text))
    }

    /// Returns the taint report on a chunk.
    pub fn untrusted_passage(self, core: &Core, passage: &FoundPassage) -> TaintReport {
        let place = chunk_place(&passage.key, &passage.doc_id, passage.parent);
        let mut names = vec![passage.doc_id.as_str(), passage.chunk_id.as_str()];
        names.extend(texts_of(&passage.provenance));
        names.extend(passage.labels.iter().map(String::as_str));
        let rules = self.rules_in(&passage.text, &names);
        self.guarded(core, rules, &place, &passage.revision, &passage.text)
    }

    /// Returns a copy of a trace's vertex, together with the taint rules that the vertex's text
    /// matches. A text in quarantine is replaced by an explanation.
    pub fn vertex(self, core: &Core, vertex: &Vertex) -> Vertex {
        let (place, revision) = vertex.released_as();
        let rules = self.rules_of_vertex(vertex);
        let TaintReport { rules, held } = self.guarded(core, rules, &place, revision, &vertex.text);
        let mut vertex = vertex.clone();
        vertex.taint = Some(rules).filter(|rules| !rules.is_empty());
        if let Some(told) = held {
            vertex.chars = told.chars().count() as u64;
            vertex.text = told;
            vertex.offset = None;
            vertex.quarantined = true;
            // The sender of the text may also have chosen these names.
            (vertex.name, vertex.doc_id, vertex.chunk_id) = (None, None, None);
        }
        vertex
    }

    /// Returns the taint rules that a vertex of a trace matches: the rules stored with the vertex.
    /// For a vertex without stored rules whose text is from outside, returns the rules that the
    /// text matches now.
    pub fn rules_of_vertex(self, vertex: &Vertex) -> Vec<String> {
        match &vertex.taint {
            Some(marked) => marked.clone(),
            None if vertex.is_from_outside() => {
                let names = [&vertex.name, &vertex.doc_id, &vertex.chunk_id];
                let names: Vec<&str> = names.into_iter().flatten().map(String::as_str).collect();
                self.rules_in(&vertex.text, &names)
            }
            None => Vec::new(),
        }
    }

    /// Returns the taint rules that a text from outside matches, or the names sent with it; none in
    /// the mode `off`.
    pub fn rules_in(self, text: &str, names: &[&str]) -> Vec<String> {
        match self {
            Self::Off => Vec::new(),
            Self::Mark | Self::Quarantine => {
                rules_with_names(text, names).into_iter().map(str::to_owned).collect()
            }
        }
    }

    /// Returns the taint report on a text, given the rules that it matches. `place` and `revision`
    /// name the text in the list of items released from quarantine (see [`released_name`]).
    pub fn guarded(
        self,
        core: &Core,
        rules: Vec<String>,
        place: &str,
        revision: &str,
        text: &str,
    ) -> TaintReport {
        let holds = self == Self::Quarantine
            && !rules.is_empty()
            && !core.released.contains(&released_name(place, revision));
        let held = holds.then(|| notice(&rules, text));
        TaintReport { rules, held }
    }

    /// Returns a digest of the items released from quarantine, which ties page tokens to one state
    /// of the quarantine; empty unless the mode is `quarantine`.
    pub fn releases(self, core: &Core) -> String {
        match self {
            Self::Quarantine => sha256(&core.released.join("\n")),
            Self::Off | Self::Mark => String::new(),
        }
    }
}
