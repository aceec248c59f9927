//! The functions of the header, called from Rust, and the ends that a program in C cannot bring about.

use std::ffi::CString;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};

use stonecast::server::ServerHandle;
use stonecast::{Durability, Server};
use tempfile::TempDir;

use crate::border;
use crate::change::{stonecast_delete, stonecast_put};
use crate::client::{Client, stonecast_close, stonecast_connect};
use crate::error::{Error, stonecast_error_effect, stonecast_error_status};
use crate::read::stonecast_get;
use crate::stat::{Statistics, stonecast_stat};
use crate::status::{Effect, Status};
use crate::value::{Value, stonecast_value_bytes, stonecast_value_version};

struct Place {
    server: Option<ServerHandle>,
    _folder: TempDir,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let server = Server::builder(folder.path().join("pool"))
            .durability(Durability::Process)
            .capacity(16 << 20)
            .segment_size(1 << 20);
        Self {
            server: Some(server.serve().unwrap()),
            _folder: folder,
        }
    }

    fn connect(&self) -> Box<Client> {
        let address = self.server.as_ref().unwrap().address().to_string();
        let (url, mut client) = (CString::new(address).unwrap(), MaybeUninit::uninit());
        // SAFETY: the text ends with a zero byte, and lives during the call.
        let status = unsafe { stonecast_connect(url.as_ptr(), None, Some(&mut client), None) };
        assert_eq!(status, Status::Ok);
        // SAFETY: every return of the function has stored a client or nothing.
        unsafe { client.assume_init() }.expect("connected")
    }
}

/// A put of "v" under "k", its version, and its error.
fn put(client: &Client) -> (Status, u64, Option<Box<Error>>) {
    let (mut version, mut error) = (MaybeUninit::new(0), MaybeUninit::new(None));
    let (key, value) = (b"k".as_ptr().cast(), b"v".as_ptr().cast());
    // SAFETY: one byte of each array is read.
    let status = unsafe {
        let (version, error) = (Some(&mut version), Some(&mut error));
        stonecast_put(Some(client), key, 1, value, 1, version, error)
    };
    // SAFETY: it was initialized above.
    let version = unsafe { version.assume_init() };
    // SAFETY: it was initialized above.
    (status, version, unsafe { error.assume_init() })
}

fn close(client: Box<Client>) -> Status {
    // SAFETY: the pointer is that of a client, which nobody else has.
    unsafe { stonecast_close(Box::into_raw(client)) }
}

fn get(client: &Client) -> Option<Box<Value>> {
    let mut value = MaybeUninit::new(None);
    // SAFETY: one byte of the array is read.
    unsafe {
        stonecast_get(
            Some(client),
            b"k".as_ptr().cast(),
            1,
            Some(&mut value),
            None,
        )
    };
    // SAFETY: it was initialized above.
    unsafe { value.assume_init() }
}

#[test]
fn a_value_that_was_put_is_read_and_removed() {
    let place = Place::new();
    let client = place.connect();
    let (status, version, error) = put(&client);
    assert!(status == Status::Ok && error.is_none());
    let value = get(&client).expect("it is there");
    assert_eq!(stonecast_value_version(Some(&value)), version);
    assert_eq!(stonecast_value_bytes(Some(&value)).size, 1);
    // SAFETY: one byte of the array is read.
    let delete = || unsafe { stonecast_delete(Some(&client), b"k".as_ptr().cast(), 1, None) };
    assert_eq!(delete(), Status::Ok);
    assert_eq!(delete(), Status::Absent);
    assert!(get(&client).is_none());
    assert_eq!(close(client), Status::Ok);
}

/// Needs `catch_unwind` in `border`: without it the process ends.
#[test]
fn a_panic_becomes_a_status_and_the_effect_of_a_write_is_unknown() {
    let mut error = MaybeUninit::new(None);
    let status = border::write(Some(&mut error), || panic!("a defect"));
    assert_eq!(status, Status::Defect);
    // SAFETY: it was initialized above.
    let error = unsafe { error.assume_init() };
    assert_eq!(stonecast_error_effect(error.as_deref()), Effect::Unknown);
    assert_eq!(stonecast_error_status(error.as_deref()), Status::Defect);
    let mut error = MaybeUninit::new(None);
    assert_eq!(
        border::read(Some(&mut error), || panic!("a defect")),
        Status::Defect
    );
    // SAFETY: it was initialized above.
    let error = unsafe { error.assume_init() };
    assert_eq!(stonecast_error_effect(error.as_deref()), Effect::None);
}

/// Needs the state *lost*: without it the next call uses a connection whose invariants may not hold.
#[test]
fn a_client_whose_call_panicked_is_never_used_again() {
    let place = Place::new();
    let client = place.connect();
    let call = || {
        let _lent = client.link().lend().unwrap();
        panic!("a defect");
    };
    catch_unwind(AssertUnwindSafe(call)).unwrap_err();
    let (status, _, error) = put(&client);
    assert_eq!(status, Status::Defect);
    assert_eq!(stonecast_error_effect(error.as_deref()), Effect::None);
    assert_eq!(close(client), Status::Ok);
}

/// A handler of a signal that calls the library does the same.
#[test]
fn a_call_within_a_call_is_refused_and_leaves_the_client_open() {
    let place = Place::new();
    let client = Box::into_raw(place.connect());
    // SAFETY: the client is not ended before the last line.
    let open = unsafe { &*client };
    let lent = open.link().lend().unwrap();
    assert_eq!(put(open).0, Status::Misuse);
    // SAFETY: the pointer is that of a client.
    assert_eq!(unsafe { stonecast_close(client) }, Status::Misuse);
    drop(lent);
    assert_eq!(put(open).0, Status::Ok);
    // SAFETY: the pointer is that of a client, which is not used afterwards.
    assert_eq!(unsafe { stonecast_close(client) }, Status::Ok);
}

#[test]
fn a_client_whose_server_has_ended_says_so_and_is_closed() {
    let mut place = Place::new();
    let client = place.connect();
    place.server.take().unwrap().shutdown().unwrap();
    let (status, _, error) = put(&client);
    assert_eq!(status, Status::Disconnected);
    assert!(error.is_some());
    assert_eq!(close(client), Status::Ok);
}

/// A program that was compiled with an older or a newer header.
#[test]
fn statistics_fill_the_fields_that_the_program_knows() {
    let place = Place::new();
    let client = place.connect();
    put(&client);
    let filled = |size: usize| {
        let mut words = [u64::MAX; size_of::<Statistics>() / 8 + 2];
        // SAFETY: the array is longer than every `size` below.
        let status =
            unsafe { stonecast_stat(Some(&client), words.as_mut_ptr().cast(), size, None) };
        assert_eq!(status, Status::Ok);
        words
    };
    let all = size_of::<Statistics>();
    assert_eq!(
        filled(8)[..2],
        [1, u64::MAX],
        "one field, and nothing behind it"
    );
    let newer = filled(all + 8);
    assert_eq!(newer[0], 1);
    assert_eq!(
        newer[all / 8..],
        [0, u64::MAX],
        "a field that the library does not know"
    );
    assert_eq!(close(client), Status::Ok);
}
