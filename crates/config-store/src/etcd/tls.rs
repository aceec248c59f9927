//! Certificates and keys from files, and the reasons of failed handshakes.

use std::path::Path;
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{AlertDescription, CertificateError, ClientConfig, RootCertStore};
use ureq::tls::{Certificate, ClientCert, PrivateKey, TlsConfig};

use super::files::{UnusableFile, read_file, read_secret, unusable};
use crate::address::{Identity, TlsFiles};

/// Reads `files`. rustls has accepted the returned files: `ureq` panics on a certificate and a key that do not match.
pub fn read(files: &TlsFiles) -> Result<TlsConfig, UnusableFile> {
    let authorities = certificates(&files.cacert)?;
    let mut roots = RootCertStore::empty();
    for authority in &authorities {
        let added = roots.add(authority.clone());
        added.map_err(|error| unusable(&files.cacert, error))?;
    }
    let provider = Arc::new(default_provider());
    let identity = files.identity.as_ref();
    let client_cert = identity.map(|identity| client_cert(identity, roots, provider.clone()));
    let config = TlsConfig::builder()
        .root_certs(authorities.iter().map(certificate).into())
        .client_cert(client_cert.transpose()?)
        .unversioned_rustls_crypto_provider(provider);
    Ok(config.build())
}

fn client_cert(
    identity: &Identity,
    roots: RootCertStore,
    provider: Arc<CryptoProvider>,
) -> Result<ClientCert, UnusableFile> {
    let chain = certificates(&identity.cert)?;
    let certs: Vec<_> = chain.iter().map(certificate).collect();
    let text = read_secret(&identity.key)?;
    let no_key = |error: &dyn ToString| {
        let reason = format!("there is no unencrypted key in it: {}", error.to_string());
        unusable(&identity.key, reason)
    };
    let key = PrivateKeyDer::from_pem_slice(&text).map_err(|error| no_key(&error))?;
    let for_ureq = PrivateKey::from_pem(&text).map_err(|error| no_key(&error))?;
    ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider has suites for all versions")
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, key)
        .map_err(|error| {
            let key = identity.key.display();
            unusable(&identity.cert, format!("with the key {key}: {error}"))
        })?;
    Ok(ClientCert::new_with_certs(&certs, for_ureq))
}

fn certificate(certificate: &CertificateDer<'_>) -> Certificate<'static> {
    Certificate::from_der(certificate).to_owned()
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
