//! The device of a connection or a server.

use std::rc::Rc;

use stonecast_base::Nanoseconds;
use stonecast_fabric::{BusyPoll, Device, Park, Port};

use crate::error::Error;

/// The device of a connection or a server, in two views: its operations, and the sleep of its thread.
///
/// The two differ if a thread also waits for something else, such as sockets.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let server = stonecast::Server::builder(folder.path().join("pool"))
/// #     .durability(stonecast::Durability::Process).serve()?;
/// # let url = server.address().to_string();
/// use stonecast::{Connector, OpenDevice};
/// use stonecast_fabric_shm::{ShmDevice, ShmOptions};
///
/// let device = OpenDevice::new(ShmDevice::new(ShmOptions::default())?);
/// let connection = Connector::new(&url)?.connect_on(device)?;
/// connection.run(async |client| client.put(b"a", b"1").await)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct OpenDevice {
    /// The device's operations.
    pub device: Rc<dyn Device>,
    /// The sleep of the device's thread.
    pub park: Rc<dyn Park>,
}

impl OpenDevice {
    /// Makes both views from a device on which its thread sleeps.
    pub fn new<D: Device + Park + 'static>(device: Rc<D>) -> Self {
        Self {
            device: device.clone(),
            park: device,
        }
    }

    /// Opens a port with entries for `completions`, and makes the loop that drives it. The loop polls for `spin_ns`
    /// before its thread sleeps.
    pub(crate) fn drive(
        self,
        spin_ns: Nanoseconds,
        completions: u32,
    ) -> Result<(BusyPoll, Rc<Port>), Error> {
        let executor = BusyPoll::for_client(self.park, spin_ns);
        let port = Rc::new(Port::new(self.device, completions)?);
        executor.add_port(&port);
        Ok((executor, port))
    }
}
