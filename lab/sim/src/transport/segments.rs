//! Segments: from packets to the ends they are for, and from ends into packets.

use super::access::Waiting;
use crate::frame::{FRAME_LEN, Hop, IP_LEN, IpHeader, ip_packet, mac};
use crate::world::World;
use perhop_packet::Packet;
use perhop_scenario::NodeIndex;
use perhop_tcp::wire::parse_unchecked;
use perhop_tcp::{Segment, SegmentOut, refusal};
use perhop_units::{Dscp, Duration};
use perhop_wire::checksum::pseudo_header_v4;
use perhop_wire::{Ecn, ipv4, protocol, tcp};
use std::net::Ipv4Addr;

impl World {
    /// A segment arrives at a host.
    pub(crate) fn segment_arrives(&mut self, node: usize, packet: Packet) {
        let ip_len = packet.len() - FRAME_LEN;
        let read = read_segment(packet.frame());
        packet.release();
        let books = &mut self.nodes[node].books;
        books.consumed += 1;
        if self.quiet {
            return;
        }
        let Some((src, segment)) = read else { return };
        let key = (node as u32, segment.header.dst_port, src, segment.header.src_port);
        let Some(index) = self.transport.by_key.get(&key).copied() else {
            return self.refuse(node, src, &segment);
        };
        match self.transport.ends.get(index) {
            Some(Some(end)) if end.access > Duration::ZERO => {
                let delay = end.access;
                self.wait_on_access_line(index, delay, Waiting::In(segment, ip_len as u64));
            }
            _ => self.end_receives(index, &segment, ip_len as u64),
        }
    }

    /// A segment reaches the end it is for.
    pub(super) fn end_receives(&mut self, index: usize, segment: &Segment, ip_len: u64) {
        let now = self.now;
        let Some(Some(end)) = self.transport.ends.get_mut(index) else { return };
        end.endpoint.handle_segment(now, segment);
        let acknowledged = end.endpoint.acked_offset();
        if let Some(log) = self.transport.followed(index) {
            log.acknowledged(now, acknowledged);
        }
        if segment.payload_len > 0 {
            self.count_arrival(index, ip_len);
        }
        self.serve(index);
        self.run_applications();
    }

    /// A segment leaves an end.
    pub(super) fn end_sends(&mut self, index: usize, segment: SegmentOut) {
        let now = self.now;
        if let Some(log) = self.transport.followed(index) {
            log.sent(now, segment.payload_offset, segment.payload_len);
        }
        let Some(Some(end)) = self.transport.ends.get(index) else { return };
        let (node, hop, addresses, dscp, delay) = (end.node, end.hop, end.addresses, end.dscp, end.access);
        if delay > Duration::ZERO {
            self.wait_on_access_line(index, delay, Waiting::Out(segment));
        } else {
            self.send_segment(node, hop, addresses, dscp, &segment);
        }
    }

    /// Answers a segment that belongs to nobody.
    fn refuse(&mut self, node: usize, to: Ipv4Addr, segment: &Segment) {
        let Some(reset) = refusal(segment) else { return };
        let from = NodeIndex(node);
        let own = self.node_of.iter().find(|(_, index)| **index == node).map(|(address, _)| *address);
        let first = self.node_of.get(&to).and_then(|to| self.paths.first_link(from, NodeIndex(*to)));
        let (Some(own), Some((link, end))) = (own, first) else { return };
        let hop = Hop { src: mac(link, end), dst: mac(link, 1 - end) };
        self.send_segment(from, hop, (own, to), Dscp::default(), &reset);
    }

    /// Books IP bytes of a data segment for the connection whose data it carries.
    fn count_arrival(&mut self, index: usize, ip_len: u64) {
        let transport = &mut self.transport;
        let Some(Some(end)) = transport.ends.get(index) else { return };
        let Some(Some(connection)) = transport.connections.get(end.connection) else { return };
        if transport.applications[connection.application].receiver != end.side {
            return;
        }
        let record = &mut transport.records[connection.record];
        record.first_byte.get_or_insert(self.now);
        if self.now >= transport.window.1 {
            return;
        }
        record.bins.add(self.now.as_nanos() / transport.bin.as_nanos().max(1), ip_len);
        record.sections.add(transport.sections.at(self.now), ip_len);
        if self.now >= transport.window.0 && self.now < transport.window.1 {
            record.window_ip_bytes += ip_len;
        }
    }

    /// Puts a segment into a packet and sends it.
    pub(super) fn send_segment(
        &mut self,
        from: NodeIndex,
        hop: Hop,
        addresses: (Ipv4Addr, Ipv4Addr),
        dscp: Dscp,
        segment: &SegmentOut,
    ) {
        let node = &mut self.nodes[from.0];
        node.identification = node.identification.wrapping_add(1);
        let header = IpHeader {
            src: addresses.0,
            dst: addresses.1,
            dscp,
            ecn: segment.ecn,
            identification: node.identification,
            protocol: protocol::TCP,
        };
        let Some(mut packet) = ip_packet(&mut self.buffers, hop, header, segment.len()) else {
            return node.books.out_of_buffers();
        };
        let above = &mut packet.frame_mut()[FRAME_LEN + IP_LEN..];
        let (head, payload) = above.split_at_mut(segment.header.len());
        // The stream is zeros, which add nothing to the checksum: only the header is summed.
        payload.fill(0);
        segment.header.emit(head);
        let pseudo =
            pseudo_header_v4(header.src.octets(), header.dst.octets(), protocol::TCP, segment.len() as u16);
        tcp::fill_checksum(head, pseudo);
        self.leave_host(from, addresses.1, packet);
    }
}

/// The sender and the segment of a frame; `None` when it is not one.
fn read_segment(frame: &[u8]) -> Option<(Ipv4Addr, Segment)> {
    let view = ipv4::View::new_checked(frame.get(FRAME_LEN..)?).ok()?;
    let ecn: Ecn = view.ecn();
    let (segment, _) = parse_unchecked(view.payload(), ecn).ok()?;
    Some((view.src(), segment))
}
