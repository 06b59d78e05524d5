//! Validates an embedder's settings, and makes the embedder from them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::address::{Address, AddressSettings, check_path};
use super::cached_embedder::CachedEmbedder;
use super::endpoint::EndpointEmbedder;
use super::wire::Way;
use vctx_base::embedder::{Embedder, Embedders, model_in_process};
use vctx_core::error::{Code, Error, Result};
use vctx_core::limits::{DIMENSION_MAX, MODEL_MS_MAX, NAME_BYTES_MAX};
use vctx_core::memory::Fingerprint;
use vctx_core::text::lexical::{self, Lexical};
use vctx_core::trust::TaintMode;

/// Variable with the key for the embedder's endpoint.
pub const EMBEDDER_KEY: &str = "VCTX_EMBEDDER_KEY";
/// Variable with the key for the endpoint of the next embedder.
pub const EMBEDDER_NEXT_KEY: &str = "VCTX_EMBEDDER_NEXT_KEY";

/// Path of requests below the base address of the API.
const EMBEDDINGS: &str = "/embeddings";
/// Minimum and maximum of `embedder.timeout_ms`.
const EMBED_MS: (u64, u64) = (10, MODEL_MS_MAX);

/// Settings of the embedder for texts that come without a vector.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EmbedderSettings {
    /// Kind of the embedder.
    pub kind: EmbedderKind,
    /// Name of the embedder's model.
    #[serde(deserialize_with = "text")]
    pub model: String,
    /// Version of the model at the endpoint.
    #[serde(deserialize_with = "text")]
    pub version: String,
    /// Number of components of each vector.
    pub dimension: u32,
    /// Name of the endpoint's provider, which decides the address, or empty.
    pub provider: String,
    /// URL of the endpoint's server, or empty.
    pub url: String,
    /// Unix socket of the endpoint's server, or empty.
    pub socket: PathBuf,
    /// HTTP path and query of requests to the endpoint; if empty, that of the API.
    pub path: String,
    /// File with further trusted certificates (PEM), or empty.
    pub ca_file: PathBuf,
    /// URL of an HTTP proxy, or empty.
    pub proxy: String,
    /// Time limit for the vectors of one batch, in milliseconds.
    pub timeout_ms: u64,
    /// Directory of a local model; used by the kind `local`.
    pub model_dir: PathBuf,
    /// Settings of the embedder to which the archive is to change (`vctx reindex`); their own
    /// `next` must be empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<Box<EmbedderSettings>>,
}

impl Default for EmbedderSettings {
    fn default() -> Self {
        Self {
            kind: EmbedderKind::Auto,
            model: String::new(),
            version: "1".into(),
            dimension: lexical::OWN.dimension,
            provider: String::new(),
            url: String::new(),
            socket: PathBuf::new(),
            path: String::new(),
            ca_file: PathBuf::new(),
            proxy: String::new(),
            timeout_ms: 5_000,
            model_dir: PathBuf::new(),
            next: None,
        }
    }
}

/// Reads a text or a number, since a version such as `2` in an environment variable is parsed as a
/// number.
fn text<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> std::result::Result<String, D::Error> {
    match serde_json::Value::deserialize(deserializer)? {
        serde_json::Value::String(text) => Ok(text),
        serde_json::Value::Number(number) => Ok(number.to_string()),
        _ => Err(serde::de::Error::custom("use a text")),
    }
}

/// Name of the model that `vctx embedder install minilm` stores.
pub const INSTALLED_MODEL: &str = "all-MiniLM-L6-v2";

/// The files of a local model.
pub const MODEL_FILES: [&str; 3] = ["model.safetensors", "tokenizer.json", "config.json"];

/// Returns the directory of the installed model in a data directory.
pub fn installed_dir(data_dir: &Path) -> PathBuf {
    data_dir.join("models").join("minilm")
}

