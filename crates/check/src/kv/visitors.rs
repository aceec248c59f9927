//! Unwanted clients: of another version, in crowds, hostile. Their attempts must change nothing and
//! be refused with the proper error, and the server must continue after all of them.

use std::fmt;
use std::rc::Rc;

use rand::{Rng as _, RngExt as _};
use stonecast_base::{Random, random_from_seed};
use stonecast_fabric::{Operation, Status};
use stonecast_fabric_sim::{Fault, Process};
use stonecast_kv::limits::PROTOCOL_VERSION as VERSION;
use stonecast_log::{Condition, Draft, Form, Kind};

use crate::kv::client::Work;
use crate::kv::raw::{NoConnection, Raw, request};
use crate::violation::Violation;

/// Answer of the server: the request broke the rules.
const INVALID: u8 = 4;
/// A pause in which a server does its work beside answers.
const WHILE_NS: u64 = 2_000_000;
/// Connections of a crowd.
const CROWD: usize = 24;

/// The kinds of unwanted clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Visitor {
    OtherVersion,
    Crowd,
    Hostile,
    /// Uses a key that was revoked.
    Evicted,
}

/// The words of the timeline of a run.
impl fmt::Display for Visitor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::OtherVersion => "a client of another version",
            Self::Crowd => "a crowd of clients",
            Self::Hostile => "a hostile client",
            Self::Evicted => "a client with a revoked key",
        })
    }
}

/// Runs a visitor. Notes a violation if the visitor achieves something forbidden.
pub(crate) async fn visit(work: Rc<Work>, process: Process, visitor: Visitor, seed: u64) {
    let mut random = random_from_seed(seed);
    match visitor {
        Visitor::OtherVersion => other_version(&work, &process, &mut random).await,
        Visitor::Crowd => crowd(&process).await,
        Visitor::Evicted => use_after_release(&work, &process).await,
        Visitor::Hostile => {
            work.hit(Fault::HostileClient);
            for _ in 0..random.random_range(2..6) {
                offend(&work, &process, &mut random).await;
            }
        }
    }
}

fn violation(work: &Work, found: String) {
    work.note(Violation::new(
        "no client changes memory that it does not own",
        found,
    ));
}

async fn other_version(work: &Work, process: &Process, random: &mut Random) {
    let version = if random.random() {
        VERSION + 1
    } else {
        random.random_range(0..u32::MAX)
    };
    if version == VERSION {
        return;
    }
    match Raw::connect(process, &Raw::hello(version)).await {
        Ok(raw) => {
            violation(
                work,
                format!("a client of protocol version {version} was accepted"),
            );
            raw.close();
        }
        Err(NoConnection::Refused(reason)) if reason.contains("version") => {
            work.hit(Fault::OtherVersion)
        }
        Err(_) => {}
    }
}

/// Many clients connect at once, and most leave without a request.
async fn crowd(process: &Process) {
    let mut there = Vec::new();
    for number in 0..CROWD {
        let hello = if number % 5 == 4 {
            vec![0xee; number]
        } else {
            Raw::hello(VERSION)
        };
        there.extend(Raw::connect(process, &hello).await.ok());
        if number % 3 == 0 {
            there.pop().into_iter().for_each(Raw::close);
        }
    }
    process.kill();
}

/// Returns a lease, and writes through the key of that lease later.
async fn use_after_release(work: &Work, process: &Process) {
    let Ok(raw) = Raw::connect(process, &Raw::hello(VERSION)).await else {
        return;
    };
    let Some(spot) = raw.spot(256).await.filter(|_| !raw.is_staged()) else {
        return raw.close();
    };
    let runtime = process.runtime();
    let mut answered = raw.send(&request(2, spot.slot, 0, 0)).await.is_some();
    // The revocation runs beside the server's answers, and must be complete after two more answers.
    for _ in 0..2 {
        runtime.sleep(WHILE_NS).await;
        answered &= raw.send(&request(4, 0, 0, 0)).await.is_some();
    }
    if answered {
        let write = Operation::Write {
            local: raw.local(&[0xaa; 256]),
            remote: spot.remote,
        };
        if raw.submit(write).await == Status::Success {
            violation(
                work,
                format!(
                    "a write went through the key of a lease that was given back, at position {} of the log",
                    spot.position
                ),
            );
        }
    }
    raw.close();
}

