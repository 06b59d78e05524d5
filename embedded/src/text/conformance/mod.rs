//! Features that no query of this repository uses: `aql`, `minhash`, `collation` and geo analyzers,
//! and `OFFSET_INFO`.

pub(super) mod aql;
pub(super) mod collation;
pub(super) mod geo;
pub(super) mod highlight;
pub(super) mod minhash;
