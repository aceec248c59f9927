//! A program as the halves of requester and responder.
//!
//! ```text
//!   rq.write(a)   rsp.receive(&a)        requester: write(a), send(&a), receive(ack)
//!   rq.send(&a)   rsp.write_back(a)  ->  responder: receive(&a), write_back(a), send(ack)
//!   ...           ...                    waited for: the completions that an await names
//! ```

use stonecast_base::hash::xxh3_64;
use stonecast_fabric::Capabilities;
use stonecast_session::Greeting;

use crate::execute::error::ExecuteError;
use crate::execute::platform_code::platform_code;
use crate::execute::session::PROTOCOL;
use crate::platform::{FlushKind, Platform};
use crate::program::{Program, completes};
use crate::step::{Item, Message, Party, Step};

/// A program, divided for execution.
#[derive(Clone, Debug)]
pub(crate) struct Halves {
    /// The requester's steps.
    pub requester: Vec<Step>,
    /// The responder's steps.
    pub responder: Vec<Step>,
    /// The kind of flush.
    pub flush: FlushKind,
    /// The platform of the plan; `None` for a rehearsal.
    platform: Option<Platform>,
    /// For each step of the requester that waits for a completion: the step that posted it, if there is one.
    completes: Vec<Option<usize>>,
}

impl Halves {
    /// The two halves of `program`.
    pub fn new(program: &Program, flush: FlushKind, platform: Option<Platform>) -> Self {
        let of = |party: Party| program.of(party).collect::<Vec<_>>();
        let (requester, responder) = (of(Party::Requester), of(Party::Responder));
        let completes = (0..requester.len())
            .map(|index| completed_by(&requester, index))
            .collect();
        Self {
            requester,
            responder,
            flush,
            platform,
            completes,
        }
    }

    /// The post whose completion the step at `index` waits for.
    pub fn awaited_at(&self, index: usize) -> Option<usize> {
        self.completes[index]
    }

    /// Whether a step waits for the completion of the post at `index`.
    pub fn is_awaited(&self, index: usize) -> bool {
        self.completes.contains(&Some(index))
    }

    /// Whether the requester does `step`.
    pub fn posts(&self, step: Step) -> bool {
        self.requester.contains(&step)
    }

    /// Whether any steps are allowed.
    pub fn is_rehearsal(&self) -> bool {
        self.platform.is_none()
    }

    /// Whether a message carries values.
    pub fn sends_values(&self) -> bool {
        self.requester
            .iter()
            .any(|step| matches!(step, Step::Send(Message::Value(_) | Message::Both)))
    }

    /// Whether the update has a second part.
    pub fn is_compound(&self) -> bool {
        let second = |step: &Step| {
            matches!(
                step,
                Step::Write(Item::B)
                    | Step::WriteImmediate(Item::B)
                    | Step::WriteAtomic(Item::B)
                    | Step::Send(Message::Both | Message::Value(Item::B))
            )
        };
        self.requester.iter().any(second)
    }

    /// Whether the responder waits for anything.
    pub fn responder_waits(&self) -> bool {
        self.responder.iter().any(|step| step.is_wait())
    }

    /// The first bytes of both sides: a plan is sound on one platform, and a rehearsal on none.
    pub fn greeting(&self) -> Greeting {
        Greeting::of(PROTOCOL).on(platform_code(self.platform.as_ref()))
    }

    /// A number that identifies the program in the first message of a session. Both sides must run the same program for
    /// the same platform, and a rehearsal runs only with a rehearsal.
    pub fn fingerprint(&self) -> u64 {
        let steps = self.requester.iter().chain(&self.responder);
        let text: String = steps.map(|step| format!("{step};")).collect();
        xxh3_64(
            0,
            format!("{text}{}{:?}", self.flush, self.platform).as_bytes(),
        )
    }

