//! `perhop abr --host`: TCP flows of this host held at rates.

mod args;
mod error;
mod policies;
mod run;

pub use args::AbrArgs;
pub use error::AbrError;
pub use run::run;
