//! Ends of connections: everything that an endpoint has to do now, and what its application is told of it.

use super::{End, index_of};
use crate::world::World;
use perhop_measure::{ConnectionSample, TRACE_INTERVAL, TRACED};
use perhop_tcp::{Event, State};
use perhop_traffic::tcp::{AppEvent, Side};
use perhop_units::Duration;

impl World {
    /// An end's timer has come.
    pub(crate) fn wake_end(&mut self, index: usize) {
        if self.quiet {
            return;
        }
        self.serve(index);
        self.run_applications();
    }

    /// Does everything an end has to do now: writes, output, events.
    pub(super) fn serve(&mut self, index: usize) {
        loop {
            let now = self.now;
            let Some(Some(end)) = self.transport.ends.get_mut(index) else { return };
            if end.unwritten > 0 {
                end.unwritten -= end.endpoint.write(end.unwritten);
            }
            if end.closing && end.unwritten == 0 {
                end.closing = false;
                end.endpoint.close();
            }
            let node = end.node;
            if self.nodes[node.0].up {
                while let Some(Some(end)) = self.transport.ends.get_mut(index) {
                    let Some(segment) = end.endpoint.poll_output(now) else { break };
                    self.end_sends(index, segment);
                }
            } else {
                while let Some(Some(end)) = self.transport.ends.get_mut(index)
                    && end.endpoint.poll_output(now).is_some()
                {}
            }
            let Some(Some(end)) = self.transport.ends.get_mut(index) else { return };
            let Some(event) = end.endpoint.poll_event() else { break };
            self.end_event(index, event);
        }
        self.trace_end(index);
        self.tell_if_both_closed(index);
        let Some(Some(end)) = self.transport.ends.get(index) else { return };
        if end.over {
            return self.end_is_over(index);
        }
        if let Some(at) = end.endpoint.next_wakeup() {
            let entity = end.entity;
            self.agenda.arm(entity, at.max(self.now));
        }
    }

    /// Tells the application what happened at an end.
    fn end_event(&mut self, index: usize, event: Event) {
        let now = self.now;
        let transport = &mut self.transport;
        let Some(Some(end)) = transport.ends.get_mut(index) else { return };
        let Some(Some(connection)) = transport.connections.get_mut(end.connection) else { return };
        let (application, conn, side) = (connection.application, connection.id, end.side);
        let record = &mut transport.records[connection.record];
        let receives = transport.applications[application].receiver == side;
        let told = match event {
            Event::Established if side == Side::Client => AppEvent::Opened { conn },
            Event::Established => AppEvent::Accepted { conn },
            Event::Readable => {
                let bytes = end.endpoint.read(u64::MAX);
                if receives {
                    record.bytes += bytes;
                    if now >= transport.window.0 && now < transport.window.1 {
                        record.window_bytes += bytes;
                    }
                    if let Some(log) = &mut record.reads {
                        log.read(now, bytes);
                    }
                }
                AppEvent::Received { conn, side, bytes }
            }
            Event::Writable => return,
            Event::Finished => {
                if receives && record.ended.is_none() {
                    record.ended = Some(now);
                }
                AppEvent::PeerClosed { conn, side }
            }
            Event::Reset | Event::TimedOut => {
                // What the application itself aborted did not fail.
                record.failed |= record.ended.is_none() && !connection.told;
                AppEvent::Failed { conn }
            }
            Event::Closed => {
                end.over = true;
                return;
            }
        };
        let silent = connection.told;
        connection.told |= matches!(told, AppEvent::Failed { .. });
        if !silent {
            transport.tell(application, told);
        }
    }

    /// Both directions may be closed while an end still waits in TIME-WAIT.
    fn tell_if_both_closed(&mut self, index: usize) {
        let transport = &mut self.transport;
        let closed = |end: &Option<End>| {
            end.as_ref().is_none_or(|end| matches!(end.endpoint.state(), State::TimeWait | State::Closed))
        };
        let Some(Some(end)) = transport.ends.get(index) else { return };
        let Some(Some(connection)) = transport.connections.get_mut(end.connection) else { return };
        if connection.told || !connection.ends.iter().all(|end| closed(&transport.ends[*end])) {
            return;
        }
        connection.told = true;
        let (application, conn) = (connection.application, connection.id);
        transport.tell(application, AppEvent::Ended { conn });
    }

    /// An end has nothing more to do; when both are over the connection is.
    fn end_is_over(&mut self, index: usize) {
        let transport = &mut self.transport;
        let Some(end) = transport.ends[index].take() else { return };
        transport.free_ends.push(index);
        self.agenda.remove(end.entity);
        let (local, remote) = end.endpoint.ports();
        transport.by_key.remove(&(end.node.0 as u32, local, end.addresses.1, remote));
        let Some(connection) = transport.connections[end.connection].as_ref() else { return };
        let (application, conn, ends, told) =
            (connection.application, connection.id, connection.ends, connection.told);
        if transport.applications[application].receiver != end.side {
            transport.records[connection.record].retransmits = Some(end.endpoint.counters().retransmits);
        }
        let other = ends[1 - index_of(end.side)];
        let other_alive = transport.ends[other]
            .as_ref()
            .is_some_and(|o| o.connection == end.connection && o.side != end.side);
        if !other_alive {
            transport.connections[end.connection] = None;
            transport.free_connections.push(end.connection);
            transport.applications[application].connections.remove(&conn);
            if !told {
                transport.tell(application, AppEvent::Ended { conn });
            }
        }
    }

    fn trace_end(&mut self, index: usize) {
        let transport = &mut self.transport;
        let Some(Some(end)) = transport.ends.get(index) else { return };
        let Some(Some(connection)) = transport.connections.get(end.connection) else { return };
        let application = &transport.applications[connection.application];
        if !application.traced || application.receiver == end.side || connection.id.0 as usize >= TRACED {
            return;
        }
        let trace = &mut transport.records[connection.record].trace;
        if trace.last().is_some_and(|last| self.now.since(last.at) < TRACE_INTERVAL) {
            return;
        }
        let seen = end.endpoint.trace();
        trace.push(ConnectionSample {
            at: self.now,
            window: seen.cwnd,
            threshold: seen.ssthresh,
            round_trip: seen.srtt.unwrap_or(Duration::ZERO),
            acknowledged: end.endpoint.acked_offset(),
        });
    }

    /// A node stops: its connections are gone without a word.
    pub(crate) fn stop_connections(&mut self, node: usize) {
        for index in 0..self.transport.ends.len() {
            if let Some(end) = self.transport.ends[index].as_mut().filter(|end| end.node.0 == node) {
                end.endpoint.abort();
                self.serve(index);
            }
        }
        self.run_applications();
    }
}
