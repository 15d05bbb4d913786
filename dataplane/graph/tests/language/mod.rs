//! The graph language.
