//! Messages of front-ends and back-end: lists of words.

use stonecast_base::{Nanoseconds, Span};
use stonecast_persist::execute::LENDING_SIZE;
use stonecast_session::{Greeting, Protocol};

use super::counts::{BackEndStat, ReaderCounts};
use super::holder::FrontEndName;
use super::name::DomainName;
use super::record::Chain;
use crate::tenure::{LogArea, Mark};

/// The greeting of both sides.
pub(crate) const GREETING: Greeting = Greeting::of(Protocol {
    magic: *b"stonstru",
    name: "data structures",
    version: 8,
});
/// Bytes of the longest message.
pub(crate) const MESSAGE_SIZE_MAX: u64 = 4096;
/// Bytes of the longest request.
pub(crate) const REQUEST_SIZE_MAX: u32 = 128;
/// The most unanswered requests of a connection.
pub(crate) const REQUESTS_MAX: u64 = 8;
/// The most slabs that an answer names.
pub(crate) const SLABS_MAX: usize = MESSAGE_SIZE_MAX as usize / 8 - 2;

/// The most places of a request.
pub(crate) const SPANS_MAX: usize = 7;

/// A back-end that asks for a place as the source of a mirror.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    /// The name of the pool.
    pub uuid: u128,
    /// Seed of the tags of its records.
    pub key: u64,
    /// The generation of the back-end.
    pub generation: u64,
    /// Bytes of the pool.
    pub size: u64,
    /// The time after each message of the back-end for which the mirror does not become the back-end.
    pub lease_ns: Nanoseconds,
    /// Whether the back-end has a standing record, which its mirror has to share.
    pub is_recorded: bool,
}

/// A request of a front-end, or of a back-end to its mirror.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// A window to read the pool.
    Attach,
    /// The domain with this name, which is made if it does not exist; without a name, a new domain.
    CreateDomain { name: DomainName },
    /// Another slab for a domain of which the front-end is the owner.
    GiveSlab { domain: u32 },
    /// The slabs of a domain.
    Slabs { domain: u32 },
    /// The next tenure of a domain, for a front-end with this name.
    Lease { domain: u32, holder: FrontEndName },
    /// The log has new records: make them durable, and apply the transactions among them.
    Notify { domain: u32 },
    /// The end of a tenure.
    Release { domain: u32 },
    /// The state of a domain, for people.
    Stat { domain: u32 },
    /// The counts of the front-end's readers.
    Count { readers: ReaderCounts },
    /// The state of the back-end, for people.
    Counts,
    /// The time for which the asked server is the back-end for certain. A front-end of a mirrored pool asks.
    Vouch,
    /// To a mirror: the place of its source.
    Join(Source),
    /// To a mirror: a digest of its bytes.
    Digest { span: Span },
    /// To a mirror: bytes have arrived, and have to be made durable. A place without bytes does not count.
    Settle { spans: [Span; SPANS_MAX] },
    /// To a mirror: everything was copied, and the back-end acknowledges nothing without the mirror.
    Whole,
    /// To a mirror: the back-end lives.
    Renew,
    /// To a mirror: become the back-end.
    Promote,
    /// The log of the front-end's tenure at the mirror.
    MirrorLog { domain: u32 },
    /// To a mirror: a front-end may write to this log.
    Admit { log: Span },
    /// To a mirror: a window on the log for which the pass was given.
    Enter { pass: u64 },
    /// To a mirror: the front-end with this pass may write no more.
    Expel { pass: u64 },
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
        /// Whether the pool has a mirror: records are durable when they are answered.
        is_mirrored: bool,
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
        /// The name that the other front-end gave itself.
        holder: FrontEndName,
    },
    Noted {
        durable: u64,
        applied: u64,
        trimmed: u64,
    },
    Released,
    /// The front-end has no tenure of the domain, or no longer has one.
    NotYours,
    /// The domain does not exist.
    NoDomain,
    /// The pool has no room.
    NoRoom,
    /// The domain is damaged.
    Damaged,
    /// The domain has the most slabs that it may have.
    OverQuota,
    Stat(DomainStat),
    /// The counts were added.
    Counted,
    Counts(BackEndStat),
    /// The server was the back-end when it answered, and remains the back-end for this time.
    Vouched {
        for_ns: Nanoseconds,
    },
    /// Of a mirror: a window on its memory.
    Joined {
        uuid: u128,
        is_whole: bool,
        address: u64,
        rkey: u64,
        lending: [u8; LENDING_SIZE],
    },
    /// Of a mirror: the digest.
    Digest {
        digest: u128,
    },
    /// Of a mirror: done.
    Settled,
    /// The server is a mirror, and serves no front-end.
    IsMirror {
        generation: u64,
        is_whole: bool,
    },
    /// The server is a back-end of this generation, or was one and knows no later generation.
    IsBackEnd {
        generation: u64,
    },
    /// The pool of the mirror has another content.
    Foreign,
    /// Not now: ask again after this time.
    Later {
        wait_ns: Nanoseconds,
    },
    /// From a mirror: the mirror lacks a part of the pool, and cannot become the back-end.
    NotWhole,
    /// From a mirror: only one of back-end and mirror has a standing record.
    RecordOfOne,
    /// From a mirror: the standing record of this generation does not name the mirror; 0: no record exists.
    NotNamed {
        generation: u64,
    },
    /// The way to the log of the tenure at the mirror.
    MirrorLog {
        pass: u64,
        address: String,
    },
    /// The front-end gets no log at the mirror: the mirror lacks a part of the pool, or its platform needs its
    /// processor.
    NoMirrorLog {
        is_whole: bool,
    },
    /// Of a mirror: the pass for a log.
    Admitted {
        pass: u64,
    },
    /// Of a mirror: a window on the log.
    Entered {
        address: u64,
        rkey: u64,
        lending: [u8; LENDING_SIZE],
    },
    /// From a mirror: the window is closed, but its owner was stopped inside and may still finish a write.
    Unquiesced,
}

