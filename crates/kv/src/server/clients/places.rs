//! Places for clients: their number, and the shares of one user and one process.
//!
//! The bounds keep one client program, by accident or malice, from keeping all others out. The bounds do not protect
//! against programs that have power over the server anyway: the bound of a user does not apply to the server's own
//! user, and the bound of a process does not apply to the server's own process (its gateway).

use stonecast_fabric::PeerIdentity;

use crate::wire::limits::{CLIENTS, CLIENTS_MAX};

/// Bounds on the number of clients at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Places {
    /// All clients: 1 to [`CLIENTS_MAX`].
    pub clients: usize,
    /// Clients of each user but the server's own.
    pub per_user: usize,
    /// Clients of each process but the server itself, if the provider names processes.
    pub per_process: usize,
}

impl Places {
    /// `clients` places: a quarter of them for one user, half of them for one process. Four users, or two programs that
    /// leak connections, are needed to fill all places.
    pub fn of(clients: usize) -> Self {
        let clients = clients.clamp(1, CLIENTS_MAX);
        Self {
            clients,
            per_user: clients.div_ceil(4),
            per_process: clients.div_ceil(2),
        }
    }

    /// The reason why `newcomer` gets no place beside the clients that are `here`, for the answer. `own_process` is the
    /// process of the server.
    pub(super) fn refusal<'a>(
        &self,
        here: impl Iterator<Item = &'a PeerIdentity> + Clone,
        newcomer: &PeerIdentity,
        own_process: u32,
    ) -> Option<String> {
        let Self {
            clients,
            per_user,
            per_process,
        } = *self;
        if here.clone().count() >= clients {
            return Some(format!(
                "all {clients} places for clients are taken; end some clients, or start the server with more --clients-max (at \
                 most {CLIENTS_MAX})"
            ));
        }
        let of_user = || here.clone().filter(|client| client.user == newcomer.user);
        if !newcomer.same_user && of_user().count() >= per_user {
            return Some(format!(
                "{} has {per_user} clients, as many as one user may have here; end some of them, or start the server with more \
                 --clients-per-user",
                newcomer.user
            ));
        }
        let process = newcomer.process.filter(|&process| process != own_process)?;
        let of_process = here.filter(|client| client.process == Some(process));
        (of_process.count() >= per_process).then(|| {
            format!(
                "process {process} has {per_process} clients, as many as one process may have here; use fewer there, or start \
                 the server with more --clients-per-process"
            )
        })
    }
}

impl Default for Places {
    fn default() -> Self {
        Self::of(CLIENTS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVER: u32 = 1;

    fn peer(user: &str, process: u32, same_user: bool) -> PeerIdentity {
        PeerIdentity {
            name: String::new(),
            user: user.into(),
            process: Some(process),
            same_user,
        }
    }

    fn refusal(places: Places, here: &[PeerIdentity], newcomer: &PeerIdentity) -> String {
        places
            .refusal(here.iter(), newcomer, SERVER)
            .unwrap_or_default()
    }

    #[test]
    fn a_refusal_names_the_bound_that_was_reached_and_the_way_to_raise_it() {
        let places = Places {
            clients: 5,
            per_user: 2,
            per_process: 3,
        };
        let others = vec![peer("user 7", 70, false); 2];
        let own = vec![peer("user 0", 80, true); 3];
        for (here, newcomer, words) in [
            (
                &others[..],
                peer("user 7", 71, false),
                "user 7 has 2 clients",
            ),
            (&others, peer("user 8", 72, false), ""),
            (&own, peer("user 0", 80, true), "process 80 has 3 clients"),
            (&own, peer("user 0", 81, true), ""),
            (
                &[&others[..], &own].concat(),
                peer("user 0", 81, true),
                "all 5 places",
            ),
        ] {
            let said = refusal(places, here, &newcomer);
            assert!(
                said.contains(words) && said.is_empty() == words.is_empty(),
                "{said}"
            );
            assert!(said.is_empty() || said.contains("--clients-"), "{said}");
        }
    }

    #[test]
    fn the_server_itself_is_bounded_only_by_the_places() {
        let places = Places {
            clients: 3,
            per_user: 1,
            per_process: 1,
        };
        let here = vec![peer("user 0", SERVER, true); 2];
        assert_eq!(refusal(places, &here, &peer("user 0", SERVER, true)), "");
    }

    #[test]
    fn the_shares_of_few_places_are_at_least_one() {
        for (clients, per_user, per_process) in [(1, 1, 1), (2, 1, 1), (256, 64, 128)] {
            let expected = Places {
                clients,
                per_user,
                per_process,
            };
            assert_eq!(Places::of(clients), expected);
        }
    }
}
