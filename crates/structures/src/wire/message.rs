//! Messages of front-ends and back-end: lists of words.

use stonecast_persist::execute::LENDING_SIZE;
use stonecast_session::{Greeting, Protocol};

use super::counts::{BackEndStat, ReaderCounts};
use super::name::DomainName;
use super::record::Chain;
use crate::tenure::{LogArea, Mark};

/// The greeting of both sides.
pub(crate) const GREETING: Greeting = Greeting::of(Protocol {
    magic: *b"stonstru",
    name: "data structures",
    version: 4,
});
/// Bytes of the longest message.
pub(crate) const MESSAGE_SIZE_MAX: u64 = 4096;
/// Bytes of the longest request.
pub(crate) const REQUEST_SIZE_MAX: u32 = 128;
/// Unanswered requests of a connection, at most.
pub(crate) const REQUESTS_MAX: u64 = 8;
/// Slabs that an answer names, at most.
pub(crate) const SLABS_MAX: usize = MESSAGE_SIZE_MAX as usize / 8 - 2;

/// A request of a front-end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// A window to read the pool.
    Attach,
    /// The domain with this name, which is made if there is none; a new one if no name is given.
    CreateDomain { name: DomainName },
    /// Another slab for a domain. A domain of another owner gets none.
    GiveSlab { domain: u32 },
    /// The slabs of a domain.
    Slabs { domain: u32 },
    /// The next tenure of a domain.
    Lease { domain: u32 },
    /// The log has new records: make them durable, and apply the transactions among them.
    Notify { domain: u32 },
    /// The end of a tenure.
    Release { domain: u32 },
    /// The state of a domain, for people.
    Stat { domain: u32 },
    /// What the readers of the front-end have counted.
    Count { readers: ReaderCounts },
    /// The state of the back-end, for people.
    Counts,
}

/// An answer of a back-end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Attached {
        /// Domains, slab size, slab count.
        geometry: [u64; 3],
        log_key: u64,
        address: u64,
        rkey: u64,
        /// The plans of both sides.
        lending: [u8; LENDING_SIZE],
    },
    Created {
        domain: u32,
    },
    Slabs {
        slabs: Vec<u64>,
    },
    Granted {
        tenure: u32,
        area: LogArea,
        start: Mark,
        rkey: u64,
    },
    /// Another front-end has the tenure, or had it and is being stopped.
    Held {
        tenure: u32,
    },
    Noted {
        durable: u64,
        applied: u64,
        trimmed: u64,
    },
    Released,
    /// The front-end has no tenure of the domain, or not any more.
    NotYours,
    /// There is no such domain.
    NoDomain,
    /// The pool has no room.
    NoRoom,
    /// The domain is damaged.
    Damaged,
    /// The domain has as many slabs as it may have.
    OverQuota,
    Stat(DomainStat),
    /// The counts were added.
    Counted,
    Counts(BackEndStat),
}

/// The state of a lock domain, as its back-end sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DomainStat {
    /// The tenure that lasts; 0: nobody writes.
    pub tenure: u32,
    /// Operations that readers see.
    pub published: u64,
    /// Operations behind them in the log, as far as the back-end has looked: the staged lag.
    pub staged: u64,
    /// Bytes of the log that hold records, of which a restart would read all: the trim lag.
    pub log_used: u64,
    /// Bytes of the log.
    pub log_size: u64,
    /// Slabs of the domain, its log left out.
    pub slabs: u64,
}

impl DomainStat {
    fn words(&self) -> [u64; 6] {
        let Self {
            tenure,
            published,
            staged,
            log_used,
            log_size,
            slabs,
        } = *self;
        [tenure.into(), published, staged, log_used, log_size, slabs]
    }
}

