//! A device with a meddler in between, which acts as a story says.
//!
//! ```text
//!   port ---> Observed<Meddler> ---> device of the provider
//!                | stands_still: no revocation is over, as where a peer stopped in the middle of what it was doing
//!                | forge:        sees each work request before the device does
//! ```

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use stonecast_fabric::decorate::{Observed, Observer};
use stonecast_fabric::{Device, DeviceError, Operation, Port, Rkey, WorkRequest};
use stonecast_kv::{Client, ClientOptions};
use stonecast_log::{LogFormat, Record, RecordHeader, STAMP_SIZE};
use stonecast_media::OpenMode;

use crate::fabric::Fabric;
use crate::world::World;

/// A change to a work request, through the memory that the request names.
pub type Forge = Box<dyn Fn(&dyn Device, &WorkRequest)>;

/// The actions of the meddler.
#[derive(Default)]
pub struct Meddler {
    pub stands_still: Cell<bool>,
    pub forge: RefCell<Option<Forge>>,
}

/// A port of `fabric` with `meddler` in between.
pub fn port(fabric: &dyn Fabric, capacity: u32, meddler: &Rc<Meddler>) -> Rc<Port> {
    let device = fabric.port(capacity).device().clone();
    let device = Rc::new(Observed::new(device, meddler.clone()));
    let port = Rc::new(Port::new(device, capacity).expect("a port"));
    fabric.executor().add_port(&port);
    port
}

/// A client with `meddler` in between, whose overwrites go through the server.
pub async fn client(world: &World, meddler: &Rc<Meddler>) -> Client {
    let port = port(&*world.fabric(), 1024, meddler);
    let options = ClientOptions {
        publishes: false,
        ..ClientOptions::default()
    };
    let address = world.address();
    let connect = Client::connect_with(options, port, world.runtime(), &address);
    connect.await.unwrap()
}

/// The format of the records that a client writes, the opening of the pool, and the address of the log.
pub fn log_of(world: &World, client: &Client) -> (LogFormat, u32, u64) {
    let pool = world.open_pool_for(OpenMode::Inspect);
    let format = LogFormat {
        secret: None,
        ..LogFormat::of(&pool)
    };
    let log = client.yardstick().unwrap().log.address;
    (format, pool.opening(), log)
}

impl Observer for Meddler {
    fn sending(&self, device: &dyn Device, requests: &[WorkRequest]) {
        if let Some(forge) = &*self.forge.borrow() {
            requests.iter().for_each(|request| forge(device, request));
        }
    }

    fn invalidating(&self, _: Rkey) -> Result<(), DeviceError> {
        match self.stands_still.get() {
            true => Err(DeviceError::Unquiesced {
                peer: "a stopped peer".to_owned(),
            }),
            false => Ok(()),
        }
    }
}

/// Puts what `forge` makes of each record that a client writes in the place of the record. `log` is the remote address
/// of the log for this client. `forge` gets the record with its position in the log; `None`: the record stays.
pub fn forge_records(
    log: u64,
    forge: impl Fn(Record<'_>, u64) -> Option<Vec<u8>> + 'static,
) -> Forge {
    Box::new(move |device: &dyn Device, request: &WorkRequest| {
        let Operation::WriteWithImmediate { local, remote, .. } = request.operation else {
            return;
        };
        let memory = device.memory(local.region);
        let mut bytes = vec![0; STAMP_SIZE + local.size as usize];
        memory.read(local.offset, &mut bytes[STAMP_SIZE..]);
        bytes.resize(bytes.len().max(64), 0);
        let header = RecordHeader::parse(bytes.first_chunk().unwrap()).unwrap();
        let (key, value) =
            bytes[header.key_start()..header.whole_size() as usize].split_at(header.key_size());
        let position = remote.address - STAMP_SIZE as u64 - log;
        let Some(forged) = forge(Record { header, key, value }, position) else {
            return;
        };
        assert_eq!(
            forged.len(),
            STAMP_SIZE + local.size as usize,
            "a forged record takes as many bytes as the record"
        );
        memory.write(local.offset, &forged[STAMP_SIZE..]);
    })
}
