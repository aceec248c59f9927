//! The handle of a client.

use std::ffi::c_char;
use std::mem::MaybeUninit;
use std::rc::Rc;

use crate::border::{emptied, given, read, text};
use crate::error::Error;
use crate::link::{Lent, Link};
use crate::options::Options;
use crate::status::{Effect, Status};

/// A connection to a server or a cluster.
///
/// A client belongs to the thread that connected it: a call of another thread does nothing and returns
/// STONECAST_STATUS_MISUSE. A program with several threads connects in each thread. After a fork, the child connects on
/// its own; its call with a handle of its parent does nothing and returns STONECAST_STATUS_MISUSE.
pub struct Client {
    link: Rc<Link>,
}

impl Client {
    pub fn link(&self) -> &Rc<Link> {
        &self.link
    }
}

/// Lends the connection of `client` to a call.
pub fn lend(client: Option<&Client>) -> Result<Lent<'_>, Error> {
    given(client, "client")?.link.lend()
}

/// Connects to the server at `url`: "shm:PATH", "verbs:HOST:PORT", or to the cluster "cluster:URL". `options` may be
/// NULL. Stores the client, which the caller owns and ends with stonecast_close, or NULL on failure.
///
/// Errors: ADDRESS, UNREACHABLE, TIMED_OUT, REFUSED, DURABILITY, SETUP. Nothing is changed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stonecast_connect(
    url: *const c_char,
    options: Option<&Options>,
    client: Option<&mut MaybeUninit<Option<Box<Client>>>>,
    error: Option<&mut MaybeUninit<Option<Box<Error>>>>,
) -> Status {
    read(error, || {
        let client = emptied(client, "client")?;
        // SAFETY: the header demands that `url` is NULL or ends with a zero byte, and lives during the call.
        let url = unsafe { text(url, "url") }?.to_str();
        let url = url.map_err(|error| {
            let message = format!("the address is not UTF-8: {error}");
            Error::new(Status::Address, Effect::None, &message)
        })?;
        let connector = match options {
            Some(options) => options.connector(url),
            None => Options::default().connector(url),
        }?;
        let link = Link::new(connector.connect_local()?);
        *client = Some(Box::new(Client { link }));
        Ok(Status::Ok)
    })
}

/// Disconnects, and ends the client. NULL is ignored. Open iterations return CLOSED from then on; the caller still ends
/// each with stonecast_entries_close.
///
/// The call waits for the server at most as long as any other call. In a process that was forked, ends the handle and
/// leaves the connection to the other process. A call of another thread than the client's, or within a call of the
/// client, does nothing and returns STONECAST_STATUS_MISUSE: the client stays open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stonecast_close(client: *mut Client) -> Status {
    read(None, || {
        // SAFETY: the header demands that `client` is NULL or was stored by `stonecast_connect` and not ended.
        let Some(open) = (unsafe { client.as_ref() }) else {
            return Ok(Status::Ok);
        };
        open.link.close()?;
        // SAFETY: the pointer came out of a box in `stonecast_connect`, the caller gives it up, and no reference is
        // left.
        drop(unsafe { Box::from_raw(client) });
        Ok(Status::Ok)
    })
}