/// The state of a lock domain, as its back-end sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DomainStat {
    /// The tenure that lasts; 0: the domain has no writer.
    pub tenure: u32,
    /// Operations that readers see.
    pub published: u64,
    /// Operations after them in the log, as far as the back-end has looked: the staged lag.
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

impl Source {
    fn words(&self) -> [u64; 7] {
        let Self {
            uuid,
            key,
            generation,
            size,
            lease_ns,
            is_recorded,
        } = *self;
        let [low, high] = halves(uuid);
        [
            low,
            high,
            key,
            generation,
            size,
            lease_ns,
            is_recorded.into(),
        ]
    }

    fn of_words(words: &[u64]) -> Option<Self> {
        let &[
            low,
            high,
            key,
            generation,
            size,
            lease_ns,
            is_recorded @ 0..2,
        ] = words
        else {
            return None;
        };
        Some(Self {
            uuid: whole([low, high]),
            key,
            generation,
            size,
            lease_ns,
            is_recorded: is_recorded == 1,
        })
    }
}

impl Request {
    pub fn encode(self) -> Vec<u8> {
        bytes(&match self {
            Self::Attach => [1, 0],
            Self::CreateDomain { name } => return bytes(&[&[2, 0][..], &name.to_words()].concat()),
            Self::GiveSlab { domain } => [3, domain.into()],
            Self::Slabs { domain } => [4, domain.into()],
            Self::Lease { domain, holder } => {
                return bytes(&[&[5, domain.into()][..], &holder.to_words()].concat());
            }
            Self::Notify { domain } => [6, domain.into()],
            Self::Release { domain } => [7, domain.into()],
            Self::Stat { domain } => [8, domain.into()],
            Self::Count { readers } => return bytes(&[&[9, 0][..], &readers.words()].concat()),
            Self::Counts => [10, 0],
            Self::Vouch => [11, 0],
            Self::Join(source) => return bytes(&[&[12, 0][..], &source.words()].concat()),
            Self::Digest { span } => return bytes(&[13, 0, span.offset, span.size]),
            Self::Settle { spans } => {
                let spans = spans.iter().flat_map(|span| [span.offset, span.size]);
                return bytes(&[14, 0].into_iter().chain(spans).collect::<Vec<_>>());
            }
            Self::Whole => [15, 0],
            Self::Renew => [16, 0],
            Self::Promote => [17, 0],
            Self::MirrorLog { domain } => [18, domain.into()],
            Self::Admit { log } => return bytes(&[19, 0, log.offset, log.size]),
            Self::Enter { pass } => return bytes(&[20, 0, pass]),
            Self::Expel { pass } => return bytes(&[21, 0, pass]),
        })
    }

    /// The domain that the request is about.
    pub fn domain(self) -> Option<u32> {
        match self {
            Self::Attach
            | Self::CreateDomain { .. }
            | Self::Count { .. }
            | Self::Counts
            | Self::Vouch
            | Self::Join(_)
            | Self::Digest { .. }
            | Self::Settle { .. }
            | Self::Whole
            | Self::Renew
            | Self::Promote
            | Self::Admit { .. }
            | Self::Enter { .. }
            | Self::Expel { .. } => None,
            Self::GiveSlab { domain }
            | Self::Slabs { domain }
            | Self::Lease { domain, .. }
            | Self::Notify { domain }
            | Self::Release { domain }
            | Self::Stat { domain }
            | Self::MirrorLog { domain } => Some(domain),
        }
    }

