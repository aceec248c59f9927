//! The statistics of a server.

use pyo3::prelude::*;

macro_rules! stat {
    ($($name:ident: $type:ty),+ $(,)?) => {
        /// The statistics of a server; the documentation of the library explains each of them.
        #[pyclass(frozen, get_all, module = "stonecast")]
        pub struct Stat {
            $($name: $type,)+
        }

        impl From<stonecast::Stat> for Stat {
            fn from(stat: stonecast::Stat) -> Self {
                Self { $($name: stat.$name,)+ }
            }
        }

        #[pymethods]
        impl Stat {
            fn __repr__(&self) -> String {
                let fields = [$(format!("{}={}", stringify!($name), self.$name)),+];
                format!("Stat({})", fields.join(", "))
            }
        }
    };
}

stat! {
    keys: u64,
    index_capacity: u64,
    live_bytes: u64,
    used_bytes: u64,
    capacity_bytes: u64,
    clients: u64,
    opening: u64,
    sequence: u64,
    puts: u64,
    deletes: u64,
    refused: u64,
    batches: u64,
    persists: u64,
    segment_size: u64,
    power: bool,
    process: u64,
    index_bytes: u64,
    index_growths: u64,
}
