//! Authorities, and the certificates that they have signed, as files in a temporary directory.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, IsCa, KeyPair,
    date_time_ymd,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tempfile::TempDir;

/// The authority `ca.pem` signed `server`, `client`, `named` (a client with a common name), `expired`, and `elsewhere`
/// (for another host). The authority `other-ca.pem` signed `stranger`. Each has its certificate in `NAME.pem` and its
/// key in `NAME.key`.
pub struct Certificates {
    folder: TempDir,
}

type Authority = CertifiedIssuer<'static, KeyPair>;

impl Certificates {
    pub fn make() -> Self {
        let certificates = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        let ours = certificates.authority("ca");
        for name in ["server", "client"] {
            certificates.sign(&ours, name, params("127.0.0.1"));
        }
        certificates.sign(&ours, "elsewhere", params("db.example"));
        let mut named = params("127.0.0.1");
        named.distinguished_name.push(DnType::CommonName, "root");
        certificates.sign(&ours, "named", named);
        let mut expired = params("127.0.0.1");
        expired.not_before = date_time_ymd(2001, 1, 1);
        expired.not_after = date_time_ymd(2002, 1, 1);
        certificates.sign(&ours, "expired", expired);
        let others = certificates.authority("other-ca");
        certificates.sign(&others, "stranger", params("127.0.0.1"));
        certificates
    }

    fn authority(&self, name: &str) -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // Two authorities of the same name would be mistaken for each other, and fail later.
        params.distinguished_name.push(DnType::CommonName, name);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        fs::write(self.path(&format!("{name}.pem")), authority.pem()).unwrap();
        authority
    }

    fn sign(&self, authority: &Authority, name: &str, params: CertificateParams) {
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, authority).unwrap();
        fs::write(self.path(&format!("{name}.pem")), certificate.pem()).unwrap();
        let path = self.path(&format!("{name}.key"));
        fs::write(&path, key.serialize_pem()).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The part of an address that names the authority `ca`, and the files of `identity`.
    pub fn options(&self, ca: &str, identity: Option<&str>) -> String {
        let path = |name: String| self.path(&name).display().to_string();
        let mut options = format!("?cacert={}", path(format!("{ca}.pem")));
        if let Some(name) = identity {
            options += &format!("&cert={}", path(format!("{name}.pem")));
            options += &format!("&key={}", path(format!("{name}.key")));
        }
        options
    }

    /// The configuration of a server with the certificate `name` that asks its clients for theirs.
    pub fn server(&self, name: &str) -> Arc<ServerConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(certificate(&self.path("ca.pem"))).unwrap();
        let verifier = WebPkiClientVerifier::builder(Arc::new(roots)).build();
        let chain = vec![certificate(&self.path(&format!("{name}.pem")))];
        let key = PrivateKeyDer::from_pem_file(self.path(&format!("{name}.key"))).unwrap();
        let config = ServerConfig::builder()
            .with_client_cert_verifier(verifier.unwrap())
            .with_single_cert(chain, key);
        Arc::new(config.unwrap())
    }
}

fn params(host: &str) -> CertificateParams {
    let mut params = CertificateParams::new([host.to_owned()]).unwrap();
    params.distinguished_name = DistinguishedName::new();
    params
}

fn certificate(path: &Path) -> CertificateDer<'static> {
    CertificateDer::from_pem_file(path).unwrap()
}
