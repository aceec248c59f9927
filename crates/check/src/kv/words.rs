//! Calls and answers of the store, in words.

use crate::models::register::{Answer, Call, Expected};
use crate::timeline::Words;

/// The words of a store of keys.
pub(crate) const WORDS: Words<Call, Answer> = Words { call, answer };

fn call(key: u32, call: &Call) -> String {
    match *call {
        Call::Get => format!("get key {key}"),
        Call::Put(value) => format!("put key {key} = {value}"),
        Call::PutIf(value, Expected::Absent) => {
            format!("put key {key} = {value} if it is absent")
        }
        Call::PutIf(value, Expected::Version(version)) => {
            format!("put key {key} = {value} if it is at version {version}")
        }
        Call::Delete => format!("delete key {key}"),
    }
}

fn answer(key: u32, call: &Call, answer: Option<&Answer>) -> String {
    let told = match answer {
        Some(Answer::Got(None)) => "it is absent".to_owned(),
        Some(Answer::Got(Some((value, version)))) => format!("it is {value} at version {version}"),
        Some(Answer::Saw(value)) => format!("it is {value}"),
        Some(Answer::Wrote) => "stored".to_owned(),
        Some(Answer::Stored(version)) => format!("stored at version {version}"),
        Some(Answer::Conflict(None)) => "not stored: it is absent".to_owned(),
        Some(Answer::Conflict(Some(version))) => {
            format!("not stored: it is at version {version}")
        }
        Some(Answer::Removed(true)) => "removed".to_owned(),
        Some(Answer::Removed(false)) => "nothing was there".to_owned(),
        Some(Answer::Cleared) => "it is absent now".to_owned(),
        Some(Answer::Refused) => "nothing was done".to_owned(),
        None => "perhaps it was done".to_owned(),
    };
    let asked = match call {
        Call::Get => "get",
        Call::Put(_) | Call::PutIf(..) => "put",
        Call::Delete => "delete",
    };
    format!("told of its {asked} of key {key}: {told}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::register::History;
    use crate::values::ValueId;

    #[test]
    fn an_operation_is_told_in_words() {
        let mut history = History::new(1);
        let put = history.call(2, Some(0), 0, Call::PutIf(ValueId(7), Expected::Absent));
        history.answer(put, Some(Answer::Conflict(Some(3))));
        assert_eq!(
            WORDS.describe(&history.operations()[0]),
            "client 2: put key 0 = value 7 if it is absent; client 2: told of its put of key 0: not stored: it is at version 3"
        );
    }
}
