//! Replays a past prompt from stored rows and compares it with the digests recorded when the prompt
//! was sent.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::memory::core::Core;
use crate::memory::message::{Kind, Message};
use crate::memory::pack::{ContextPack, PackContent, Piece, ShownContext};
use crate::memory::prompt::{Prompt, Texts, ToolSet};
use crate::memory::receipt;
use crate::memory::strict::filler_tokens;
use crate::memory::tokens::TokenCounter;
use crate::model_api::ModelRequest;
use crate::window::{Gone, Past, Section, Window, assemble, shown_context};

/// The data from which a prompt is replayed, as currently stored.
#[derive(Clone, Copy)]
pub struct Stored<'a> {
    /// The current core.
    pub core: &'a Core,
    /// The row that was recorded when the prompt was sent.
    pub prompt: &'a Prompt,
    /// The stored core version whose texts the prompt contained; `None` if this version is no
    /// longer stored.
    pub texts: Option<&'a Texts>,
    /// The tools that the prompt offered; `None` if they are not stored.
    pub tools: Option<&'a ToolSet>,
    /// The context pack that the prompt showed; `None` without one, or if it is not stored.
    pub pack: Option<&'a ContextPack>,
    /// The messages that the context pack shows.
    pub packed: &'a [Message],
    /// The queue's messages at the time of the prompt.
    pub queue: &'a [Message],
    /// Token counter in the encoding of the prompt.
    pub counter: &'a dyn TokenCounter,
    /// Token counter of earlier versions of the program, whose counts a prompt may contain.
    pub earlier: &'a dyn TokenCounter,
}

/// A difference between the replayed prompt and the prompt that was sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Differs {
    /// A description of the difference, in one sentence.
    pub what: String,
    /// Position of the message that differs; `None` for a difference outside the messages.
    pub seq: Option<u64>,
    /// The digest recorded when the prompt was sent.
    pub expected: String,
    /// The digest of the currently stored data.
    pub found: String,
}

/// A replayed prompt.
#[derive(Clone, Debug)]
pub struct Replayed {
    /// The replayed window.
    pub window: Window,
    /// The bytes of the replayed request. They equal the sent bytes if no text was removed and
    /// nothing differs.
    pub request: String,
    /// Texts of the prompt that are no longer stored.
    pub gone: Vec<Gone>,
    /// Differences between the replayed prompt and the prompt that was sent.
    pub differs: Vec<Differs>,
    /// Content of the context pack that the prompt showed, if it is stored.
    pub context: Option<PackContent>,
    /// The texts of the context's items; `None` for a text that is no longer stored.
    pub context_texts: Vec<Option<String>>,
}

impl Replayed {
    /// Returns whether the replayed bytes are exactly the bytes that were sent.
    pub fn is_exact(&self) -> bool {
        self.gone.is_empty() && self.differs.is_empty()
    }
}

/// Replays a prompt from stored data, and reports missing texts and differences. If the current
/// counts of tokens do not give the recorded prompt, those of earlier versions are tried.
pub fn replay(stored: Stored<'_>) -> Replayed {
    let replayed = replayed(stored, Counts::AsStored);
    if replayed.is_exact() || stored.queue.iter().all(|m| !counts_differ(&stored, m)) {
        return replayed;
    }
    let others = [Counts::Current, Counts::Earlier].into_iter();
    let exact = others.map(|counts| self::replayed(stored, counts)).find(Replayed::is_exact);
    exact.unwrap_or(replayed)
}

/// Which counts of tokens the messages of a replayed window have. The counts of long texts differ
/// between versions of the program.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Counts {
    /// The current count, or the earlier count of a message that is stored with it.
    AsStored,
    Current,
    Earlier,
}

fn counts_differ(stored: &Stored<'_>, message: &Message) -> bool {
    let form = stored.prompt.window.form;
    message.cost(form, stored.counter) != message.cost(form, stored.earlier)
}

