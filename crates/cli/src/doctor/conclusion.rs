//! The conclusion from the facts: the platform profile of this machine, and the properties that no file shows.
//!
//! A property that no file shows gets the value that keeps plans sound: DDIO on, relaxed ordering on, no battery, no
//! FLUSH. An operator who knows better declares the property in the profile, with the evidence.

use std::fmt::Write as _;

use serde::Serialize;
use stonecast_media::PersistenceDomain;
use stonecast_persist::{Axis, PlatformProfile, Transport};

use crate::doctor::pci::RelaxedOrdering;
use crate::doctor::{Abilities, Facts, KeepingFact, RdmaDevice, Speaks};

/// A property that the operator must declare, because no file of the kernel states it.
#[derive(Clone, Debug, Serialize)]
pub struct Declaration {
    /// The axis of the property.
    pub axis: Axis,
    /// The value that is assumed for an undeclared property.
    pub assumed: String,
    /// The reason why the property cannot be seen, and a way to find it out.
    pub why: String,
}

/// The conclusion from the facts of a machine.
#[derive(Clone, Debug, Serialize)]
pub struct Conclusion {
    /// The platform, as far as its properties were seen.
    pub profile: PlatformProfile,
    /// The properties that must be declared.
    pub declare: Vec<Declaration>,
    /// The command that serves a pool in the folder, as far as the folder was seen.
    pub serve: String,
    /// The profile as a file.
    #[serde(skip)]
    pub text: String,
}

/// An answer on one axis, with its source.
struct Answer {
    axis: Axis,
    value: String,
    by: &'static str,
    evidence: String,
}

const KERNEL: &str = "the kernel";
const LIBRARY: &str = "the verbs library";
const NOBODY: &str = "nobody";
const STONECAST: &str = "stonecast";

impl Conclusion {
    /// Draws the conclusion from `facts`.
    pub fn of(facts: &Facts) -> Self {
        let persistence = persistence(facts);
        let flush = flush(facts, &persistence.value);
        let atomic_write = atomic_write(facts);
        let relaxed = relaxed_ordering(facts);
        let declare = declarations(facts, [&persistence, &flush, &relaxed]);
        let answer = |axis, value: &str, by, evidence: &str| Answer {
            axis,
            value: value.to_owned(),
            by,
            evidence: evidence.to_owned(),
        };
        let answers = [
            persistence,
            answer(
                Axis::Ddio,
                "unknown",
                NOBODY,
                "no file of the kernel says it",
            ),
            answer(
                Axis::ReceiveBuffers,
                "dram",
                STONECAST,
                "the server's receive buffers are volatile by default",
            ),
            transport(facts),
            flush,
            atomic_write,
            relaxed,
            answer(
                Axis::TrustedNicBuffers,
                "false",
                NOBODY,
                "no file of the kernel says it",
            ),
        ];
        let text = toml(facts, &answers);
        let profile = PlatformProfile::parse("this machine", &text)
            .unwrap_or_else(|error| panic!("the conclusion is a profile: {error}"));
        let serve = serve(&facts.place.path, profile.platform().persistence);
        Self {
            profile,
            declare,
            serve,
            text,
        }
    }
}

/// The properties that nothing on this machine shows, so that its owner has to declare them.
fn declarations(facts: &Facts, [persistence, flush, relaxed]: [&Answer; 3]) -> Vec<Declaration> {
    let mut declare = Vec::new();
    let mut must = |axis, assumed: &str, why: &str| {
        declare.push(Declaration {
            axis,
            assumed: assumed.to_owned(),
            why: why.to_owned(),
        });
    };
    must(
        Axis::Persistence,
        &persistence.value,
        "no file of the kernel can say wsp: declare wsp only for a machine whose battery or UPS carries processors, NICs \
         and memory through a power cut, and only after a test",
    );
    must(
        Axis::Ddio,
        "unknown",
        "no file of the kernel says where inbound writes of a port land. DDIO is a setting of each PCIe root port, or of \
         the whole machine on some processors (firmware): declare off only for a port whose registers say off",
    );
    let no_device = facts.rdma_devices.is_empty();
    if !no_device {
        if flush.by == NOBODY {
            must(
                Axis::Flush,
                "read",
                "the abilities of a device were not seen (the reason is above). No NIC on the market has native FLUSH; \
                 soft-RoCE has it",
            );
            must(Axis::AtomicWrite, "false", "the same as for flush");
        }
        must(
            Axis::TrustedNicBuffers,
            "false",
            "no file of the kernel says whether what a NIC has accepted survives a power cut",
        );
    }
    if relaxed.by == NOBODY {
        must(
            Axis::RelaxedOrdering,
            &relaxed.value,
            "the kernel shows the register only to root (run this as root); a NIC whose register allows relaxed ordering \
             reorders only writes to memory that was registered for it, unless the firmware is set otherwise",
        );
    }
    declare
}

