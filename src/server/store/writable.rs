//! Whether the database takes writes: by its own word, and after a write that it refused by a write of our own.

use http::Method;

use super::db::{Binds, Rw};
use super::fault::{Fault, FaultKind};
use super::query::{Query, query};

/// A write that changes nothing of a memory.
pub(super) const PROBE: Query = query!("write_probe");
/// What a database says of its mode, beside `default`.
const READ_ONLY: &str = "readonly";

impl Rw {
    /// Whether the database takes writes. A disk may be full without a word of its mode (500/1104); the first write that fails
    /// tells it then, and from there on only a write can tell that it is over.
    pub async fn takes_writes(&self) -> Result<(), Fault> {
        let mode = self.link.call(Method::GET, "/_admin/server/availability", None).await;
        match mode {
            Ok((_, answer)) if answer["mode"] == READ_ONLY => {
                let read_only = FaultKind::Arango { status: 403, num: 1004 };
                return Err(Fault::new(read_only, "the database is read-only"));
            }
            // One that is overloaded (503), or tells its mode to nobody, answers all the same.
            Ok(_) | Err(Fault { kind: FaultKind::Arango { .. }, .. }) => {}
            Err(fault) => return Err(fault),
        }
        let session = self.link.database.session();
        if !session.was_refused() {
            return Ok(());
        }
        match self.rows::<String>(PROBE, Binds::unscoped([])).await {
            // Another server's probe was faster.
            Err(fault) if !fault.raced() => Err(fault),
            _ => {
                session.is_accepted();
                Ok(())
            }
        }
    }
}
