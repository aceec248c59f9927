//! The store of a standing record, as a server or a command opens it.

use std::cell::RefCell;
use std::rc::{Rc, Weak};

use stonecast_cluster::ConfigStore;
use stonecast_config_store::{Address, Bounds, OpenError, open_within};
use stonecast_fabric::Runtime;
use stonecast_media::Pool;
use stonecast_structures::StandingStore;

use crate::error::{Error, ErrorKind};

/// Opens the store at `url`. The store is not read yet.
pub(super) fn open(url: &str) -> Result<Rc<dyn ConfigStore>, Error> {
    let address: Result<Address, _> = url.parse();
    let address = address.map_err(|error| ErrorKind::ConfigStore(OpenError::Address(error)))?;
    Ok(open_within(&address, Bounds::DEFAULT).map_err(ErrorKind::from)?)
}

/// The record in `store`, as the server of `pool` uses it.
pub(super) fn record_of(
    store: Rc<dyn ConfigStore>,
    runtime: Rc<dyn Runtime>,
    pool: &Pool,
) -> Rc<StandingStore> {
    StandingStore::new(store, runtime, pool.uuid().as_u128())
}

/// The messages of a server about its standing record ([`super::Builder::cluster`]), for the log of the program. The
/// messages end with the server.
pub struct StandingNotes {
    record: Weak<StandingStore>,
    said: RefCell<Option<String>>,
}

impl StandingNotes {
    pub(super) fn of(record: &Rc<StandingStore>) -> Self {
        Self {
            record: Rc::downgrade(record),
            said: RefCell::default(),
        }
    }

    /// The change since the last call, in words: binding and promotion wait for the store, wait for another record, or
    /// no longer wait.
    pub fn take(&self) -> Option<String> {
        let trouble = self.record.upgrade()?.trouble();
        let trouble = trouble.map(|error| error.to_string());
        let before = self.said.replace(trouble.clone());
        match trouble {
            trouble if trouble == before => None,
            Some(trouble) => Some(format!(
                "{trouble}. The server goes on; promotion and binding wait"
            )),
            None => Some("the standing record is read again; nothing waits for it".to_owned()),
        }
    }
}
