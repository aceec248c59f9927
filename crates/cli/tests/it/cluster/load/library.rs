//! Calls through the library, whose answers tell versions.

use stonecast::blocking::Client;
use stonecast::{Condition, Effect, Entry, Error, Written};
use stonecast_check::models::register::{Answer, Call, Expected};
use stonecast_check::values::{self, ValueId};

/// The answer to a call, which stores `bytes` if it stores a value; `None`: its outcome is unknown.
pub fn ask(client: &Client, key: &str, call: Call, bytes: Vec<u8>) -> Option<Answer> {
    let answer = match call {
        Call::Get => client
            .get(key)
            .map(|found| Answer::Got(found.map(|entry| (value_of(&entry), entry.version)))),
        Call::Put(_) => client.put(key, bytes).map(Answer::Stored),
        Call::PutIf(_, expected) => {
            let condition = match expected {
                Expected::Absent => Condition::Absent,
                Expected::Version(version) => Condition::Version(version),
            };
            client.put_if(key, bytes, condition).map(of_condition)
        }
        Call::Delete => client.delete(key).map(Answer::Removed),
    };
    answer.map_or_else(|error| of_error(call, &error), Some)
}

fn of_condition(written: Written) -> Answer {
    match written {
        Written::Done(version) => Answer::Stored(version),
        Written::Conflict(present) => Answer::Conflict(present),
    }
}

fn of_error(call: Call, error: &Error) -> Option<Answer> {
    println!("{call:?}: {error}");
    (error.effect() == Effect::None).then_some(Answer::Refused)
}

pub fn value_of(entry: &Entry) -> ValueId {
    values::decode(&entry.value).expect("a value is whole")
}
