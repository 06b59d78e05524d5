//! Downloads a file from a URL that the caller names, such as a model's weights.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use http::header;
use http_body_util::BodyExt as _;

use super::address::Address;
use super::wire::{Way, Wire, WireFault, advice};
use vctx_core::memory::model_api::ModelApi;

/// Maximum number of redirections that a download follows.
const REDIRECTS_MAX: usize = 4;
/// Longest wait for the next piece of a file, in milliseconds.
const PIECE_MS_MAX: u64 = 60_000;

/// Reason why a file was not downloaded.
#[derive(Debug, thiserror::Error)]
pub enum DownloadFault {
    /// The URL or a certificate file is wrong; the text begins with the setting.
    #[error("{0}")]
    Setting(String),
    /// The server cannot be reached, or refuses the file.
    #[error("{0}")]
    Refused(String),
    /// The server redirects too often.
    #[error("more than {REDIRECTS_MAX} redirections")]
    Redirects,
    /// The file is longer than expected.
    #[error("the file is longer than {0} bytes")]
    TooLong(u64),
    /// The connection broke, or nothing came for a minute.
    #[error("the connection broke before the file was whole: try again")]
    Cut,
    /// The file cannot be written.
    #[error("cannot write the file")]
    Write(#[source] std::io::Error),
}

impl From<WireFault> for DownloadFault {
    fn from(fault: WireFault) -> Self {
        match fault {
            WireFault::Lost(_) => Self::Cut,
            other => Self::Refused(other.to_string()),
        }
    }
}

/// Downloads a file of at most `bytes_max` bytes from a URL, follows redirections to other HTTPS
/// addresses, and writes the file to `out`. After each piece, `progress` is called with the number
/// of bytes so far.
pub async fn download(
    url: &str,
    ca_file: &Path,
    proxy: &str,
    bytes_max: u64,
    out: &mut dyn Write,
    progress: &mut dyn FnMut(u64),
) -> Result<(), DownloadFault> {
    let mut url = url.to_owned();
    for _ in 0..=REDIRECTS_MAX {
        let address = Address::of_url(&url).map_err(DownloadFault::Setting)?;
        let Address::Web(parsed) = &address else {
            return Err(DownloadFault::Setting(
                "url: give an address that begins with https://".into(),
            ));
        };
        let target = parsed[url::Position::BeforePath..url::Position::AfterQuery].to_owned();
        let base = parsed.clone();
        let way = Way::of(address, ca_file, proxy).map_err(DownloadFault::Setting)?;
        let wire = Wire::new(&way, ModelApi::Chat).map_err(DownloadFault::Setting)?;
        let answer = wire.get(&target).await?;
        let status = answer.status();
        if status.is_redirection() {
            let to = answer.headers().get(header::LOCATION).and_then(|to| to.to_str().ok());
            let next = to.and_then(|to| base.join(to).ok());
            let safe = next.filter(|next| next.scheme() == "https" || base.scheme() == "http");
            url = safe
                .ok_or_else(|| DownloadFault::Refused("a redirection leads nowhere".into()))?
                .into();
            continue;
        }
        if !status.is_success() {
            return Err(WireFault::Status(status, advice(status)).into());
        }
        return saved(answer.into_body(), bytes_max, out, progress).await;
    }
    Err(DownloadFault::Redirects)
}

async fn saved(
    mut body: hyper::body::Incoming,
    bytes_max: u64,
    out: &mut dyn Write,
    progress: &mut dyn FnMut(u64),
) -> Result<(), DownloadFault> {
    let mut bytes = 0;
    loop {
        let wait = Duration::from_millis(PIECE_MS_MAX);
        let frame = tokio::time::timeout(wait, body.frame()).await;
        let Some(frame) = frame.map_err(|_| DownloadFault::Cut)? else { return Ok(()) };
        let frame = frame.map_err(|_| DownloadFault::Cut)?;
        let Some(piece) = frame.data_ref() else { continue };
        bytes += piece.len() as u64;
        if bytes > bytes_max {
            return Err(DownloadFault::TooLong(bytes_max));
        }
        out.write_all(piece).map_err(DownloadFault::Write)?;
        progress(bytes);
    }
}
