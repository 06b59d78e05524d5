//! Checks whether the database accepts writes: reads the database's mode, and after a refused write
//! sends another write.

use http::Method;

use super::db::{Rw, binds};
use super::fault::{Fault, FaultKind, Result};
use super::query::queries;

queries! {
    PROBE = "write_probe",
}
/// Mode reported by a read-only database, in place of `default`.
const READ_ONLY: &str = "readonly";

impl Rw {
    /// Checks that the database accepts writes. With a full disk, the database refuses writes
    /// (status 500, error 1104) but may still report its normal mode. So after a write was refused,
    /// only a successful write shows that the database accepts writes again.
    pub async fn takes_writes(&self) -> Result<()> {
        let mode = self.link.call(Method::GET, "/_admin/server/availability", None).await;
        match mode {
            Ok((_, answer)) if answer["mode"] == READ_ONLY => {
                let read_only = FaultKind::Arango { status: 403, num: 1004 };
                return Err(Fault::new(read_only, "the database is read-only"));
            }
            // Even if the database is overloaded (503) or reports no mode, it is reachable.
            Ok(_) | Err(Fault { kind: FaultKind::Arango { .. }, .. }) => {}
            Err(fault) => return Err(fault),
        }
        let session = self.link.database.session();
        if !session.was_refused() {
            return Ok(());
        }
        match self.rows::<String>(PROBE, binds!(none;)).await {
            // If the probe lost a conflict, another server's probe has just been written, so the
            // database accepts writes.
            Err(fault) if !fault.raced() => Err(fault),
            _ => {
                session.is_accepted();
                Ok(())
            }
        }
    }
}
