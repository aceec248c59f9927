//! Certificates and keys from files, and the reasons of failed handshakes.

use std::path::Path;
use std::sync::Arc;

use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{AlertDescription, CertificateError, ClientConfig, RootCertStore};

use super::files::{UnusableFile, read_file, read_secret, unusable};
use crate::address::{Identity, TlsFiles};

/// Reads `files` into a configuration for connections.
pub fn read(files: &TlsFiles) -> Result<Arc<ClientConfig>, UnusableFile> {
    let mut roots = RootCertStore::empty();
    for authority in certificates(&files.cacert)? {
        let added = roots.add(authority);
        added.map_err(|error| unusable(&files.cacert, error))?;
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the provider has suites for all versions")
        .with_root_certificates(roots);
    let Some(Identity { cert, key }) = &files.identity else {
        return Ok(Arc::new(builder.with_no_client_auth()));
    };
    let chain = certificates(cert)?;
    let config = builder.with_client_auth_cert(chain, private_key(key)?);
    let config = config.map_err(|error| {
        let key = key.display();
        unusable(cert, format!("with the key {key}: {error}"))
    })?;
    Ok(Arc::new(config))
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, UnusableFile> {
    let key = PrivateKeyDer::from_pem_slice(&read_secret(path)?);
    key.map_err(|error| {
        let reason = format!("there is no unencrypted key in it: {error}");
        unusable(path, reason)
    })
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, UnusableFile> {
    let text = read_file(path)?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let certificates = certificates.map_err(|error| unusable(path, error))?;
    match certificates.is_empty() {
        true => Err(unusable(path, "there is no certificate in it")),
        false => Ok(certificates),
    }
}

/// The meaning of `error` for a connection over TLS, and the remedy.
pub fn explain(error: &rustls::Error, files: &TlsFiles) -> String {
    use AlertDescription as Alert;
    let advice = match error {
        rustls::Error::InvalidCertificate(error) => of_certificate(error, files),
        rustls::Error::InvalidMessage(_) => {
            "the server does not speak TLS: use etcd://, or correct the port".to_owned()
        }
        rustls::Error::AlertReceived(alert) => match (alert, &files.identity) {
            (Alert::CertificateRequired | Alert::BadCertificate, None) => {
                "it requires a certificate of its clients: name cert and key in the address"
                    .to_owned()
            }
            (
                Alert::CertificateRequired
                | Alert::BadCertificate
                | Alert::UnknownCA
                | Alert::CertificateExpired
                | Alert::CertificateRevoked
                | Alert::CertificateUnknown
                | Alert::UnsupportedCertificate
                | Alert::AccessDenied,
                Some(Identity { cert, .. }),
            ) => format!(
                "it refuses the certificate {}: correct or renew it, or the authorities that etcd trusts",
                cert.display()
            ),
            _ => "both sides must share a version of TLS and a suite".to_owned(),
        },
        _ => "check the TLS options of etcd".to_owned(),
    };
    format!("{error}; {advice}")
}

fn of_certificate(error: &CertificateError, files: &TlsFiles) -> String {
    match error {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "the certificate of etcd has expired: renew it, or correct the clock of this host"
                .to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "the certificate of etcd is not valid yet: correct the clock of this host".to_owned()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "the certificate of etcd is for other hosts: use a name that it contains".to_owned()
        }
        _ => format!(
            "no authority in {} signed the certificate of etcd: correct cacert, and be sure that this is your etcd",
            files.cacert.display()
        ),
    }
}
