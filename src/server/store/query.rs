//! The queries of the server. Each query is the text of one file of `aql/`, and has the name of
//! this file. No query text is put together at run time.

use std::sync::LazyLock;

/// One AQL query of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query {
    /// Name of the query's file, without `.aql`.
    pub name: &'static str,
    /// AQL text of the query, with the comment at its beginning.
    pub text: &'static str,
}

impl Query {
    /// Returns the text without the comment, as it is sent to the database.
    #[must_use]
    pub fn statement(self) -> &'static str {
        let mut rest = self.text;
        while let Some((_, after)) = rest.split_once('\n').filter(|_| rest.starts_with("//")) {
            rest = after;
        }
        rest
    }
}

/// Defines the queries that a Rust file uses: one constant for each query, and `ALL` with all of
/// them.
macro_rules! queries {
    ($($vis:vis $constant:ident = $name:literal,)+) => {
        $(
            #[doc = concat!("`", $name, ".aql`.")]
            $vis const $constant: crate::store::query::Query = crate::store::query::Query {
                name: $name,
                text: include_str!(concat!("../../../aql/", $name, ".aql")),
            };
        )+
        /// All queries that this file uses.
        pub(super) const ALL: &[crate::store::query::Query] = &[$($constant),+];
    };
}
pub(super) use queries;

/// Every query of the server, for the tests of query plans, the doctor, and the tests of the
/// project's source rules.
pub static QUERIES: LazyLock<Vec<Query>> = LazyLock::new(|| {
    use super::*;
    [
        core::ALL,
        change::ALL,
        forget::ALL,
        moving::ALL,
        message::ALL,
        names::ALL,
        thread::ALL,
        together::ALL,
        tombstone::ALL,
        recall::ALL,
        recall_vectors::ALL,
        retention::ALL,
        schedule::ALL,
        score::ALL,
        writable::ALL,
        archive::ALL,
        documents::ALL,
        beside::ALL,
        reindex::ALL,
        rekey::ALL,
        pack::ALL,
        page::ALL,
        prompt::ALL,
        quarantine::ALL,
        trace::ALL,
        why::ALL,
        dump::ALL,
        feed::ALL,
        heads::ALL,
        import::ALL,
        ledger_check::ALL,
        setup::ALL,
    ]
    .concat()
});
