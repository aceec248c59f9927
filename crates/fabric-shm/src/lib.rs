//! Verbs between processes of one host over shared memory: the requester's processor does what its NIC would do.
mod announcement;
mod append;
mod bell;
mod clock;
mod completion_queue;
mod connecting;
mod connection;
mod control;
mod device;
mod doorbell;
mod grants;
#[cfg(all(test, not(loom)))]
mod hostile_tests;
mod key_table;
mod layout;
mod memory_region;
mod message;
mod options;
mod park;
mod peer_memory;
mod posting;
mod primitive;
#[cfg(all(test, not(loom)))]
mod process_tests;
mod queue_pair;
mod registration;
mod requester;
mod responder;
mod revocation;
mod ring;
mod shared_receive_queue;
mod socket;
mod step;
mod table;

pub use device::ShmDevice;
pub use options::ShmOptions;