    /// Refuses a device that lacks what a step needs, and steps whose place the requester does not choose.
    pub fn check(&self, device: &Capabilities) -> Result<(), ExecuteError> {
        let lacks = |step: &Step, capability: &'static str| {
            Err(ExecuteError::Missing {
                device: device.name.clone(),
                capability,
                step: step.to_string(),
            })
        };
        for step in &self.requester {
            match step {
                Step::Append(_) => {
                    return Err(ExecuteError::Appends {
                        step: step.to_string(),
                    });
                }
                Step::WriteAtomic(_) if !device.atomic_write => return lacks(step, "ATOMIC_WRITE"),
                Step::Flush if self.flush == FlushKind::NativeGlobal && !device.flush_global => {
                    return lacks(step, "FLUSH with global visibility");
                }
                Step::Flush
                    if self.flush == FlushKind::NativePersistent && !device.flush_persistent =>
                {
                    return lacks(step, "FLUSH with persistence");
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// The latest post before `index` whose completion the step there waits for.
fn completed_by(steps: &[Step], index: usize) -> Option<usize> {
    let Step::Await(awaited) = steps[index] else {
        return None;
    };
    steps[..index]
        .iter()
        .rposition(|post| completes(*post, awaited))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(steps: &str) -> Halves {
        Halves::new(&steps.parse().unwrap(), FlushKind::Read, None)
    }

    #[test]
    fn an_await_waits_for_the_latest_post_of_its_kind() {
        let program = program(
            "rq.write(a) rq.flush rq.await(flush) rq.write(b) rq.flush rq.await(flush) rq.await(write(b))",
        );
        let awaited: Vec<Option<usize>> = (0..7).map(|index| program.awaited_at(index)).collect();
        assert_eq!(awaited, [None, None, Some(1), None, None, Some(4), Some(3)]);
        assert!(
            program.is_awaited(1)
                && !program.is_awaited(0)
                && program.is_compound()
                && !program.sends_values()
        );
    }

    #[test]
    fn both_sides_of_a_plan_tell_other_plans_apart() {
        let one = program("rq.send(a) rq.flush rq.await(flush)");
        let other = program("rq.send(a) rq.await(send(a))");
        assert_ne!(one.fingerprint(), other.fingerprint());
        assert_ne!(
            one.fingerprint(),
            Halves {
                flush: FlushKind::NativeGlobal,
                ..one.clone()
            }
            .fingerprint()
        );
        assert!(one.sends_values() && !one.responder_waits());
    }

    #[test]
    fn a_device_without_the_operation_of_a_step_is_refused_with_its_name_and_the_step() {
        let device = |flush_global, flush_persistent, atomic_write| Capabilities {
            name: "the NIC".to_owned(),
            send_size_max: 1 << 20,
            private_data_size_max: 64,
            multi_packet: false,
            memory_windows: false,
            protection_domains: false,
            flush_global,
            flush_persistent,
            atomic_write,
            read_now: false,
            read_soon: false,
            atomic_with_processor: true,
        };
        let steps = "rq.write(a) rq.flush rq.write_atomic(b) rq.flush rq.await(flush)";
        let refused = program(steps)
            .check(&device(true, true, false))
            .unwrap_err()
            .to_string();
        assert!(
            refused.contains("the NIC")
                && refused.contains("ATOMIC_WRITE")
                && refused.contains("rq.write_atomic(b)"),
            "{refused}"
        );
        assert!(
            program(steps).check(&device(false, false, true)).is_ok(),
            "every device has READ"
        );
        for (flush, missing) in [
            (FlushKind::NativeGlobal, "visibility"),
            (FlushKind::NativePersistent, "persistence"),
        ] {
            let program = Halves {
                flush,
                ..program(steps)
            };
            assert!(
                program
                    .check(&device(false, false, true))
                    .unwrap_err()
                    .to_string()
                    .contains(missing)
            );
            assert!(program.check(&device(true, true, true)).is_ok());
        }
    }
}
