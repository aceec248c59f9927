//! Hardware as data: the durations of each part of a machine, each number with its source.
//!
//! The numbers belong to components (a NIC, a link, a memory chip) and come from their makers or from measurements of
//! that component alone. No number is chosen to make a store reach a published result.

mod connectx3_asymnvm;
mod connectx3_erda;
mod connectx4_taxonomy;
mod connectx5_rowan;
mod modern;
mod sources;

use std::fmt::Write as _;

/// One number of a profile, as the documentation shows it.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    /// The field of [`MachineProfile`].
    pub name: &'static str,
    /// The unit.
    pub unit: &'static str,
    /// The meaning of the number.
    pub meaning: &'static str,
    /// The number.
    pub value: u64,
    /// The source.
    pub source: &'static str,
}

macro_rules! profile {
    ($($(#[doc = $meaning:literal])+ $name:ident: $unit:literal,)+) => {
        /// A kind of machine with its network: the duration of each part.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct MachineProfile {
            /// The name on the command line.
            pub name: &'static str,
            /// The machines that it stands for.
            pub summary: &'static str,
            $($(#[doc = $meaning])+ pub $name: u64,)+
            sources: Sources,
        }

        /// The source of each number of a profile.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        struct Sources {
            $($name: &'static str,)+
        }

        /// A profile in its written form: each number beside its source.
        struct Sheet {
            name: &'static str,
            summary: &'static str,
            $($name: (u64, &'static str),)+
        }

        impl Sheet {
            const fn profile(self) -> MachineProfile {
                MachineProfile {
                    name: self.name,
                    summary: self.summary,
                    $($name: self.$name.0,)+
                    sources: Sources { $($name: self.$name.1,)+ },
                }
            }
        }

        impl MachineProfile {
            /// Every number with its source, in the order of the path of a message.
            pub fn figures(&self) -> Vec<Figure> {
                vec![$(Figure {
                    name: stringify!($name),
                    unit: $unit,
                    meaning: concat!($($meaning),+).trim_ascii(),
                    value: self.$name,
                    source: self.sources.$name,
                },)+]
            }
        }
    };
}

profile! {
    /// To post a batch: building the descriptor and the store to the doorbell.
    cpu_post_ns: "ns",
    /// To build each work request of a batch.
    cpu_work_request_ns: "ns",
    /// To look at a completion queue that holds something.
    cpu_poll_ns: "ns",
    /// To take each completion.
    cpu_completion_ns: "ns",
    /// To resume a task.
    cpu_task_ns: "ns",
    /// From a completion in memory until the polling core sees it.
    cpu_notice_ns: "ns",
    /// To access a line in the core's first-level cache.
    cpu_hit_ps: "ps",
    /// To access each further line of a run that the hardware fetches ahead.
    cpu_stream_ps: "ps",
    /// To start the write-back of a cache line.
    cpu_write_back_ns: "ns",
    /// A store fence with nothing to wait for.
    cpu_fence_ns: "ns",
    /// From the store to the doorbell until the NIC has the descriptor.
    nic_doorbell_ns: "ns",
    /// Time that a message occupies a NIC, in each direction: the inverse of the message rate.
    nic_message_ps: "ps",
    /// Time that a read-modify-write occupies the NIC that executes it, one after the other.
    nic_atomic_ps: "ps",
    /// To process a message in each NIC that it passes, beside what occupies the NIC.
    nic_processing_ns: "ns",
    /// Time that each byte occupies the link.
    nic_byte_ps: "ps",
    /// Largest packet payload.
    nic_mtu_bytes: "bytes",
    /// Longest payload that travels inside the descriptor and is not fetched from memory.
    nic_inline_bytes: "bytes",
    /// READs, atomics and FLUSHes of a queue pair that may be outstanding.
    nic_non_posted_max: "requests",
    /// Until a silent peer is taken for dead: the retransmission time-out times the retries.
    nic_give_up_ns: "ns",
    /// One way through cables and one switch.
    wire_ns: "ns",
    /// A NIC fetches from host memory: there and back.
    pcie_read_ns: "ns",
    /// A NIC's write is visible in host memory.
    pcie_write_ns: "ns",
    /// Time that each byte occupies the PCIe link.
    pcie_byte_ps: "ps",
    /// One way of a message of the connection manager.
    cm_message_ns: "ns",
    /// A core reads a line of DRAM.
    dram_read_ns: "ns",
    /// A core reads a line of the persistent medium.
    media_read_ns: "ns",
    /// The persistent medium accepts a line: from write-back until the memory controller has it.
    media_write_ns: "ns",
    /// Time that each byte read occupies the medium, all DIMMs of a machine together.
    media_read_byte_ps: "ps",
    /// Time that each byte written occupies the medium, all DIMMs of a machine together.
    media_write_byte_ps: "ps",
    /// Bytes that the medium writes at a time.
    media_block_bytes: "bytes",
    /// Write-combining buffer of the medium.
    media_buffer_bytes: "bytes",
    /// `fdatasync` of one page of a page-granular file.
    file_sync_ns: "ns",
    /// Each further byte of it.
    file_sync_byte_ps: "ps",
}

impl MachineProfile {
    /// All profiles.
    pub const ALL: [Self; 5] = [
        connectx3_erda::PROFILE,
        connectx3_asymnvm::PROFILE,
        connectx4_taxonomy::PROFILE,
        connectx5_rowan::PROFILE,
        modern::PROFILE,
    ];

    /// The present-day profile.
    pub const MODERN: Self = modern::PROFILE;

    /// The profile called `name`.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|profile| profile.name == name)
    }

    /// The tables of `docs/simulator.md`: the machines, their numbers side by side, and the source of each number.
    pub fn tables() -> String {
        let mut text = String::from("| machines | |\n| --- | --- |\n");
        for profile in Self::ALL {
            line(
                &mut text,
                format_args!("| `{}` | {} |", profile.name, profile.summary),
            );
        }
        let names: Vec<String> = Self::ALL
            .iter()
            .map(|profile| format!("`{}`", profile.name))
            .collect();
        line(
            &mut text,
            format_args!("\n| number | unit | {} | meaning |", names.join(" | ")),
        );
        line(
            &mut text,
            format_args!("| --- | --- |{} --- |", " ---: |".repeat(names.len())),
        );
        let columns: Vec<Vec<Figure>> = Self::ALL.iter().map(Self::figures).collect();
        for (row, figure) in columns[0].iter().enumerate() {
            let values: Vec<String> = columns
                .iter()
                .map(|column| column[row].value.to_string())
                .collect();
            line(
                &mut text,
                format_args!(
                    "| `{}` | {} | {} | {} |",
                    figure.name,
                    figure.unit,
                    values.join(" | "),
                    figure.meaning
                ),
            );
        }
        text.push_str("\n| number | of | source |\n| --- | --- | --- |\n");
        for row in 0..columns[0].len() {
            let mut sources: Vec<&str> = columns.iter().map(|column| column[row].source).collect();
            sources.sort_unstable();
            sources.dedup();
            for source in sources {
                let of: Vec<&str> = Self::ALL
                    .iter()
                    .zip(&columns)
                    .filter(|(_, column)| column[row].source == source)
                    .map(|(of, _)| of.name)
                    .collect();
                let of = if of.len() == Self::ALL.len() {
                    "all".to_owned()
                } else {
                    of.join(", ")
                };
                line(
                    &mut text,
                    format_args!("| `{}` | {of} | {source} |", columns[0][row].name),
                );
            }
        }
        text
    }
}

fn line(text: &mut String, content: std::fmt::Arguments<'_>) {
    writeln!(text, "{content}").expect("writing to a String cannot fail");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_has_a_name_of_its_own_and_a_source_for_each_number() {
        for profile in MachineProfile::ALL {
            assert_eq!(MachineProfile::by_name(profile.name), Some(profile));
            for figure in profile.figures() {
                assert!(
                    !figure.source.is_empty() && !figure.meaning.is_empty(),
                    "{}: {}",
                    profile.name,
                    figure.name
                );
            }
        }
        assert_eq!(MachineProfile::by_name("abacus"), None);
    }
}
