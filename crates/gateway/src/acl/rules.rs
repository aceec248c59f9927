//! The rules that change a user, as `ACL SETUSER` and the file of users have them.

use super::keys::KeyPattern;
use super::rights::Rights;
use super::user::{Digest, User, digest};

/// The reason why a rule changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// No command, subcommand or category of this name.
    #[error("Unknown command or category name in ACL")]
    UnknownCommand,
    /// The text is not a rule.
    #[error("Syntax error")]
    Syntax,
    /// A pattern beside that of all keys.
    #[error(
        "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any effect. Try 'resetkeys' to \
         start with an empty list of patterns"
    )]
    PatternBesideAll,
    /// A password that the user does not have.
    #[error("The password you are trying to remove from the user does not exist")]
    NoSuchPassword,
    /// The text is not the SHA-256 of a password.
    #[error(
        "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters"
    )]
    NoDigest,
    /// Selectors are not supported.
    #[error("this store has no selectors")]
    Selector,
}

impl User {
    /// Changes this user by a rule.
    pub fn apply(&mut self, rule: &[u8]) -> Result<(), RuleError> {
        let word = rule.to_ascii_lowercase();
        match &word[..] {
            b"on" => self.is_on = true,
            b"off" => self.is_on = false,
            b"nopass" => {
                self.needs_no_password = true;
                self.passwords.clear();
            }
            b"resetpass" => {
                self.needs_no_password = false;
                self.passwords.clear();
            }
            b"allkeys" => self.keys = vec![KeyPattern::all()],
            b"resetkeys" => self.keys.clear(),
            b"allchannels" => self.channels = vec![b"*".to_vec()],
            b"resetchannels" => self.channels.clear(),
            b"allcommands" => self.rights = Rights::all(),
            b"nocommands" => self.rights = Rights::none(),
            // Values need no check for pieces of a dump, since the gateway has no dumps. The gateway has no selectors
            // either.
            b"sanitize-payload" | b"skip-sanitize-payload" | b"clearselectors" => {}
            b"reset" => self.reset(),
            _ => return self.apply_with_sign(rule),
        }
        Ok(())
    }

    fn reset(&mut self) {
        self.is_on = false;
        self.needs_no_password = false;
        self.passwords.clear();
        self.keys.clear();
        self.channels.clear();
        self.rights = Rights::none();
    }

    fn apply_with_sign(&mut self, rule: &[u8]) -> Result<(), RuleError> {
        match rule {
            [b'>', password @ ..] => self.add_password(digest(password)),
            [b'<', password @ ..] => return self.remove_password(digest(password)),
            [b'#', text @ ..] => self.add_password(parse_digest(text)?),
            [b'!', text @ ..] => return self.remove_password(parse_digest(text)?),
            [b'+' | b'-', ..] => return self.rights.apply(rule),
            [b'~' | b'%', ..] => {
                let pattern = KeyPattern::read(rule).ok_or(RuleError::Syntax)?;
                if self.keys.iter().any(KeyPattern::is_all) && !pattern.is_all() {
                    return Err(RuleError::PatternBesideAll);
                }
                if pattern.is_all() {
                    self.keys.clear();
                }
                let is_it = |known: &&mut KeyPattern| known.pattern == pattern.pattern;
                match self.keys.iter_mut().find(is_it) {
                    // Two rules about one pattern add up, as in Redis.
                    Some(known) => known.allowed = known.allowed.or(pattern.allowed),
                    None => self.keys.push(pattern),
                }
            }
            [b'&', pattern @ ..] if !super::is_name(pattern) => return Err(RuleError::Syntax),
            [b'&', pattern @ ..] => {
                if !self.channels.iter().any(|known| known == pattern) {
                    self.channels.push(pattern.to_vec());
                }
            }
            [b'(', ..] => return Err(RuleError::Selector),
            _ => return Err(RuleError::Syntax),
        }
        Ok(())
    }

    fn add_password(&mut self, added: Digest) {
        self.needs_no_password = false;
        if !self.passwords.contains(&added) {
            self.passwords.push(added);
        }
    }

    fn remove_password(&mut self, removed: Digest) -> Result<(), RuleError> {
        let place = self.passwords.iter().position(|known| *known == removed);
        self.passwords
            .remove(place.ok_or(RuleError::NoSuchPassword)?);
        Ok(())
    }
}

fn parse_digest(text: &[u8]) -> Result<Digest, RuleError> {
    let is_digit = |byte: &u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte);
    if text.len() != 64 || !text.iter().all(is_digit) {
        return Err(RuleError::NoDigest);
    }
    let digit = |byte: u8| (byte as char).to_digit(16).expect("checked above") as u8;
    Ok(std::array::from_fn(|at| {
        digit(text[2 * at]) << 4 | digit(text[2 * at + 1])
    }))
}
