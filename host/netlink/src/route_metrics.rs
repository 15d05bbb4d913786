//! What the kernel's TCP is told of the way to a destination (`RTAX_*` of rtnetlink(7); `ip route … initcwnd`).

use crate::connection::Netlink;
use crate::error::NetlinkError;
use crate::route::describe;
use ipnet::IpNet;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::route::{RouteAttribute, RouteMetric};
use perhop_units::Duration;
use std::net::IpAddr;

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
    fn attributes(self) -> Vec<RouteMetric> {
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

impl Netlink {
    /// As [`Netlink::add_route`], with parameters for the TCP connections of this machine that use the route.
    ///
    /// # Errors
    /// As [`Netlink::add_route`].
    pub fn add_route_with_metrics(
        &self,
        dest: IpNet,
        via: Option<IpAddr>,
        dev: Option<&str>,
        metrics: RouteMetrics,
    ) -> Result<(), NetlinkError> {
        let mut message = self.route_message("add route", dest, via, dev)?;
        let attributes = metrics.attributes();
        if !attributes.is_empty() {
            message.attributes.push(RouteAttribute::Metrics(attributes));
        }
        let message = RouteNetlinkMessage::NewRoute(message);
        self.request("add route", &describe(dest, via, dev), message, NLM_F_CREATE | NLM_F_EXCL)
    }
}
