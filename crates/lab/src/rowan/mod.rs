//! Appends of many senders to one machine with persistent memory, beside WRITEs into a log for each: the primitive of Rowan's
//! evaluation, on its machines, in virtual time.
//!
//! ```text
//!   load.rs   senders and receiver in a world -> Outcome      page.rs   table and page of the documents
//! ```

mod load;
mod page;

use serde::Serialize;
use stonecast_fabric_sim::MachineProfile;
use stonecast_media::MediaError;

pub use load::{Design, Load, Outcome, measure};
pub use page::{page, table};

/// The name of the figure.
pub const ROWAN: &str = "rowan-appends";
/// The machines of the figure.
const MACHINES: &str = "connectx5-rowan";
/// The number of threads that send, as in the paper.
pub const SENDERS: u32 = 144;
/// The numbers of senders of the points.
const SENDERS_OF_POINTS: [u32; 3] = [18, 72, SENDERS];
/// Bytes of records.
const SIZES: [u32; 3] = [64, 128, 256];

/// A point of the figure. The field names are an interface: scripts read them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// `append`, `write` or `write-in-turns`.
    pub design: &'static str,
    /// The number of threads that send.
    pub senders: u32,
    /// Bytes of a record.
    pub size: u32,
    /// Million records persisted a second.
    pub million_a_second: f64,
    /// The bytes that the medium wrote for each byte that reached the medium.
    pub write_amplification: f64,
}

/// Measures every point.
pub fn rows() -> Result<Vec<Row>, MediaError> {
    let profile = MachineProfile::by_name(MACHINES).expect("a profile");
    let designs = [
        ("append", Design::Append),
        ("write", Design::Write),
        ("write-in-turns", Design::WriteInTurns),
    ];
    let mut rows = Vec::new();
    for senders in SENDERS_OF_POINTS {
        for size in SIZES {
            for (name, design) in designs {
                let load = Load {
                    design,
                    senders,
                    size,
                };
                let outcome = measure(profile, &load)?;
                rows.push(Row {
                    design: name,
                    senders,
                    size,
                    million_a_second: rounded(outcome.million_a_second()),
                    write_amplification: rounded(outcome.write_amplification()),
                });
            }
        }
    }
    Ok(rows)
}

/// Rounds to two digits behind the point.
fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}
