//! What the kernel's TCP is told of the way to a destination (`RTAX_*` of rtnetlink(7); `ip route … initcwnd`).

use netlink_packet_route::route::RouteMetric;
use perhop_units::Duration;

/// TCP parameters of a route, for all connections that use it. The default leaves everything to the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RouteMetrics {
    /// Initial congestion window in segments (`initcwnd`).
    pub initial_window: Option<u32>,
    /// Least retransmission time-out in whole milliseconds (`rto_min`); what is less than one is one.
    pub min_rto: Option<Duration>,
    /// Largest segment that this end announces, bytes of TCP payload and options (`advmss`).
    pub announced_segment: Option<u32>,
    /// Every segment is acknowledged at once (`quickack`).
    pub quick_acknowledgements: bool,
}

impl RouteMetrics {
    pub(crate) fn attributes(self) -> Vec<RouteMetric> {
        let milliseconds =
            |time: Duration| u32::try_from(time.as_nanos() / 1_000_000).unwrap_or(u32::MAX).max(1);
        let all = [
            self.initial_window.map(RouteMetric::InitCwnd),
            self.min_rto.map(|time| RouteMetric::RtoMin(milliseconds(time))),
            self.announced_segment.map(RouteMetric::Advmss),
            self.quick_acknowledgements.then_some(RouteMetric::QuickAck(1)),
        ];
        all.into_iter().flatten().collect()
    }
}
