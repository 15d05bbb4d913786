//! The router's contract against [`perhop_graph::control::Control`]: one test a rule, one test a code.

mod abr;
mod codes;
mod confirm;
pub mod desk;
mod events;
mod limits;
mod read;
mod rules;
mod scale;
mod soft_state;
