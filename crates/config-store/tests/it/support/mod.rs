//! Surroundings of the stories.

mod certificates;
mod etcd;
mod fake;
mod runtime;
mod world;

pub use certificates::Certificates;
pub use etcd::{Cluster, missing};
pub use fake::{Fake, Reply};
pub use runtime::{finish, runtime};
pub use world::RealWorld;

/// Notes that a test could not run here: it must not count as passed.
pub fn not_run(name: &str, reason: &str) {
    stonecast_fabric::contract::report::note("configuration stores", name, reason);
}
