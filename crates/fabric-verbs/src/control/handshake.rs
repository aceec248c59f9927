//! The lines in clear text, and the Noise handshake under them (NNpsk0: both sides prove that they hold the key; fresh
//! keys for each session).

use snow::{Builder, HandshakeState, TransportState};
use zerocopy::byteorder::little_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::frame::FRAME_SIZE_MAX;
use super::key::{Key, is_name};
use super::{ControlError, KeyRing};

/// The first bytes of a control connection, in both directions.
pub(super) const MAGIC: [u8; 8] = *b"STONEVRB";
/// The version of the protocol that this release speaks.
pub(super) const VERSION: u16 = 1;

const NOISE: &str = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s";
/// Bytes that sealing adds to a message.
const SEAL_SIZE: usize = 16;
/// The most bytes of a message before it is sealed. The first messages of a handshake also carry a public key.
pub(super) const MESSAGE_SIZE_MAX: usize = FRAME_SIZE_MAX - SEAL_SIZE - 32;

/// The beginning of the client's side. Its name follows.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Greeting {
    pub magic: [u8; 8],
    pub version: U16,
    pub name_size: u8,
    pub reserved: u8,
}

/// The beginning of the server's side.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Reply {
    pub magic: [u8; 8],
    pub version: U16,
    /// One of the `VERDICT_` numbers.
    pub verdict: u8,
    pub reserved: u8,
}

pub(super) const GREETING_SIZE: usize = size_of::<Greeting>();
pub(super) const REPLY_SIZE: usize = size_of::<Reply>();
/// The handshake continues.
pub(super) const VERDICT_WELCOME: u8 = 0;
/// The versions differ.
pub(super) const VERDICT_VERSION: u8 = 1;
/// The client does not hold the key.
pub(super) const VERDICT_KEY: u8 = 2;

impl Reply {
    pub fn new(verdict: u8) -> Self {
        Self {
            magic: MAGIC,
            version: U16::new(VERSION),
            verdict,
            reserved: 0,
        }
    }
}

/// The first bytes of the client `name`.
pub(super) fn greeting(name: &str) -> Vec<u8> {
    let name_size = u8::try_from(name.len()).expect("names are short");
    let head = Greeting {
        magic: MAGIC,
        version: U16::new(VERSION),
        name_size,
        reserved: 0,
    };
    [head.as_bytes(), name.as_bytes()].concat()
}

/// The number of magic bytes still missing from `arrived`: `Err` as soon as one byte differs.
pub(super) fn check_magic(arrived: &[u8]) -> Result<(), ControlError> {
    let seen = &arrived[..arrived.len().min(MAGIC.len())];
    if MAGIC.starts_with(seen) {
        Ok(())
    } else {
        Err(ControlError::ForeignProtocol {
            found: seen.to_vec(),
        })
    }
}

/// The client's name, from the whole greeting, whose magic was checked.
pub(super) fn name_of(greeting: &[u8]) -> Result<&str, ControlError> {
    let name = greeting
        .get(GREETING_SIZE..)
        .and_then(|name| std::str::from_utf8(name).ok());
    name.filter(|name| is_name(name)).ok_or(ControlError::Name)
}

/// A session whose messages are sealed.
pub(super) struct Seal(TransportState);

impl Seal {
    /// Seals a message.
    pub fn close(&mut self, message: &[u8]) -> Vec<u8> {
        let mut sealed = vec![0; message.len() + SEAL_SIZE];
        let size = self
            .0
            .write_message(message, &mut sealed)
            .expect("a message fits, and the numbers do not run out");
        sealed.truncate(size);
        sealed
    }

    /// Opens the next message of the peer.
    pub fn open(&mut self, sealed: &[u8]) -> Result<Vec<u8>, ControlError> {
        let mut message = vec![0; sealed.len()];
        let size = self
            .0
            .read_message(sealed, &mut message)
            .map_err(|_| ControlError::Sealed)?;
        message.truncate(size);
        Ok(message)
    }
}

fn builder<'a>(prologue: &'a [u8], key: &'a Key) -> Builder<'a> {
    let parameters = NOISE.parse().expect("the name of an existing pattern");
    let builder = Builder::new(parameters)
        .prologue(prologue)
        .expect("one prologue");
    builder
        .psk(0, key.bytes())
        .expect("one key, of the length that the pattern requires")
}

/// The client's side of a handshake in progress.
pub(super) struct Initiator(HandshakeState);

impl Initiator {
    /// Begins the handshake: the state, and the first message. `greeting` is the clear text sent before.
    pub fn begin(greeting: &[u8], key: &Key) -> (Self, Vec<u8>) {
        let mut state = builder(greeting, key)
            .build_initiator()
            .expect("all that the pattern needs is there");
        let mut message = vec![0; FRAME_SIZE_MAX];
        let size = state
            .write_message(&[], &mut message)
            .expect("a first message fits into a frame");
        message.truncate(size);
        (Self(state), message)
    }

    /// Finishes with the server's message: the session, and the content of the message.
    pub fn finish(mut self, message: &[u8]) -> Result<(Seal, Vec<u8>), ControlError> {
        let mut payload = vec![0; FRAME_SIZE_MAX];
        let size = self
            .0
            .read_message(message, &mut payload)
            .map_err(|_| ControlError::Sealed)?;
        payload.truncate(size);
        Ok((
            Seal(self.0.into_transport_mode().expect("the handshake is over")),
            payload,
        ))
    }
}

