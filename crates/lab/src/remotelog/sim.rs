//! Appends in the simulated world.

use std::cell::RefCell;
use std::rc::Rc;

use stonecast_base::{Nanoseconds, Span};
use stonecast_fabric_sim::{Features, MachineOptions, MachineProfile, SimBacking, Survivor, World};
use stonecast_media::{Backing as _, Durability, LogOptions, ReceiveBuffers};
use stonecast_persist::execute::{
    Layout, Payload, REQUESTER_COMPLETIONS, RESPONDER_COMPLETIONS, Requester, Responder,
};
use stonecast_persist::{Plan, Scenario};

use super::log::{LOG_SIZE, RECORD_SIZE, place, record, tail};
use super::{RemotelogError, WARM_UP};

/// The place of receive buffers in persistent memory, with their total size.
const BUFFERS: Span = Span::new(1 << 20, 64 * 256);
const BUFFER_SIZE: u32 = 256;
const CAPACITY: u64 = 2 << 20;
/// The seed of the world, from which this scenario draws nothing.
const SEED: u64 = 1;

/// Virtual nanoseconds of each of `appends` appends on two machines of `profile`.
pub(super) fn measure(
    plan: &Plan,
    profile: MachineProfile,
    appends: u64,
) -> Result<Vec<Nanoseconds>, RemotelogError> {
    let Scenario {
        platform, update, ..
    } = *plan.scenario();
    let world = World::new(SEED);
    // NICs are assumed to have ATOMIC_WRITE, as in the publication, which measures a WRITE in its place.
    let features = Features {
        atomic_write: true,
        ..Features::COMMON
    };
    let options = MachineOptions {
        platform: platform.declared(),
        features,
        ..MachineOptions::new(profile)
    };
    let machine = world.machine(options);
    let (server, client) = (
        world.process(machine),
        world.process(world.machine(options)),
    );
    let module = world.module(machine, Survivor::default());
    let options = LogOptions {
        capacity: CAPACITY,
        platform: platform.declared(),
        durability: Durability::Power,
    };
    let region = SimBacking::new(&module).open_log(options)?;
    let persistent = platform.receive_buffers == ReceiveBuffers::Pm;
    let layout = Layout {
        data: Span::new(0, LOG_SIZE),
        receive_buffers: persistent.then_some(BUFFERS),
        buffer_size: BUFFER_SIZE,
    };
    let port = server.port(RESPONDER_COMPLETIONS)?;
    port.device().listen("sim:log")?;
    let responder = Responder::new(&port, region.clone(), layout, plan)?;
    let failure = Rc::new(RefCell::new(None));
    let noted = failure.clone();
    server.runtime().spawn(Box::pin(async move {
        let Err(error) = responder.serve().await;
        *noted.borrow_mut() = Some(error);
    }));

    let times: Rc<RefCell<Vec<Nanoseconds>>> = Rc::default();
    let (port, runtime) = (client.port(REQUESTER_COMPLETIONS)?, client.runtime());
    let (plan, timed, noted) = (plan.clone(), times.clone(), failure.clone());
    client.runtime().spawn(Box::pin(async move {
        let appending = async {
            let mut log =
                Requester::connect(&port, "sim:log", &plan, 2 * RECORD_SIZE as u32).await?;
            for number in 1..=WARM_UP + appends {
                let (bytes, pointer) = (record(number), number.to_le_bytes());
                let payload = Payload::single(place(number), &bytes);
                let payload = if update.is_compound() {
                    payload.then(0, &pointer)
                } else {
                    payload
                };
                let start = runtime.now();
                let _persisted = log.persist(&payload).await?;
                if number > WARM_UP {
                    timed.borrow_mut().push(runtime.now() - start);
                }
            }
            Ok(())
        };
        if let Err(error) = appending.await {
            *noted.borrow_mut() = Some(error);
        }
    }));
    while world.step() {}
    if let Some(error) = failure.borrow_mut().take() {
        return Err(error.into());
    }
    let found = tail(&*region, update);
    if found != WARM_UP + appends {
        return Err(RemotelogError::LogBroken {
            found,
            appended: WARM_UP + appends,
        });
    }
    Ok(times.take())
}