    /// The request in a message; `None`: the message is not a request.
    pub fn parse(message: &[u8]) -> Option<Self> {
        let words = words(message)?;
        if let [2, 0, name @ ..] = &*words {
            let name = DomainName::of_words(&bytes(name))?;
            return Some(Self::CreateDomain { name });
        }
        if let [5, domain, holder @ ..] = &*words {
            let domain = u32::try_from(*domain).ok()?;
            let holder = FrontEndName::of_words(&bytes(holder))?;
            return Some(Self::Lease { domain, holder });
        }
        if let [9, 0, answers, retries, age] = *words {
            let readers = ReaderCounts::of_words([answers, retries, age]);
            return Some(Self::Count { readers });
        }
        match *words {
            [12, 0, ref source @ ..] => return Source::of_words(source).map(Self::Join),
            [13, 0, offset, size] => {
                let span = Span { offset, size };
                return Some(Self::Digest { span });
            }
            [14, 0, ref places @ ..] => {
                let (places, []) = places.as_chunks::<2>() else {
                    return None;
                };
                let places: &[[u64; 2]; SPANS_MAX] = places.try_into().ok()?;
                let spans = places.map(|[offset, size]| Span { offset, size });
                return Some(Self::Settle { spans });
            }
            [19, 0, offset, size] => {
                let log = Span { offset, size };
                return Some(Self::Admit { log });
            }
            [20, 0, pass] => return Some(Self::Enter { pass }),
            [21, 0, pass] => return Some(Self::Expel { pass }),
            _ => {}
        }
        let [verb, domain] = *words else {
            return None;
        };
        let domain = domain.try_into().ok()?;
        Some(match verb {
            1 => Self::Attach,
            3 => Self::GiveSlab { domain },
            4 => Self::Slabs { domain },
            6 => Self::Notify { domain },
            7 => Self::Release { domain },
            8 => Self::Stat { domain },
            10 => Self::Counts,
            11 => Self::Vouch,
            15 => Self::Whole,
            16 => Self::Renew,
            17 => Self::Promote,
            18 => Self::MirrorLog { domain },
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
                is_mirrored,
            } => {
                let lending = words(lending).expect("a description is two words");
                let sizes = [*domains, *size, *count];
                let rest = [*log_key, *address, *rkey, (*is_mirrored).into()];
                [&[1], &sizes[..], &rest, &lending].concat()
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
            Self::Held { tenure, holder } => {
                [&[5, (*tenure).into()][..], &holder.to_words()].concat()
            }
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
            Self::Vouched { for_ns } => vec![16, *for_ns],
            Self::Joined {
                uuid,
                is_whole,
                address,
                rkey,
                lending,
            } => {
                let [low, high] = halves(*uuid);
                let first = [17, low, high, (*is_whole).into(), *address, *rkey];
                return [bytes(&first), lending.to_vec()].concat();
            }
            Self::Digest { digest } => {
                let [low, high] = halves(*digest);
                vec![18, low, high]
            }
            Self::Settled => vec![19],
            Self::IsMirror {
                generation,
                is_whole,
            } => vec![20, *generation, (*is_whole).into()],
            Self::IsBackEnd { generation } => vec![21, *generation],
            Self::Foreign => vec![22],
            Self::Later { wait_ns } => vec![23, *wait_ns],
            Self::NotWhole => vec![24],
            Self::RecordOfOne => vec![25],
            Self::NotNamed { generation } => vec![26, *generation],
            Self::MirrorLog { pass, address } => {
                let mut text = address.clone().into_bytes();
                text.resize(text.len().next_multiple_of(8), 0);
                return [bytes(&[27, *pass, address.len() as u64]), text].concat();
            }
            Self::NoMirrorLog { is_whole } => vec![28, (*is_whole).into()],
            Self::Admitted { pass } => vec![29, *pass],
            Self::Entered {
                address,
                rkey,
                lending,
            } => return [bytes(&[30, *address, *rkey]), lending.to_vec()].concat(),
            Self::Unquiesced => vec![31],
        };
        bytes(&words)
    }

    /// The answer in a message; `None`: the message is not an answer.
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
                is_mirrored @ 0..2,
                ref lending @ ..,
            ] => Self::Attached {
                geometry: [domains, size, count],
                log_key,
                address,
                rkey,
                lending: bytes(lending).try_into().ok()?,
                is_mirrored: is_mirrored == 1,
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
            [5, tenure, ref holder @ ..] => Self::Held {
                tenure: tenure.try_into().ok()?,
                holder: FrontEndName::of_words(&bytes(holder))?,
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
            [16, for_ns] => Self::Vouched { for_ns },
            [
                17,
                low,
                high,
                is_whole @ 0..2,
                address,
                rkey,
                ref lending @ ..,
            ] => Self::Joined {
                uuid: whole([low, high]),
                is_whole: is_whole == 1,
                address,
                rkey,
                lending: bytes(lending).try_into().ok()?,
            },
            [18, low, high] => Self::Digest {
                digest: whole([low, high]),
            },
            [19] => Self::Settled,
            [20, generation, is_whole @ 0..2] => Self::IsMirror {
                generation,
                is_whole: is_whole == 1,
            },
            [21, generation] => Self::IsBackEnd { generation },
            [22] => Self::Foreign,
            [23, wait_ns] => Self::Later { wait_ns },
            [24] => Self::NotWhole,
            [25] => Self::RecordOfOne,
            [26, generation] => Self::NotNamed { generation },
            [27, pass, size, ref text @ ..] => {
                let mut text = bytes(text);
                text.truncate(size.try_into().ok()?);
                let address = String::from_utf8(text).ok()?;
                Self::MirrorLog { pass, address }
            }
            [28, is_whole @ 0..2] => Self::NoMirrorLog {
                is_whole: is_whole == 1,
            },
            [29, pass] => Self::Admitted { pass },
            [30, address, rkey, ref lending @ ..] => Self::Entered {
                address,
                rkey,
                lending: bytes(lending).try_into().ok()?,
            },
            [31] => Self::Unquiesced,
            _ => return None,
        })
    }
}