/// The server's side: takes the client's first message and answers with `welcome`. Returns the session and the answer.
///
/// A name without a key is tried with a key that no one has, so that its refusal looks like that of a wrong key and
/// takes as long, and names cannot be guessed.
pub(super) fn respond(
    greeting: &[u8],
    name: &str,
    keys: &KeyRing,
    message: &[u8],
    welcome: &[u8],
) -> Result<(Seal, Vec<u8>), ControlError> {
    let refused = || ControlError::Key { name: name.into() };
    let nobodys = Key::new(random_bytes());
    let known = keys.get(name);
    let mut state = builder(greeting, known.unwrap_or(&nobodys))
        .build_responder()
        .expect("all that the pattern needs is there");
    state
        .read_message(message, &mut [0; FRAME_SIZE_MAX])
        .map_err(|_| refused())?;
    let mut answer = vec![0; FRAME_SIZE_MAX];
    let size = state
        .write_message(welcome, &mut answer)
        .expect("a welcome fits into a frame");
    answer.truncate(size);
    Ok((
        Seal(state.into_transport_mode().expect("the handshake is over")),
        answer,
    ))
}

/// Bytes that no one can predict.
pub(crate) fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    if let Err(error) = getrandom::fill(&mut bytes) {
        panic!("the system has no random numbers: {error}");
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(byte: u8) -> Key {
        Key::new([byte; 32])
    }

    fn session(server_key: u8) -> Result<(Seal, Seal, Vec<u8>), ControlError> {
        let hello = greeting("a");
        let (client, first) = Initiator::begin(&hello, &key(1));
        let (server, second) = respond(
            &hello,
            "a",
            &KeyRing::single("a", key(server_key)),
            &first,
            b"welcome",
        )?;
        let (client, welcome) = client.finish(&second)?;
        Ok((client, server, welcome))
    }

    #[test]
    fn two_holders_of_the_key_can_talk_both_ways() {
        let (mut client, mut server, welcome) = session(1).expect("the same key");
        assert_eq!(welcome, b"welcome");
        assert_eq!(
            server.open(&client.close(b"there")).expect("it opens"),
            b"there"
        );
        assert_eq!(
            client.open(&server.close(b"back")).expect("it opens"),
            b"back"
        );
    }

    #[test]
    fn another_key_and_an_unknown_name_look_the_same() {
        let hello = greeting("a");
        let (_, first) = Initiator::begin(&hello, &key(1));
        for ring in [KeyRing::single("a", key(2)), KeyRing::single("b", key(1))] {
            let refused = respond(&hello, "a", &ring, &first, b"").err();
            assert!(
                matches!(refused, Some(ControlError::Key { .. })),
                "{refused:?}"
            );
        }
    }

    /// Needs the prologue: without it an attacker in the middle could change the version or the name.
    #[test]
    fn the_lines_in_clear_text_cannot_be_altered() {
        let (_, first) = Initiator::begin(&greeting("a"), &key(1));
        let mut altered = greeting("a");
        altered[8] ^= 2;
        assert!(respond(&altered, "a", &KeyRing::single("a", key(1)), &first, b"").is_err());
    }

    #[test]
    fn a_message_opens_once_in_its_place_in_its_session_and_unaltered() {
        let (mut client, mut server, _) = session(1).expect("the same key");
        let (mut other, _, _) = session(1).expect("the same key");
        let (first, second) = (client.close(b"1"), client.close(b"2"));
        assert!(
            server.open(&second).is_err(),
            "not before the first message"
        );
        assert!(
            server.open(&other.close(b"1")).is_err(),
            "not in another session"
        );
        let mut altered = first.clone();
        altered[0] ^= 1;
        assert!(server.open(&altered).is_err(), "not altered");
        assert_eq!(server.open(&first).expect("it opens"), b"1");
        assert!(server.open(&first).is_err(), "not twice");
    }

    #[test]
    fn a_replayed_first_message_opens_no_session() {
        let hello = greeting("a");
        let ring = KeyRing::single("a", key(1));
        let (client, first) = Initiator::begin(&hello, &key(1));
        let (_, second) = respond(&hello, "a", &ring, &first, b"").expect("the same key");
        let (mut seal, _) = client.finish(&second).expect("the same key");
        let recorded = seal.close(b"connect");
        let (mut again, _) =
            respond(&hello, "a", &ring, &first, b"").expect("the message alone is sound");
        assert!(matches!(again.open(&recorded), Err(ControlError::Sealed)));
    }

    #[test]
    fn foreign_first_bytes_are_reported_at_the_first_difference() {
        assert!(check_magic(b"STON").is_ok());
        let refused = check_magic(b"GET / HTTP/1.1").expect_err("HTTP is another protocol");
        assert!(
            refused.to_string().contains("another protocol"),
            "{refused}"
        );
        assert!(check_magic(b"STOP").is_err());
    }

    #[test]
    fn a_name_that_no_key_has_is_refused() {
        for name in [b"".as_slice(), b"a/b", b"\xff"] {
            let bytes = [greeting("").as_slice(), name].concat();
            assert!(
                matches!(name_of(&bytes), Err(ControlError::Name)),
                "{name:?}"
            );
        }
        assert_eq!(name_of(&greeting("cache-1")).expect("a name"), "cache-1");
    }
}
