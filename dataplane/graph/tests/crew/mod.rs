//! Several workers are one router, whatever the order in which they take their steps.

mod balancing;
mod moves;
mod refused;
mod rules;
mod world;
