//! Lets the model that the configuration names for the role of the judge judge prompts.

use std::path::Path;

use serde_json::Value;

use crate::config::Config;
use crate::exit::{Exit, Failure};
use crate::judge_verdicts::GivenVerdict;
use crate::output;
use vctx_client::Client;
use vctx_core::context::{JudgedCase, judge, read_verdict};
use vctx_core::memory::model_role::ModelRole;
use vctx_server::models::RoleModels;

/// The model of the judge.
pub(crate) struct JudgeModel(RoleModels);

impl JudgeModel {
    /// Makes a client of the configured model. Fails if there is none, or if it must not receive
    /// the agent's texts.
    pub(crate) async fn open(
        client: &Client,
        agent: &str,
        config: Option<&Path>,
    ) -> Result<Self, Failure> {
        let wrong = |text: String| Failure::new(Exit::Configuration, "CONFIGURATION", text);
        let config = Config::load(config).map_err(|faults| wrong(faults.to_string()))?;
        let address = config.models.get(&ModelRole::Judge).and_then(|model| model.address());
        let Some(address) = address else {
            let text = "models.judge: no model is configured";
            return Err(wrong(text.to_owned())
                .next("name one in a file: [models.judge] url and model; then --config FILE"));
        };
        let stays_here = client.state(agent).await?["outbound"] == "none";
        if stays_here && address.is_remote() {
            let text = format!(
                "the texts of {agent} stay on this machine (its setting outbound is none), and the judge is at {}",
                address.host()
            );
            return Err(Failure::new(Exit::Permission, "FORBIDDEN", text)
                .next("name a model on this machine, or use `vctx judge --out` and judge there"));
        }
        config.roles().map(Self).map_err(|faults| wrong(faults.to_string()))
    }

    /// Returns the model's verdict on a prompt, as the record tells it; without measures if the
    /// model gives no usable answer in time.
    pub(crate) async fn verdict(&self, turn: u64, told: &Value) -> GivenVerdict {
        let items = output::list(told, "/context/items");
        let quoted: Vec<&str> = items.iter().filter_map(|item| item["text"].as_str()).collect();
        let question = told["question"].as_str().unwrap_or_default();
        let case = JudgedCase { question, quoted: &quoted, answer: told["answer"].as_str() };
        let answer = self.0.ask(&judge(case)).await;
        let measures = answer.ok().as_deref().and_then(read_verdict);
        GivenVerdict { prompt: turn, measures: measures.unwrap_or_default() }
    }

    /// Warns of prompts on which the model gave no usable answer.
    pub(crate) fn warn(&self, given: &[GivenVerdict]) {
        let silent = given.iter().filter(|one| one.measures == [None; 3]).count();
        if silent > 0 {
            eprintln!("vctx: the model gave no verdict on {silent} of {} prompts", given.len());
        }
    }
}
