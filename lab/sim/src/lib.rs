//! The deterministic simulator: hosts, links and routers under one virtual clock.
