//! The router's contract against [`perhop_contract::Control`]: one test a rule, one test a code.

mod abr;
mod codes;
mod confirm;
mod desk;
mod events;
mod limits;
mod read;
mod rules;
mod scale;
mod soft_state;
