//! The search for unsigned entries: its next agents, and files that say that it has been through.
//!
//! Entries of earlier program versions have no code. A server signs such entries only until it has
//! looked once at all agents that its checkpoints name. For each database, a file beside the
//! checkpoints then says so, which a writer to the database can neither make nor remove. As long as
//! it is missing, the next start begins again, for example after a first start that was killed.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::ops::Bound;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use super::rotate::synced;
use super::{Checkpoints, Signed};
use crate::store::SignedHeads;
use vctx_core::ledger::Secret;
use vctx_core::ledger::note::Head;

impl Checkpoints {
    /// Returns the first agents after a key whose newest statement is a head, in order, with the
    /// heads.
    pub fn heads_after(&self, after: &str, most: usize) -> Vec<(String, Head)> {
        let head = |signed: &Signed| signed.head.clone();
        self.after(after, most, head)
    }

    /// Returns the first agents after a key whose newest statement is that they are gone, in order.
    pub fn gone_after(&self, after: &str, most: usize) -> Vec<String> {
        let is_gone = |signed: &Signed| signed.head.is_none().then_some(());
        self.after(after, most, is_gone).into_iter().map(|(agent, ())| agent).collect()
    }

    fn after<T>(
        &self,
        after: &str,
        most: usize,
        what: impl Fn(&Signed) -> Option<T>,
    ) -> Vec<(String, T)> {
        let state = self.state.lock().expect("no holder panics");
        let range = (Bound::Excluded(after), Bound::Unbounded);
        let found = state.signed.range::<str, _>(range);
        let found = found.filter_map(|(agent, signed)| Some((agent.clone(), what(signed)?)));
        found.take(most).collect()
    }

    /// Returns whether entries without a code may still have to be signed in the database with the
    /// given name: the checkpoints named agents when they were opened, and no file says that the
    /// server has looked at them with this secret. If they named none, makes the file at once.
    pub fn is_unsearched(&self, database: &str, secret: &Secret) -> bool {
        match fs::read_to_string(self.searched_path(database)) {
            Ok(text) if secret.holds(&coded_text(database), text.trim_end()) => return false,
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::error!(%error, database, "cannot read what says whether all is signed");
                return false;
            }
            _ => {}
        }
        if self.was_empty
            && let Err(error) = self.note_searched(database, secret)
        {
            // The next start looks once more.
            tracing::warn!(%error, database, "cannot note that there is nothing to sign");
        }
        !self.was_empty
    }

    /// Notes that the server has looked for unsigned entries in a database. Returns when the file
    /// is on disk.
    pub fn note_searched(&self, database: &str, secret: &Secret) -> io::Result<()> {
        let path = self.searched_path(database);
        let temporary = self.directory.join(format!("new-searched.{database}"));
        let mut options = OpenOptions::new();
        let options = options.write(true).create(true).truncate(true).mode(0o600);
        let mut file = options.open(&temporary)?;
        file.write_all(format!("{}\n", secret.code(&coded_text(database))).as_bytes())?;
        file.sync_all()?;
        fs::rename(&temporary, &path)?;
        synced(&self.directory).map_err(io::Error::other)
    }

    fn searched_path(&self, database: &str) -> PathBuf {
        self.directory.join(format!("searched.{database}"))
    }
}

/// Returns the text whose code is in the file. With another secret, the server looks once more.
fn coded_text(database: &str) -> String {
    format!("vctx searched 1\0{database}")
}

impl SignedHeads for Checkpoints {
    fn signed_head(&self, agent: &str) -> Option<Head> {
        self.signed(agent).and_then(|signed| signed.head)
    }

    fn is_contradicted(&self, agent: &str) -> bool {
        self.is_broken(agent)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use vctx_core::ledger::note::SignedHead;

    #[test]
    fn a_server_that_has_signed_heads_is_unsearched_until_it_has_looked_with_its_secret() {
        let dir = tempfile::tempdir().unwrap();
        let [own, other] = [1, 2].map(|byte| Secret::new(&[byte; Secret::BYTES]));
        let open = || Checkpoints::open(dir.path()).unwrap();
        let one = open();
        assert!(!one.is_unsearched("home", &own), "there is nothing to look at");
        let head = Some(Head { n: 1, hash: "0".repeat(64) });
        let heads = vec![SignedHead { agent: "ada".into(), head }];
        one.sign(heads, "2026-01-01T00:00:00.000Z").unwrap();
        assert!(!one.is_unsearched("west", &own), "there was nothing at the start");
        drop(one);
        let path = dir.path().join("searched.home");
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let one = open();
        let told = |database, secret| one.is_unsearched(database, secret);
        assert!(!told("home", &own) && !told("west", &own));
        assert!(told("home", &other), "the secret is another one");
        assert!(told("east", &own), "the database is new to the server");
        fs::remove_file(&path).unwrap();
        assert!(told("home", &own) && told("home", &own));
        one.note_searched("home", &own).unwrap();
        assert!(!told("home", &own));
        fs::copy(&path, dir.path().join("searched.east")).unwrap();
        assert!(told("east", &own), "the file is one of another database");
    }
}
