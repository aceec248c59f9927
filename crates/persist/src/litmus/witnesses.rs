//! For each rule of the model, a program whose verdict depends on it: unsound because of a freedom, sound because of a
//! promise.
//!
//! These are known answers, with which the model is tested; the sentence beside each gives the argument.

use stonecast_media::{Ddio, DeclaredPlatform, PersistenceDomain, ReceiveBuffers};

use crate::platform::{FlushKind, Platform, Transport};
use crate::program::Program;
use crate::scenario::Update;

use super::rules::Rule;

/// A program that shows the purpose of a rule.
#[derive(Clone, Debug)]
pub struct Witness {
    /// The rule.
    pub rule: Rule,
    /// The platform of the program.
    pub platform: Platform,
    /// The update.
    pub update: Update,
    /// The program. With all rules it is unsound if the rule is a freedom, and sound if it is a promise; without the
    /// rule the verdict is the opposite.
    pub program: Program,
    /// The argument.
    pub why: &'static str,
}

const SINGLE: Update = Update::Single;
const COMPOUND: Update = Update::Compound { large: false };

/// One witness for each rule, in the order of the rules.
pub fn witnesses() -> Vec<Witness> {
    Rule::ALL.iter().map(|rule| witness(*rule)).collect()
}

fn witness(rule: Rule) -> Witness {
    use Ddio::{Off, On};
    use PersistenceDomain::{Dmp, Mhp, Wsp};
    use ReceiveBuffers::{Dram, Pm};
    let relaxed = |platform| Platform {
        relaxed_ordering: true,
        ..platform
    };
    let with_flush = |flush, platform| Platform { flush, ..platform };
    let (platform, update, program, why) = match rule {
        Rule::PostedPassesNonPosted => (
            of(Dmp, Off, Dram),
            COMPOUND,
            "rq.write(a) rq.flush rq.write(b) rq.flush rq.await(flush)",
            "the second WRITE passes the first flush, and leaves the I/O controller before a",
        ),
        Rule::CompletionBeforePlacement => (
            of(Mhp, On, Dram),
            SINGLE,
            "rq.write(a) rq.await(write(a))",
            "a is in the NIC, which the caches' energy does not save",
        ),
        Rule::EarlyIwarpCompletion => (
            Platform {
                transport: Transport::Iwarp,
                atomic_write: false,
                ..of(Wsp, On, Dram)
            },
            SINGLE,
            "rq.write(a) rq.await(write(a))",
            "a has not left the requester",
        ),
        Rule::ControllerReorders => (
            of(Dmp, Off, Dram),
            COMPOUND,
            "rq.write(a) rq.write_atomic(b) rq.flush rq.await(flush)",
            "b leaves the I/O controller before a, though it came after it",
        ),
        Rule::EarlyEviction => (
            of(Dmp, On, Dram),
            COMPOUND,
            "rq.send(a,b) rsp.receive(a,b) rsp.copy(a) rsp.copy(b) rsp.write_back(a) rsp.write_back(b) rsp.send(ack) rq.receive(ack)",
            "the cache evicts b before a is written back; a table that says copy + flush(a,b) must not be read like this",
        ),
        Rule::DdioPlacesInCache => (
            of(Dmp, On, Dram),
            SINGLE,
            "rq.write(a) rq.flush rq.await(flush)",
            "the answered READ left a in the cache; right on the same machine with DDIO off",
        ),
        Rule::RelaxedWritesPass => (
            relaxed(with_flush(FlushKind::NativeGlobal, of(Mhp, On, Dram))),
            COMPOUND,
            "rq.write(a) rq.write(b) rq.flush rq.await(flush)",
            "b becomes visible while a is in the NIC",
        ),
        Rule::RelaxedReadDoesNotPush => (
            relaxed(of(Mhp, On, Dram)),
            SINGLE,
            "rq.write(a) rq.flush rq.await(flush)",
            "the READ is answered while a is in the NIC",
        ),
        Rule::NativeFlushOmitsSend => (
            with_flush(FlushKind::NativeGlobal, of(Mhp, On, Pm)),
            SINGLE,
            "rq.send(a) rq.flush rq.await(flush)",
            "the FLUSH is answered while the message is in the NIC; a READ would have pushed it",
        ),
        Rule::GlobalIsOnlyVisible => (
            with_flush(FlushKind::NativeGlobal, of(Dmp, Off, Dram)),
            SINGLE,
            "rq.write(a) rq.flush rq.await(flush)",
            "a is visible in the I/O controller, which power failure does not spare",
        ),
        Rule::NicReset => (
            Platform {
                trusted_nic_buffers: false,
                ..of(Wsp, On, Dram)
            },
            SINGLE,
            "rq.write(a) rq.await(write(a))",
            "no power fails until the NIC has forgotten a; the published plan for WSP holds where its buffers are trusted",
        ),
        Rule::DramForgets => (
            of(Mhp, On, Dram),
            SINGLE,
            "rq.send(a) rq.flush rq.await(flush)",
            "the message is where nothing survives; right in persistent receive buffers",
        ),
        Rule::ArrivalInOrder => (
            of(Wsp, On, Dram),
            COMPOUND,
            "rq.write(a) rq.write(b) rq.await(write(b))",
            "the NIC has a when it has b",
        ),
        Rule::PostedInOrder => (
            of(Mhp, On, Dram),
            COMPOUND,
            "rq.write(a) rq.write(b) rq.flush rq.await(flush)",
            "a is visible when b is",
        ),
        Rule::FlushWaits => (
            of(Mhp, On, Dram),
            SINGLE,
            "rq.write(a) rq.flush rq.await(flush)",
            "a is visible when the flush is answered",
        ),
        Rule::ReadPushes => (
            of(Dmp, Off, Dram),
            SINGLE,
            "rq.write(a) rq.flush rq.await(flush)",
            "the READ has pushed a into the memory controller",
        ),
        Rule::PersistentFlushPersists => (
            with_flush(FlushKind::NativePersistent, of(Dmp, On, Dram)),
            SINGLE,
            "rq.write(a) rq.flush rq.await(flush)",
            "the responder's side has written a back: one-sided in spite of DDIO",
        ),
        Rule::AtomicWriteWaits => (
            of(Dmp, Off, Dram),
            COMPOUND,
            "rq.write(a) rq.flush rq.write_atomic(b) rq.flush rq.await(flush)",
            "b is written after the first flush has pushed a out",
        ),
        Rule::CompletionsInOrder => (
            of(Mhp, On, Dram),
            SINGLE,
            "rq.write(a) rq.flush rq.send(&a) rq.await(send(&a))",
            "the completion of the SEND comes after that of the flush",
        ),
        Rule::ReceiveAfterPlacement => (
            relaxed(of(Mhp, On, Dram)),
            SINGLE,
            "rq.write(a) rq.send(&a) rsp.receive(&a) rsp.send(ack) rq.receive(ack)",
            "the responder sees a when it receives the message, even if inbound writes may pass each other",
        ),
        Rule::WriteBackPersists => (
            of(Dmp, On, Dram),
            SINGLE,
            "rq.send(a) rsp.receive(a) rsp.copy(a) rsp.write_back(a) rsp.send(ack) rq.receive(ack)",
            "the copy is in the memory controller before the acknowledgement leaves",
        ),
        Rule::BatteryDrains => (
            of(Wsp, On, Dram),
            SINGLE,
            "rq.write(a) rq.await(write(a))",
            "the NIC, which has a, works on until a is in memory",
        ),
        Rule::RecoveryReplays => (
            of(Mhp, On, Pm),
            SINGLE,
            "rq.send(a) rq.flush rq.await(flush)",
            "the message survives, and recovery applies it",
        ),
    };
    Witness {
        rule,
        platform,
        update,
        program: program.parse().expect("witnesses are made of steps"),
        why,
    }
}

fn of(
    persistence_domain: PersistenceDomain,
    ddio: Ddio,
    receive_buffers: ReceiveBuffers,
) -> Platform {
    Platform::of(DeclaredPlatform {
        persistence_domain,
        ddio,
        receive_buffers,
    })
}
