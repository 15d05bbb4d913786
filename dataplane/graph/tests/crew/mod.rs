//! Several workers are one router, whatever the order in which they take their steps.

mod refused;
mod rules;
mod world;
