//! What a router's door answers: its calls, its addresses and their document.

mod api;
mod endpoints;
mod openapi;

pub(crate) use api::ask;
pub use api::{PAGE_OBJECTS, RouterApi, SHOWN_ROWS};
