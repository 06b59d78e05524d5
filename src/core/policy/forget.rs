//! What is to be forgotten, what is found of it, and how a step of a forgetting finds things.

use serde::Deserialize;

use crate::memory::forget::{Forgetting, Quoted};
use crate::memory::message::Message;

/// What is asked to be forgotten.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForgetAsked {
    /// Places of messages.
    pub seqs: Vec<u64>,
    /// Ids of messages.
    pub ids: Vec<String>,
    /// A document of the archive.
    pub doc_id: Option<String>,
    /// A text: whatever holds it goes.
    pub text: Option<String>,
    /// Whether blocks that quote it go too.
    pub blocks: bool,
}

/// What is found of it.
#[derive(Clone, Debug, Default)]
pub struct ForgetFound {
    /// Messages, copies of them, and what they are paired with; by place.
    pub messages: Vec<FoundMessage>,
    /// Documents of the archive.
    pub documents: Vec<String>,
    /// Schedules by name.
    pub schedules: Vec<String>,
    /// Keys of sets of tools.
    pub tool_sets: Vec<String>,
    /// Keys of copies of texts that hold it in a block or in the system text.
    pub versions: Vec<String>,
    /// Keys of stored answers that hold it.
    pub answers: Vec<String>,
    /// Where it is quoted by what stays; blocks of the core, whether they stay or not.
    pub quoted: Quoted,
    /// Whether the summary holds it word by word.
    pub in_summary: bool,
}

impl ForgetFound {
    /// Whether there is nothing to forget.
    pub fn is_empty(&self) -> bool {
        let beside = [&self.documents, &self.schedules, &self.tool_sets, &self.versions];
        self.messages.is_empty()
            && beside.iter().all(|list| list.is_empty())
            && self.answers.is_empty()
            && self.quoted.blocks.is_empty()
            && !self.quoted.system
            && !self.in_summary
    }
}

/// A call of a tool, or its result.
#[derive(Clone, Debug, Deserialize)]
pub struct CallPlace {
    /// Its place.
    pub seq: u64,
    /// Calls that it makes.
    pub calls: Vec<String>,
    /// The call that it answers.
    pub call_id: Option<String>,
}

impl From<&Message> for CallPlace {
    fn from(message: &Message) -> Self {
        Self {
            seq: message.seq,
            calls: message.tool_call_ids().map(str::to_owned).collect(),
            call_id: message.answers().map(str::to_owned),
        }
    }
}

/// Places of what cannot stand without the message at a place: the results of its calls; the call that it answers, with all results
/// of that. A result answers the last call of its id before it, since some runtimes use the same ids in each turn.
pub fn paired_with(seq: u64, places: &[CallPlace]) -> Vec<u64> {
    let Some(at) = places.iter().position(|one| one.seq == seq) else { return Vec::new() };
    let makes = |one: &&CallPlace, id: &String| one.calls.contains(id);
    let call = places[at]
        .call_id
        .as_ref()
        .and_then(|id| places[..at].iter().rposition(|one| makes(&one, id)));
    let results = |call: usize| {
        places[call].calls.iter().flat_map(move |id| {
            let behind = places[call + 1..].iter().take_while(move |one| !makes(one, id));
            behind.filter(move |one| one.call_id.as_ref() == Some(id)).map(|one| one.seq)
        })
    };
    let of_call = call.into_iter().flat_map(|call| results(call).chain([places[call].seq]));
    results(at).chain(of_call).filter(|other| *other != seq).collect()
}

/// A message as it is found.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct FoundMessage {
    /// Its place.
    pub seq: u64,
    /// Its key.
    pub id: String,
    /// What it is to the queue.
    pub kind: String,
    /// Its digest.
    pub digest: String,
    /// Whether it stands in the thread of a client.
    pub thread: bool,
    /// Ids of the calls that it makes.
    pub calls: Vec<String>,
    /// The call that it answers.
    pub call_id: Option<String>,
    /// Runs of its text that are looked for elsewhere.
    pub runs: Vec<String>,
}

/// How it stands with a forgetting, and what its next step is about.
#[derive(Clone, Debug, Default)]
pub struct ForgetLook {
    /// The row; none: there is none of that key.
    pub row: Option<Forgetting>,
    /// Messages of the step.
    pub messages: Vec<StandingMessage>,
    /// Keys of the rows of the step.
    pub keys: Vec<String>,
    /// Where the next page begins; none: there is none.
    pub after: Option<String>,
}

/// A message that is about to be forgotten, as it stands.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct StandingMessage {
    /// Its key.
    pub id: String,
    /// Its place.
    pub seq: u64,
    /// What it is to the queue.
    pub kind: String,
    /// What it costs.
    pub token_estimate: u64,
    /// Whether its text is gone already.
    pub gone: bool,
    /// Whether an eviction logged it.
    pub folded: bool,
    /// Revision of the summary that stands for it since.
    pub summary_rev: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(seq: u64, calls: &[&str], call_id: Option<&str>) -> CallPlace {
        let calls = calls.iter().map(|id| (*id).to_owned()).collect();
        CallPlace { seq, calls, call_id: call_id.map(str::to_owned) }
    }

    #[test]
    fn a_call_goes_with_all_of_its_results_and_with_those_of_no_other_turn() {
        let places = [
            place(1, &["a", "b"], None),
            place(2, &[], Some("a")),
            place(4, &[], Some("b")),
            place(5, &["a"], None),
            place(9, &[], Some("a")),
            place(10, &[], Some("c")),
        ];
        for (seq, paired) in [
            (1, &[2, 4][..]),
            (2, &[4, 1]),
            (4, &[2, 1]),
            (5, &[9]),
            (9, &[5]),
            (10, &[]),
            (3, &[]),
        ] {
            assert_eq!(paired_with(seq, &places), paired, "{seq}");
        }
    }
}
