//! The part of an address behind the question mark: files, under the names of `etcdctl`'s flags.

use std::path::PathBuf;

use super::{Identity, TlsFiles, decode};

/// The files that an address names.
#[derive(Default)]
pub struct Options {
    cacert: Option<PathBuf>,
    cert: Option<PathBuf>,
    key: Option<PathBuf>,
    /// The file with the password of the user.
    pub password_file: Option<PathBuf>,
}

impl Options {
    /// Parses `cacert=FILE&cert=FILE&key=FILE&password_file=FILE`, each of which may be missing.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let mut options = Self::default();
        for option in text.split('&').filter(|option| !option.is_empty()) {
            let (name, file) = option.split_once('=').ok_or("a file has no name")?;
            let slot = match name {
                "cacert" => &mut options.cacert,
                "cert" => &mut options.cert,
                "key" => &mut options.key,
                "password_file" => &mut options.password_file,
                _ => {
                    return Err(
                        "only cacert, cert, key and password_file may follow the question mark",
                    );
                }
            };
            if file.is_empty() {
                return Err("the path of a file is empty");
            }
            if slot.replace(PathBuf::from(decode(file)?)).is_some() {
                return Err("a file is named twice");
            }
        }
        Ok(options)
    }

    /// The files of a connection without TLS: none.
    pub fn without_tls(&self) -> Result<(), &'static str> {
        match (&self.cacert, &self.cert, &self.key) {
            (None, None, None) => Ok(()),
            _ => Err("cacert, cert and key are for TLS, which etcds:// asks for"),
        }
    }

    /// The files of a connection over TLS.
    pub fn tls(&self) -> Result<TlsFiles, &'static str> {
        let identity = match (self.cert.clone(), self.key.clone()) {
            (Some(cert), Some(key)) => Some(Identity { cert, key }),
            (None, None) => None,
            _ => return Err("cert and key belong together"),
        };
        let cacert = self.cacert.clone().ok_or(
            "cacert is missing, the file of the authority that signed etcd's certificates",
        )?;
        Ok(TlsFiles { cacert, identity })
    }
}
