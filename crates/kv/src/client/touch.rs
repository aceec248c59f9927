//! The change of a key's expiry: a read, and a put on condition of the version that was read.

use stonecast_log::{Condition, Expiry};

use super::{FoundKey, PutRules, Written};

/// Stores the value that `find` reads again by `put`, with the expiry `expires`, if the key has the version `version`;
/// `None`: for any version, in as many attempts as other writers cause.
pub(crate) async fn touch<E>(
    (expires, version): (Option<Expiry>, Option<u64>),
    mut find: impl AsyncFnMut(&mut Vec<u8>) -> Result<Option<FoundKey>, E>,
    mut put: impl AsyncFnMut(&[u8], PutRules) -> Result<Written, E>,
) -> Result<Written, E> {
    let mut value = Vec::new();
    loop {
        let found = find(&mut value).await?;
        let present = found.map(|found| found.version);
        let Some(found) = found.filter(|found| version.is_none_or(|it| it == found.version)) else {
            return Ok(Written::Conflict(present));
        };
        let rules = PutRules {
            condition: Condition::Version(found.version),
            expires,
        };
        match put(&value, rules).await? {
            Written::Conflict(_) if version.is_none() => {}
            written => return Ok(written),
        }
    }
}
