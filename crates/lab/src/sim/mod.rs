//! The KV store in the simulated world: one server and its clients, each on its own machine, in
//! virtual time.
//!
//! ```text
//!   Scene     world, server, clients that are metered          scene.rs
//!     ycsb      a workload of YCSB, measured                   ycsb.rs
//!     costs     the exact costs of each operation              costs.rs
//! ```
//!
//! Server and clients are those of the real fabrics; the measurements are virtual, so two runs give
//! the same figures to the last digit, on any machine.

mod costs;
mod moves;
mod scene;
mod ycsb;

pub use costs::{Cost, CostError, costs, print_costs};
pub use moves::{MoveCost, move_cost, print_move_cost};
pub use scene::{Scene, SceneClient, SceneOptions, platform_of};
pub use ycsb::{Node, SimYcsbError, SimYcsbOptions, SimYcsbResult, run};