fn replayed(stored: Stored<'_>, counts: Counts) -> Replayed {
    let prompt = stored.prompt;
    let mut gone = Vec::new();
    let name = stored.core.sealed_as();
    let mut differs = messages_that_differ(prompt, name, stored.queue);
    // The messages of a context are not neighbours, so only their texts are compared.
    differs.extend(stored.packed.iter().filter_map(|message| altered(name, message)));
    differs.extend(stored.texts.iter().flat_map(|texts| &texts.changed).map(|changed| {
        let what = format!("the text differs from the stored text: {}", changed.of);
        differing(&what, None, &changed.expected, &changed.found)
    }));
    // Of a message that was forgotten before the prompt was rendered, only a frame may be shown.
    let stood = |m: &Message| m.forgotten_version.is_none_or(|v| v > prompt.window.version);
    let queue = stored.queue.iter().map(|m| counted(&stored, m, counts));
    let queue: Vec<Message> = queue.filter(|m| stood(m) || m.frame_tokens > 0).collect();
    let core = core_of(&stored, &queue, &mut gone);
    gone.extend(expired_in(Section::Queue, queue.iter().filter(|m| stood(m))));
    gone.extend(forgotten("notices", &prompt.key, prompt.sent.notices_forgotten_at.as_ref()));
    let window_known = gone.is_empty();
    let window = assemble(&core, &queue);
    gone.extend(forgotten("options", &prompt.key, prompt.sent.options_forgotten_at.as_ref()));
    let tools = tools_of(&stored, &mut gone, &mut differs);
    differs.extend(pack_that_differs(&stored));
    let options: Map<String, Value> =
        serde_json::from_str(&prompt.sent.options).unwrap_or_default();
    let request = ModelRequest {
        model: &prompt.sent.model,
        messages: &window.messages,
        tools: tools.as_ref().and_then(Value::as_array).map(Vec::as_slice),
        options: &options,
    };
    let request = request.text(prompt.sent.api);
    // A part that is outside the window, such as the tools, hides no difference in the window.
    let request_digest = receipt::sha256(&request);
    let messages_digest = window.manifest["messages_digest"].as_str().unwrap_or_default();
    for (is_known, what, expected, found) in [
        (
            window_known,
            "the messages differ from those that were sent",
            &prompt.window.messages_digest,
            messages_digest,
        ),
        (
            window_known,
            "the manifest differs from the manifest of the prompt",
            &prompt.window.context_digest,
            &window.context_digest,
        ),
        (
            gone.is_empty(),
            "the request differs from the request that was sent",
            &prompt.sent.request_digest,
            &request_digest,
        ),
    ] {
        if is_known && expected != found {
            differs.push(differing(what, None, expected, found));
        }
    }
    let context = stored.pack.and_then(ContextPack::content);
    let context_texts = context.as_ref().map(|content| texts_of(content, stored.packed));
    let context_texts = context_texts.unwrap_or_default();
    Replayed { window, request, gone, differs, context, context_texts }
}

/// Returns the texts of a context's items; `None` for a text that is no longer stored.
fn texts_of(content: &PackContent, packed: &[Message]) -> Vec<Option<String>> {
    let message = |seq: u64| packed.iter().find(|message| message.seq == seq);
    (0..content.items.len()).map(|at| content.item_text(at, message).ok()).collect()
}

fn differing(what: &str, seq: Option<u64>, expected: &str, found: &str) -> Differs {
    Differs { what: what.into(), seq, expected: expected.into(), found: found.into() }
}

/// Returns the core at the time of the prompt, limited to the attributes that a window depends on.
fn core_of(stored: &Stored<'_>, queue: &[Message], gone: &mut Vec<Gone>) -> Core {
    let window = &stored.prompt.window;
    let mut core = stored.core.clone();
    core.version = window.version;
    core.rev.clone_from(&window.core_rev);
    core.chain = window.chain.clone();
    core.encoding = window.encoding;
    core.form = window.form;
    core.token_budget = window.policy;
    core.context_window = window.policy.max;
    match stored.texts {
        None => gone.push(unexplained("texts", "core_versions")),
        Some(texts) if texts.forgotten_at.is_some() => gone.push(Gone {
            expired_at: texts.expired_at.clone(),
            forgotten_at: texts.forgotten_at.clone(),
            ..unexplained("texts", &texts.key)
        }),
        Some(_) => {}
    }
    gone.extend(stored.texts.iter().flat_map(|texts| &texts.lost).map(|lost| Gone {
        expired_at: lost.expired_at.clone(),
        forgotten_at: lost.forgotten_at.clone(),
        ..unexplained("texts", &lost.of)
    }));
    let context = context_of(stored, gone);
    let past = Past { window, texts: stored.texts, queue, context };
    for section in Section::ALL {
        gone.extend((section.spec().restore)(&past, &mut core));
    }
    core
}

/// Returns the built context that the prompt showed. A message of it whose text was removed is a
/// part of the prompt that is gone; the section itself tells if the pack is not stored.
fn context_of(stored: &Stored<'_>, gone: &mut Vec<Gone>) -> Option<ShownContext> {
    let pack = stored.pack.filter(|pack| Some(&pack.digest) == stored.prompt.window.pack.as_ref());
    let content = pack?.content()?;
    let message = |seq: u64| stored.packed.iter().find(|message| message.seq == seq);
    let text = match content.text(message) {
        Ok(text) => text,
        Err(seq) => {
            let expired = stored.packed.iter().filter(|message| message.seq == seq);
            gone.extend(expired_in(Section::Context, expired));
            return None;
        }
    };
    let form = stored.prompt.window.form;
    Some(shown_context(stored.counter, form, pack?, content.question_seq, text))
}

