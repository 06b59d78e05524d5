//! Asks a cross-encoder how well texts answer a query, in the form that Jina, Cohere, vLLM and
//! llama.cpp have for `/v1/rerank`.

use std::time::Duration;

use serde_json::json;

use super::address::{AddressSettings, check_model};
use super::task_model::TaskModelSettings;
use super::wire::{Way, Wire};
use vctx_core::error::{Code, Error, Result};
use vctx_core::memory::model_api::ModelApi;

/// Path of requests below the base address of the API.
const RERANK: &str = "/rerank";
/// Maximum length of an answer, in bytes; some servers send the texts back.
const RERANK_ANSWER_BYTES_MAX: usize = 1024 * 1024;

/// A client of a cross-encoder.
pub(super) struct Reranker {
    wire: Wire,
    path: String,
    model: String,
    /// Time limit for one answer.
    limit: Duration,
}

impl Reranker {
    /// Makes a client of the cross-encoder that the settings name; `None` if they name none. An
    /// error begins with the setting that is wrong.
    pub(super) fn open(
        settings: &TaskModelSettings,
        key: Option<String>,
        variable: &'static str,
        usual_ms: u64,
    ) -> std::result::Result<Option<Self>, String> {
        let TaskModelSettings { provider, url, socket, .. } = settings;
        let place = AddressSettings { provider, url, socket };
        if !place.is_set() {
            return Ok(None);
        }
        check_model(&settings.model)?;
        let way = Way::of(place.address()?, &settings.ca_file, &settings.proxy)?;
        let way = way.with_key(key, variable);
        let path = way.address.target(RERANK, &settings.path);
        let wire = Wire::new(&way, ModelApi::Chat)?;
        let limit = settings.limit(usual_ms);
        Ok(Some(Self { wire, path, model: settings.model.clone(), limit }))
    }

    /// Asks how well each text answers the query, and returns the body of the answer.
    pub(super) async fn ask(&self, query: &str, documents: &[String]) -> Result<String> {
        let body = json!({"model": self.model, "query": query, "documents": documents, "texts": documents,
            "top_n": documents.len()});
        let asked = self.wire.post(&self.path, &body, RERANK_ANSWER_BYTES_MAX);
        let answer = tokio::time::timeout(self.limit, asked).await.map_err(|late| {
            Error::new(Code::Timeout, "the model did not answer in time").caused_by(late)
        })?;
        let answer = answer.map_err(|fault| fault.into_error(Code::ModelUnavailable))?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }
}
