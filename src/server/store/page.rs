//! Stored result lists; they are written with the change that makes them and read here.

use super::db::{Binds, Ro};
use super::fault::Fault;
use super::query::{Query, query};
use vctx_core::memory::page::Page;
use vctx_core::policy::Scope;

/// A list by its handle.
pub(super) const PAGE: Query = query!("page_load");

/// The agent's list of that handle, if there is one.
pub async fn result_page(ro: &Ro, scope: &Scope, handle: &str) -> Result<Option<Page>, Fault> {
    let rows: Vec<Page> = ro.rows(PAGE, Binds::of(scope, [("handle", handle.into())])).await?;
    Ok(rows.into_iter().next())
}