fn halves(number: u128) -> [u64; 2] {
    [number as u64, (number >> 64) as u64]
}

fn whole([low, high]: [u64; 2]) -> u128 {
    u128::from(low) | u128::from(high) << 64
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
    use crate::wire::{MirrorStat, StoreStat};

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
            Request::Lease {
                domain,
                holder: FrontEndName::of("process 7 on db1"),
            },
            Request::Notify { domain },
            Request::Release { domain },
            Request::Stat { domain },
            Request::Count {
                readers: ReaderCounts::of_words([1, 2, 3]),
            },
            Request::Counts,
            Request::Vouch,
            Request::Join(Source {
                uuid: 1 << 70 | 2,
                key: 3,
                generation: 4,
                size: 5,
                lease_ns: 6,
                is_recorded: true,
            }),
            Request::Digest {
                span: Span::new(1, 2),
            },
            Request::Settle {
                spans: [Span::new(64, 8); SPANS_MAX],
            },
            Request::Whole,
            Request::Renew,
            Request::Promote,
            Request::MirrorLog { domain },
            Request::Admit {
                log: Span::new(64, 128),
            },
            Request::Enter { pass: 4 },
            Request::Expel { pass: 5 },
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
                is_mirrored: true,
            },
            Answer::Vouched { for_ns: 1 },
            Answer::Joined {
                uuid: 1 << 100 | 2,
                is_whole: true,
                address: 3,
                rkey: 4,
                lending: [5; LENDING_SIZE],
            },
            Answer::Digest {
                digest: 3 << 90 | 4,
            },
            Answer::Settled,
            Answer::IsMirror {
                generation: 2,
                is_whole: true,
            },
            Answer::IsBackEnd { generation: 3 },
            Answer::Foreign,
            Answer::Later { wait_ns: 4 },
            Answer::NotWhole,
            Answer::RecordOfOne,
            Answer::NotNamed { generation: 5 },
            Answer::MirrorLog {
                pass: 6,
                address: "sim:mirror".to_owned(),
            },
            Answer::NoMirrorLog { is_whole: true },
            Answer::Admitted { pass: 7 },
            Answer::Entered {
                address: 8,
                rkey: 9,
                lending: [10; LENDING_SIZE],
            },
            Answer::Unquiesced,
            Answer::Created { domain },
            Answer::Slabs { slabs: vec![7, 8] },
            Answer::Granted {
                tenure: 9,
                area: LogArea { offset: 1, size: 2 },
                start: Mark { position: 3, chain },
                rkey: 6,
            },
            Answer::Held {
                tenure: 2,
                holder: FrontEndName::of("process 7 on db1"),
            },
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
                mirror: MirrorStat {
                    generation: 13,
                    bytes_to_copy: 14,
                    batches_under_way: 15,
                    silent_ns: 16,
                    is_bound: true,
                    store: StoreStat::Waiting,
                },
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
