//! What a search tells of text from outside: the rules that it meets, and, in quarantine, nothing else of it until it is released.

use super::{TaintMode, rules_of, rules_of_message};
use crate::memory::archive::{FoundPassage, Parent};
use crate::memory::core::Core;
use crate::memory::message::{Message, tainted};
use crate::memory::receipt::sha256;
use crate::policy::trace::Vertex;

/// A text that is to be told, as far as it may be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Untrusted {
    /// The rules that it meets.
    pub rules: Vec<String>,
    /// What is told in its place; none where it may be told.
    pub held: Option<String>,
}

/// Hex digits of a released item's name: 128 bits.
const NAME_DIGITS: usize = 32;

/// Under which name an item stands among those that were released. `place`: key of a message, or [`chunk_place`]. `revision`: of a chunk,
/// so that another text at its place is not released with it; empty of a message, which never changes.
pub fn released_name(place: &str, revision: &str) -> String {
    let mut name = sha256(&format!("released\0{place}\0{revision}"));
    name.truncate(NAME_DIGITS);
    name
}

/// What is released of a chunk: the larger piece that it is a part of, since that is what is shown, or the chunk alone.
pub fn chunk_place(key: &str, doc_id: &str, parent: Option<Parent>) -> String {
    match parent {
        Some(parent) => format!("{doc_id}\0{}", parent.first),
        None => key.to_owned(),
    }
}

impl TaintMode {
    /// The rules that a message meets; where no text is looked at, those that it was marked with.
    pub fn rules_of(self, message: &Message) -> Vec<String> {
        match self {
            Self::Off => tainted(&message.meta).into_iter().map(str::to_owned).collect(),
            Self::Mark | Self::Quarantine => rules_of_message(message),
        }
    }

    /// What may be told of a message.
    pub fn untrusted(self, core: &Core, message: &Message) -> Untrusted {
        let original = message.copy_of.as_ref().unwrap_or(&message.key);
        self.guarded(core, self.rules_of(message), original, "", &message.content)
    }

    /// What may be told of a chunk.
    pub fn untrusted_passage(self, core: &Core, passage: &FoundPassage) -> Untrusted {
        let place = chunk_place(&passage.key, &passage.doc_id, passage.parent);
        self.guarded(core, self.rules_in(&passage.text), &place, &passage.revision, &passage.text)
    }

    /// An entry of a trace with the rules that its text meets, and with its text if that may be told.
    pub fn vertex(self, core: &Core, vertex: &Vertex) -> Vertex {
        let (place, revision) = vertex.released_as();
        let rules = self.rules_of_vertex(vertex);
        let Untrusted { rules, held } = self.guarded(core, rules, &place, revision, &vertex.text);
        let mut vertex = vertex.clone();
        vertex.taint = Some(rules).filter(|rules| !rules.is_empty());
        if let Some(told) = held {
            vertex.chars = told.chars().count() as u64;
            vertex.text = told;
            vertex.offset = None;
            vertex.quarantined = true;
        }
        vertex
    }

    /// The rules that an entry of a trace meets: as it was marked, or as they are now.
    pub fn rules_of_vertex(self, vertex: &Vertex) -> Vec<String> {
        match &vertex.taint {
            Some(marked) => marked.clone(),
            None if vertex.is_from_outside() => self.rules_in(&vertex.text),
            None => Vec::new(),
        }
    }

    /// The rules that a text from outside meets.
    pub fn rules_in(self, text: &str) -> Vec<String> {
        match self {
            Self::Off => Vec::new(),
            Self::Mark | Self::Quarantine => {
                rules_of(text).into_iter().map(str::to_owned).collect()
            }
        }
    }

    /// What may be told of a text at a place.
    pub fn guarded(
        self,
        core: &Core,
        rules: Vec<String>,
        place: &str,
        revision: &str,
        text: &str,
    ) -> Untrusted {
        let holds = self == Self::Quarantine
            && !rules.is_empty()
            && !core.released.contains(&released_name(place, revision));
        let held = holds.then(|| {
            let chars = text.chars().count();
            format!("[quarantined: {chars} characters, {}]", rules.join(", "))
        });
        Untrusted { rules, held }
    }

    /// Tells lists of results apart that were made under other releases; empty where nothing is held back.
    pub fn releases(self, core: &Core) -> String {
        match self {
            Self::Quarantine => sha256(&core.released.join("\n")),
            Self::Off | Self::Mark => String::new(),
        }
    }
}
