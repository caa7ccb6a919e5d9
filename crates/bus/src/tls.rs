//! Whom we trust when a connection is encrypted.

use std::fmt::Display;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore, crypto};

use crate::error::BusError;

/// How to encrypt: with the authorities in this file and no others, or those that browsers trust.
pub(crate) fn trusting(authorities: Option<&str>) -> Result<ClientConfig, BusError> {
    let mut roots = RootCertStore::empty();
    match authorities {
        None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
        Some(file) => {
            let unreadable = |error: &dyn Display| BusError::Refused {
                reason: format!("there is no certificate of an authority in {file}: {error}"),
            };
            for certificate in CertificateDer::pem_file_iter(file).map_err(|e| unreadable(&e))? {
                let certificate = certificate.map_err(|error| unreadable(&error))?;
                roots.add(certificate).map_err(|error| unreadable(&error))?;
            }
            if roots.is_empty() {
                return Err(unreadable(&"the file holds none"));
            }
        }
    }
    let provider = Arc::new(crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| BusError::Refused {
            reason: format!("TLS cannot be used: {error}"),
        })?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}
