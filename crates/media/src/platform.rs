//! The operator's declaration of a pool's platform, made at creation and kept in the header.

use std::fmt;
use std::str::FromStr;

/// A word that names none of the choices.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown {what} {found:?}; use {allowed}")]
pub struct UnknownName {
    /// The subject of the choice ("durability").
    pub what: &'static str,
    /// The word.
    pub found: String,
    /// The known words, as a list for people.
    pub allowed: &'static str,
}

/// Gives an enum its words for the command line and JSON, and its codes for the header, from one table.
macro_rules! named {
    ($type:ident, $what:literal, $allowed:literal, $($variant:ident = $code:literal, $name:literal;)+) => {
        impl $type {
            /// All choices, in the order of their codes.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// The byte that stands for this choice in the pool header.
            pub(crate) const fn code(self) -> u8 {
                match self {
                    $(Self::$variant => $code,)+
                }
            }

            /// The choice for which a byte of the pool header stands.
            pub(crate) fn from_code(code: u8) -> Option<Self> {
                Self::ALL.iter().copied().find(|choice| choice.code() == code)
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.pad(match self {
                    $(Self::$variant => $name,)+
                })
            }
        }

        impl FromStr for $type {
            type Err = UnknownName;

            fn from_str(name: &str) -> Result<Self, UnknownName> {
                match name {
                    $($name => Ok(Self::$variant),)+
                    _ => Err(UnknownName { what: $what, found: name.to_owned(), allowed: $allowed }),
                }
            }
        }
    };
}

/// The crashes that a store promises to survive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The death of every process, at any instruction. Not power loss.
    Process,
    /// Power loss too.
    Power,
}

named! { Durability, "durability", "process or power",
    Process = 0, "process";
    Power = 1, "power";
}

/// The part of a machine in which stored bytes survive a power cut (remote persistence taxonomy, section 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PersistenceDomain {
    /// Nothing survives: DRAM without a battery.
    Volatile,
    /// An ordinary file: whole pages, by `fdatasync`.
    PageFile,
    /// The memory controller and the DIMM: cache lines must be written back.
    Dmp,
    /// The memory hierarchy: CPU caches too (eADR).
    Mhp,
    /// The whole system, by battery.
    Wsp,
}

named! { PersistenceDomain, "persistence domain", "volatile, page-file, dmp, mhp or wsp",
    Volatile = 0, "volatile";
    PageFile = 1, "page-file";
    Dmp = 2, "dmp";
    Mhp = 3, "mhp";
    Wsp = 4, "wsp";
}

/// The place where inbound network writes land first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ddio {
    /// The last-level cache. Also the cautious choice if the state is unknown.
    On,
    /// The memory controller.
    Off,
}

named! { Ddio, "DDIO state", "on or off",
    On = 0, "on";
    Off = 1, "off";
}

/// The memory that holds receive buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReceiveBuffers {
    /// Volatile memory.
    Dram,
    /// Persistent memory.
    Pm,
}

named! { ReceiveBuffers, "place of receive buffers", "dram or pm",
    Dram = 0, "dram";
    Pm = 1, "pm";
}

/// The declared platform of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeclaredPlatform {
    /// The part of the machine in which bytes survive a power cut.
    pub persistence_domain: PersistenceDomain,
    /// The place where inbound writes land first.
    pub ddio: Ddio,
    /// The memory that holds receive buffers.
    pub receive_buffers: ReceiveBuffers,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip<T: Copy + fmt::Display + FromStr<Err = UnknownName> + PartialEq + fmt::Debug>(
        all: &[T],
    ) -> Vec<String> {
        all.iter()
            .map(|choice| {
                assert_eq!(choice.to_string().parse::<T>().as_ref(), Ok(choice));
                choice.to_string()
            })
            .collect()
    }

    #[test]
    fn every_choice_has_a_word_that_is_read_back() {
        assert_eq!(round_trip(Durability::ALL), ["process", "power"]);
        assert_eq!(
            round_trip(PersistenceDomain::ALL),
            ["volatile", "page-file", "dmp", "mhp", "wsp"]
        );
        assert_eq!(round_trip(Ddio::ALL), ["on", "off"]);
        assert_eq!(round_trip(ReceiveBuffers::ALL), ["dram", "pm"]);
    }

    #[test]
    fn every_choice_has_a_code_and_no_other_code_is_valid() {
        for (code, domain) in PersistenceDomain::ALL.iter().enumerate() {
            assert_eq!(PersistenceDomain::from_code(code as u8), Some(*domain));
        }
        assert_eq!(PersistenceDomain::from_code(5), None);
        assert_eq!(Durability::from_code(2), None);
    }

    #[test]
    fn an_unknown_word_is_refused_with_the_list_of_known_words() {
        let refused = "eadr".parse::<PersistenceDomain>().unwrap_err().to_string();
        assert_eq!(
            refused,
            "unknown persistence domain \"eadr\"; use volatile, page-file, dmp, mhp or wsp"
        );
    }
}
