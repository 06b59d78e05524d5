//! The models that take over steps of context builds, as the configuration names them.

use std::collections::BTreeMap;
use std::fmt;

use vctx_core::error::{Code, Error, Result};
use vctx_core::memory::model_role::{ModelAsk, ModelRole, ModelRoles};

use super::gateway::Gateway;
use super::reranker::Reranker;
use super::task_model::TaskModelSettings;

/// Time limit for an answer of a role, in milliseconds. A context is built before each prompt, so
/// somebody waits for it.
const ROLE_MS: u64 = 2_000;

/// Settings of the models for roles.
pub type RoleSettings = BTreeMap<ModelRole, TaskModelSettings>;

/// Returns the variable with the key for the server of a role's model.
pub fn role_key(role: ModelRole) -> &'static str {
    match role {
        ModelRole::Planner => "VCTX_MODELS_PLANNER_KEY",
        ModelRole::Rewriter => "VCTX_MODELS_REWRITER_KEY",
        ModelRole::Grader => "VCTX_MODELS_GRADER_KEY",
        ModelRole::Reranker => "VCTX_MODELS_RERANKER_KEY",
        ModelRole::Summariser => "VCTX_MODELS_SUMMARISER_KEY",
        ModelRole::Judge => "VCTX_MODELS_JUDGE_KEY",
    }
}

/// Returns the section of the configuration that names a role's model.
pub fn role_section(role: ModelRole) -> &'static str {
    match role {
        ModelRole::Planner => "models.planner",
        ModelRole::Rewriter => "models.rewriter",
        ModelRole::Grader => "models.grader",
        ModelRole::Reranker => "models.reranker",
        ModelRole::Summariser => "models.summariser",
        ModelRole::Judge => "models.judge",
    }
}

enum RoleModel {
    Chat(Gateway),
    CrossEncoder(Box<Reranker>),
}

/// The clients of the models for roles.
#[derive(Default)]
pub struct RoleModels(BTreeMap<ModelRole, RoleModel>);

impl fmt::Debug for RoleModels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl RoleModels {
    /// Makes the clients of the configured models. `key_of` returns the key for a variable's name.
    /// An error begins with the setting that is wrong.
    pub fn open(
        settings: &RoleSettings,
        key_of: &dyn Fn(&str) -> std::result::Result<Option<String>, String>,
    ) -> std::result::Result<Self, String> {
        let mut models = BTreeMap::new();
        for (role, settings) in settings {
            let variable = role_key(*role);
            let key = key_of(variable)?;
            let told = |fault: String| format!("{}.{fault}", role_section(*role));
            let model = match role {
                ModelRole::Reranker => Reranker::open(settings, key, variable, ROLE_MS)
                    .map(|model| model.map(Box::new).map(RoleModel::CrossEncoder)),
                _ => settings.open(key, variable, ROLE_MS).map(|model| model.map(RoleModel::Chat)),
            };
            if let Some(model) = model.map_err(told)? {
                models.insert(*role, model);
            }
        }
        Ok(Self(models))
    }

    /// Returns the roles that have a model.
    pub fn roles(&self) -> ModelRoles {
        ModelRoles::of(self.0.keys().copied())
    }

    /// Asks the model of a role once, within its time limit.
    pub async fn ask(&self, ask: &ModelAsk) -> Result<String> {
        match self.0.get(&ask.role) {
            Some(RoleModel::Chat(model)) => {
                let answer = model.ask(ask.instruction, &ask.text, ask.tokens_max).await?;
                Ok(answer.text)
            }
            Some(RoleModel::CrossEncoder(model)) => model.ask(&ask.text, &ask.documents).await,
            None => Err(Error::new(Code::ModelUnavailable, "no model has this role")),
        }
    }
}
