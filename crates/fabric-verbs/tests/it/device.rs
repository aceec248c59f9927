//! What the contract does not ask: registration of each kind of memory, sleep, errors that say what to do.
