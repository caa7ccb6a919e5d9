//! How encryption is agreed on.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use super::settings::{FetchSettings, SettingsError};

/// What is remembered of so many servers, so that they are met again with less effort.
const SESSIONS_MAX: usize = 1_024;

/// What these settings ask for.
pub(super) fn config(settings: &FetchSettings) -> Result<Arc<ClientConfig>, SettingsError> {
    let wrong = |error: &dyn std::fmt::Display| {
        SettingsError::new("certificates_trusted", error.to_string())
    };
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(&error))?;
    let roots = Arc::new(roots(settings)?);
    let verifier: Arc<dyn ServerCertVerifier> = match settings.verify_certificates {
        true => WebPkiServerVerifier::builder_with_provider(roots, provider)
            .build()
            .map_err(|error| wrong(&error))?,
        false => Arc::new(AcceptsAll(provider)),
    };
    let mut config = builder
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    config.resumption = Resumption::in_memory_sessions(SESSIONS_MAX);
    config.alpn_protocols = match settings.http2 {
        true => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
        false => vec![b"http/1.1".to_vec()],
    };
    Ok(Arc::new(config))
}

fn roots(settings: &FetchSettings) -> Result<RootCertStore, SettingsError> {
    let mut roots = RootCertStore {
        roots: webpki_roots::TLS_SERVER_ROOTS.to_vec(),
    };
    let wrong = |reason: String| SettingsError::new("certificates_trusted", reason);
    for pem in &settings.certificates_trusted {
        let mut found = 0;
        for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
            let certificate = certificate.map_err(|error| wrong(format!("{error:?}")))?;
            roots
                .add(certificate)
                .map_err(|error| wrong(error.to_string()))?;
            found += 1;
        }
        if found == 0 {
            let reason = "one of them holds no certificate: write PEM, which begins with -----BEGIN CERTIFICATE-----";
            return Err(wrong(reason.to_owned()));
        }
    }
    Ok(roots)
}

/// Takes every certificate. Somebody asked for that in so many words.
#[derive(Debug)]
struct AcceptsAll(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptsAll {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
