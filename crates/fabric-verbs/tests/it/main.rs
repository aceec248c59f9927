//! Verbs between machines from the outside.
