//! The contract on the reference provider, in each of its flavours.

use std::rc::Rc;

use stonecast_fabric::contract::World;

use crate::loopback::{Fault, Flavour, LIBERAL, LoopbackWorld, PLAIN, POOR};

fn world(flavour: Flavour) -> Rc<dyn World> {
    LoopbackWorld::new(flavour, Fault::Nothing)
}

mod plain {
    stonecast_fabric::contract_tests!(super::world(super::PLAIN));
}

mod liberal {
    stonecast_fabric::contract_tests!(super::world(super::LIBERAL));
}

mod poor {
    stonecast_fabric::contract_tests!(super::world(super::POOR));
}
