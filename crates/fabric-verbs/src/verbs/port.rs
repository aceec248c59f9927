//! The port that connections use: its MTU, and the address at which peers reach it.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use rdma_mummy_sys as ibv;
use stonecast_fabric::DeviceError;

use super::context::Context;
use super::zeroed::AllZero;
use super::{cause, outcome};
use crate::path::{Gid, Transport};

/// A port and its address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Port {
    /// The number of the port, from 1.
    pub number: u8,
    /// Local identifier; 0 on Ethernet.
    pub lid: u16,
    /// The global identifier.
    pub gid: Gid,
    /// The index of the GID in the port's table.
    pub gid_index: u8,
    /// Code of the largest MTU that its link carries.
    pub mtu: u8,
    /// Longest message in bytes.
    pub message_size_max: u32,
    /// The kind of the link.
    pub transport: Transport,
}

/// Time that a fresh interface may take until its address shows as a GID.
const ADDRESS_PATIENCE: Duration = Duration::from_secs(3);
/// The link layer of Ethernet, as ports report it.
const LINK_ETHERNET: u8 = 2;
/// Entries of a GID table that are examined.
const GIDS_MAX: u8 = 128;

impl Port {
    /// Port `number` of `context`, with the GID at `index`, or the best one.
    pub fn of(context: &Context, number: u8, index: Option<u8>) -> Result<Self, DeviceError> {
        let deadline = Instant::now() + ADDRESS_PATIENCE;
        loop {
            let attributes = query(context, number)?;
            let transport = if attributes.link_layer == LINK_ETHERNET {
                Transport::Roce
            } else {
                Transport::InfiniBand
            };
            let count = u8::try_from(attributes.gid_tbl_len)
                .unwrap_or(u8::MAX)
                .min(GIDS_MAX);
            let found = match index {
                Some(index) => gid_at(context, number, index).map(|gid| (index, gid)),
                None => best_gid(context, number, count, transport),
            };
            if let Some((gid_index, gid)) = found {
                return Ok(Self {
                    number,
                    lid: attributes.lid,
                    gid,
                    gid_index,
                    mtu: u8::try_from(attributes.active_mtu).unwrap_or(1),
                    message_size_max: attributes.max_msg_sz,
                    transport,
                });
            }
            if Instant::now() >= deadline {
                let reason = match index {
                    Some(index) => cause::no_such_address(context.name(), number, index),
                    None => cause::no_address(context.name(), number),
                };
                return Err(DeviceError::Address {
                    address: format!("{}/{number}", context.name()),
                    reason,
                });
            }
            thread::sleep(Duration::from_millis(50));
        }
    }
}

fn query(context: &Context, number: u8) -> Result<ibv::ibv_port_attr, DeviceError> {
    let mut attributes = ibv::ibv_port_attr::zeroed();
    // SAFETY: the context is open; `attributes` is writable and of the size that the call assumes.
    let code = unsafe { ibv::ibv_query_port(context.raw(), number, &mut attributes) };
    outcome(code).map_err(|source| DeviceError::System {
        doing: "asking a port of the RDMA device for its state",
        source,
    })?;
    Ok(attributes)
}

/// The GID at `index`, unless the entry is empty.
fn gid_at(context: &Context, number: u8, index: u8) -> Option<Gid> {
    let mut gid = ibv::ibv_gid::zeroed();
    // SAFETY: the context is open; `gid` is writable.
    let code = unsafe { ibv::ibv_query_gid(context.raw(), number, index.into(), &mut gid) };
    // SAFETY: every bit pattern of the union is 16 bytes.
    let raw = unsafe { gid.raw };
    (code == 0 && raw != [0; 16]).then_some(Gid(raw))
}

/// The GID that most peers reach: on Ethernet RoCE v2, routable before link-local, IPv4 before IPv6.
fn best_gid(context: &Context, number: u8, count: u8, transport: Transport) -> Option<(u8, Gid)> {
    let gids = (0..count).filter_map(|index| Some((index, gid_at(context, number, index)?)));
    if transport == Transport::InfiniBand {
        return gids.into_iter().next();
    }
    let rated = gids.map(|(index, gid)| {
        (
            rate(gid, is_routable_type(context, number, index)),
            index,
            gid,
        )
    });
    rated
        .max_by_key(|(rating, index, _)| (*rating, u8::MAX - index))
        .filter(|(rating, ..)| *rating > 0)
        .map(|(_, index, gid)| (index, gid))
}

/// Whether the entry speaks RoCE v2; version 1 crosses no router, and many switches drop it.
fn is_routable_type(context: &Context, number: u8, index: u8) -> bool {
    let path = format!(
        "/sys/class/infiniband/{}/ports/{number}/gid_attrs/types/{index}",
        context.name()
    );
    fs::read_to_string(path).is_ok_and(|text| text.contains("v2"))
}

/// The rating of a GID: greater is better; 0 is unusable.
fn rate(gid: Gid, routable_type: bool) -> u32 {
    if !routable_type {
        return 0;
    }
    match gid.0 {
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, ..] => 3,
        [0xfe, 0x80, ..] => 1,
        _ => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv4_address_is_preferred_and_the_old_encapsulation_is_never_used() {
        let of = |text: &str| Gid(text.parse::<std::net::Ipv6Addr>().expect(text).octets());
        let ratings: Vec<_> = ["fe80::1", "2001:db8::1", "::ffff:192.0.2.7"]
            .map(|text| rate(of(text), true))
            .into();
        assert!(
            ratings.is_sorted_by(|worse, better| worse < better),
            "{ratings:?}"
        );
        assert_eq!(rate(of("::ffff:192.0.2.7"), false), 0);
    }
}
