//! A cluster of nodes with a minimal store, and their surroundings.

mod disk;
mod doubt;
mod node;
mod oracle;
mod pages;
mod recovery;
mod scene;
mod store;

pub use disk::Change;
pub use node::{Place, RECORD_SIZE_MAX};
pub use pages::Ballast;
pub use scene::{MS, Scene, Shape};
pub use store::Call;
pub use store::is_long;
