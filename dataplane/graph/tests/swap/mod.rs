//! Replacing a running graph.
