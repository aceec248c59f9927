//! The configuration as one node sends it to another node: in pieces, in order.
//!
//! A node that cannot reach the configuration store, or has not heard from it yet, learns of a change from any peer
//! that knows the change. So an outage of the store does not delay a change that the store has taken, and no node waits
//! for a copy that stays behind.

use stonecast_cluster::{Configuration, ConfigurationId, VALUE_SIZE_MAX};

use crate::message::Piece;

/// Splits the document of `configuration` into pieces. The sender sets their serial numbers.
pub fn pieces(configuration: &Configuration) -> Vec<Piece> {
    let document = configuration.encode();
    let size = u32::try_from(document.len()).expect("a store takes no longer document");
    let pieces = document.chunks(Piece::SIZE_MAX).enumerate();
    let piece = |(index, bytes): (usize, &[u8])| Piece {
        configuration: configuration.id(),
        serial: 0,
        size,
        offset: (index * Piece::SIZE_MAX) as u32,
        bytes: bytes.to_vec(),
    };
    pieces.map(piece).collect()
}

/// The part of a document that has come.
#[derive(Debug, Default)]
pub struct Assembly {
    configuration: Option<ConfigurationId>,
    bytes: Vec<u8>,
}

impl Assembly {
    /// Adds a piece, and returns the configuration if it is complete. A piece that does not follow the previous piece
    /// is left out. A damaged document yields nothing: its sender begins again.
    pub fn add(&mut self, piece: &Piece) -> Option<Configuration> {
        if piece.offset == 0 {
            self.configuration = Some(piece.configuration);
            self.bytes.clear();
        }
        let is_of_it = Some(piece.configuration) == self.configuration;
        let follows = piece.offset as usize == self.bytes.len();
        if !is_of_it || !follows || piece.size as usize > VALUE_SIZE_MAX {
            return None;
        }
        self.bytes.extend_from_slice(&piece.bytes);
        if self.bytes.len() != piece.size as usize {
            self.bytes.truncate(VALUE_SIZE_MAX);
            return None;
        }
        Configuration::decode(&self.bytes).ok()
    }
}