/// One offence, over a separate connection.
async fn offend(work: &Work, process: &Process, random: &mut Random) {
    let Ok(raw) = Raw::connect(process, &Raw::hello(VERSION)).await else {
        return;
    };
    match random.random_range(0..6) {
        0 => send_garbage(work, &raw, random).await,
        1 => {
            _ = raw
                .ask(Operation::Send {
                    local: raw.local(&vec![7; random.random_range(2049..5000)]),
                })
                .await
        }
        2 => write_what_is_read_only(work, &raw, random).await,
        3 => name_what_is_not_leased(work, &raw, random).await,
        _ => put_a_bad_record(work, &raw, random).await,
    }
    raw.close();
}

async fn send_garbage(work: &Work, raw: &Raw, random: &mut Random) {
    for _ in 0..random.random_range(1..6) {
        let mut bytes = vec![0; random.random_range(0..200)];
        random.fill_bytes(&mut bytes);
        if let Some(first) = bytes.first_mut() {
            // Neither a lease nor a report, which every client may request.
            *first = [0, 3, 5, 255][random.random_range(0..4)];
        }
        let Some(answer) = raw.send(&bytes).await else {
            return;
        };
        if answer.first() != Some(&INVALID) {
            violation(
                work,
                format!(
                    "{} bytes of garbage are answered with status {}",
                    bytes.len(),
                    answer.first().map_or("none".to_owned(), u8::to_string)
                ),
            );
        }
    }
}

async fn write_what_is_read_only(work: &Work, raw: &Raw, random: &mut Random) {
    let mut remote = raw.read_only(random.random());
    remote.address += random.random_range(0..64) * 64;
    let operation = match random.random_range(0..3) {
        0 => Operation::Write {
            local: raw.local(&[0x55; 64]),
            remote,
        },
        1 => Operation::CompareAndSwap {
            local: raw.local(&[0; 8]),
            remote,
            expected: 0,
            swap: u64::MAX,
        },
        _ => Operation::FetchAndAdd {
            local: raw.local(&[0; 8]),
            remote,
            add: 1,
        },
    };
    if raw.submit(operation).await == Status::Success {
        let what = match operation {
            Operation::Write { .. } => "a WRITE",
            Operation::CompareAndSwap { .. } => "a CAS",
            _ => "a FAA",
        };
        violation(work, format!("{what} changed read-only memory"));
    }
}

async fn name_what_is_not_leased(work: &Work, raw: &Raw, random: &mut Random) {
    let Some(spot) = raw.spot(128).await else {
        return;
    };
    let immediate = random.next_u32() | 0x0400_0000;
    let write = Operation::WriteWithImmediate {
        local: raw.local(&[0; 64]),
        remote: spot.remote,
        immediate,
    };
    if raw
        .ask(write)
        .await
        .is_some_and(|answer| answer.first() != Some(&INVALID))
    {
        violation(
            work,
            format!(
                "a write that names slot and unit {immediate:#010x}, which are not leased, was accepted"
            ),
        );
    }
}

/// A record with exactly one fault.
async fn put_a_bad_record(work: &Work, raw: &Raw, random: &mut Random) {
    let Some(mut spot) = raw.spot(256).await else {
        return;
    };
    let mut draft = Draft {
        kind: Kind::Put,
        form: Form::Whole,
        condition: Condition::None,
        token: 0,
        expires: None,
        key: b"not a key of ours",
        value: &[9; 64],
    };
    let mut record = Vec::new();
    let longest = vec![9; raw.format().segment_size as usize];
    let (what, opening) = match random.random_range(0..4) {
        0 => (
            "of an opening that is over",
            raw.opening().wrapping_sub(random.random_range(1..3)),
        ),
        1 => ("of an opening to come", raw.opening() + 1),
        2 => ("with a wrong tag", raw.opening()),
        _ if raw.is_staged() => {
            draft.value = &longest;
            ("that is longer than a segment", raw.opening())
        }
        _ => {
            // The bytes of the record fit into the last unit; a longer header would not.
            (draft.key, draft.value) = (b"odd", &[9; 14]);
            spot = spot.at_the_end(raw.format().segment_size);
            ("that takes a unit after its segment", raw.opening())
        }
    };
    draft.encode(
        &raw.format(),
        spot.position,
        spot.generation,
        opening,
        &mut record,
    );
    if what == "with a wrong tag" {
        let at = random.random_range(40 + 17..40 + 17 + 64);
        record[at] ^= 1 << random.random_range(0..8);
    }
    if raw
        .put(&spot, &record)
        .await
        .is_some_and(|answer| answer.first() != Some(&INVALID))
    {
        violation(work, format!("a record {what} was accepted"));
    }
}