impl Request {
    pub fn encode(self) -> Vec<u8> {
        bytes(&match self {
            Self::Attach => [1, 0],
            Self::CreateDomain { name } => return bytes(&[&[2, 0][..], &name.to_words()].concat()),
            Self::GiveSlab { domain } => [3, domain.into()],
            Self::Slabs { domain } => [4, domain.into()],
            Self::Lease { domain } => [5, domain.into()],
            Self::Notify { domain } => [6, domain.into()],
            Self::Release { domain } => [7, domain.into()],
            Self::Stat { domain } => [8, domain.into()],
            Self::Count { readers } => return bytes(&[&[9, 0][..], &readers.words()].concat()),
            Self::Counts => [10, 0],
        })
    }

    /// The domain that the request is about.
    pub fn domain(self) -> Option<u32> {
        match self {
            Self::Attach | Self::CreateDomain { .. } | Self::Count { .. } | Self::Counts => None,
            Self::GiveSlab { domain }
            | Self::Slabs { domain }
            | Self::Lease { domain }
            | Self::Notify { domain }
            | Self::Release { domain }
            | Self::Stat { domain } => Some(domain),
        }
    }

    /// The request in a message; `None`: it is none.
    pub fn parse(message: &[u8]) -> Option<Self> {
        let words = words(message)?;
        if let [2, 0, name @ ..] = &*words {
            let name = DomainName::of_words(&bytes(name))?;
            return Some(Self::CreateDomain { name });
        }
        if let [9, 0, answers, retries, age] = *words {
            let readers = ReaderCounts::of_words([answers, retries, age]);
            return Some(Self::Count { readers });
        }
        let [verb, domain] = *words else {
            return None;
        };
        let domain = domain.try_into().ok()?;
        Some(match verb {
            1 => Self::Attach,
            3 => Self::GiveSlab { domain },
            4 => Self::Slabs { domain },
            5 => Self::Lease { domain },
            6 => Self::Notify { domain },
            7 => Self::Release { domain },
            8 => Self::Stat { domain },
            10 => Self::Counts,
            _ => return None,
        })
    }
}

impl Answer {
    pub fn encode(&self) -> Vec<u8> {
        let words: Vec<u64> = match self {
            Self::Attached {
                geometry: [domains, size, count],
                log_key,
                address,
                rkey,
                lending,
            } => {
                let lending = words(lending).expect("a description is two words");
                let rest = [1, *domains, *size, *count, *log_key, *address, *rkey];
                [&rest[..], &lending].concat()
            }
            Self::Created { domain } => vec![2, (*domain).into()],
            Self::Slabs { slabs } => [&[3][..], slabs].concat(),
            Self::Granted {
                tenure,
                area,
                start: Mark { position, chain },
                rkey,
            } => vec![
                4,
                (*tenure).into(),
                area.offset,
                area.size,
                *position,
                chain.tag,
                chain.lsn,
                chain.operation,
                chain.covered,
                *rkey,
            ],
            Self::Held { tenure } => vec![5, (*tenure).into()],
            Self::Noted {
                durable,
                applied,
                trimmed,
            } => vec![6, *durable, *applied, *trimmed],
            Self::Released => vec![7],
            Self::NotYours => vec![8],
            Self::NoDomain => vec![9],
            Self::NoRoom => vec![10],
            Self::Damaged => vec![11],
            Self::OverQuota => vec![12],
            Self::Stat(stat) => [&[13][..], &stat.words()].concat(),
            Self::Counted => vec![14],
            Self::Counts(stat) => [&[15][..], &stat.words()].concat(),
        };
        bytes(&words)
    }