/// The command for a pool at `path`, whose memory survives a power cut as `persistence` states. Flags that would state
/// a default are left out.
fn serve(path: &str, persistence: PersistenceDomain) -> String {
    let is_plain =
        |character: char| character.is_ascii_alphanumeric() || "/._-+:@".contains(character);
    let quoted = if path.chars().all(is_plain) {
        path.to_owned()
    } else {
        // The path is quoted as a shell reads it.
        format!("'{}'", path.replace('\'', "'\\''"))
    };
    let kept = match persistence {
        PersistenceDomain::Volatile => " --durability process".to_owned(),
        PersistenceDomain::PageFile => String::new(),
        declared => format!(" --platform {declared}"),
    };
    format!("stonecast serve --data {quoted}{kept}")
}

fn persistence(facts: &Facts) -> Answer {
    let place = &facts.place;
    let answer = |value: &str, by, evidence: String| Answer {
        axis: Axis::Persistence,
        value: value.to_owned(),
        by,
        evidence,
    };
    let file_system = place.file_system.unwrap_or("this file system");
    let path = &place.path;
    match place.keeping {
        None => answer("volatile", NOBODY, format!("{path} could not be examined")),
        Some(KeepingFact::Volatile) => {
            answer("volatile", KERNEL, format!("{path} lies on {file_system}"))
        }
        Some(KeepingFact::Pages | KeepingFact::CopyOnWrite) => answer(
            "page-file",
            KERNEL,
            format!("{path} lies on {file_system}, which refuses MAP_SYNC"),
        ),
        Some(KeepingFact::PersistentMemory) => {
            let said: Vec<Option<&str>> = facts
                .persistent_regions
                .iter()
                .map(|region| region.persistence_domain.said())
                .collect();
            let all =
                |domain: &str| !said.is_empty() && said.iter().all(|said| *said == Some(domain));
            let mapped = format!("a file in {path} was mapped with MAP_SYNC");
            if all("cpu_cache") {
                return answer(
                    "mhp",
                    KERNEL,
                    format!("{mapped}, and every region says cpu_cache"),
                );
            }
            let known =
                |said: &Option<&str>| matches!(said, Some("cpu_cache" | "memory_controller"));
            if !said.is_empty() && said.iter().all(known) {
                return answer(
                    "dmp",
                    KERNEL,
                    format!("{mapped}, and every region says memory_controller or cpu_cache"),
                );
            }
            let evidence = format!(
                "{mapped}, but not every region says which part of the platform keeps stores; syncing files is sound on any \
                 region"
            );
            answer("page-file", NOBODY, evidence)
        }
    }
}

fn transport(facts: &Facts) -> Answer {
    let answer = |transport: Transport, by, evidence: &str| Answer {
        axis: Axis::Transport,
        value: transport.to_string(),
        by,
        evidence: evidence.to_owned(),
    };
    let speaks: Vec<Speaks> = facts
        .rdma_devices
        .iter()
        .map(|device| device.speaks())
        .collect();
    match speaks.as_slice() {
        [] => answer(
            Transport::InfiniBand,
            STONECAST,
            "no RDMA device; a WRITE in shared memory completes when it is done",
        ),
        all if all.iter().all(|speaks| *speaks == Speaks::InfinibandOrRoce) => answer(
            Transport::InfiniBand,
            KERNEL,
            "every device is a channel adapter",
        ),
        // A guarantee over iWARP also holds over the other transports.
        all if all.contains(&Speaks::Iwarp) => answer(
            Transport::Iwarp,
            KERNEL,
            "a device is an RNIC, which speaks iWARP",
        ),
        _ => answer(
            Transport::Iwarp,
            NOBODY,
            "the kernel does not name the protocol of every device; iWARP promises least",
        ),
    }
}

