//! A fluid model of one class: traffic as a rate, a queue served at the allocation, an allocation that is controlled.
//!
//! For tuning settings and for checking what the allocation laws promise, thousands of times faster than packets.
//! Everything is integers of 10⁻⁹ bit and ns, and the same seed gives the same result on every machine.
//!
//! Source: L. Calarco, "Software Techniques for Multiservice IP Networks", IV.3 (simulations).

mod load;
mod pipe;
pub mod published;
mod run;
mod spread;

pub use load::{Load, OnOff, Period, Staircase, Traffic};
pub use run::{Control, FluidConfig, FluidResult, run};
pub use spread::Spread;

#[cfg(test)]
mod published_tests;
