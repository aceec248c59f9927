//! The facts that two queue pairs must know of each other to connect.

use std::fmt;
use std::net::Ipv6Addr;

/// A global identifier: an IPv6 address, or an IPv4 address mapped to one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Gid(pub [u8; 16]);

impl fmt::Display for Gid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", Ipv6Addr::from(self.0))
    }
}

impl fmt::Debug for Gid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{self}")
    }
}

/// The transport of the packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Packets of InfiniBand, addressed within its subnet.
    InfiniBand,
    /// RDMA over converged Ethernet, version 2.
    Roce,
}

/// One side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Queue pair number.
    pub queue_pair: u32,
    /// Sequence number of its first packet, 24 bits, unpredictable.
    pub first_packet: u32,
    /// Local identifier; 0 on Ethernet.
    pub lid: u16,
    /// Global identifier.
    pub gid: Gid,
    /// Code of the largest MTU: 1 is 256 bytes, and each further code doubles the size.
    pub mtu: u8,
    /// READs and atomics that it accepts concurrently, at least 1.
    pub reads_in: u8,
    /// READs and atomics that it would like to have outstanding, at least 1.
    pub reads_out: u8,
    /// Outstanding work requests.
    pub send_capacity: u32,
    /// Number of retries of its sends while there is no receive buffer.
    pub rnr_retry_count: u32,
    /// Pause before each of these retries, in nanoseconds.
    pub rnr_retry_delay_ns: u64,
}
