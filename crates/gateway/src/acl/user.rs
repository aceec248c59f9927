//! A user: passwords, rights to commands, and patterns of keys.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use sha2::{Digest as _, Sha256};
use subtle::{Choice, ConstantTimeEq as _};

use super::DEFAULT_USER;
use super::keys::{Access, KeyPattern};
use super::rights::{Rights, Unit};
use crate::options::Password;

/// The SHA-256 of a password.
pub(super) type Digest = [u8; 32];

/// A user.
#[derive(Clone)]
pub struct User {
    name: Vec<u8>,
    /// Tells a user from a removed user of the same name.
    identity: u64,
    pub(super) is_on: bool,
    /// Whether every password is right.
    pub(super) needs_no_password: bool,
    pub(super) passwords: Vec<Digest>,
    pub(super) rights: Rights,
    pub(super) keys: Vec<KeyPattern>,
    /// Patterns of channels, which the gateway does not have.
    pub(super) channels: Vec<Vec<u8>>,
}

impl User {
    /// A user as `ACL SETUSER` makes one: off, without a password, and with no rights.
    pub fn new(name: &[u8]) -> Self {
        static GIVEN: AtomicU64 = AtomicU64::new(0);
        Self {
            name: name.to_vec(),
            identity: GIVEN.fetch_add(1, Ordering::Relaxed),
            is_on: false,
            needs_no_password: false,
            passwords: Vec::new(),
            rights: Rights::none(),
            keys: Vec::new(),
            channels: Vec::new(),
        }
    }

    /// The user of connections that name none: may do everything, with `password` if there is one.
    pub fn default_user(password: Option<&Password>) -> Self {
        Self {
            is_on: true,
            needs_no_password: password.is_none(),
            passwords: password
                .map(|password| digest(password.reveal().as_bytes()))
                .into_iter()
                .collect(),
            rights: Rights::all(),
            keys: vec![KeyPattern::all()],
            channels: vec![b"*".to_vec()],
            ..Self::new(DEFAULT_USER)
        }
    }

    /// A user with an unknown password.
    pub(super) fn nobody() -> &'static Self {
        static NOBODY: LazyLock<User> = LazyLock::new(|| User {
            passwords: vec![[0; 32]],
            ..User::new(b"")
        });
        &NOBODY
    }

    /// This user, as the same one as `before`.
    pub(super) fn succeeding(&self, before: &Self) -> Self {
        Self {
            identity: before.identity,
            ..self.clone()
        }
    }

    /// The name.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// Whether both are the same user, with equal or different rules.
    pub fn is_same(&self, other: &Self) -> bool {
        self.identity == other.identity
    }

    /// Whether a connection has this user without a password.
    pub fn is_open(&self) -> bool {
        self.is_on && self.needs_no_password
    }

    /// Whether every password is right.
    pub fn needs_no_password(&self) -> bool {
        self.needs_no_password
    }

    /// Whether the user may log in with `password`. All passwords are compared, each in the same time.
    pub fn accepts(&self, password: &[u8]) -> bool {
        let said = digest(password);
        let compare = |found: Choice, known: &Digest| found | known.ct_eq(&said);
        let is_known = self.passwords.iter().fold(Choice::from(0), compare);
        (bool::from(is_known) || self.needs_no_password) && self.is_on
    }

    /// Whether the user may do everything, so that no command needs a look.
    #[inline]
    pub fn may_do_everything(&self) -> bool {
        self.rights.are_all() && self.reaches_all_keys()
    }

    /// Whether the user may run this command or subcommand.
    pub fn may_run(&self, unit: Unit) -> bool {
        self.rights.has(unit)
    }

    /// Whether the user may use `key` in this way.
    pub fn reaches(&self, key: &[u8], access: Access) -> bool {
        self.keys.iter().any(|pattern| pattern.fits(key, access))
    }

    /// Whether the user may read and write every key.
    pub fn reaches_all_keys(&self) -> bool {
        self.keys.iter().any(KeyPattern::is_all)
    }

    /// The flags of `ACL GETUSER`.
    pub fn flags(&self) -> Vec<&'static str> {
        let state = if self.is_on { "on" } else { "off" };
        let open = self.needs_no_password.then_some("nopass");
        [Some(state), open].into_iter().flatten().collect()
    }

    /// The digests of the passwords, in hexadecimal digits.
    pub fn digests(&self) -> Vec<String> {
        self.passwords.iter().map(|digest| hex(digest)).collect()
    }

    /// The rights to commands, as rules.
    pub fn commands(&self) -> String {
        self.rights.to_string()
    }

    /// The patterns of keys, as rules.
    pub fn key_patterns(&self) -> Vec<u8> {
        let rules: Vec<Vec<u8>> = self.keys.iter().map(KeyPattern::rule).collect();
        rules.join(&b' ')
    }

    /// The patterns of channels, as rules.
    pub fn channel_patterns(&self) -> Vec<u8> {
        let rule = |pattern: &Vec<u8>| [b"&", &pattern[..]].concat();
        let rules: Vec<Vec<u8>> = self.channels.iter().map(rule).collect();
        rules.join(&b' ')
    }

    /// The line of `ACL LIST`, which a file of users accepts.
    pub fn line(&self) -> Vec<u8> {
        let mut words: Vec<Vec<u8>> = vec![b"user".to_vec(), self.name.clone()];
        words.extend(self.flags().iter().map(|flag| flag.as_bytes().to_vec()));
        words.extend(
            self.digests()
                .iter()
                .map(|it| format!("#{it}").into_bytes()),
        );
        words.extend(self.keys.iter().map(KeyPattern::rule));
        words.push(match self.channels.is_empty() {
            true => b"resetchannels".to_vec(),
            false => self.channel_patterns(),
        });
        words.push(self.commands().into_bytes());
        words.join(&b' ')
    }
}

/// The digest of a password.
pub(super) fn digest(password: &[u8]) -> Digest {
    Sha256::digest(password).into()
}

/// The hexadecimal digits of `bytes`.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