/// Returns the item of [`Replayed::gone`] for a text that is missing for an unknown reason.
fn unexplained(section: &'static str, id: &str) -> Gone {
    Gone { section, seq: None, id: id.into(), expired_at: None, forgotten_at: None }
}

/// Returns the item of [`Replayed::gone`] for a part of the prompt's own row that a request to
/// forget removed, if it did.
fn forgotten(section: &'static str, id: &str, at: Option<&String>) -> Option<Gone> {
    let at = at?.clone();
    Some(Gone { expired_at: Some(at.clone()), forgotten_at: Some(at), ..unexplained(section, id) })
}

/// Returns a message with its token cost recomputed in the prompt's encoding.
fn counted(stored: &Stored<'_>, message: &Message, counts: Counts) -> Message {
    let mut message = message.clone();
    let form = stored.prompt.window.form;
    if message.kind != Kind::Copy {
        let has_filler = stored.prompt.window.fillers.contains(&message.seq);
        message.frame_tokens = if has_filler { filler_tokens(stored.counter) } else { 0 };
    }
    let current = message.cost(form, stored.counter);
    message.token_estimate = match counts {
        Counts::Current => current,
        Counts::AsStored if message.token_estimate == current => current,
        Counts::AsStored => match message.cost(form, stored.earlier) {
            earlier if earlier == message.token_estimate => earlier,
            _ => current,
        },
        Counts::Earlier => message.cost(form, stored.earlier),
    };
    message
}

fn expired_in<'m>(
    section: Section,
    messages: impl Iterator<Item = &'m Message>,
) -> impl Iterator<Item = Gone> {
    messages.filter(|m| m.expired_at.is_some()).map(move |m| Gone {
        section: section.name(),
        seq: Some(m.seq),
        id: m.key.clone(),
        expired_at: m.expired_at.clone(),
        forgotten_at: m.forgotten_at.clone(),
    })
}

/// Compares a message's text with its digest.
fn altered(name: &str, message: &Message) -> Option<Differs> {
    if message.expired_at.is_some() {
        return None;
    }
    let canonical = receipt::canonical_message(name, &Value::Object(message.public()));
    let digest = receipt::digest(&message.salt, &canonical);
    let what = "the message differs from the message that was appended";
    (digest != message.digest).then(|| differing(what, Some(message.seq), &message.digest, &digest))
}

/// Finds messages whose text does not match their digest, or whose digest does not match the hash
/// chain.
fn messages_that_differ(prompt: &Prompt, name: &str, queue: &[Message]) -> Vec<Differs> {
    let mut found = Vec::new();
    let mut before: Option<&Message> = None;
    for message in queue {
        found.extend(altered(name, message));
        if let Some(before) = before.filter(|before| before.seq + 1 == message.seq) {
            let chain = receipt::link(&before.chain, &message.digest);
            if chain != message.chain {
                let what = "the digest of the message differs from the digest in the hash chain";
                found.push(differing(what, Some(message.seq), &message.chain, &chain));
            }
        }
        before = Some(message);
    }
    let last = queue.last().filter(|m| m.seq == prompt.window.chain.length);
    if let Some(last) = last.filter(|last| last.chain != prompt.window.chain.head) {
        let what = "the last message's chain value is not the recorded head of the hash chain";
        found.push(differing(what, Some(last.seq), &prompt.window.chain.head, &last.chain));
    }
    found
}

/// Compares a context pack with its digest, and the messages that it shows with theirs.
fn pack_that_differs(stored: &Stored<'_>) -> Vec<Differs> {
    let (Some(digest), Some(pack)) = (&stored.prompt.window.pack, stored.pack) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    if !pack.holds() || pack.digest != *digest {
        let what = "the context pack differs from the pack of the prompt";
        found.push(differing(what, None, digest, &pack.digest));
    }
    let pieces = pack.content().map(|content| content.pieces).unwrap_or_default();
    for piece in &pieces {
        let Piece::Said { seq, digest, .. } = piece else { continue };
        let other = stored.packed.iter().find(|message| message.seq == *seq);
        if let Some(other) = other.filter(|message| message.digest != *digest) {
            let what = "the context pack shows another message";
            found.push(differing(what, Some(*seq), digest, &other.digest));
        }
    }
    found
}

/// Returns the tools in the prompt's request.
fn tools_of(
    stored: &Stored<'_>,
    gone: &mut Vec<Gone>,
    differs: &mut Vec<Differs>,
) -> Option<Value> {
    let digest = stored.prompt.sent.tools.as_ref()?;
    let Some(set) = stored.tools else {
        gone.push(unexplained(Section::Tools.name(), digest));
        return None;
    };
    if !set.holds() || set.digest != *digest {
        differs.push(differing(
            "the tools differ from the offered tools",
            None,
            digest,
            &set.digest,
        ));
    }
    serde_json::from_str(&set.text).ok()
}
