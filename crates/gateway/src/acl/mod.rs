//! Users and the rights of each: access control lists as Redis has them.
//!
//! ```text
//!   file, SETUSER -> rules.rs -> User ---.         user.rs      passwords, rights, keys
//!   AUTH ------------------------------> Acl       users by name, shared by all threads
//!                                         |
//!   a command -> rights.rs (commands, subcommands, categories), keys.rs (patterns)
//! ```
//!
//! Invariants:
//! - A change counts for the next command of every connection, also within a pipeline: each command compares the number
//!   of changes.
//! - A user that is gone has no connections: a later user of the same name is another one.
//! - A change of rules is done as a whole, or not at all.
//! - Passwords are kept as their SHA-256, and compared in a time that does not depend on them.

mod file;
mod keys;
mod rights;
mod rules;
mod user;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use crate::error::GatewayError;
use crate::options::Password;

pub use keys::Access;
pub use rights::{CATEGORIES, Category, Unit, categories_of, units_of};
pub use rules::RuleError;
pub use user::{User, hex};

/// The user of a connection that has not named one.
pub const DEFAULT_USER: &[u8] = b"default";

/// The users that are in force.
pub struct Acl {
    users: RwLock<Users>,
    /// The number of changes, raised while the users are still locked.
    changes: AtomicU64,
    guard: DefaultUserBounds,
}

type Users = BTreeMap<Vec<u8>, Arc<User>>;

/// The bounds on changes of the `default` user while the gateway runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DefaultUserBounds {
    /// Whether connections may have to authenticate: only then are places reserved for connections that have not.
    pub may_be_closed: bool,
    /// Whether everybody may use the store. A gateway that has begun with a password for the user keeps one.
    pub may_be_open: bool,
}

/// The refusal of a change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A rule of `SETUSER` is wrong.
    #[error("Error in ACL SETUSER modifier '{}': {error}", .rule.escape_ascii())]
    Rule {
        /// The rule.
        rule: Vec<u8>,
        /// The reason.
        error: RuleError,
    },
    /// A name with blanks.
    #[error("Usernames can't contain spaces or null characters")]
    Name,
    /// The user that a connection has when it begins.
    #[error("The 'default' user cannot be removed")]
    DefaultUser,
    /// Connections would have to authenticate, and have no places while they do.
    #[error(
        "the 'default' user needs no password in this gateway, and cannot get one while it runs: start it with --password-file or --resp-acl-file"
    )]
    MayNotClose,
    /// Other machines reach the gateway, or it has begun with a password.
    #[error(
        "the 'default' user needs a password, or to be off: other machines reach this gateway without TLS, or the user needed one when it started"
    )]
    MayNotOpen,
}

impl Acl {
    /// The users of the file at `path`, if there is one, and the `default` user, who has `password`.
    pub fn of(
        path: Option<&Path>,
        password: Option<&Password>,
        guard: DefaultUserBounds,
    ) -> Result<Self, GatewayError> {
        let users = Self::read(path, password, guard)?;
        let is_open = users.get(DEFAULT_USER).is_some_and(|user| user.is_open());
        Ok(Self {
            users: RwLock::new(users),
            changes: AtomicU64::new(0),
            guard: DefaultUserBounds {
                may_be_open: guard.may_be_open && is_open,
                ..guard
            },
        })
    }

    fn read(
        path: Option<&Path>,
        password: Option<&Password>,
        guard: DefaultUserBounds,
    ) -> Result<Users, GatewayError> {
        let mut users = path.map_or(Ok(Users::new()), file::read)?;
        if let (Some(path), Some(_), true) = (path, password, users.contains_key(DEFAULT_USER)) {
            return Err(GatewayError::Options(format!(
                "the file of users {}: it has the user default, whose password is in the password file: leave one of them out",
                path.display()
            )));
        }
        let default = users
            .entry(DEFAULT_USER.to_vec())
            .or_insert_with(|| Arc::new(User::default_user(password)));
        if default.is_open() && !guard.may_be_open {
            return Err(GatewayError::Options(
                "the user default needs no password in the file of users, or is not in it, and other machines reach the gateway without TLS, or the user needed a password when it started: give the user a password, or turn it off"
                    .to_owned(),
            ));
        }
        Ok(users)
    }

