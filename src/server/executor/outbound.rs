//! Keeps the texts of an agent on this machine if the agent's settings say so.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};

use super::executor::Executor;
use super::kernel::Kernel;
use crate::models::{CHAT, SUMMARISER};
use crate::models::{
    EMBEDDER, EMBEDDER_NEXT, Embedder, Embedders, Gateway, Kind, ModelServer, RoleModels,
    role_section,
};
use vctx_base::clock;
use vctx_base::metric;
use vctx_core::error::{Code, Error, Result};
use vctx_core::memory::Fingerprint;
use vctx_core::memory::core::Core;
use vctx_core::memory::model_role::{ModelAsk, ModelRole, ModelRoles};
use vctx_core::memory::outbound::Outbound;

/// An embedder that must not receive a text. A search then goes on by words, and a document is
/// refused.
struct Withheld {
    fingerprint: Fingerprint,
    server: String,
}

#[async_trait]
impl Embedder for Withheld {
    fn fingerprint(&self) -> &Fingerprint {
        &self.fingerprint
    }

    async fn embed(&self, _: &[String], _: Kind) -> Result<Vec<Vec<f32>>> {
        Err(withheld(Code::EmbedderUnavailable, &self.server))
    }

    async fn embed_spans(&self, _: &str, _: &[std::ops::Range<usize>]) -> Result<Vec<Vec<f32>>> {
        Err(withheld(Code::Forbidden, &self.server))
    }
}

fn withheld(code: Code, server: &str) -> Error {
    let text = format!(
        "the texts of this agent stay on this machine (its setting outbound is none), and the model is at {server}"
    );
    Error::new(code, text)
}

impl Kernel {
    /// Returns the server that a section names, if it must not receive texts of the agent.
    fn forbidden(&self, outbound: Outbound, section: &str) -> Option<&ModelServer> {
        let mut servers = self.models.iter().filter(|_| outbound == Outbound::None);
        servers.find(|server| server.section == section && server.remote)
    }

    /// Returns the embedders that may receive texts of the agent.
    pub(super) fn embedders_of(&self, core: &Core) -> Embedders {
        let one = |section: &str, fingerprint: &Fingerprint| -> Option<Arc<dyn Embedder>> {
            let server = self.forbidden(core.outbound(), section)?.server.clone();
            Some(Arc::new(Withheld { fingerprint: fingerprint.clone(), server }))
        };
        let all = &self.embedders;
        let configured = one(EMBEDDER, all.fingerprint());
        let next = all.next().and_then(|next| one(EMBEDDER_NEXT, next));
        all.clone().replaced(configured, next)
    }

    /// Returns whether the embedder may receive texts of an agent with this setting.
    pub(super) fn may_embed(&self, outbound: Outbound) -> bool {
        self.forbidden(outbound, EMBEDDER).is_none()
    }

    /// Returns the summary model, if it may receive texts of the agent.
    pub(super) fn summariser_of(&self, core: &Core) -> Option<&Gateway> {
        let model = self.model.as_ref();
        model.filter(|_| self.forbidden(core.outbound(), SUMMARISER).is_none())
    }

    /// Returns the roles whose models may receive texts of the agent.
    pub(super) fn roles_of(&self, core: &Core) -> ModelRoles {
        let all = self.roles.roles();
        let may = |role: &ModelRole| {
            all.has(*role) && self.forbidden(core.outbound(), role_section(*role)).is_none()
        };
        ModelRoles::of(ModelRole::ALL.into_iter().filter(may))
    }

    /// Asks the model of a role; `None` if it gives no answer in time. What a server on another
    /// machine must not get is left out.
    pub(super) async fn ask_model(&self, core: &Core, ask: &ModelAsk) -> Option<String> {
        if !self.roles_of(core).has(ask.role) {
            return None;
        }
        let begun = clock::now();
        let answer = self.roles.ask(ask).await;
        let role = ask.role.text();
        metrics::histogram!(metric::CONTEXT_SECONDS, "step" => role)
            .record(begun.elapsed().as_secs_f64());
        answer
            .inspect_err(|error| {
                tracing::debug!(role, error = error.chain(), "the local step of a context stands");
            })
            .ok()
    }
}

impl Executor {
    /// Sets the model servers that the configuration names, and the maximum number of tokens of an
    /// agent's prompts and answers per day; 0 means no limit.
    #[must_use]
    pub fn with_models(mut self, models: Vec<ModelServer>, tokens_per_day: u64) -> Self {
        self.kernel.models = models;
        self.kernel.tokens_per_day = tokens_per_day;
        self
    }

    /// Sets the models that take over steps of context builds.
    #[must_use]
    pub fn with_roles(mut self, roles: Arc<RoleModels>) -> Self {
        self.kernel.roles = roles;
        self
    }

    /// Refuses to send the agent's window to a chat model that must not receive it.
    pub fn check_outbound(&self, core: &Core) -> Result<()> {
        match self.kernel.forbidden(core.outbound(), CHAT) {
            None => Ok(()),
            Some(server) => Err(withheld(Code::Forbidden, &server.server)),
        }
    }

    /// Returns whether the configured embedder is on another machine.
    pub(super) fn embeds_elsewhere(&self) -> bool {
        self.kernel.forbidden(Outbound::None, EMBEDDER).is_some()
    }

    /// Returns the model servers and what each receives, for `/readyz`.
    pub(super) fn models_told(&self) -> Value {
        json!(self.kernel.models)
    }
}
