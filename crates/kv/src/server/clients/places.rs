//! Places for clients: how many there are, and how many of them one user or one process may take.
//!
//! The bounds keep one client program, by accident or malice, from keeping all others out. They are no protection against
//! programs that may do anything to the server anyway: its own user is bounded by the number of places alone, the server's own process
//! (its gateway) not even by its share of them.

use stonecast_fabric::PeerIdentity;

use crate::wire::limits::{CLIENTS, CLIENTS_MAX};

/// How many clients there may be at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Places {
    /// Of all: 1 to [`CLIENTS_MAX`].
    pub clients: usize,
    /// Of each user but the server's own.
    pub per_user: usize,
    /// Of each process but the server itself, if the provider names processes.
    pub per_process: usize,
}

impl Places {
    /// `clients` places, a quarter of them for one user and half of them for one process: four users, or two programs that leak
    /// connections, fill them.
    pub fn of(clients: usize) -> Self {
        let clients = clients.clamp(1, CLIENTS_MAX);
        Self {
            clients,
            per_user: clients.div_ceil(4),
            per_process: clients.div_ceil(2),
        }
    }

    /// Why `newcomer` gets none beside the clients that are `here`, for the message that it gets. `own_process`: that of the
    /// server.
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
                "process {process} has {per_process} clients, as many as one process may have here; let it use fewer, or start \
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
    fn a_refusal_names_the_bound_that_was_reached_and_how_to_raise_it() {
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
    fn the_server_itself_is_bounded_by_the_places_alone() {
        let places = Places {
            clients: 3,
            per_user: 1,
            per_process: 1,
        };
        let here = vec![peer("user 0", SERVER, true); 2];
        assert_eq!(refusal(places, &here, &peer("user 0", SERVER, true)), "");
    }

    #[test]
    fn the_shares_of_few_places_are_not_nothing() {
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
