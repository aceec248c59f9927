//! Opens a device, and detects its abilities.
//!
//! A program that only needs the abilities calls [`Abilities::of`], which opens the device and closes it again.

use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;

use stonecast_fabric::{Capabilities, DeviceError};

use super::table::Table;
use super::{Collecting, Connections, DeviceAbilities, Hardware, Keys, State, VerbsOptions, keys};
use crate::control::{ControlOptions, ControlPlane, PRIVATE_DATA_SIZE_MAX, PeerProfile};
use crate::verbs::completion::{CompletionChannel, CompletionQueue};
use crate::verbs::context::{Context, Facts};
use crate::verbs::memory::ProtectionDomain;
use crate::verbs::port::Port;
use crate::verbs::queue_pair::{ExtraOperations, QueuePair, Retransmission, WantedQueuePair};

/// Longest SEND. Devices accept much longer ones, but every receive buffer would have to be as long.
const SEND_SIZE_MAX: u32 = 16 << 20;
/// First address of regions: far from 0, which must not be a valid address.
const FIRST_ADDRESS: u64 = 1 << 40;

/// The newer operations of a device: it claims them, and the library can post them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abilities {
    /// FLUSH that makes bytes visible to every agent.
    pub flush_global: bool,
    /// FLUSH that makes bytes persist.
    pub flush_persistent: bool,
    /// ATOMIC_WRITE of 8 bytes.
    pub atomic_write: bool,
    /// Memory windows of type 2B.
    pub memory_windows: bool,
}

impl Abilities {
    /// Queries the device called `device` (`ibv_query_device_ex(3)`), and makes a queue pair that could post the
    /// claimed operations. An error if the library, the device or the right to open it is missing.
    pub fn of(device: &str) -> Result<Self, DeviceError> {
        let system = |doing| move |source| DeviceError::System { doing, source };
        let context = Context::open(Some(device))?;
        let facts = context.facts()?;
        let domain =
            ProtectionDomain::new(&context).map_err(system("making a protection domain"))?;
        let channel =
            CompletionChannel::new(&context).map_err(system("making a completion channel"))?;
        let extra = find_operations(&domain, &channel, facts).map_err(system(TRYING))?;
        Ok(Self::from(facts, extra))
    }

    fn from(facts: Facts, extra: ExtraOperations) -> Self {
        Self {
            flush_global: extra.flush && facts.flush_global,
            flush_persistent: extra.flush && facts.flush_persistent,
            atomic_write: extra.atomic_write,
            memory_windows: extra.windows,
        }
    }
}

const TRYING: &str = "making a queue pair to see what it can do";

impl State {
    pub(super) fn open(options: VerbsOptions) -> Result<(Capabilities, Self), DeviceError> {
        if options.retransmission_timeout > 31 || !(1..=6).contains(&options.retransmission_count) {
            return Err(DeviceError::Malformed {
                reason: "a retransmission timeout above 31, or retries that are not 1 to 6",
            });
        }
        let context = Context::open(options.device.as_deref())?;
        let mut facts = context.facts()?;
        facts.windows &= !options.without_windows;
        if facts.reads_in_max == 0 || facts.reads_out_max == 0 {
            return Err(DeviceError::Unsupported {
                device: context.name().into(),
                capability: "RDMA READ",
            });
        }
        let port = Port::of(&context, options.port, options.gid_index)?;
        let system = |doing| move |source| DeviceError::System { doing, source };
        let domain =
            ProtectionDomain::new(&context).map_err(system("making a protection domain"))?;
        let channel =
            CompletionChannel::new(&context).map_err(system("making a completion channel"))?;
        let extra = find_operations(&domain, &channel, facts).map_err(system(TRYING))?;
        let abilities = Abilities::from(facts, extra);
        let pretence = if options.without_windows {
            " without windows"
        } else {
            ""
        };
        let name = format!("verbs:{}{pretence}", context.name());
        let capabilities = Capabilities {
            name: name.clone(),
            send_size_max: port.message_size_max.min(SEND_SIZE_MAX),
            private_data_size_max: PRIVATE_DATA_SIZE_MAX,
            // No public library makes such queues for reliable connections.
            multi_packet: false,
            // The windows are the device's own, or made of protection domains.
            memory_windows: true,
            protection_domains: !abilities.memory_windows,
            flush_global: abilities.flush_global,
            flush_persistent: abilities.flush_persistent,
            atomic_write: abilities.atomic_write,
            read_now: false,
            read_soon: true,
            // Cards promise atomicity at most between their own atomics.
            atomic_with_processor: false,
        };
        let profile = PeerProfile {
            platform: options.platform,
            transport: port.transport,
            flush_global: capabilities.flush_global,
            flush_persistent: capabilities.flush_persistent,
            atomic_write: capabilities.atomic_write,
        };
        let control = ControlPlane::start(ControlOptions {
            keys: options.keys,
            terms: options.terms,
            profile,
            back_off: options.back_off,
            handshake_patience: options.handshake_patience,
            strangers_max: options.strangers_max,
            log: options.log,
        });
        let state = Self {
            control: control.map_err(system("starting the control plane"))?,
            windows: Table::new("memory window"),
            qps: Table::new("queue pair"),
            regions: Table::new("memory region"),
            cqs: Table::new("completion queue"),
            srqs: Table::new("shared receive queue"),
            connections: Connections::default(),
            keys: Keys {
                uses: BTreeMap::new(),
                ended: keys::EndedKeys::default(),
                next_address: FIRST_ADDRESS,
            },
            collecting: Collecting::default(),
            abandoned: false,
            hardware: Hardware {
                domain,
                channel,
                context,
                port,
                facts,
            },
            abilities: DeviceAbilities {
                extra,
                retransmission: Retransmission {
                    timeout_code: options.retransmission_timeout,
                    retry_count: options.retransmission_count,
                },
                name,
                send_size_max: capabilities.send_size_max,
                has_flush_persistent: capabilities.flush_persistent,
            },
        };
        Ok((capabilities, state))
    }
}

/// Makes queue pairs with fewer and fewer operations until one can be made: a device's claim is not enough, because the
/// library must be able to post the operation.
fn find_operations(
    domain: &Rc<ProtectionDomain>,
    channel: &Rc<CompletionChannel>,
    facts: Facts,
) -> io::Result<ExtraOperations> {
    let cq = CompletionQueue::new(channel, 16, 0)?;
    let flush = facts.flush_global || facts.flush_persistent;
    let all = ExtraOperations {
        windows: facts.windows,
        flush,
        atomic_write: facts.atomic_write,
    };
    let none = ExtraOperations {
        windows: false,
        flush: false,
        atomic_write: false,
    };
    let candidates = [
        all,
        ExtraOperations {
            atomic_write: false,
            ..all
        },
        ExtraOperations {
            windows: all.windows,
            ..none
        },
        none,
    ];
    let mut last = None;
    for extra in candidates {
        let wanted = WantedQueuePair {
            domain,
            send_cq: &cq,
            receive_cq: &cq,
            shared: None,
            send_capacity: 4,
            receive_capacity: 4,
            extra,
        };
        match QueuePair::new(&wanted) {
            Ok(_made) => return Ok(extra),
            Err(error) => last = Some(error),
        }
    }
    Err(last.expect("every candidate failed"))
}
