//! Reads stored result lists of searches, from which later pages are served.

use super::db::{Ro, binds};
use super::fault::Result;
use super::query::queries;
use vctx_core::memory::page::Page;
use vctx_core::trust::Scope;

queries! {
    PAGE = "page_load",
}

/// Returns the agent's stored result list with the given handle, if any.
pub async fn result_page(ro: &Ro, scope: &Scope, handle: &str) -> Result<Option<Page>> {
    ro.row(PAGE, binds!(scope; handle)).await
}
