//! The facts and the conclusion from them, for human readers.

use std::fmt::Write as _;

use crate::doctor::pci::RelaxedOrdering;
use crate::doctor::{Abilities, Conclusion, Facts, KeepingFact, RdmaDevice, Speaks};
use crate::output::wrap;

/// Everything that was seen, then everything that follows.
pub fn text(facts: &Facts, conclusion: &Conclusion) -> String {
    let mut text = String::new();
    processor(&mut text, facts);
    memory(&mut text, facts);
    devices(&mut text, facts);
    place(&mut text, facts);
    head(
        &mut text,
        "Properties to declare, because no file shows them",
    );
    for declaration in &conclusion.declare {
        let why = format!("assumed {}: {}", declaration.assumed, declaration.why);
        item(&mut text, &declaration.axis.to_string(), &why);
    }
    head(
        &mut text,
        "The resulting profile (write it to a file with --write-profile FILE)",
    );
    text.push('\n');
    text += &conclusion.text;
    head(&mut text, "The command that fits");
    writeln!(text, "  {}", conclusion.serve).expect("a String takes everything");
    text
}

fn processor(text: &mut String, facts: &Facts) {
    head(text, "Processor and kernel");
    let processor = &facts.processor;
    item(
        text,
        "model",
        processor
            .model
            .as_deref()
            .unwrap_or("not shown by the kernel"),
    );
    let instructions = match processor.write_back.as_slice() {
        [] => "the kernel shows none: cache lines cannot be written back".to_owned(),
        some => some.join(", "),
    };
    item(text, "write-back instructions", &instructions);
    item(text, "kernel", &processor.kernel.or_why());
}

fn memory(text: &mut String, facts: &Facts) {
    head(text, "Persistent memory");
    if facts.persistent_regions.is_empty() && facts.cxl_memories.is_empty() {
        item(text, "regions", "none");
    }
    for region in &facts.persistent_regions {
        let domain = match region.persistence_domain.said() {
            Some("cpu_cache") => "cpu_cache: caches survive a power cut".to_owned(),
            Some("memory_controller") => {
                "memory_controller: cache lines must be written back".to_owned()
            }
            _ => format!("unknown ({})", region.persistence_domain.or_why()),
        };
        let about = format!(
            "{} bytes, found by {}; persistence domain {domain}",
            region.size.or_why(),
            region.provider.or_why()
        );
        item(text, &region.name, &about);
        for namespace in &region.namespaces {
            let about = format!(
                "{} bytes, mode {}",
                namespace.size.or_why(),
                namespace.mode.or_why()
            );
            item(text, &format!("  {}", namespace.name), &about);
        }
        if region.provider.said() == Some("e820") {
            item(
                text,
                "",
                "declared to the kernel by hand (memmap=): nothing states that its content survives, and RDMA cannot FLUSH it",
            );
        }
    }
    for memory in &facts.cxl_memories {
        item(
            text,
            &memory.name,
            &format!("CXL, {} persistent bytes", memory.persistent_size.or_why()),
        );
    }
}

fn devices(text: &mut String, facts: &Facts) {
    head(text, "RDMA devices");
    if facts.rdma_devices.is_empty() {
        item(text, "devices", "none");
    }
    for device in &facts.rdma_devices {
        item(text, &device.name, &about(device));
        for port in &device.ports {
            let about = format!(
                "{}, {}, {}",
                port.link_layer.or_why(),
                port.state.or_why(),
                port.rate.or_why()
            );
            item(text, &format!("  port {}", port.number), &about);
        }
        item(text, "  operations", &operations(&device.abilities));
    }
}

fn operations(abilities: &Abilities) -> String {
    match (abilities, abilities.names().as_deref()) {
        (Abilities::NotSeen(why), _) => {
            format!("FLUSH, ATOMIC_WRITE and memory windows were not seen: {why}")
        }
        (_, Some([]) | None) => "neither FLUSH nor ATOMIC_WRITE nor memory windows".to_owned(),
        (_, Some(names)) => format!("{}, beside READ, WRITE and SEND", names.join(", ")),
    }
}

fn about(device: &RdmaDevice) -> String {
    let speaks = match device.speaks() {
        Speaks::InfinibandOrRoce => "InfiniBand or RoCE",
        Speaks::Iwarp => "iWARP",
        Speaks::Unknown => "a transport that the kernel does not name",
    };
    let driver = device.driver.as_deref().unwrap_or("no driver of a bus");
    let place = match &device.pci_address {
        Some(address) => format!("at {address}, NUMA node {}", device.numa_node.or_why()),
        None => "a software device".to_owned(),
    };
    let relaxed = match device.relaxed_ordering {
        RelaxedOrdering::Disabled => "forbidden",
        RelaxedOrdering::Enabled => "allowed",
        RelaxedOrdering::NotSeen => "not seen",
    };
    format!(
        "{speaks}, {driver}, firmware {}, {place}; relaxed ordering of its writes {relaxed}",
        device.firmware.or_why()
    )
}

fn place(text: &mut String, facts: &Facts) {
    head(text, "The folder of the pool");
    let place = &facts.place;
    item(text, "folder", &place.path);
    if let Some(error) = &place.error {
        return item(text, "error", error);
    }
    item(
        text,
        "file system",
        place.file_system.unwrap_or("not known"),
    );
    let keeping = match place.keeping {
        Some(KeepingFact::Volatile) => "in memory alone: nothing there survives power loss",
        Some(KeepingFact::CopyOnWrite) => "in pages, each overwrite in a new place",
        Some(KeepingFact::Pages) => "in pages, durable when they are synced",
        Some(KeepingFact::PersistentMemory) => "in persistent memory, mapped directly (DAX)",
        None => "not known",
    };
    item(text, "keeps bytes", keeping);
    item(
        text,
        "MAP_SYNC",
        if place.map_sync == Some(true) {
            "works, tried on a file"
        } else {
            "refused, tried on a file"
        },
    );
}

fn head(text: &mut String, title: &str) {
    let between = if text.is_empty() { "" } else { "\n" };
    writeln!(text, "{between}{title}").expect("a String takes everything");
}

fn item(text: &mut String, name: &str, about: &str) {
    wrap(text, &" ".repeat(27), &format!("  {name:<24} "), about);
}