/// Kind of embedder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EmbedderKind {
    /// Runs the model that `vctx embedder install` stored in the data directory; hashes words if
    /// there is none.
    Auto,
    /// Hashes words; needs no model.
    Lexical,
    /// Asks an OpenAI-compatible server.
    Endpoint,
    /// Runs a BERT model in this process.
    Local,
}

impl EmbedderSettings {
    /// Returns one sentence for each invalid embedder setting, beginning with the setting's key.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if let Some(next) = &self.next {
            let own = next.faults();
            faults.extend(own.iter().map(|fault| fault.replacen("embedder.", "embedder.next.", 1)));
            if next.next.is_some() {
                faults.push("embedder.next.next: one next embedder only; leave it empty".into());
            }
        }
        let mut unless = |holds: bool, text: String| {
            if !holds {
                faults.push(format!("embedder.{text}"));
            }
        };
        let named = |name: &str| !name.is_empty() && name.len() <= NAME_BYTES_MAX;
        let (least, most) = EMBED_MS;
        unless(
            (1..=DIMENSION_MAX).contains(&self.dimension),
            format!("dimension: use 1 to {DIMENSION_MAX}"),
        );
        unless(
            (least..=most).contains(&self.timeout_ms),
            format!("timeout_ms: use {least} to {most}"),
        );
        match self.kind {
            EmbedderKind::Auto | EmbedderKind::Lexical => {}
            EmbedderKind::Endpoint => {
                unless(named(&self.model), "model: name the endpoint's model".into());
                unless(named(&self.version), "version: say which version of the model".into());
                for text in [check_path(&self.path), self.way().map(drop)] {
                    text.err().into_iter().for_each(|text| unless(false, text));
                }
            }
            EmbedderKind::Local => {
                unless(
                    self.model_dir.is_absolute(),
                    "model_dir: give the absolute path of the model's directory".into(),
                );
                unless(
                    model_in_process().is_some(),
                    "kind: this program was built without the feature local-embedder".into(),
                );
            }
        }
        faults
    }

    /// Returns the settings with the model that is installed in the data directory, if the kind is
    /// `auto` and this program can run it. An archive of hashed words can then be changed to this
    /// model, which is therefore the next embedder, too.
    #[must_use]
    pub fn with_installed(self, data_dir: &Path) -> Self {
        let model_dir = installed_dir(data_dir);
        let runs = model_in_process().is_some() && model_dir.join(MODEL_FILES[0]).is_file();
        if self.kind != EmbedderKind::Auto || !runs {
            return self;
        }
        let model = INSTALLED_MODEL.to_owned();
        let local =
            Self { kind: EmbedderKind::Local, model, model_dir, next: None, ..self.clone() };
        let next = self.next.unwrap_or_else(|| Box::new(local.clone()));
        Self { next: Some(next), ..local }
    }

    fn place(&self) -> AddressSettings<'_> {
        AddressSettings { provider: &self.provider, url: &self.url, socket: &self.socket }
    }

    fn way(&self) -> std::result::Result<Way, String> {
        Way::of(self.place().address()?, &self.ca_file, &self.proxy)
    }

    /// Returns the address of the endpoint, if the embedder is one.
    pub fn address(&self) -> Option<Address> {
        self.place().address().ok().filter(|_| self.kind == EmbedderKind::Endpoint)
    }

    /// Makes the configured embedder, and loads its model if it is local. `key` is the bearer token
    /// for an endpoint, and `taint` the policy for tainted text.
    pub fn open(&self, key: Option<String>, taint: TaintMode) -> Result<Embedders> {
        Ok(Embedders::new(self.one(key, EMBEDDER_KEY, taint)?))
    }

    /// Makes the configured embedder, and the one to which the archive is to change, if any.
    pub fn open_all(
        &self,
        key: Option<String>,
        next_key: Option<String>,
        taint: TaintMode,
    ) -> Result<Embedders> {
        let embedders = self.open(key, taint)?;
        match &self.next {
            // An installed model is its own next embedder, and is loaded once.
            Some(next) if **next == (Self { next: None, ..self.clone() }) => {
                let same = Arc::clone(embedders.configured());
                Ok(embedders.with_next(same))
            }
            Some(next) => Ok(embedders.with_next(next.one(next_key, EMBEDDER_NEXT_KEY, taint)?)),
            None => Ok(embedders),
        }
    }

    fn one(
        &self,
        key: Option<String>,
        variable: &'static str,
        taint: TaintMode,
    ) -> Result<Arc<dyn Embedder>> {
        let inner: Arc<dyn Embedder> = match self.kind {
            EmbedderKind::Auto | EmbedderKind::Lexical => {
                return Ok(Arc::new(Lexical::new(self.dimension)));
            }
            EmbedderKind::Endpoint => {
                let wrong = |text: String| Error::argument("embedder", text);
                let way = self.way().map_err(wrong)?.with_key(key, variable);
                let path = way.address.target(EMBEDDINGS, &self.path);
                let fingerprint = Fingerprint {
                    model_id: self.model.clone(),
                    embedding_version: self.version.clone(),
                    dimension: self.dimension,
                };
                let limit = Duration::from_millis(self.timeout_ms);
                let taint = if way.address.is_remote() { taint } else { TaintMode::Off };
                let endpoint = EndpointEmbedder::new(fingerprint, &way, path, limit);
                Arc::new(endpoint.map_err(wrong)?.with_taint(taint))
            }
            EmbedderKind::Local => self.local()?,
        };
        Ok(Arc::new(CachedEmbedder::new(inner)))
    }

    fn local(&self) -> Result<Arc<dyn Embedder>> {
        let load = model_in_process().ok_or_else(|| {
            Error::new(Code::EmbedderUnavailable, "built without the feature local-embedder")
        })?;
        load(&self.model_dir, &self.model, Duration::from_millis(self.timeout_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> EmbedderSettings {
        EmbedderSettings {
            kind: EmbedderKind::Endpoint,
            model: "m".into(),
            version: "1".into(),
            dimension: 3,
            socket: "/run/model.sock".into(),
            timeout_ms: 1_000,
            ..EmbedderSettings::default()
        }
    }

    #[test]
    fn an_endpoint_is_a_unix_socket_or_one_named_address() {
        assert_eq!(settings().faults(), [""; 0]);
        let next =
            |next: EmbedderSettings| EmbedderSettings { next: Some(Box::new(next)), ..settings() };
        assert_eq!(next(settings()).faults(), [""; 0]);
        let at =
            |url: &str| EmbedderSettings { socket: PathBuf::new(), url: url.into(), ..settings() };
        assert_eq!(at("http://127.0.0.1:8080").faults(), [""; 0]);
        for (wrong, fault) in [
            (at(""), "embedder.url: name"),
            (at("localhost"), "embedder.url: begin it with"),
            (EmbedderSettings { url: "http://h".into(), ..settings() }, "embedder.url: set either"),
            (
                EmbedderSettings { socket: "model.sock".into(), ..settings() },
                "embedder.socket: use",
            ),
            (EmbedderSettings { model: String::new(), ..settings() }, "embedder.model"),
            (EmbedderSettings { version: String::new(), ..settings() }, "embedder.version"),
            (EmbedderSettings { path: "v1".into(), ..settings() }, "embedder.path"),
            (EmbedderSettings { dimension: 0, ..settings() }, "embedder.dimension"),
            (EmbedderSettings { timeout_ms: 0, ..settings() }, "embedder.timeout_ms"),
            (EmbedderSettings { kind: EmbedderKind::Local, ..settings() }, "embedder.model_dir"),
            (next(EmbedderSettings { dimension: 0, ..settings() }), "embedder.next.dimension"),
            (next(next(settings())), "embedder.next.next: one"),
        ] {
            let faults = wrong.faults();
            assert!(faults.iter().any(|f| f.starts_with(fault)), "{fault}: {faults:?}");
        }
    }
}