    /// Puts the present content of the file in force, with `password`; without a file, `password` alone. Returns the
    /// users who are gone.
    pub fn replace(
        &self,
        path: Option<&Path>,
        password: Option<&Password>,
    ) -> Result<Vec<Arc<User>>, GatewayError> {
        let mut next = Self::read(path, password, self.guard)?;
        let mut users = self.write();
        if path.is_none() {
            let default = next.remove(DEFAULT_USER).expect("every list has it");
            next = users.clone();
            next.insert(DEFAULT_USER.to_vec(), default);
        }
        // A user who stays is the same one.
        for (name, user) in &mut next {
            if let Some(before) = users.get(name) {
                *user = Arc::new(user.succeeding(before));
            }
        }
        let gone = users.iter().filter(|(name, _)| !next.contains_key(*name));
        let gone = gone.map(|(_, user)| user.clone()).collect();
        *users = next;
        self.note_change();
        Ok(gone)
    }

    /// Puts the users who are in force into the file at `path`, so that a start or [`Acl::replace`] finds them there.
    /// Leaves the `default` user out if its password is in a file of its own.
    pub fn save(&self, path: &Path, default_has_file: bool) -> io::Result<()> {
        let users = self.all();
        let of_file = |user: &&Arc<User>| !default_has_file || user.name() != DEFAULT_USER;
        file::write(path, users.iter().filter(of_file).map(|user| &**user))
    }

    /// The number of changes so far.
    #[inline]
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// The user of that name.
    pub fn user(&self, name: &[u8]) -> Option<Arc<User>> {
        self.users().get(name).cloned()
    }

    /// All users, in the order of their names.
    pub fn all(&self) -> Vec<Arc<User>> {
        self.users().values().cloned().collect()
    }

    /// The `default` user.
    pub fn default_user(&self) -> Arc<User> {
        self.user(DEFAULT_USER).expect("nobody removes it")
    }

    /// Whether a wrong password may be sent.
    pub fn has_passwords(&self) -> bool {
        let users = self.users();
        users.len() > 1 || !users.values().all(|user| user.is_open())
    }

    /// The user with this name and password. Takes the same time whether the user exists or not.
    pub fn authenticate(&self, name: &[u8], password: &[u8]) -> Option<Arc<User>> {
        let user = self.user(name);
        let is_right = match &user {
            Some(user) => user.accepts(password),
            None => User::nobody().accepts(password),
        };
        user.filter(|_| is_right)
    }

    /// Changes a user by `rules`, one after the other, or makes the user: all rules count, or none.
    pub fn set<'a>(
        &self,
        name: &[u8],
        rules: impl Iterator<Item = &'a [u8]>,
    ) -> Result<(), Refusal> {
        if !is_name(name) {
            return Err(Refusal::Name);
        }
        let mut users = self.write();
        let mut user = users
            .get(name)
            .map_or_else(|| User::new(name), |user| (**user).clone());
        for rule in rules {
            user.apply(rule).map_err(|error| {
                let rule = rule.to_vec();
                Refusal::Rule { rule, error }
            })?;
        }
        if name == DEFAULT_USER {
            match user.is_open() {
                true if !self.guard.may_be_open => return Err(Refusal::MayNotOpen),
                false if !self.guard.may_be_closed => return Err(Refusal::MayNotClose),
                _ => {}
            }
        }
        users.insert(name.to_vec(), Arc::new(user));
        self.note_change();
        Ok(())
    }

    /// Removes users, and returns the users that existed.
    pub fn remove<'a>(
        &self,
        names: impl Iterator<Item = &'a [u8]>,
    ) -> Result<Vec<Arc<User>>, Refusal> {
        let names: Vec<&[u8]> = names.collect();
        if names.contains(&DEFAULT_USER) {
            return Err(Refusal::DefaultUser);
        }
        let mut users = self.write();
        let gone = names
            .iter()
            .filter_map(|name| users.remove(*name))
            .collect();
        self.note_change();
        Ok(gone)
    }

    fn users(&self) -> RwLockReadGuard<'_, Users> {
        self.users.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, Users> {
        self.users.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Called with the users still locked, so a connection that sees the number waits for the users that belong to it.
    fn note_change(&self) {
        self.changes.fetch_add(1, Ordering::AcqRel);
    }
}

/// Whether a name can stand in a line of a file of users.
fn is_name(name: &[u8]) -> bool {
    !name.is_empty()
        && !name
            .iter()
            .any(|byte| byte.is_ascii_whitespace() || *byte == 0)
}

#[cfg(test)]
mod tests;
