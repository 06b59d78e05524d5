//! The TLS settings of requests to models: which certificates are trusted.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{CertificateError, ClientConfig, RootCertStore};

/// Maximum length of a file with certificates, in bytes.
const CA_FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Returns a configuration that trusts the system's certificates and those of `ca_file`, if it is
/// not empty. An error begins with `ca_file:` or `url:`.
pub(super) fn config(ca_file: &Path) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(found.certs);
    if !ca_file.as_os_str().is_empty() {
        for certificate in certificates(ca_file)? {
            let wrong = |fault| format!("ca_file: {}: {fault}", ca_file.display());
            roots.add(certificate).map_err(wrong)?;
        }
    }
    if roots.is_empty() {
        let text = "url: this system has no certificates of authorities: install ca-certificates, or set ca_file";
        return Err(text.into());
    }
    Ok(with(roots))
}

/// Returns a configuration that trusts no certificate, for requests without encryption.
pub(super) fn no_roots() -> ClientConfig {
    with(RootCertStore::empty())
}

fn with(roots: RootCertStore) -> ClientConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = versions.expect("ring has the ciphers of both versions of TLS");
    builder.with_root_certificates(roots).with_no_client_auth()
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let wrong = |what: String| format!("ca_file: {}: {what}", path.display());
    let length = std::fs::metadata(path).map_err(|e| wrong(e.to_string()))?.len();
    if length > CA_FILE_BYTES_MAX {
        return Err(wrong("longer than a file of certificates".into()));
    }
    let text = std::fs::read(path).map_err(|e| wrong(e.to_string()))?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        _ => Err(wrong("contains no certificate (PEM)".into())),
    }
}

/// Returns what is wrong with a server's certificate and what to do, as the end of a sentence;
/// `None` if the error has another cause.
pub(super) fn certificate_fault(error: &(dyn std::error::Error + 'static)) -> Option<&'static str> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(rustls::Error::InvalidCertificate(fault)) = error.downcast_ref() {
            return Some(text_of(fault));
        }
        let inner = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        if let Some(fault) = inner.and_then(|inner| certificate_fault(inner)) {
            return Some(fault);
        }
        next = error.source();
    }
    None
}

fn text_of(fault: &CertificateError) -> &'static str {
    match fault {
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "is for another name: check url"
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "has expired",
        _ => "is not trusted: name the file of its authority in ca_file",
    }
}
