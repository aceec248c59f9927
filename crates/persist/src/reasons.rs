//! The reason for each step of a plan, in one sentence. [`litmus::prove`](crate::litmus) shows the consequence of its
//! absence.

use stonecast_media::{PersistenceDomain, ReceiveBuffers};

use crate::plan::Plan;
use crate::platform::{FlushKind, Platform, Transport};
use crate::step::{Awaited, Item, Message, Step};

impl Plan {
    /// The reason for each step, in the order of the plan.
    pub fn reasons(&self) -> Vec<String> {
        self.steps()
            .iter()
            .enumerate()
            .map(|(index, step)| reason(self, index, *step))
            .collect()
    }
}

fn reason(plan: &Plan, index: usize, step: Step) -> String {
    let platform = &plan.scenario().platform;
    let steps = plan.steps();
    let follows = |wanted: fn(Step) -> bool| steps[index + 1..].iter().copied().any(wanted);
    match step {
        Step::Write(item) if follows(|step| matches!(step, Step::Flush | Step::Send(_))) => {
            let says = match platform.transport {
                Transport::InfiniBand => "the completion would say only that the responder's NIC has it",
                Transport::Iwarp => "the completion would not even say that it was sent",
            };
            format!("puts {item} into its place; {says}")
        }
        Step::Write(item) => format!("puts {item} into its place, by way of a NIC that loses nothing"),
        Step::WriteImmediate(item) if plan.is_one_sided() => {
            format!("puts {item} into its place; the 32 bits are a hint that a crash may lose")
        }
        Step::WriteImmediate(item) => format!("puts {item} into its place and tells the responder"),
        Step::WriteAtomic(item) => {
            format!("puts {item} into its place behind the flush, which a WRITE might pass")
        }
        Step::Send(Message::Address(item)) => format!("tells the responder, whose processor has not noticed the WRITE of {item}"),
        Step::Send(message) if !steps.iter().any(|step| matches!(step, Step::Copy(_))) => {
            format!("puts {} into a persistent receive buffer, where recovery finds and applies it", values(message))
        }
        Step::Send(message) => format!("brings {} to the responder", values(message)),
        Step::Append(message) => format!(
            "puts {} where the responder's device chooses; recovery finds the entry there, and proves it whole",
            values(message)
        ),
        Step::Read => read(platform).to_owned(),
        Step::Await(Awaited::Read) => "before the READ is answered nothing is known".to_owned(),
        Step::Flush if follows(|step| matches!(step, Step::WriteAtomic(_))) => {
            format!("{}; b must not become persistent first", flush(platform))
        }
        Step::Flush => flush(platform).to_owned(),
        Step::Await(Awaited::Flush) if follows(Step::is_post) => {
            "b may start only now: a posted operation might pass the flush".to_owned()
        }
        Step::Await(Awaited::Flush) => "before the flush is answered nothing is known".to_owned(),
        Step::Await(_) => "says that the responder's NIC has everything up to here, and what it has survives".to_owned(),
        Step::ReceiveAck if follows(Step::is_post) => "b may start only now: a is persistent".to_owned(),
        Step::ReceiveAck => "before the responder has answered nothing is known".to_owned(),
        Step::Receive(_) => "only from here on are the message and everything written before it certain to be visible".to_owned(),
        Step::Copy(item) => copy(platform, item),
        Step::WriteBack(item) if follows(|step| matches!(step, Step::Copy(_))) => {
            format!("{} {item}, before b is where it might be evicted first", write_back(platform))
        }
        Step::WriteBack(item) => format!("{} {item}", write_back(platform)),
        Step::SendAck => "only the responder's processor knows that this is done".to_owned(),
    }
}

fn values(message: Message) -> &'static str {
    match message {
        Message::Value(Item::A) | Message::Address(Item::A) => "a",
        Message::Value(Item::B) | Message::Address(Item::B) => "b",
        Message::Both => "a and b",
    }
}

fn flush(platform: &Platform) -> &'static str {
    match (platform.flush, platform.persistence) {
        (FlushKind::Read, PersistenceDomain::Dmp) => {
            "a READ, answered after everything before it has left NIC and I/O controller for the memory controller"
        }
        (FlushKind::Read, _) => {
            "a READ, answered after everything before it has left the NIC and is visible"
        }
        (FlushKind::NativeGlobal, _) => {
            "FLUSH with global visibility, answered after everything before it is visible"
        }
        (FlushKind::NativePersistent, _) => {
            "FLUSH with persistence, answered after everything before it is in the persistence domain"
        }
    }
}

fn read(platform: &Platform) -> &'static str {
    let with_read = Platform {
        flush: FlushKind::Read,
        ..*platform
    };
    flush(&with_read)
}

fn copy(platform: &Platform, item: Item) -> String {
    match platform.receive_buffers {
        ReceiveBuffers::Dram => {
            format!("the receive buffer is volatile; puts {item} into its place")
        }
        ReceiveBuffers::Pm => format!(
            "nothing makes the receive buffer itself persistent here; puts {item} into its place"
        ),
    }
}

fn write_back(platform: &Platform) -> &'static str {
    match platform.persistence {
        PersistenceDomain::PageFile => "the page cache is volatile; syncs the pages of",
        _ => "caches and I/O controller are volatile; writes back the lines of",
    }
}
