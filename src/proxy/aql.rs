//! Checks with the engine's parser whether a query only reads, or which collections it writes;
//! queries that cannot be parsed are refused.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use arango_embedded::syntax::{Mentions, parse};

use super::refusal::{Reason, Refusal};
use super::rules::{CALLS_REFUSED, is_writable, system_write};

/// Maximum number of accepted query texts that are remembered; when the map is full, it is cleared.
const PROXY_TEXTS_KEPT: usize = 512;
/// Maximum length of a remembered query text, in bytes.
const PROXY_TEXT_KEPT_BYTES_MAX: usize = 32 * 1024;

/// Query texts that were accepted, each with the result of its check. They are remembered because a
/// vctx server sends few different texts, each many times.
#[derive(Debug, Default)]
struct Accepted<T> {
    texts: Mutex<HashMap<Box<str>, T>>,
}

impl<T: Clone> Accepted<T> {
    fn check(
        &self,
        text: &str,
        judge: impl FnOnce(&str) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let known = self.texts.lock().unwrap_or_else(PoisonError::into_inner).get(text).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let found = judge(text)?;
        if text.len() <= PROXY_TEXT_KEPT_BYTES_MAX {
            let mut texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
            if texts.len() >= PROXY_TEXTS_KEPT {
                texts.clear();
            }
            texts.insert(text.into(), found.clone());
        }
        Ok(found)
    }
}

/// The query texts that are known to read only.
#[derive(Debug, Default)]
pub(super) struct ReadOnlyTexts(Accepted<()>);

impl ReadOnlyTexts {
    /// Accepts a query text if the query only reads, and remembers the accepted text.
    pub(super) fn check(&self, text: &str) -> Result<(), Refusal> {
        self.0.check(text, only_reads)
    }
}

/// The query texts that do not themselves name a system collection to write.
#[derive(Debug, Default)]
pub(super) struct WritingTexts(Accepted<Arc<[String]>>);

impl WritingTexts {
    /// Accepts a query text unless it names a system collection to write, and remembers the
    /// accepted text. Returns the names of the bind parameters that name written collections.
    pub(super) fn check(&self, text: &str) -> Result<Arc<[String]>, Refusal> {
        self.0.check(text, |text| {
            let mentions = mentioned(text)?;
            match mentions.written.iter().all(|name| is_writable(name)) {
                true => Ok(mentions.written_binds.into_iter().collect()),
                false => Err(system_write()),
            }
        })
    }
}

/// Parses a query text with the engine's parser.
fn mentioned(text: &str) -> Result<Mentions, Refusal> {
    // Control characters are refused, because two parsers could treat them differently: one could
    // see a comment where the other sees a query.
    let odd = |c: char| c.is_control() && !['\n', '\t', '\r'].contains(&c);
    if text.contains(odd) || text.replace("\r\n", "").contains('\r') {
        return Err(Refusal::of(Reason::Aql, "the query holds control characters"));
    }
    let body = parse(text).map_err(|_| {
        Refusal::of(Reason::Aql, "the query cannot be parsed, and an unparsed query may write")
    })?;
    let mut mentions = Mentions::default();
    mentions.read(&body);
    Ok(mentions)
}

