//! Applications: what they want is done at once, until none has more to do now.

use super::config::config_of;
use super::{Application, Connection, End, index_of};
use crate::build::Options;
use crate::error::SimError;
use crate::world::{Who, World};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use perhop_measure::{ConnectionRecord, Membership, ReadLog, SegmentLog, Toward};
use perhop_scenario::{Scenario, Traffic, TrafficKind, generators};
use perhop_tcp::Endpoint;
use perhop_traffic::Seed;
use perhop_traffic::tcp::{AppAction, AppEvent, ConnId, Side, TcpApplication};
use perhop_units::{Duration, Instant};

impl World {
    /// One direction of a TCP traffic of one pair.
    pub(crate) fn add_application(
        &mut self,
        scenario: &Scenario,
        options: &Options,
        of: Membership,
        traffic: &Traffic,
    ) -> Result<(), SimError> {
        let (a, b) = traffic.pairs[of.pair];
        let (sender, receiver) = if of.toward == Toward::Second { (a, b) } else { (b, a) };
        let wrong = |why: String| SimError::Traffic { traffic: traffic.name.clone(), why };
        let seed = Seed { seed: options.seed, repetition: options.repetition };
        let group = self.transport.applications.len() as u16;
        let made = generators::connections(traffic, group, seed).map_err(|e| wrong(e.to_string()))?;
        let kind = &traffic.kind;
        let (Some(made), Some(tcp), Some(port)) = (made, kind.tcp(), kind.server_port()) else {
            return Ok(());
        };
        let config = config_of(tcp).map_err(wrong)?;
        let (client, server) =
            if made.receiver == Side::Client { (receiver, sender) } else { (sender, receiver) };
        let hops = [
            self.first_hop(scenario, traffic, client, server)?,
            self.first_hop(scenario, traffic, server, client)?,
        ];
        let dscp_of = |node| if node == sender { traffic.dscp } else { traffic.reply_dscp };
        let index = self.transport.applications.len();
        let entity = self.entity(Who::Application(index));
        let at = made.machine.next_wakeup();
        self.transport.applications.push(Application {
            entity,
            machine: Box::new(made.machine),
            nodes: [client, server],
            hops,
            addresses: [scenario.nodes[client.0].address, scenario.nodes[server.0].address],
            dscps: [dscp_of(client), dscp_of(server)],
            port,
            config,
            of,
            receiver: made.receiver,
            connections: HashMap::with_hasher(FixedState::with_seed(2)),
            traced: scenario.probes.connections.contains(&of.traffic),
            followed: scenario.probes.segments.contains(&of.traffic),
            access: access_delays(kind),
            far: usize::from(client == a),
            opened: 0,
        });
        // What it wants at time zero it is asked for at time zero.
        self.agenda.arm(entity, at.unwrap_or(Instant::ZERO));
        Ok(())
    }

    /// The application's time has come.
    pub(crate) fn wake_application(&mut self, application: usize) {
        if self.quiet {
            return;
        }
        self.transport.told.push_back((application, None));
        self.run_applications();
    }

    /// Lets applications that were told something act, until none has more to do now.
    pub(super) fn run_applications(&mut self) {
        while let Some((index, event)) = self.transport.told.pop_front() {
            if let Some(event) = event {
                self.transport.applications[index].machine.handle(self.now, event);
            }
            while let Some(action) = self.transport.applications[index].machine.poll(self.now) {
                match action {
                    AppAction::Open { conn } => self.open(index, conn),
                    AppAction::Write { conn, side, bytes } => {
                        self.act(index, conn, side, |end| end.unwritten += bytes)
                    }
                    AppAction::Close { conn, side } => self.act(index, conn, side, |end| end.closing = true),
                    AppAction::Abort { conn } => {
                        self.transport.forget(index, conn);
                        for side in [Side::Client, Side::Server] {
                            self.act(index, conn, side, |end| end.endpoint.abort());
                        }
                    }
                }
            }
            let application = &self.transport.applications[index];
            if let Some(at) = application.machine.next_wakeup() {
                self.agenda.arm(application.entity, at.max(self.now));
            }
        }
    }

