//! `perhop abr --host`: TCP flows of this host held at rates.

mod error;
mod policies;
mod rules;
mod run;
mod tool;

pub use error::AbrError;
pub use rules::{Rules, Selection};
pub use run::{AbrArgs, run};
pub use tool::Tool;
