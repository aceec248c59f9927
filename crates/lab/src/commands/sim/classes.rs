//! The classes of faults of the simulated world.

use serde::Serialize;
use stonecast_fabric_sim::{Fault, FaultClass, Reach};

use crate::failure::Failure;
use crate::output;

/// A class of faults. The field names are an interface: scripts read them.
#[derive(Serialize)]
struct Class {
    number: u32,
    name: &'static str,
    unit: &'static str,
    what: &'static str,
    reachable: bool,
    why_not: Option<&'static str>,
}

/// Prints every class.
pub fn print(json: bool) -> Result<(), Failure> {
    let classes: Vec<Class> = Fault::CLASSES.iter().map(describe).collect();
    if json {
        return classes.iter().try_for_each(output::json);
    }
    let text = |class: &Class| {
        let why_not = class
            .why_not
            .map(|reason| format!(" Not in these runs: {reason}."))
            .unwrap_or_default();
        format!(
            "{:>2} {:<26} {}{why_not}\n",
            class.number, class.name, class.what
        )
    };
    output::bytes(classes.iter().map(text).collect::<String>().as_bytes())
}

fn describe(class: &FaultClass) -> Class {
    let why_not = match class.reach {
        Reach::Direct => None,
        Reach::Cluster => Some("it needs several servers, as in the scenario kv-cluster"),
        Reach::NotYet(reason) => Some(reason),
    };
    let FaultClass {
        number,
        name,
        unit,
        what,
        ..
    } = *class;
    Class {
        number,
        name,
        unit,
        what,
        reachable: why_not.is_none(),
        why_not,
    }
}
