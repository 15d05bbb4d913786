//! What a domain keeps: the controller's database and the agent's journal.
#![forbid(unsafe_code)]
