//! The file of users: one user a line, as `ACL LIST` prints it, blank lines, and comments that begin with `#`.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::user::User;
use super::{Users, is_name};
use crate::error::GatewayError;
use crate::options::read_secret;

/// Reads the users. A file that everybody may read is refused: it has digests of passwords, and perhaps passwords.
pub(super) fn read(path: &Path) -> Result<Users, GatewayError> {
    let text = read_secret(path)?;
    parse(&text).map_err(|(line, reason)| {
        GatewayError::Options(format!(
            "the file of users {}, line {line}: {reason}",
            path.display()
        ))
    })
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
