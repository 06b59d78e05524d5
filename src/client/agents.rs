//! Makes agents over the API.

use http::Method;
use serde_json::{Value, json};

use super::api::{Client, Write, agent_path};
use super::problem::Problem;

/// Settings of a new agent.
#[derive(Debug, Clone, Default)]
pub struct NewAgent {
    /// Size of the agent's window in tokens.
    pub context_window: u64,
    /// System text of the agent; `None` for the server's default.
    pub system: Option<String>,
    /// Encoding that counts tokens: `o200k_base` or `cl100k_base`; `None` for the server's default.
    pub encoding: Option<String>,
    /// Form of the window, `2` or `strict`; `None` for the server's default.
    pub form: Option<String>,
    /// Time zone of the times in the window, by its name in the IANA database; `None` for UTC.
    pub zone: Option<String>,
    /// Models that may receive the agent's texts: `configured`, or `none` for those on the server's
    /// machine only; `None` for the server's default.
    pub outbound: Option<String>,
    /// When prompts get a context that is built for their question: `off`, `auto` or `always`;
    /// `None` for the server's default.
    pub engineer: Option<String>,
    /// How many agents have had the name, with this one; only for the name of a forgotten agent.
    pub incarnation: Option<u64>,
}

impl NewAgent {
    /// Returns the settings of an agent with a window of this size and the server's defaults.
    pub fn with_window(context_window: u64) -> Self {
        Self { context_window, ..Self::default() }
    }
}

impl Client {
    /// Creates an agent and returns its state. If an agent with the same name and settings exists,
    /// only returns its state.
    pub async fn create_agent(&self, agent: &str, new: &NewAgent) -> Result<Value, Problem> {
        let mut body = json!({"context_window": new.context_window});
        if let Some(incarnation) = new.incarnation {
            body["incarnation"] = incarnation.into();
        }
        let given = [
            ("system", &new.system),
            ("encoding", &new.encoding),
            ("form", &new.form),
            ("zone", &new.zone),
            ("outbound", &new.outbound),
            ("engineer", &new.engineer),
        ];
        for (name, value) in given {
            if let Some(value) = value {
                body[name] = json!(value);
            }
        }
        self.json(Method::PUT, &agent_path(agent), Some(&body), None).await
    }

    /// Makes another agent with an agent's memory; returns the clone's state.
    pub async fn clone_agent(
        &self,
        agent: &str,
        name: &str,
        write: &Write,
    ) -> Result<Value, Problem> {
        let path = format!("{}/clone", agent_path(agent));
        self.json(Method::POST, &path, Some(&json!({"agent": name})), Some(write)).await
    }

    /// Gives an agent a new name; returns the agent's state.
    pub async fn rename_agent(
        &self,
        agent: &str,
        name: &str,
        write: &Write,
    ) -> Result<Value, Problem> {
        let path = format!("{}/rename", agent_path(agent));
        self.json(Method::POST, &path, Some(&json!({"name": name})), Some(write)).await
    }
}
