//! The simulator against arithmetic: what a link, a queue or a transfer must do can be computed by hand.

#[path = "main/agents.rs"]
mod agents;
#[path = "main/followed.rs"]
mod followed;
#[path = "main/lines.rs"]
mod lines;
#[path = "main/net.rs"]
mod net;
#[path = "main/published.rs"]
mod published;
#[path = "main/routers.rs"]
mod routers;
#[path = "main/weights.rs"]
mod weights;
#[path = "main/worlds.rs"]
mod worlds;
