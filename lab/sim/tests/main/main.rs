//! The simulator against arithmetic: what a link, a queue or a transfer must do can be computed by hand.

mod accepted;
mod agents;
mod domains;
mod followed;
mod lines;
mod net;
mod published;
mod routers;
mod weights;
mod worlds;
