//! The user of an etcd with users, and the password.

use std::path::{Path, PathBuf};

use super::files::{UnusableFile, read_secret, unusable};
use super::messages;
use crate::address::{Credentials, Password};

/// User and password. No message shows a password.
#[derive(Clone)]
pub struct Login {
    user: String,
    password: String,
    /// The file of the password; `None` if the address has it.
    file: Option<PathBuf>,
}

impl Login {
    /// The login of `credentials`. Reads the file of the password.
    pub fn new(credentials: &Credentials) -> Result<Self, UnusableFile> {
        let (password, file) = match &credentials.password {
            Password::Text(password) => (password.clone(), None),
            Password::File(path) => (read(path)?, Some(path.clone())),
        };
        let user = credentials.user.clone();
        Ok(Self {
            user,
            password,
            file,
        })
    }

    /// The request for a token, with the password as the file has it now: the password may be changed while a store is
    /// open. An unusable file changes nothing: another program may be writing it.
    pub fn request(&mut self) -> serde_json::Value {
        if let Some(Ok(password)) = self.file.as_deref().map(read) {
            self.password = password;
        }
        messages::credentials(&self.user, &self.password)
    }
}

/// The password in a file, without the end of its line.
fn read(path: &Path) -> Result<String, UnusableFile> {
    let text = String::from_utf8(read_secret(path)?);
    let text = text.map_err(|_| unusable(path, "the password in it is not UTF-8"))?;
    let line = text.strip_suffix('\n').unwrap_or(&text);
    let password = line.strip_suffix('\r').unwrap_or(line);
    match password.is_empty() {
        true => Err(unusable(path, "there is no password in it")),
        false => Ok(password.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_password_is_the_content_of_a_file_without_the_end_of_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("password");
        let read_of = |content: &[u8], mode| {
            fs::write(&path, content).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            read(&path).map_err(|error| error.to_string())
        };
        for content in [&b"s/@%"[..], b"s/@%\n", b"s/@%\r\n"] {
            assert_eq!(read_of(content, 0o600).as_deref(), Ok("s/@%"));
        }
        assert_eq!(read_of(b" a b \n\n", 0o640).as_deref(), Ok(" a b \n"));
        for (content, mode, complaint) in [
            (&b""[..], 0o600, "no password"),
            (b"\n", 0o600, "no password"),
            (b"secret\xff", 0o600, "not UTF-8"),
            (b"secret", 0o644, "every user may read"),
        ] {
            let refused = read_of(content, mode).unwrap_err();
            assert!(refused.contains(complaint), "{complaint}: {refused}");
            assert!(!refused.contains("secret"), "{refused}");
            assert!(refused.starts_with(path.to_str().unwrap()), "{refused}");
        }
    }
}