/// Checks that a query text only reads.
fn only_reads(text: &str) -> Result<(), Refusal> {
    let mentions = mentioned(text)?;
    if mentions.modifies {
        return Err(Refusal::writes("the query modifies"));
    }
    for name in &mentions.calls {
        if name.contains("::") {
            return Err(Refusal::of(Reason::Function, "the query calls a function of a user"));
        }
        if let Some((name, why)) = CALLS_REFUSED.iter().find(|(refused, _)| refused == name) {
            let text = format!("the query calls {name}, which {why}");
            return Err(Refusal::of(Reason::Function, text));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(text: &str) -> Option<Reason> {
        let texts = ReadOnlyTexts::default();
        let first = texts.check(text).err().map(|refusal| refusal.reason);
        assert_eq!(texts.check(text).err().map(|refusal| refusal.reason), first, "{text}");
        first
    }

    #[test]
    fn texts_that_read_pass_and_all_others_do_not() {
        assert_eq!(reason("FOR d IN c FILTER d.`update` == 'REMOVE d IN c' RETURN d"), None);
        assert_eq!(reason("RETURN 1 // REMOVE d IN c"), None);
        let modifies = Some(Reason::Writes);
        for text in [
            "INSERT {} INTO c",
            "for d in c update d with {a: 1} in c",
            "FOR d IN c RePlAcE d WITH {} IN c",
            "FOR d IN c REMOVE d IN c OPTIONS {ignoreErrors: true}",
            "UPSERT {a: 1} INSERT {} UPDATE {} IN c",
            "LET a = (INSERT {} INTO c RETURN NEW) RETURN a",
            "RETURN LENGTH((FOR d IN c REMOVE d IN c RETURN 1))",
            "RETURN {a: [1, (INSERT {} INTO c RETURN 1)]}",
            "FOR d IN c SORT (UPDATE 'a' WITH {} IN c RETURN 1) RETURN d",
            "RETURN 1 ? 2 : (REMOVE 'a' IN c)",
            "RETURN /* // */ (INSERT {} INTO c)",
            "RETURN 1 //\n + LENGTH((INSERT {} INTO c))",
            "INSERT {} INTO @@c",
        ] {
            assert_eq!(reason(text), modifies, "{text}");
        }
        let function = Some(Reason::Function);
        for text in [
            "RETURN MY::WRITE(1)",
            "RETURN my::deep::write()",
            "RETURN V8(1)",
            "RETURN CALL('my::write')",
            "RETURN apply('MY::WRITE', [])",
            "FOR d IN c FILTER SLEEP(10) RETURN d",
        ] {
            assert_eq!(reason(text), function, "{text}");
        }
        let unread = Some(Reason::Aql);
        for text in [
            "",
            "RETURN",
            "nonsense",
            "RETURN 1 /*",
            "INSERT\u{a0}{} INTO c",
            "RETURN 1 // a\r INSERT {} INTO c",
            "RETURN 1 /* \0 */",
            "RETURN\u{2028}1",
        ] {
            assert_eq!(reason(text), unread, "{text:?}");
        }
    }

    #[test]
    fn texts_that_write_name_the_collections_and_no_system_collection() {
        let texts = WritingTexts::default();
        let binds = |text: &str| texts.check(text).map(|binds| binds.join(" ")).ok();
        for (text, expected) in [
            ("RETURN 1", ""),
            ("FOR d IN _graphs RETURN d", ""),
            ("INSERT {} INTO messages", ""),
            ("FOR d IN @@from REMOVE d IN @@into", "@into"),
            ("LET a = (UPDATE 'a' WITH {} IN @@a) REPLACE 'b' WITH {} IN @@b", "@a @b"),
        ] {
            for _ in 0..2 {
                assert_eq!(binds(text).as_deref(), Some(expected), "{text}");
            }
        }
        for text in [
            "INSERT {} INTO _graphs",
            "FOR d IN messages INSERT d INTO `_aqlfunctions`",
            "LET a = (REMOVE 'a' IN _jobs) RETURN a",
            "RETURN {a: [(UPSERT {a: 1} INSERT {} UPDATE {} IN _apps)]}",
            "UPDATE 'a' WITH {} IN _analyzers",
            "REPLACE 'a' WITH {} IN `17`",
            "INSERT {} INTO messages // \r",
            "nonsense",
        ] {
            assert!(texts.check(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn no_more_texts_are_kept_than_may_be() {
        let texts = ReadOnlyTexts::default();
        for number in 0..=PROXY_TEXTS_KEPT {
            texts.check(&format!("RETURN {number}")).unwrap();
        }
        texts.check(&format!("RETURN '{}'", "x".repeat(PROXY_TEXT_KEPT_BYTES_MAX))).unwrap();
        assert_eq!(texts.0.texts.lock().unwrap().len(), 1);
    }
}
