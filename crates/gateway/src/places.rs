//! A bounded number of places for connections that anybody may open. If all are taken, the oldest makes way.
//!
//! A refusal of the newest connection would let the first connections keep all others out, by reconnecting as soon as
//! they are cut. A newcomer instead keeps its place until as many newer connections have come as there are places. An
//! origin that holds half of the places and wants more gives up its own oldest place, so that one origin alone cannot
//! push out the others.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::origin::Origin;

/// Places for connections. `T` is the handle with which the owner cuts a connection.
pub struct Places<T> {
    count: usize,
    next: u64,
    /// The taken places, the oldest first.
    taken: BTreeMap<u64, (Origin, T)>,
    by_origin: HashMap<Origin, BTreeSet<u64>>,
}

/// A place that was taken. Another connection may have taken the place since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlaceNumber(u64);

impl<T> Places<T> {
    /// Creates `count` places, at least one.
    pub fn new(count: usize) -> Self {
        Self {
            count: count.max(1),
            next: 0,
            taken: BTreeMap::new(),
            by_origin: HashMap::new(),
        }
    }

    /// Takes a place. The second value is the connection that makes way, if any.
    pub fn take(&mut self, origin: Origin, connection: T) -> (PlaceNumber, Option<T>) {
        let leaves = if self.taken.len() < self.count {
            None
        } else {
            let own = self
                .by_origin
                .get(&origin)
                .filter(|own| own.len() * 2 >= self.count);
            let oldest = own.map_or_else(
                || self.taken.keys().next().copied(),
                |own| own.first().copied(),
            );
            oldest.and_then(|oldest| self.give_back(PlaceNumber(oldest)))
        };
        let number = self.next;
        self.next += 1;
        self.taken.insert(number, (origin, connection));
        self.by_origin.entry(origin).or_default().insert(number);
        (PlaceNumber(number), leaves)
    }

    /// Gives a place back. Does nothing for a connection that has made way.
    pub fn give_back(&mut self, PlaceNumber(number): PlaceNumber) -> Option<T> {
        let (origin, connection) = self.taken.remove(&number)?;
        if let Some(own) = self.by_origin.get_mut(&origin) {
            own.remove(&number);
            if own.is_empty() {
                self.by_origin.remove(&origin);
            }
        }
        Some(connection)
    }

    /// The number of taken places.
    pub fn taken(&self) -> usize {
        self.taken.len()
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;

    fn origin(number: u32) -> Origin {
        Origin::of(IpAddr::V4(Ipv4Addr::from_bits(number)))
    }

    #[test]
    fn the_oldest_makes_way_once_all_places_are_taken() {
        let mut places = Places::new(3);
        let (first, _) = places.take(origin(1), 'a');
        assert_eq!(places.take(origin(2), 'b').1, None);
        assert_eq!(places.take(origin(3), 'c').1, None);
        assert_eq!(places.take(origin(4), 'd').1, Some('a'));
        assert_eq!(places.give_back(first), None, "the place is another's");
        assert_eq!(places.take(origin(5), 'e').1, Some('b'));
        assert_eq!(places.taken(), 3);
    }

    /// Needs the preference for the attacker's own origin: otherwise the attacker's 101st connection would push the
    /// other origin out.
    #[test]
    fn an_origin_that_floods_pushes_out_its_own_connections() {
        let mut places = Places::new(100);
        places.take(origin(7), 0);
        for connection in 1..10_000 {
            let (_, leaves) = places.take(origin(1), connection);
            assert_ne!(leaves, Some(0), "connection {connection}");
        }
        assert_eq!(places.taken(), 100);
        assert_eq!(places.by_origin[&origin(1)].len(), 99);
    }

    #[test]
    fn a_newcomer_always_gets_a_place_and_keeps_it_while_fewer_newcomers_follow_than_there_are_places()
     {
        let mut places = Places::new(100);
        for number in 0..1000 {
            places.take(origin(number % 300), number);
        }
        let (number, leaves) = places.take(origin(999), 5000);
        assert_eq!(leaves, Some(900));
        for number in 0..99 {
            places.take(origin(number), number);
        }
        assert_eq!(places.give_back(number), Some(5000));
        assert_eq!(places.taken(), 99);
    }

    #[test]
    fn a_place_that_is_given_back_leaves_nothing_behind() {
        let mut places = Places::new(10);
        let numbers: Vec<PlaceNumber> = (0..10).map(|n| places.take(origin(n % 3), n).0).collect();
        for number in numbers {
            assert!(places.give_back(number).is_some());
        }
        assert!(places.taken.is_empty() && places.by_origin.is_empty());
    }
}
