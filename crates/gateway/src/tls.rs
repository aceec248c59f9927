//! Reads certificates and keys from files.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

use crate::error::GatewayError;
use crate::options::{TlsOptions, read_secret};

/// Reads the files of `options` into a configuration for connections.
pub fn configuration(options: &TlsOptions) -> Result<Arc<ServerConfig>, GatewayError> {
    let chain = certificates(&options.certificate)?;
    let key = PrivateKeyDer::from_pem_slice(read_secret(&options.key)?.as_bytes())
        .map_err(|error| unusable(&options.key, error))?;
    let builder = match &options.client_authority {
        None => ServerConfig::builder().with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates(path)? {
                roots
                    .add(certificate)
                    .map_err(|error| unusable(path, error))?;
            }
            let verifier = WebPkiClientVerifier::builder(Arc::new(roots))
                .build()
                .map_err(|error| unusable(path, error))?;
            ServerConfig::builder().with_client_cert_verifier(verifier)
        }
    };
    let configuration = builder
        .with_single_cert(chain, key)
        .map_err(|error| unusable(&options.certificate, error))?;
    Ok(Arc::new(configuration))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, GatewayError> {
    let certificates =
        CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let certificates = certificates.map_err(|error| unusable(path, error))?;
    if certificates.is_empty() {
        Err(unusable(path, "the file has no certificate"))
    } else {
        Ok(certificates)
    }
}

fn unusable(path: &Path, reason: impl ToString) -> GatewayError {
    GatewayError::Tls {
        path: path.to_owned(),
        reason: reason.to_string(),
    }
}
