//! The state of a connection that commands see and change.

use std::rc::Rc;
use std::sync::Arc;

use stonecast_base::Nanoseconds;

use super::error::CommandError;
use super::operation::{Credentials, Hello};
use super::transaction::Transaction;
use crate::clients::{Card, Said};
use crate::guesses::OwnGuesses;
use crate::options::Password;
use crate::origin::Origin;
use crate::resp::Protocol;

/// State of one connection.
pub struct Session {
    /// The version of the protocol.
    pub protocol: Protocol,
    /// Whether the connection may use the store.
    pub is_authenticated: bool,
    /// Watched keys, and the commands since `MULTI`.
    pub transaction: Transaction,
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
    /// The session of a connection that begins. `needs_password`: the client must send the password first.
    pub fn new(card: Arc<Card>, began_at: Nanoseconds, needs_password: bool) -> Self {
        let origin = Origin::of(card.peer.ip());
        Self {
            protocol: Protocol::Resp2,
            is_authenticated: !needs_password,
            transaction: Transaction::default(),
            has_quit: false,
            name: Vec::new(),
            library: Default::default(),
            card,
            began_at,
            locked_at: began_at,
            guesses: Rc::new(OwnGuesses::new(origin)),
        }
    }

    /// Resets the session to its initial state. The number, the addresses, the time of the beginning and the pace of
    /// guesses stay.
    pub fn reset(&mut self, now: Nanoseconds, needs_password: bool) {
        let (began_at, guesses) = (self.began_at, self.guesses.clone());
        *self = Self {
            began_at,
            guesses,
            ..Self::new(self.card.clone(), now, needs_password)
        };
        self.show();
    }

    /// Names the connection.
    pub fn rename(&mut self, name: &[u8]) {
        self.name = name.to_vec();
        self.show();
    }

    /// Shows other threads what the client has said.
    pub fn show(&self) {
        self.card.note(Said {
            name: self.name.clone(),
            library: self.library.clone(),
            is_resp3: self.protocol == Protocol::Resp3,
        });
    }

    /// Checks a password.
    pub fn authenticate(
        &mut self,
        said: Credentials<'_>,
        password: Option<&Password>,
    ) -> Result<(), CommandError> {
        let password = password.ok_or(CommandError::PasswordUnused)?;
        if !password.is(said.password) || said.user != b"default" {
            return Err(CommandError::PasswordWrong);
        }
        self.is_authenticated = true;
        Ok(())
    }

    /// Does everything that `HELLO` requests, or nothing if a part is refused.
    pub fn greet(
        &mut self,
        hello: Hello<'_>,
        password: Option<&Password>,
    ) -> Result<(), CommandError> {
        if let Some(credentials) = hello.credentials {
            self.authenticate(credentials, password)?;
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

    fn session(needs_password: bool) -> Session {
        let address = "127.0.0.1:1".parse().unwrap();
        let card = Card::new(1, address, address, std::time::Duration::ZERO);
        Session::new(Arc::new(card), 0, needs_password)
    }

    #[test]
    fn only_the_password_authenticates_a_session() {
        let password = Password::new("secret");
        let mut session = session(true);
        for said in [
            Credentials {
                user: b"default",
                password: b"wrong",
            },
            Credentials {
                user: b"root",
                password: b"secret",
            },
            Credentials {
                user: b"default",
                password: b"",
            },
        ] {
            assert!(matches!(
                session.authenticate(said, Some(&password)),
                Err(CommandError::PasswordWrong)
            ));
            assert!(!session.is_authenticated);
        }
        session
            .authenticate(
                Credentials {
                    user: b"default",
                    password: b"secret",
                },
                Some(&password),
            )
            .unwrap();
        assert!(session.is_authenticated);
        session.reset(5, true);
        assert_eq!((session.began_at, session.locked_at), (0, 5));
        assert!(!session.is_authenticated, "RESET takes it back");
    }

    #[test]
    fn hello_does_all_or_nothing() {
        let password = Password::new("secret");
        let mut session = session(true);
        let wrong = Credentials {
            user: b"default",
            password: b"wrong",
        };
        for credentials in [None, Some(wrong)] {
            let hello = Hello {
                version: Some(3),
                credentials,
                name: Some(b"me"),
            };
            assert!(session.greet(hello, Some(&password)).is_err());
            assert_eq!(
                (session.protocol, session.name.as_slice()),
                (Protocol::Resp2, &b""[..])
            );
        }
        let right = Credentials {
            user: b"default",
            password: b"secret",
        };
        session
            .greet(
                Hello {
                    version: Some(3),
                    credentials: Some(right),
                    name: Some(b"me"),
                },
                Some(&password),
            )
            .unwrap();
        assert_eq!(
            (session.protocol, session.name.as_slice()),
            (Protocol::Resp3, &b"me"[..])
        );
        session.greet(Hello::default(), Some(&password)).unwrap();
        assert_eq!(
            session.protocol,
            Protocol::Resp3,
            "HELLO without a version changes nothing"
        );
    }
}
