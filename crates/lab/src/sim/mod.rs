//! The direct store in the simulated world: one server and its clients, each on a machine of its own, in virtual time.
//!
//! ```text
//!   Scene     world, server, clients that are metered          scene.rs
//!     ycsb      a workload of YCSB, measured                   ycsb.rs
//!     costs     what each operation costs, exactly             costs.rs
//! ```
//!
//! Server and clients are those of the real fabrics; what is measured is virtual, so two runs give the same figures to
//! the last digit, on any machine.

mod costs;
mod moves;
mod scene;
mod ycsb;

pub use costs::{Cost, CostError, costs, print_costs};
pub use moves::{MoveCost, move_cost, print_move_cost};
pub use scene::{Scene, SceneClient, SceneOptions, platform_of};
pub use ycsb::{Node, SimYcsbError, SimYcsbOptions, SimYcsbResult, run};
