//! Stores, loads and finds context packs.

use serde::Deserialize;
use serde_json::json;

use super::beside::beside_at_once;
use super::db::{Ro, Rw, binds};
use super::fault::Result;
use super::query::queries;
use vctx_core::ledger::note::Head;
use vctx_core::memory::export::RowKind;
use vctx_core::memory::message::Message;
use vctx_core::memory::pack::ContextPack;
use vctx_core::trust::Scope;

/// Maximum number of context packs in the history of a fact.
const WHY_PACKS_MAX: u64 = 500;

queries! {
    KEEP = "pack_keep",
    LOAD = "pack_load",
    ABOUT = "pack_about",
}

/// A context pack with the messages that it shows.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct LoadedPack {
    /// The pack; `None` if it is not stored.
    pub pack: Option<ContextPack>,
    /// The messages that the pack shows.
    pub said: Vec<Message>,
}

/// Context packs with the messages that they show.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct LoadedPacks {
    /// The packs.
    pub packs: Vec<ContextPack>,
    /// The messages that the packs show.
    pub said: Vec<Message>,
}

/// Stores a context pack beside calls, unless it is stored already.
pub async fn keep_pack(rw: &Rw, scope: &Scope, pack: &ContextPack) -> Result<()> {
    let bound = |entry, last: &Head| binds!(scope; pack, entry, last, sync = rw.sync);
    beside_at_once(rw, scope, ("pack", KEEP), bound, |written| {
        written.row(RowKind::Packs, json!(pack), None)
    })
    .await
}

/// Loads the context pack with the given digest.
pub async fn load_pack(ro: &Ro, scope: &Scope, digest: &str) -> Result<LoadedPack> {
    Ok(ro.row(LOAD, binds!(scope; digest)).await?.unwrap_or_default())
}

/// Returns context packs that show one of the given messages, or contain a text (in lower case) or
/// all of some words.
pub async fn packs_about(
    ro: &Ro,
    scope: &Scope,
    seqs: &[u64],
    text: &str,
    words: &[String],
) -> Result<LoadedPacks> {
    let binds = binds!(scope; seqs, text, words, limit = WHY_PACKS_MAX);
    Ok(ro.row(ABOUT, binds).await?.unwrap_or_default())
}
