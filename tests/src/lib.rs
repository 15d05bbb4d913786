//! What tests across layers share: the properties that fuzz targets assert and that `make test` replays over their
//! seed corpora.
#![forbid(unsafe_code)]

pub mod properties;
