//! The file of users: one user a line, as `ACL LIST` prints it, blank lines, and comments that begin with `#`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Arc;

use super::user::User;
use super::{Users, is_name};
use crate::error::GatewayError;
use crate::options::read_secret;

/// Reads the users. A file that every user of the machine may read is refused: the file has digests of passwords, and
/// perhaps passwords.
pub(super) fn read(path: &Path) -> Result<Users, GatewayError> {
    let text = read_secret(path)?;
    parse(&text).map_err(|(line, reason)| {
        GatewayError::Options(format!(
            "the file of users {}, line {line}: {reason}",
            path.display()
        ))
    })
}

/// Puts `users` into the file at `path`, in place of its content: after a crash, the file has the old content or the
/// new one. The owner alone may read the file.
pub(super) fn write<'a>(path: &Path, users: impl Iterator<Item = &'a User>) -> io::Result<()> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    // A temporary file is its owner's alone.
    let mut file = tempfile::Builder::new()
        .prefix(".stonecast-partial-")
        .tempfile_in(folder)?;
    for user in users {
        file.write_all(&user.line())?;
        file.write_all(b"\n")?;
    }
    file.as_file().sync_all()?;
    file.persist(path)?;
    // Without this sync, a power cut may take the name.
    File::open(folder)?.sync_all()
}

/// The users of a file, or the number of a line and the reason why it is no user.
pub(super) fn parse(text: &str) -> Result<Users, (usize, String)> {
    let mut users = BTreeMap::new();
    for (index, line) in text.lines().enumerate() {
        let refuse = |reason: String| (index + 1, reason);
        let mut words = line.split_ascii_whitespace();
        let name = match (words.next(), words.next()) {
            (None, _) => continue,
            (Some(first), _) if first.starts_with('#') => continue,
            (Some("user"), Some(name)) if is_name(name.as_bytes()) => name,
            _ => {
                return Err(refuse(
                    "it does not begin with `user` and a name".to_owned(),
                ));
            }
        };
        let mut user = User::new(name.as_bytes());
        for rule in words {
            user.apply(rule.as_bytes()).map_err(|error| {
                // A password stays out of the log.
                let shown = match rule.as_bytes()[0] {
                    b'>' | b'<' | b'#' | b'!' => &rule[..1],
                    _ => rule,
                };
                refuse(format!("the rule {shown}: {error}"))
            })?;
        }
        if users
            .insert(name.as_bytes().to_vec(), Arc::new(user))
            .is_some()
        {
            return Err(refuse(format!("the user {name} has a line already")));
        }
    }
    Ok(users)
}
