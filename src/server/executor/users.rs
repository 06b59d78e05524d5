//! Lists the agents of a person and searches all of them with one question.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::executor::Executor;
use super::request::{CallRequest, page_limit};
use crate::limits::{USER_AGENTS_MAX, USER_SEARCH_PAGE};
use vctx_core::dialect::understood;
use vctx_core::error::{Error, Result};
use vctx_core::memory::Labels;
use vctx_core::tools::{Tool, optional_object};
use vctx_core::trust::Principal;

/// Body of `POST /v1/users/{user}/search`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchUser {
    /// Words to look for.
    pub query: String,
    /// Maximum number of results of each store.
    #[serde(default)]
    #[schemars(range(min = 1, max = 20))]
    pub limit: Option<u64>,
    /// What to search; by default both.
    #[serde(default)]
    pub stores: Option<Vec<SearchedStore>>,
    /// Labels that each message or document has.
    #[serde(default, deserialize_with = "optional_object")]
    pub labels: Option<Labels>,
}

/// A store that a search of all agents of a person looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SearchedStore {
    /// Messages.
    Recall,
    /// Documents.
    Archive,
}

impl Executor {
    /// Searches all agents of a person. The results of all agents are sorted together, since the
    /// score of a result depends on its words and on its vector, and on nothing of its agent.
    pub async fn search_user(
        &self,
        principal: &Principal,
        user: &str,
        asked: &SearchUser,
    ) -> Result<Value> {
        check_user(user)?;
        let limit = page_limit(asked.limit, USER_SEARCH_PAGE)?;
        if asked.stores.as_ref().is_some_and(Vec::is_empty) {
            return Err(Error::argument("stores", "name recall or archive, or leave it out"));
        }
        let listed = self.agents_of_user(principal, user, "", USER_AGENTS_MAX).await?;
        let mut told = json!({"user": user, "agents": listed.names});
        if listed.has_more {
            // An incomplete search must not look like a complete one.
            told["agents_left_out"] = true.into();
        }
        for store in [SearchedStore::Recall, SearchedStore::Archive] {
            if asked.stores.as_ref().is_some_and(|stores| !stores.contains(&store)) {
                continue;
            }
            let mut results: Vec<Map<String, Value>> = Vec::new();
            let mut withheld = Vec::new();
            for agent in &listed.names {
                let answer = self.call(&store.call(principal, agent, asked, limit)?).await?.body;
                let found = answer["result"]["results"].as_array();
                for one in found.into_iter().flatten().filter_map(Value::as_object) {
                    let mut one = one.clone();
                    one.insert("agent".into(), agent.as_str().into());
                    results.push(one);
                }
                if !answer["result"]["withheld"].is_null() {
                    withheld.push(agent.as_str());
                }
            }
            let score = |one: &Map<String, Value>| {
                let value = one.get("score").or_else(|| one.get("similarity"));
                value.and_then(Value::as_f64).unwrap_or(f64::MIN)
            };
            results.sort_by(|a, b| score(b).total_cmp(&score(a)));
            results.truncate(limit as usize);
            let name = json!(store).as_str().unwrap_or_default().to_owned();
            told[&name] = json!(results);
            if !withheld.is_empty() {
                told[format!("{name}_withheld")] = json!(withheld);
            }
        }
        Ok(told)
    }
}

impl SearchedStore {
    /// Returns the search of one agent, which changes nothing in the agent's window.
    fn call(
        self,
        principal: &Principal,
        agent: &str,
        asked: &SearchUser,
        limit: u64,
    ) -> Result<CallRequest> {
        let (tool, arguments) = match self {
            Self::Recall => (
                Tool::SearchRecall,
                json!({"query": asked.query, "limit": limit, "rehydrate": false,
                    "labels": asked.labels}),
            ),
            Self::Archive => (
                Tool::SearchArchival,
                json!({"query_text": asked.query, "limit": limit,
                    "filter": {"labels": asked.labels}}),
            ),
        };
        let arguments = arguments.as_object().cloned().unwrap_or_default();
        let call = understood(tool.spec().name, arguments)?.call;
        Ok(CallRequest::internal((principal.clone(), agent.to_owned()), call, []))
    }
}

/// Refuses a name that no person can have.
pub(super) fn check_user(user: &str) -> Result<()> {
    let labels = Labels { user: Some(user.to_owned()), ..Labels::default() };
    labels.check("user").map_err(|error| error.with("field", "user"))
}
