//! The state of a connection that commands see and change.

use std::rc::Rc;
use std::sync::Arc;

use stonecast_base::Nanoseconds;

use super::error::CommandError;
use super::operation::{Credentials, Hello};
use super::transaction::Transaction;
use super::wait::WrittenShards;
use crate::acl::{Acl, DEFAULT_USER, User};
use crate::clients::{Card, Said};
use crate::guesses::OwnGuesses;
use crate::origin::Origin;
use crate::resp::Protocol;

/// The user of a connection, as it was after `seen_changes` changes of users.
struct Login {
    user: Arc<User>,
    seen_changes: u64,
}

/// State of one connection.
pub struct Session {
    /// The version of the protocol.
    pub protocol: Protocol,
    /// Whether the connection may use the store.
    pub is_authenticated: bool,
    login: Login,
    /// Watched keys, and the commands since `MULTI`.
    pub transaction: Transaction,
    /// The shards to which the connection has written.
    pub written: WrittenShards,
    /// Whether the client has sent `QUIT`.
    pub has_quit: bool,
    /// The name that `CLIENT SETNAME` gave.
    pub name: Vec<u8>,
    /// Name and version of the client's library.
    pub library: [Vec<u8>; 2],
    /// The facts of the connection that all threads know.
    pub card: Arc<Card>,
    /// The time at which the connection began.
    pub began_at: Nanoseconds,
    /// The time since which the password has been missing, if it is missing.
    pub locked_at: Nanoseconds,
    /// The pace of the connection's wrong passwords.
    pub guesses: Rc<OwnGuesses>,
}

impl Session {
    /// The session of a connection that begins, as the `default` user: it is authenticated if that user needs no
    /// password.
    pub fn new(card: Arc<Card>, began_at: Nanoseconds, acl: &Acl) -> Self {
        let origin = Origin::of(card.peer.ip());
        let seen_changes = acl.changes();
        let user = acl.default_user();
        Self {
            protocol: Protocol::Resp2,
            is_authenticated: user.is_open(),
            login: Login { user, seen_changes },
            transaction: Transaction::default(),
            written: WrittenShards::default(),
            has_quit: false,
            name: Vec::new(),
            library: Default::default(),
            card,
            began_at,
            locked_at: began_at,
            guesses: Rc::new(OwnGuesses::new(origin)),
        }
    }

    /// Resets the session to its initial state. The number, the addresses, the time of the beginning, the pace of
    /// guesses and the shards that were written stay.
    pub fn reset(&mut self, now: Nanoseconds, acl: &Acl) {
        let (began_at, guesses) = (self.began_at, self.guesses.clone());
        *self = Self {
            began_at,
            guesses,
            written: self.written,
            ..Self::new(self.card.clone(), now, acl)
        };
        self.show();
    }

    /// The user of the connection, as the session last learned the rules.
    pub fn user(&self) -> &Arc<User> {
        &self.login.user
    }

    /// Names the connection.
    pub fn rename(&mut self, name: &[u8]) {
        self.name = name.to_vec();
        self.show();
    }

    /// Shows other threads the words of the client about itself.
    pub fn show(&self) {
        self.card.note(Said {
            name: self.name.clone(),
            library: self.library.clone(),
            is_resp3: self.protocol == Protocol::Resp3,
            user: self.login.user.name().to_vec(),
        });
    }

    /// Learns the present rules of the session's user. Returns whether they may have changed; `None`: the user is gone,
    /// and with it every right.
    pub fn follow(&mut self, acl: &Acl) -> Option<bool> {
        let changes = acl.changes();
        if changes == self.login.seen_changes {
            return Some(false);
        }
        self.login.seen_changes = changes;
        let now = acl.user(self.login.user.name());
        self.login.user = now.filter(|user| user.is_same(&self.login.user))?;
        Some(true)
    }

    /// Checks a password, and takes its user.
    pub fn authenticate(&mut self, said: Credentials<'_>, acl: &Acl) -> Result<(), CommandError> {
        if said.user.is_none() && acl.default_user().needs_no_password() {
            return Err(CommandError::PasswordUnused);
        }
        let name = said.user.unwrap_or(DEFAULT_USER);
        let user = acl.authenticate(name, said.password);
        self.login.user = user.ok_or(CommandError::PasswordWrong)?;
        self.is_authenticated = true;
        self.show();
        Ok(())
    }