/// Native if every device has FLUSH with persistence, and the machine has persistent memory that can be registered for
/// FLUSH.
fn flush(facts: &Facts, persistence: &str) -> Answer {
    let answer = |value: &str, by, evidence: &str| Answer {
        axis: Axis::Flush,
        value: value.to_owned(),
        by,
        evidence: evidence.to_owned(),
    };
    let has = |abilities: &Abilities| {
        matches!(
            abilities,
            Abilities::Seen {
                flush_persistent: true,
                ..
            }
        )
    };
    match every_device(facts, has) {
        None => answer("read", NOBODY, "a READ is what every device has"),
        Some(false) => answer(
            "read",
            LIBRARY,
            "a device has no FLUSH with persistence; a READ is what every device has",
        ),
        Some(true) if matches!(persistence, "page-file" | "volatile") => answer(
            "read",
            LIBRARY,
            "FLUSH with persistence, which every device has, is for persistent memory alone",
        ),
        Some(true) => answer(
            "native-persistent",
            LIBRARY,
            "every device has FLUSH with persistence",
        ),
    }
}

fn atomic_write(facts: &Facts) -> Answer {
    let answer = |value: bool, by, evidence: &str| Answer {
        axis: Axis::AtomicWrite,
        value: value.to_string(),
        by,
        evidence: evidence.to_owned(),
    };
    match every_device(facts, |abilities| {
        matches!(
            abilities,
            Abilities::Seen {
                atomic_write: true,
                ..
            }
        )
    }) {
        None => answer(false, NOBODY, "no device was seen with it"),
        Some(false) => answer(false, LIBRARY, "a device lacks it"),
        Some(true) => answer(true, LIBRARY, "every device has it"),
    }
}

/// Returns whether every device has an ability. `None` if there is no device, if the abilities of a device were not
/// seen, or if the transport of a device is not InfiniBand's and so has none of these operations.
fn every_device(facts: &Facts, has: impl Fn(&Abilities) -> bool) -> Option<bool> {
    let devices = &facts.rdma_devices;
    let seen = |device: &RdmaDevice| {
        device.speaks() == Speaks::InfinibandOrRoce
            && !matches!(device.abilities, Abilities::NotSeen(_))
    };
    (!devices.is_empty() && devices.iter().all(seen))
        .then(|| devices.iter().all(|device| has(&device.abilities)))
}

fn relaxed_ordering(facts: &Facts) -> Answer {
    let answer = |value: bool, by, evidence: &str| Answer {
        axis: Axis::RelaxedOrdering,
        value: value.to_string(),
        by,
        evidence: evidence.to_owned(),
    };
    // A software device has no bus.
    let on_bus = facts
        .rdma_devices
        .iter()
        .filter(|device| device.pci_address.is_some());
    let seen: Vec<RelaxedOrdering> = on_bus.map(|device| device.relaxed_ordering).collect();
    match seen.as_slice() {
        [] => answer(false, KERNEL, "no RDMA device writes through PCIe"),
        all if all.iter().all(|seen| *seen == RelaxedOrdering::Disabled) => answer(
            false,
            KERNEL,
            "the device control register of every device forbids it",
        ),
        all if all.contains(&RelaxedOrdering::NotSeen) => {
            answer(true, NOBODY, "the register of a device was not shown")
        }
        _ => answer(
            true,
            KERNEL,
            "the device control register of a device allows it",
        ),
    }
}

fn toml(facts: &Facts, answers: &[Answer]) -> String {
    let quoted = |text: &str| toml::Value::from(text).to_string();
    let mut text = String::new();
    let place = facts.place.file_system.unwrap_or("unknown");
    line(&mut text, format_args!("name = \"this-machine\""));
    let summary = format!(
        "What stonecast doctor saw: {} on {place}, {} RDMA devices.",
        facts.place.path,
        facts.rdma_devices.len()
    );
    line(&mut text, format_args!("summary = {}", quoted(&summary)));
    for Answer {
        axis,
        value,
        by,
        evidence,
    } in answers
    {
        let is_bare = matches!(value.as_str(), "true" | "false");
        let value = if is_bare {
            value.clone()
        } else {
            quoted(value)
        };
        line(
            &mut text,
            format_args!(
                "\n[{axis}]\nvalue = {value}\nby = {}\nevidence = {}",
                quoted(by),
                quoted(evidence)
            ),
        );
    }
    text
}

fn line(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    writeln!(text, "{arguments}").expect("a String takes everything");
}
