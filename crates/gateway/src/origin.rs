//! The origin of a connection, for limits on each address.

use std::net::{IpAddr, Ipv6Addr};

/// A host, or a network that is usually given to one customer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Origin(IpAddr);

/// The bits of an IPv6 address that name the network: a host may take any address in its network.
const NETWORK_BITS: u32 = 64;

impl Origin {
    /// The origin of a peer: an IPv4 address, or the first 64 bits of an IPv6 address.
    pub fn of(peer: IpAddr) -> Self {
        Self(match peer.to_canonical() {
            IpAddr::V4(address) => IpAddr::V4(address),
            IpAddr::V6(address) => {
                let network = address.to_bits() & (u128::MAX << NETWORK_BITS);
                IpAddr::V6(Ipv6Addr::from_bits(network))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_addresses_of_one_host_are_one_origin() {
        let origin = |text: &str| Origin::of(text.parse().unwrap());
        assert_eq!(origin("2001:db8::1"), origin("2001:db8::ffff:1"));
        assert_ne!(origin("2001:db8:0:1::1"), origin("2001:db8:0:2::1"));
        assert_eq!(origin("::ffff:10.0.0.1"), origin("10.0.0.1"));
        assert_ne!(origin("10.0.0.1"), origin("10.0.0.2"));
    }
}
