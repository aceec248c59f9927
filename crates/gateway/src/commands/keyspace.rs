//! Commands on all keys: `SCAN`, `KEYS`, `RANDOMKEY`, `FLUSHDB`.
//!
//! Iteration is in the order of versions: the cursor of `SCAN` is the highest version returned so far, so a cursor
//! takes no memory and stays valid over a restart. A key that is not written keeps its version and is found above the
//! cursor; a key that is written meanwhile gets a higher version and is found there. A key that is present all the time
//! is therefore returned, perhaps twice. Iterations under way are kept, which makes the next page cheap; a forgotten
//! iteration is resumed from its cursor. On a cluster, the order is that of versions within each shard, and the cursor
//! also names the shard.

use rand::RngExt as _;
use stonecast_base::random_from_seed;
use stonecast_kv::Condition;

use super::context::Context;
use super::error::CommandError;
use super::operation::Scan;
use crate::acl::{Access, User};
use crate::fifo::Share;
use crate::glob;
use crate::join::in_order;

/// The most bytes of keys in memory that `KEYS` returns, and after which `SCAN` returns early.
const KEYS_SIZE_MAX: usize = 32 << 20;
const SCAN_SIZE_MAX: usize = 1 << 20;
/// Bytes in memory beside the key itself.
const KEY_OVERHEAD: usize = 40;

/// Returns the next cursor, 0 at the end, and keys above `cursor`, about as many as requested.
pub async fn scan(
    context: &Context,
    user: &User,
    &Scan {
        cursor,
        pattern,
        count,
        is_of_strings,
    }: &Scan<'_>,
) -> Result<(u64, ListedKeys), CommandError> {
    let turn = context.keyspace.take(0).await;
    if !is_of_strings {
        return Ok((0, ListedKeys::none(turn)));
    }
    let kept = context.scans.borrow_mut().take(cursor);
    let mut iteration = match kept {
        Some(entries) => entries,
        None => context.store.entries().await?,
    };
    let (mut looked_at, mut last, mut page) = (0, cursor, Vec::new());
    let mut keys = ListedKeys::none(turn);
    while looked_at < count && keys.size < SCAN_SIZE_MAX {
        context
            .store
            .next_entries(&mut iteration, &mut page)
            .await?;
        if page.is_empty() {
            return Ok((0, keys));
        }
        let store = &context.store;
        for entry in page
            .drain(..)
            .filter(|entry| store.is_behind(entry, cursor))
        {
            looked_at += 1;
            last = store.cursor_behind(&entry);
            let is_wanted = pattern.is_none_or(|pattern| glob::matches(pattern, &entry.key));
            if is_wanted && user.reaches(&entry.key, Access::READ) {
                keys.size += entry.key.len() + KEY_OVERHEAD;
                keys.names.push(entry.key);
            }
        }
    }
    context.scans.borrow_mut().keep(last, iteration);
    Ok((last, keys))
}

/// Keys that match a pattern. The value holds one of the few turns to list keys, as long as it lives.
pub struct ListedKeys {
    pub names: Vec<Vec<u8>>,
    /// Memory of the keys; a reply with them takes less.
    pub size: usize,
    _turn: Share,
}

impl ListedKeys {
    fn none(turn: Share) -> Self {
        Self {
            names: Vec::new(),
            size: 0,
            _turn: turn,
        }
    }
}

/// Returns all keys that match a pattern.
pub async fn keys(
    context: &Context,
    user: &User,
    pattern: &[u8],
) -> Result<ListedKeys, CommandError> {
    let turn = context.keyspace.take(0).await;
    let mut iteration = context.store.entries().await?;
    let (mut names, mut size, mut page) = (Vec::new(), 0, Vec::new());
    loop {
        context
            .store
            .next_entries(&mut iteration, &mut page)
            .await?;
        if page.is_empty() {
            return Ok(ListedKeys {
                names,
                size,
                _turn: turn,
            });
        }
        let matching = page
            .drain(..)
            .map(|entry| entry.key)
            .filter(|key| glob::matches(pattern, key) && user.reaches(key, Access::READ));
        names.extend(matching.inspect(|key| size += key.len() + KEY_OVERHEAD));
        if size > KEYS_SIZE_MAX {
            return Err(CommandError::Refused(
                "too many keys for one reply; use SCAN",
            ));
        }
        context.thread.reactor.turn().await;
    }
}

/// Returns a random key.
pub async fn random_key(context: &Context) -> Result<Option<Vec<u8>>, CommandError> {
    let _turn = context.keyspace.take(0).await;
    let mut iteration = context.store.entries().await?;
    if iteration.is_empty() {
        return Ok(None);
    }
    let wanted = random_from_seed(context.thread.runtime.now()).random_range(0..iteration.len());
    let (mut seen, mut page, mut found) = (0, Vec::new(), None);
    while seen <= wanted {
        context
            .store
            .next_entries(&mut iteration, &mut page)
            .await?;
        let Some(last) = page.len().checked_sub(1) else {
            break;
        };
        // Keys may have been deleted since the count; the last key that is left is then chosen.
        found = Some(page.swap_remove((wanted - seen).min(last)).key);
        seen += last + 1;
        context.thread.reactor.turn().await;
    }
    Ok(found)
}

/// Deletes every key that existed when the call began.
pub async fn flush(context: &Context) -> Result<(), CommandError> {
    let mut iteration = context.store.entries().await?;
    let mut page = Vec::new();
    loop {
        context
            .store
            .next_entries(&mut iteration, &mut page)
            .await?;
        if page.is_empty() {
            return Ok(());
        }
        let mut failure = None;
        let deletes = page
            .iter()
            .map(|entry| context.store.delete(&entry.key, Condition::None));
        in_order(deletes, |deleted| {
            if let Err(error) = deleted {
                failure.get_or_insert(error);
            }
        })
        .await;
        if let Some(error) = failure {
            return Err(error);
        }
        context.thread.reactor.turn().await;
    }
}
