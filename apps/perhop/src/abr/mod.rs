//! `perhop abr --host`: TCP flows of this host held at rates.

mod error;
mod policies;
mod run;

pub use error::AbrError;
pub use run::{AbrArgs, run};