    /// The answer in a message; `None`: it is none.
    pub fn parse(message: &[u8]) -> Option<Self> {
        Some(match *words(message)? {
            [
                1,
                domains,
                size,
                count,
                log_key,
                address,
                rkey,
                ref lending @ ..,
            ] => Self::Attached {
                geometry: [domains, size, count],
                log_key,
                address,
                rkey,
                lending: bytes(lending).try_into().ok()?,
            },
            [2, domain] => Self::Created {
                domain: domain.try_into().ok()?,
            },
            [3, ref slabs @ ..] => Self::Slabs {
                slabs: slabs.to_vec(),
            },
            [
                4,
                tenure,
                offset,
                size,
                position,
                tag,
                lsn,
                operation,
                covered,
                rkey,
            ] => {
                let tenure = tenure.try_into().ok()?;
                let chain = Chain {
                    tag,
                    lsn,
                    tenure,
                    operation,
                    covered,
                };
                Self::Granted {
                    tenure,
                    area: LogArea { offset, size },
                    start: Mark { position, chain },
                    rkey,
                }
            }
            [5, tenure] => Self::Held {
                tenure: tenure.try_into().ok()?,
            },
            [6, durable, applied, trimmed] => Self::Noted {
                durable,
                applied,
                trimmed,
            },
            [7] => Self::Released,
            [8] => Self::NotYours,
            [9] => Self::NoDomain,
            [10] => Self::NoRoom,
            [11] => Self::Damaged,
            [12] => Self::OverQuota,
            [13, tenure, published, staged, log_used, log_size, slabs] => Self::Stat(DomainStat {
                tenure: tenure.try_into().ok()?,
                published,
                staged,
                log_used,
                log_size,
                slabs,
            }),
            [14] => Self::Counted,
            [15, ref stat @ ..] => Self::Counts(BackEndStat::of_words(stat)?),
            _ => return None,
        })
    }
}

fn bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn words(message: &[u8]) -> Option<Box<[u64]>> {
    let (words, []) = message.as_chunks::<8>() else {
        return None;
    };
    Some(words.iter().map(|word| u64::from_le_bytes(*word)).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn messages_are_read_as_they_were_written() {
        let domain = 3;
        for request in [
            Request::Attach,
            Request::CreateDomain {
                name: DomainName::new("orders").unwrap(),
            },
            Request::GiveSlab { domain },
            Request::Slabs { domain },
            Request::Lease { domain },
            Request::Notify { domain },
            Request::Release { domain },
            Request::Stat { domain },
            Request::Count {
                readers: ReaderCounts::of_words([1, 2, 3]),
            },
            Request::Counts,
        ] {
            assert_eq!(Request::parse(&request.encode()), Some(request));
        }
        let chain = Chain {
            tag: 1,
            lsn: 2,
            tenure: 9,
            operation: 4,
            covered: 5,
        };
        for answer in [
            Answer::Attached {
                geometry: [1, 2, 3],
                log_key: 4,
                address: 5,
                rkey: 6,
                lending: [7; LENDING_SIZE],
            },
            Answer::Created { domain },
            Answer::Slabs { slabs: vec![7, 8] },
            Answer::Granted {
                tenure: 9,
                area: LogArea { offset: 1, size: 2 },
                start: Mark { position: 3, chain },
                rkey: 6,
            },
            Answer::Held { tenure: 2 },
            Answer::Noted {
                durable: 1,
                applied: 2,
                trimmed: 3,
            },
            Answer::Released,
            Answer::NotYours,
            Answer::NoDomain,
            Answer::NoRoom,
            Answer::Damaged,
            Answer::OverQuota,
            Answer::Stat(DomainStat {
                tenure: 1,
                published: 2,
                staged: 3,
                log_used: 4,
                log_size: 5,
                slabs: 6,
            }),
            Answer::Counted,
            Answer::Counts(BackEndStat {
                front_ends: 1,
                domains: 2,
                damaged: 3,
                tenures_granted: 4,
                tenures_ended: 5,
                tenures_silent: 6,
                slabs: 7,
                free_slabs: 8,
                quota: 9,
                readers: ReaderCounts::of_words([10, 11, 12]),
            }),
        ] {
            assert_eq!(Answer::parse(&answer.encode()), Some(answer));
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_a_parser_panic(message in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = Request::parse(&message);
            let _ = Answer::parse(&message);
        }
    }
}
