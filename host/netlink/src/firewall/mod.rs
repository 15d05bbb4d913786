//! The kernel's packet filter, by the programs that set its rules: TCP packets of this host sent to a queue.

mod error;
mod rules;
mod tool;

pub use error::FirewallError;
pub use rules::{Rules, Selection};
pub use tool::{Firewall, Tool};