    /// Does everything that `HELLO` requests, or nothing if a part is refused.
    pub fn greet(&mut self, hello: Hello<'_>, acl: &Acl) -> Result<(), CommandError> {
        if let Some(credentials) = hello.credentials {
            self.authenticate(credentials, acl)?;
        }
        if !self.is_authenticated {
            let words = "HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> \
                option can be used to authenticate the client and select the RESP protocol version at the same time";
            return Err(CommandError::PasswordMissingIn(words));
        }
        if let Some(name) = hello.name {
            self.name = name.to_vec();
        }
        match hello.version {
            Some(2) => self.protocol = Protocol::Resp2,
            Some(_) => self.protocol = Protocol::Resp3,
            None => {}
        }
        self.show();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acl::DefaultUserBounds;
    use crate::options::Password;

    fn acl(password: Option<&str>) -> Acl {
        let password = password.map(Password::new);
        let guard = DefaultUserBounds {
            may_be_closed: true,
            may_be_open: true,
        };
        Acl::of(None, password.as_ref(), guard).unwrap()
    }

    fn session(acl: &Acl) -> Session {
        let address = "127.0.0.1:1".parse().unwrap();
        let card = Card::new(1, address, address, std::time::Duration::ZERO);
        Session::new(Arc::new(card), 0, acl)
    }

    fn said<'a>(user: &'a [u8], password: &'a [u8]) -> Credentials<'a> {
        Credentials {
            user: Some(user),
            password,
        }
    }

    #[test]
    fn only_the_password_authenticates_a_session() {
        let acl = acl(Some("secret"));
        let mut session = session(&acl);
        for wrong in [
            said(b"default", b"wrong"),
            said(b"root", b"secret"),
            said(b"default", b""),
        ] {
            assert!(matches!(
                session.authenticate(wrong, &acl),
                Err(CommandError::PasswordWrong)
            ));
            assert!(!session.is_authenticated);
        }
        session
            .authenticate(said(b"default", b"secret"), &acl)
            .unwrap();
        assert!(session.is_authenticated);
        session.reset(5, &acl);
        assert_eq!((session.began_at, session.locked_at), (0, 5));
        assert!(!session.is_authenticated, "RESET takes it back");
    }

    #[test]
    fn hello_does_all_or_nothing() {
        let acl = acl(Some("secret"));
        let mut session = session(&acl);
        for credentials in [None, Some(said(b"default", b"wrong"))] {
            let hello = Hello {
                version: Some(3),
                credentials,
                name: Some(b"me"),
            };
            assert!(session.greet(hello, &acl).is_err());
            assert_eq!(
                (session.protocol, session.name.as_slice()),
                (Protocol::Resp2, &b""[..])
            );
        }
        let hello = Hello {
            version: Some(3),
            credentials: Some(said(b"default", b"secret")),
            name: Some(b"me"),
        };
        session.greet(hello, &acl).unwrap();
        assert_eq!(
            (session.protocol, session.name.as_slice()),
            (Protocol::Resp3, &b"me"[..])
        );
        session.greet(Hello::default(), &acl).unwrap();
        assert_eq!(
            session.protocol,
            Protocol::Resp3,
            "HELLO without a version changes nothing"
        );
    }

    /// Needs the identity of users: the second one has the name alone in common with the first.
    #[test]
    fn a_session_follows_the_rules_of_its_user_and_not_those_of_another_one_of_the_name() {
        let acl = acl(None);
        let set = |rules: &[&str]| acl.set(b"a", rules.iter().map(|rule| rule.as_bytes()));
        set(&["on", ">p", "+get"]).unwrap();
        let mut session = session(&acl);
        session.authenticate(said(b"a", b"p"), &acl).unwrap();
        assert_eq!(session.follow(&acl), Some(false));
        set(&["+@all", "~*"]).unwrap();
        assert_eq!(session.follow(&acl), Some(true));
        assert!(session.user().may_do_everything());
        acl.remove([&b"a"[..]].into_iter()).unwrap();
        set(&["on", ">p", "+@all", "~*"]).unwrap();
        assert_eq!(session.follow(&acl), None);
    }
}
