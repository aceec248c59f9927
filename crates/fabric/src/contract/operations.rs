//! Short constructors of operations between the buffers of two ends.

use super::End;
use crate::{FlushPlacement, LocalSpan, Operation, RemoteAddress};

/// WRITE of `size` bytes from offset `from` of `source` to offset `to` of `target`.
pub fn write(source: &End, from: u64, size: u32, target: &End, to: u64) -> Operation {
    Operation::Write {
        local: source.local(from, size),
        remote: target.remote(to),
    }
}

/// WRITE_WITH_IMM of `size` bytes from offset `from` of `source` to offset `to` of `target`.
pub fn write_immediate(
    source: &End,
    from: u64,
    size: u32,
    target: &End,
    to: u64,
    immediate: u32,
) -> Operation {
    Operation::WriteWithImmediate {
        local: source.local(from, size),
        remote: target.remote(to),
        immediate,
    }
}

/// SEND of `size` bytes from offset `from` of `source`.
pub fn send(source: &End, from: u64, size: u32) -> Operation {
    Operation::Send {
        local: source.local(from, size),
    }
}

/// READ of `size` bytes from offset `from` of `target` to offset `to` of `reader`.
pub fn read(reader: &End, to: u64, size: u32, target: &End, from: u64) -> Operation {
    Operation::Read {
        local: reader.local(to, size),
        remote: target.remote(from),
    }
}

/// CAS of the word at `remote`; the word found goes to `found`.
pub fn compare_and_swap(
    found: LocalSpan,
    remote: RemoteAddress,
    expected: u64,
    swap: u64,
) -> Operation {
    Operation::CompareAndSwap {
        local: found,
        remote,
        expected,
        swap,
    }
}

/// FAA of the word at `remote`; the word found goes to `found`.
pub fn fetch_and_add(found: LocalSpan, remote: RemoteAddress, add: u64) -> Operation {
    Operation::FetchAndAdd {
        local: found,
        remote,
        add,
    }
}

/// FLUSH of `size` bytes with global visibility.
pub fn flush_global(remote: RemoteAddress, size: u64) -> Operation {
    Operation::Flush {
        remote,
        size,
        placement: FlushPlacement::Global,
    }
}

/// FLUSH of `size` bytes with persistence.
pub fn flush_persistent(remote: RemoteAddress, size: u64) -> Operation {
    Operation::Flush {
        remote,
        size,
        placement: FlushPlacement::Persistent,
    }
}