    fn act(&mut self, application: usize, conn: ConnId, side: Side, act: impl FnOnce(&mut End)) {
        let transport = &mut self.transport;
        let Some(connection) = transport.applications[application].connections.get(&conn).copied() else {
            return;
        };
        let Some(Some(state)) = transport.connections.get(connection) else { return };
        let index = state.ends[index_of(side)];
        if let Some(Some(end)) = transport.ends.get_mut(index) {
            act(end);
            self.serve(index);
        }
    }

    fn open(&mut self, index: usize, conn: ConnId) {
        let now = self.now;
        let application = &self.transport.applications[index];
        let (nodes, addresses, port, config) =
            (application.nodes, application.addresses, application.port, application.config);
        let Some(client_port) = self.transport.client_port(nodes[0], addresses[1], port) else {
            return self.transport.tell(index, AppEvent::Failed { conn });
        };
        let isn = [self.transport.random.bits(), self.transport.random.bits()];
        let client = Endpoint::connect(config, client_port, port, isn[0], now);
        let server = Endpoint::listen(config, port, isn[1], now);
        let (Ok(client), Ok(server)) = (client, server) else {
            // The configuration was checked when the application was added.
            return self.transport.tell(index, AppEvent::Failed { conn });
        };
        let connection = self.transport.free_connections.pop().unwrap_or_else(|| {
            self.transport.connections.push(None);
            self.transport.connections.len() - 1
        });
        let application = &self.transport.applications[index];
        let slot = application.machine.records().get(conn.0 as usize).map_or(0, |record| record.user);
        let access = application.access.get(usize::from(slot)).copied().unwrap_or(Duration::ZERO);
        let (far, followed) = (application.far, application.followed);
        let mut ends = [0; 2];
        for (i, endpoint) in [client, server].into_iter().enumerate() {
            let application = &self.transport.applications[index];
            let (hop, dscp) = (application.hops[i], application.dscps[i]);
            let entity = self.entity(Who::End(usize::MAX));
            let end = End {
                endpoint,
                entity,
                node: nodes[i],
                hop,
                addresses: (addresses[i], addresses[1 - i]),
                dscp,
                connection,
                side: if i == 0 { Side::Client } else { Side::Server },
                unwritten: 0,
                closing: false,
                over: false,
                access: if i == far { access } else { Duration::ZERO },
                serial: self.transport.serial,
            };
            self.transport.serial += 1;
            ends[i] = self.transport.insert_end(end);
            self.who[entity.0 as usize] = Who::End(ends[i]);
        }
        let transport = &mut self.transport;
        transport.by_key.insert((nodes[0].0 as u32, client_port, addresses[1], port), ends[0]);
        transport.by_key.insert((nodes[1].0 as u32, port, addresses[0], client_port), ends[1]);
        let application = &mut transport.applications[index];
        application.opened += 1;
        application.connections.insert(conn, connection);
        let record = transport.records.len();
        transport.records.push(ConnectionRecord {
            slot,
            reads: followed.then(ReadLog::default),
            segments: followed.then(SegmentLog::default),
            ..ConnectionRecord::new(application.of, now)
        });
        transport.connections[connection] =
            Some(Connection { application: index, id: conn, ends, record, told: false });
        self.serve(ends[0]);
    }
}

/// Delays of the connections of a traffic at their far hosts, by slot; empty where there are none.
fn access_delays(kind: &TrafficKind) -> Vec<Duration> {
    match kind {
        TrafficKind::Bulk { count, access_delay: (_, most), .. } if *most > Duration::ZERO => {
            (0..*count).map(|slot| kind.access_delay(slot)).collect()
        }
        _ => Vec::new(),
    }
}
