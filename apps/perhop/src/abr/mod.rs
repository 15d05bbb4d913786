//! `perhop abr --host`: TCP flows of this host held at rates.

mod args;
mod policies;
mod run;

pub use args::AbrArgs;
pub use run::run;
