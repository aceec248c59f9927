//! Progress after healing: each client completes operations in bounded time, and the leases of dead
//! clients are returned.

use std::cell::Cell;
use std::rc::Rc;

use stonecast_base::Nanoseconds;
use stonecast_fabric_sim::Process;
use stonecast_kv::{CLIENT_COMPLETIONS, Client};

use crate::kv::client::{ADDRESS, Work, execute, judge_error};
use crate::models::register::{Answer, Call};
use crate::oracles::space;
use crate::timeline::LAST_READER;
use crate::values::ValueId;
use crate::violation::Violation;

/// Time for progress after healing: several times as long as a NIC waits for a dead peer.
pub(crate) const PROGRESS_NS: Nanoseconds = 10_000_000_000;
const RETRY_NS: Nanoseconds = 1_000_000;
/// Operations that each client must complete.
pub(crate) const OPERATIONS: u32 = 4;
/// Writes of the trail.
const TRAIL: u32 = 6;

/// Completes some operations over a separate connection; notifies `done` at the end.
pub(crate) async fn get_on(work: Rc<Work>, process: Process, number: u32, done: Rc<Cell<bool>>) {
    let mut left = OPERATIONS;
    while left > 0 {
        let Some(client) = connect(&process).await else {
            continue;
        };
        while left > 0 {
            let key = (number + left) % work.setup.keys;
            let call = match left % 4 {
                0 => Call::Put(work.fresh_value()),
                1 => Call::Delete,
                _ => Call::Get,
            };
            let id = work.call(number, key, call);
            let (answer, goes_on) =
                match execute(&work, &client, &mut client.token(), key, call, 64).await {
                    Ok(answer) => (Some(answer), true),
                    Err(error) => judge_error(&work, &error),
                };
            work.answer(id, answer);
            if !goes_on {
                break;
            }
            left -= 1;
        }
        if left == 0 {
            client.close().await;
        }
    }
    done.set(true);
}

/// Waits until the server reports that no client but this one holds a lease. Each segment must be
/// accounted for.
pub(crate) async fn wait_for_leases(work: Rc<Work>, process: Process, done: Rc<Cell<bool>>) {
    loop {
        let Some(client) = connect(&process).await else {
            continue;
        };
        loop {
            let Ok(stat) = client.stat().await else { break };
            let counts = [
                stat.segments_free,
                stat.segments_partial,
                stat.segments_taken,
                stat.segments_full,
            ];
            if let Some(violation) = space::judge_segments(
                work.setup.pool.capacity / work.setup.pool.segment_size,
                counts,
            ) {
                work.note(violation);
            }
            // The server itself appends to three segments: puts of copying clients, deletes, and
            // moved records.
            if stat.clients == 1 && stat.segments_taken <= 3 {
                client.close().await;
                return done.set(true);
            }
            process.runtime().sleep(RETRY_NS).await;
        }
    }
}

/// Fills the pool with separate keys, then deletes every one of them: a full pool accepts deletes.
pub(crate) async fn fill_and_forget(
    work: Rc<Work>,
    process: Process,
    value_size: usize,
    done: Rc<Cell<bool>>,
) {
    let Some(client) = connect(&process).await else {
        return done.set(true);
    };
    let name = |number: u32| [b"filling ".as_slice(), &number.to_be_bytes()].concat();
    let mut count = 0;
    let full = loop {
        match client.put(&name(count), &vec![3; value_size]).await {
            Ok(_) => count += 1,
            Err(error) => break error,
        }
    };
    if !full.is_for_want_of_room() {
        judge_error(&work, &full);
    }
    for number in 0..count {
        let error = match client.delete(&name(number)).await {
            Ok(true) => continue,
            Ok(false) => "the key is absent".to_owned(),
            Err(error) => error.to_string(),
        };
        work.note(Violation::new(
            "a full pool can forget",
            format!("delete {number} of {count} keys with values of {value_size} bytes: {error}"),
        ));
        break;
    }
    client.close().await;
    done.set(true);
}

/// Writes one record after the other, each after the answer to the previous one, with the present
/// keys and values.
pub(crate) async fn lay_trail(
    work: Rc<Work>,
    process: Process,
    trail: Rc<Cell<Vec<(u32, ValueId)>>>,
    done: Rc<Cell<bool>>,
) {
    let Some(client) = connect(&process).await else {
        return done.set(true);
    };
    let mut laid = Vec::new();
    for key in 0..TRAIL.min(work.setup.keys) {
        let value = work.fresh_value();
        let id = work.call(LAST_READER, key, Call::Put(value));
        let (answer, goes_on) = match execute(
            &work,
            &client,
            &mut client.token(),
            key,
            Call::Put(value),
            72,
        )
        .await
        {
            Ok(answer) => (Some(answer), true),
            Err(error) => judge_error(&work, &error),
        };
        work.answer(id, answer);
        if matches!(answer, Some(Answer::Stored(_))) {
            laid.push((key, value));
        }
        if !goes_on {
            break;
        }
    }
    trail.set(laid);
    done.set(true);
}

/// Reads every key while its record is damaged: the result must be the value, or an error. Reads
/// twice, since the first read may change something.
pub(crate) async fn read_damaged(
    work: Rc<Work>,
    process: Process,
    damaged: Vec<(u32, ValueId)>,
    done: Rc<Cell<bool>>,
) {
    for (key, value) in damaged {
        for _ in 0..2 {
            let Some(client) = connect(&process).await else {
                continue;
            };
            let mut bytes = Vec::new();
            let found = client.get(&work.keys[key as usize], &mut bytes).await;
            if let Ok(found) = found {
                let read = found
                    .and_then(|_| crate::values::decode(&bytes))
                    .unwrap_or(ValueId::ABSENT);
                if read != value {
                    let text = format!(
                        "key {key} has {value}, its record is damaged, and a client reads {read}"
                    );
                    work.note(Violation::new("damage is never served", text));
                }
            }
        }
    }
    done.set(true);
}

async fn connect(process: &Process) -> Option<Client> {
    let port = process.port(CLIENT_COMPLETIONS).ok()?;
    let client = Client::connect(port, process.runtime(), ADDRESS).await.ok();
    if client.is_none() {
        process.runtime().sleep(RETRY_NS).await;
    }
    client
}
