//! The limit of open files: each connection takes a file.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The files for all other purposes: the admin port, the store, its pool, standard streams.
const OTHER_FILES: u64 = 256 + crate::admin::CONNECTIONS_MAX as u64;

/// Raises the limit of open files as far as the system allows. Returns the number of connections for which there is
/// then room, at most `wanted`.
pub fn raise_limit(wanted: usize) -> usize {
    let limit = getrlimit(Resource::Nofile);
    let (soft, hard) = (
        limit.current.unwrap_or(u64::MAX),
        limit.maximum.unwrap_or(u64::MAX),
    );
    let needed = wanted as u64 + OTHER_FILES;
    if soft >= needed {
        return wanted;
    }
    let raised = needed.min(hard);
    let allowed = match setrlimit(
        Resource::Nofile,
        Rlimit {
            current: Some(raised),
            maximum: limit.maximum,
        },
    ) {
        Ok(()) => raised,
        Err(_) => soft,
    };
    wanted.min(allowed.saturating_sub(OTHER_FILES).max(1) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_raised_as_far_as_the_system_allows() {
        let hard = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
        assert_eq!(raise_limit(100), 100);
        let possible = (hard - OTHER_FILES).min(5_000) as usize;
        assert_eq!(raise_limit(possible), possible);
        assert!(
            getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
                >= possible as u64 + OTHER_FILES
        );
    }
}
