//! The requests that a client sends by SEND.

use stonecast_lineage::{Epoch, Term};
use stonecast_log::Condition;
use zerocopy::byteorder::little_endian::{U32, U64};
use zerocopy::{FromBytes as _, FromZeros as _, IntoBytes as _};

use super::layout::message;
use crate::metrics::{PAGES, REPORT_SIZE};
use crate::wire::limits::REQUEST_SIZE_MAX;

/// A request that is sent by SEND.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request<'a> {
    /// Lease an extent with room for at least `size` bytes. With `publishes`, the client itself stamps the records of
    /// the extent.
    Lease { size: u32, publishes: bool },
    /// Give a lease back.
    Release(Release),
    /// Delete `key`.
    Delete {
        condition: Condition,
        token: u64,
        key: &'a [u8],
    },
    /// Report a page of the store's counters.
    Stat { page: u8 },
    /// The client's report of its calls, see [`crate::metrics`].
    Report(&'a [u8]),
    /// Open the index of `shard`, log and staging memory as they are at the moment. Each later request of this client
    /// for the shard is of `term`.
    Access { shard: u32, term: Term },
    /// The client has stopped reading index number `table`.
    LeaveIndex { table: u32 },
    /// Ask for the outcome of the write with `token` to a key of `shard`, which its client sent through `session`
    /// knowing no version above `since`. The server ends that session, so that the answer stays true.
    Outcome {
        shard: u32,
        token: u64,
        since: u64,
        session: u64,
    },
    /// Grant the rights to publish, or grant them again.
    Publish,
    /// Lease the memory of all shards that the client has entered to the client's reads.
    ReaderLease,
    /// Ask for the time of `shard`.
    Time { shard: u32 },
    /// Hold the present version: keep the records that later writes replace.
    Hold,
    /// The client has read this many kept records in all, and asks for the next. At the end, the client no longer holds
    /// a version.
    Kept { read: u64, ends: bool },
    /// Count the keys of `shard`.
    Count { shard: u32 },
    /// Drop the chunks that `upload` has written of the value of the key with the hash `whole`, unless a record names
    /// them.
    Abandon { upload: u64, whole: u64 },
    /// Tell of the copies of the node's shards, the first `from` left out.
    Copies { from: u32 },
}

/// The lease that a client gives back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Release {
    pub slot: u8,
}

message! {
    /// The header of every request. The key of a delete, or a report, follows.
    RequestHeader, REQUEST:
    kind: u8, "kind";
    detail: u8, "lease: 1 if the client stamps the records of the extent; release: lease slot; delete: condition (0 none, 1 version, 2 absent); ask for a report: its page, 0 to 7; kept: 1 at the end of the hold";
    reserved: [u8; 2], "zero";
    size: U32, "lease: bytes wanted; delete: bytes of the key; report: bytes of the report; leave index: its number; access, outcome, time, count: number of the shard; copies: copies that the client knows";
    token: U64, "delete, outcome: token; abandon: the upload";
    number: U64, "delete: version that the condition names; outcome: latest version that the client knew; kept: records that the client has read; access: the term in which the client takes the server for the primary of the shard, 0 without a cluster; abandon: the hash of the key in all shards together";
    session: U64, "outcome: session of the first attempt";
}

/// The kinds and their names, in the order of their numbers, from 1.
#[cfg(test)]
pub(crate) const KINDS: [&str; 16] = [
    "lease",
    "release",
    "delete",
    "ask for a report",
    "report",
    "access",
    "leave index",
    "outcome",
    "publish",
    "reader's lease",
    "time",
    "hold",
    "kept",
    "count",
    "abandon",
    "copies",
];

const _: () = assert!(size_of::<RequestHeader>() + REPORT_SIZE <= REQUEST_SIZE_MAX);

