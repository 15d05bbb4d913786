//! The bare forwarder's thread.

use super::path::Path;
use super::ports::{RouterReport, mode_name, xdp_configs};
use crate::error::BenchError;
use crate::machine;
use crate::router::{GATEWAY_MAC, WAN, port_mac};
use perhop_io::af_xdp::BareForwarder;
use perhop_packet::Pool;
use std::sync::atomic::{AtomicBool, Ordering};

/// Forwards from ring to ring until told to stop, with the router's sockets, buffers and program.
///
/// # Errors
/// AF_XDP cannot be had, or an interface went away.
pub fn forward(path: &Path, stop: &AtomicBool, ready: &AtomicBool) -> Result<RouterReport, BenchError> {
    let pool = Pool::new(16_384);
    let (host, [lan, wan]) = xdp_configs(path)?;
    let mut macs = [0; 12];
    macs[..6].copy_from_slice(&GATEWAY_MAC.0);
    macs[6..].copy_from_slice(&port_mac(WAN).0);
    let mut bare = BareForwarder::open(lan, wan, &pool, &host, macs)?;
    let mut report = RouterReport { mode: mode_name(bare.modes()[0]), ..RouterReport::default() };
    let watch = machine::Watch::start();
    ready.store(true, Ordering::Release);
    while !stop.load(Ordering::Relaxed) {
        let n = bare.turn()?;
        report.received += n as u64;
        report.batches += u64::from(n > 0);
    }
    report.waited = watch.waited();
    Ok(report)
}
