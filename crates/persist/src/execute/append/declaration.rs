//! The part of a receiver's description that decides about the plan.
//!
//! ```text
//!   0 u32 platform, see `platform_code.rs`    4 u32 durability: 0 power, 1 process    8 u64 fingerprint of the plan's steps
//! ```

use stonecast_media::Durability;

use super::agreement::NoAgreement;
use crate::execute::platform_code::{decode, platform_code, words};
use crate::platform::Platform;

/// Bytes of a declaration.
pub(super) const DECLARATION_SIZE: usize = 16;

/// The platform of a receiver, and the failure that entries have to outlive there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReceiverDeclaration {
    pub platform: Platform,
    pub durability: Durability,
    pub fingerprint: u64,
}

impl ReceiverDeclaration {
    pub fn say(&self) -> [u8; DECLARATION_SIZE] {
        let mut said = [0; DECLARATION_SIZE];
        let durability: u32 = match self.durability {
            Durability::Power => 0,
            Durability::Process => 1,
        };
        said[..4].copy_from_slice(&platform_code(Some(&self.platform)).code.to_le_bytes());
        said[4..8].copy_from_slice(&durability.to_le_bytes());
        said[8..].copy_from_slice(&self.fingerprint.to_le_bytes());
        said
    }

    /// The declaration in `said`, whose entries have to outlive the failure `wanted`.
    pub fn hear(said: &[u8; DECLARATION_SIZE], wanted: Durability) -> Result<Self, NoAgreement> {
        let short = |at: usize| u32::from_le_bytes(*said[at..].first_chunk().expect("in bounds"));
        let meaningless = |what| NoAgreement::Meaningless { what };
        let platform =
            decode(short(0)).ok_or_else(|| meaningless(format!("platform {}", words(short(0)))))?;
        let durability = match short(4) {
            0 => Durability::Power,
            1 => Durability::Process,
            other => return Err(meaningless(format!("durability {other}"))),
        };
        if (wanted, durability) == (Durability::Power, Durability::Process) {
            return Err(NoAgreement::TooWeak);
        }
        let fingerprint = u64::from_le_bytes(*said[8..].first_chunk().expect("in bounds"));
        Ok(Self {
            platform,
            durability,
            fingerprint,
        })
    }

    /// The platform in words.
    pub fn words(&self) -> String {
        words(platform_code(Some(&self.platform)).code)
    }
}
