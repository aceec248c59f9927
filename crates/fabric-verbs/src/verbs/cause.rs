//! The meaning of system refusals, and their remedies.

use std::io;

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

/// The reason why no device can be opened.
pub(crate) fn no_library(error: &io::Error) -> String {
    format!(
        "libibverbs cannot be used ({error}): install it (Debian: apt install libibverbs1 ibverbs-providers) and load the \
         kernel's side (modprobe ib_uverbs)"
    )
}

/// The reason why no device was found.
pub(crate) const NO_DEVICE: &str = "this machine has no RDMA device: load the driver of its network card (modprobe mlx5_ib, \
     irdma, bnxt_re, ...), or make a soft-RoCE device on an ordinary one (modprobe rdma_rxe; rdma link add rxe0 type rxe \
     netdev eth0)";

/// The reason why the requested device does not exist.
pub(crate) fn no_such_device(wanted: &str, present: &[String]) -> String {
    format!(
        "there is no RDMA device {wanted}; there are: {}",
        present.join(", ")
    )
}

/// The reason why an existing device cannot be opened.
pub(crate) fn cannot_open(name: &str, error: &io::Error) -> String {
    let cure = match Errno::from_io_error(error) {
        Some(Errno::ACCESS | Errno::PERM) => {
            ": /dev/infiniband/uverbs* must be readable and writable for this user"
        }
        Some(Errno::NOENT | Errno::NOSYS | Errno::NODEV) => {
            ": the kernel has no ib_uverbs (modprobe ib_uverbs)"
        }
        _ => "",
    };
    format!("cannot open RDMA device {name} ({error}){cure}")
}

/// The reason why a port has no address that others can reach.
pub(crate) fn no_address(device: &str, port: u8) -> String {
    format!(
        "port {port} of {device} has no usable GID: its network interface needs an IP address (ip addr add), and a moment \
         until the GID shows in /sys/class/infiniband/{device}/ports/{port}/gids"
    )
}

/// The reason why a GID index cannot be used.
pub(crate) fn no_such_address(device: &str, port: u8, index: u8) -> String {
    format!(
        "GID index {index} of port {port} of {device} is empty; choose one that is not all zeros in \
         /sys/class/infiniband/{device}/ports/{port}/gids, or none, so that the best one is chosen"
    )
}

/// The parameters of a registration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WantedRegion {
    /// Size in bytes.
    pub size: u64,
    /// Whether the NIC may write them.
    pub writable: bool,
    /// Whether FLUSH with persistence is granted.
    pub flush_persistent: bool,
}

/// Whether a registration for writing was refused because the memory is a mapping of an ordinary file.
pub(crate) fn is_file(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::FAULT)
}

/// The reason why memory cannot be registered.
pub(crate) fn registration(error: &io::Error, wanted: WantedRegion) -> String {
    let WantedRegion {
        size,
        writable,
        flush_persistent,
    } = wanted;
    match Errno::from_io_error(error) {
        Some(Errno::OPNOTSUPP) => format!(
            "{size} bytes cannot be pinned: they lie on a file system that maps persistent memory directly (fsdax), whose \
             pages the kernel never pins; give the memory as a device instead (ndctl create-namespace --mode=devdax)"
        ),
        Some(Errno::FAULT) if writable => format!(
            "{size} bytes cannot be pinned for writing: they are a shared mapping of an ordinary file, whose pages the \
             kernel writes back behind the NIC; use devdax, hugetlbfs, tmpfs or memfd memory for what peers write"
        ),
        Some(Errno::FAULT) => {
            format!("{size} bytes cannot be pinned: the mapping is not readable to its end")
        }
        Some(Errno::NOMEM | Errno::AGAIN | Errno::PERM) => format!(
            "{size} bytes cannot be pinned ({error}): the limit of locked memory is {}; raise it (ulimit -l unlimited, or \
             LimitMEMLOCK=infinity in the service), or free memory",
            locked_memory_limit()
        ),
        Some(Errno::INVAL) if flush_persistent => format!(
            "{size} bytes are not persistent memory, so the device grants no FLUSH with persistence on them: it needs memory \
             of an NVDIMM or CXL device (ndctl list), not ordinary memory and not memory set aside by memmap="
        ),
        _ => format!("{size} bytes cannot be registered: {error}"),
    }
}

/// The reason why a queue pair cannot be connected to its peer.
pub(crate) fn connection(error: &io::Error, gid_index: u8, gid: &str) -> String {
    match Errno::from_io_error(error) {
        Some(Errno::TIMEDOUT | Errno::NETUNREACH | Errno::HOSTUNREACH | Errno::ADDRNOTAVAIL) => {
            format!(
                "it cannot be reached from GID index {gid_index} ({gid}): {error}; both sides need addresses of the same kind in \
             networks that reach each other (ip route get), or choose another GID index"
            )
        }
        Some(Errno::INVAL) => format!(
            "the device does not take it together with GID index {gid_index} ({gid}): both sides need GIDs of the same kind \
             (RoCE v2, both IPv4 or both IPv6); choose another GID index"
        ),
        _ => format!(
            "the queue pair cannot be connected from GID index {gid_index} ({gid}): {error}"
        ),
    }
}

fn locked_memory_limit() -> String {
    getrlimit(Resource::Memlock)
        .current
        .map_or_else(|| "not set".into(), |bytes| format!("{bytes} bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_of_memory_names_its_cause_and_remedy() {
        let wanted = WantedRegion {
            size: 4096,
            writable: true,
            flush_persistent: false,
        };
        for (errno, wanted, words) in [
            (Errno::OPNOTSUPP, wanted, ["fsdax", "devdax"]),
            (Errno::FAULT, wanted, ["ordinary file", "hugetlbfs"]),
            (Errno::NOMEM, wanted, ["locked memory", "ulimit -l"]),
            (
                Errno::INVAL,
                WantedRegion {
                    flush_persistent: true,
                    ..wanted
                },
                ["not persistent memory", "ndctl"],
            ),
        ] {
            let text = registration(&errno.into(), wanted);
            assert!(
                words.iter().all(|word| text.contains(word)),
                "{errno:?}: {text}"
            );
        }
    }

    #[test]
    fn a_missing_device_is_reported_with_the_ways_to_get_one() {
        assert!(NO_DEVICE.contains("modprobe") && NO_DEVICE.contains("rdma link add"));
        assert!(no_such_device("mlx5_7", &["rxe0".into()]).contains("rxe0"));
        assert!(cannot_open("rxe0", &Errno::ACCESS.into()).contains("/dev/infiniband"));
    }
}
