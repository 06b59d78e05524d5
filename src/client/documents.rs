//! Reads the documents of an agent's archive.

use serde_json::Value;

use super::api::{Client, agent_path, escaped};
use super::problem::Problem;

impl Client {
    /// Returns a page of the documents of an archive, with the tokens of each. `after` is the
    /// field `next` of the previous page. The names of documents may be texts in quarantine.
    pub async fn documents(&self, agent: &str, after: &str, limit: u64) -> Result<Value, Problem> {
        let (path, after) = (agent_path(agent), escaped(after));
        let more = "&tokens=true&originals=true";
        self.get(&format!("{path}/archive?after={after}&limit={limit}{more}")).await
    }

    /// Returns a document with its first passages. A passage in quarantine has no text here.
    pub async fn document(&self, agent: &str, doc_id: &str, limit: u64) -> Result<Value, Problem> {
        let (path, name) = (agent_path(agent), escaped(doc_id));
        self.get(&format!("{path}/archive/{name}?limit={limit}")).await
    }
}
