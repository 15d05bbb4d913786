//! What a router's door answers: its calls, its addresses and their document.

pub(crate) mod api;
pub(crate) mod endpoints;
pub(crate) mod openapi;