impl<'a> Request<'a> {
    pub fn encode(&self, into: &mut Vec<u8>) {
        let mut header = RequestHeader::new_zeroed();
        let mut tail: &[u8] = &[];
        match *self {
            Self::Lease { size, publishes } => {
                header.kind = 1;
                header.detail = publishes.into();
                header.size = U32::new(size);
            }
            Self::Release(release) => {
                header.kind = 2;
                header.detail = release.slot;
            }
            Self::Delete {
                condition,
                token,
                key,
            } => {
                header.kind = 3;
                (header.detail, header.number) = match condition {
                    Condition::None => (0, U64::ZERO),
                    Condition::Version(version) => (1, U64::new(version)),
                    Condition::Absent => (2, U64::ZERO),
                };
                header.token = U64::new(token);
                header.size = U32::new(key.len() as u32);
                tail = key;
            }
            Self::Stat { page } => {
                header.kind = 4;
                header.detail = page;
            }
            Self::Report(bytes) => {
                header.kind = 5;
                header.size = U32::new(bytes.len() as u32);
                tail = bytes;
            }
            Self::Access { shard, term } => {
                header.kind = 6;
                header.size = U32::new(shard);
                header.number = U64::new(term.0);
            }
            Self::LeaveIndex { table } => {
                header.kind = 7;
                header.size = U32::new(table);
            }
            Self::Outcome {
                shard,
                token,
                since,
                session,
            } => {
                header.kind = 8;
                header.size = U32::new(shard);
                header.token = U64::new(token);
                header.number = U64::new(since);
                header.session = U64::new(session);
            }
            Self::Publish => header.kind = 9,
            Self::ReaderLease => header.kind = 10,
            Self::Time { shard } => {
                header.kind = 11;
                header.size = U32::new(shard);
            }
            Self::Hold => header.kind = 12,
            Self::Kept { read, ends } => {
                header.kind = 13;
                header.detail = ends.into();
                header.number = U64::new(read);
            }
            Self::Count { shard } => {
                header.kind = 14;
                header.size = U32::new(shard);
            }
            Self::Abandon { upload, whole } => {
                header.kind = 15;
                header.token = U64::new(upload);
                header.number = U64::new(whole);
            }
            Self::Copies { from } => {
                header.kind = 16;
                header.size = U32::new(from);
            }
        }
        into.clear();
        into.extend_from_slice(header.as_bytes());
        into.extend_from_slice(tail);
    }

    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (header, tail) = RequestHeader::read_from_prefix(bytes).ok()?;
        match header.kind {
            1 if tail.is_empty() && header.detail <= 1 => Some(Self::Lease {
                size: header.size.get(),
                publishes: header.detail == 1,
            }),
            2 if tail.is_empty() => Some(Self::Release(Release {
                slot: header.detail,
            })),
            3 if tail.len() == header.size.get() as usize => {
                let condition = match header.detail {
                    0 => Condition::None,
                    1 => Condition::Version(header.number.get()),
                    2 => Condition::Absent,
                    _ => return None,
                };
                Some(Self::Delete {
                    condition,
                    token: header.token.get(),
                    key: tail,
                })
            }
            4 if tail.is_empty() && header.detail < PAGES => Some(Self::Stat {
                page: header.detail,
            }),
            5 if tail.len() == header.size.get() as usize => Some(Self::Report(tail)),
            6 if tail.is_empty() => Some(Self::Access {
                shard: header.size.get(),
                term: Epoch(header.number.get()),
            }),
            7 if tail.is_empty() => Some(Self::LeaveIndex {
                table: header.size.get(),
            }),
            8 if tail.is_empty() => Some(Self::Outcome {
                shard: header.size.get(),
                token: header.token.get(),
                since: header.number.get(),
                session: header.session.get(),
            }),
            9 if tail.is_empty() => Some(Self::Publish),
            10 if tail.is_empty() => Some(Self::ReaderLease),
            11 if tail.is_empty() => Some(Self::Time {
                shard: header.size.get(),
            }),
            12 if tail.is_empty() => Some(Self::Hold),
            13 if tail.is_empty() && header.detail <= 1 => Some(Self::Kept {
                read: header.number.get(),
                ends: header.detail == 1,
            }),
            14 if tail.is_empty() => Some(Self::Count {
                shard: header.size.get(),
            }),
            15 if tail.is_empty() => Some(Self::Abandon {
                upload: header.token.get(),
                whole: header.number.get(),
            }),
            16 if tail.is_empty() => Some(Self::Copies {
                from: header.size.get(),
            }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_survives_the_wire_under_the_number_of_its_kind() {
        let mut bytes = Vec::new();
        for (kind, request) in [
            (
                1,
                Request::Lease {
                    size: 77,
                    publishes: false,
                },
            ),
            (
                1,
                Request::Lease {
                    size: 77,
                    publishes: true,
                },
            ),
            (9, Request::Publish),
            (10, Request::ReaderLease),
            (11, Request::Time { shard: 3 }),
            (14, Request::Count { shard: 3 }),
            (16, Request::Copies { from: 14 }),
            (
                15,
                Request::Abandon {
                    upload: 5,
                    whole: 6,
                },
            ),
            (12, Request::Hold),
            (
                13,
                Request::Kept {
                    read: 5,
                    ends: true,
                },
            ),
            (2, Request::Release(Release { slot: 3 })),
            (
                3,
                Request::Delete {
                    condition: Condition::Version(9),
                    token: 4,
                    key: b"k",
                },
            ),
            (
                3,
                Request::Delete {
                    condition: Condition::None,
                    token: 0,
                    key: &[7; 1024],
                },
            ),
            (
                3,
                Request::Delete {
                    condition: Condition::Absent,
                    token: 0,
                    key: b"k",
                },
            ),
            (4, Request::Stat { page: 3 }),
            (5, Request::Report(&[7; REPORT_SIZE])),
            (
                6,
                Request::Access {
                    shard: 6,
                    term: Epoch(7),
                },
            ),
            (7, Request::LeaveIndex { table: 5 }),
            (
                8,
                Request::Outcome {
                    shard: 4,
                    token: 1,
                    since: 2,
                    session: 3,
                },
            ),
        ] {
            request.encode(&mut bytes);
            assert!(bytes[0] == kind && usize::from(kind) <= KINDS.len());
            assert_eq!(Request::parse(&bytes), Some(request));
            assert_eq!(
                Request::parse(&bytes[..bytes.len() - 1]),
                None,
                "a truncated request is not a request"
            );
        }
    }
}
