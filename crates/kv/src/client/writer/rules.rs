//! The rules of a put.

use stonecast_log::{Condition, Expiry};

/// The condition of a put, and the expiry of its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PutRules {
    /// The condition under which the put takes effect.
    pub condition: Condition,
    /// The moment from which on the key is absent, by the server's time; `None`: the key does not expire, whatever
    /// expiry it had.
    pub expires: Option<Expiry>,
}

impl From<Condition> for PutRules {
    fn from(condition: Condition) -> Self {
        Self {
            condition,
            expires: None,
        }
    }
}

impl From<Expiry> for PutRules {
    fn from(expires: Expiry) -> Self {
        Self {
            condition: Condition::None,
            expires: Some(expires),
        }
    }
}
