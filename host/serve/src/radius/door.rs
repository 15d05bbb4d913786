//! A socket where requests come, and the machine behind it.

use super::outward::Outward;
use super::words::{account, change};
use super::{AccessServer, RadiusError, RadiusNews, RadiusSettings, Say};
use crate::controller::Seat;
use crate::domain::woken;
use perhop_io::clock;
use perhop_radius::{Answer, Code, Input, MAX_PACKET, Nas, Output, Request, Server, Settings};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::sync::watch;

/// Answers that wait to be sent at most.
const WAITING: usize = 4_096;
/// What is dropped is logged at most so often.
const LOGGED: std::time::Duration = std::time::Duration::from_secs(1);
/// Seconds of the wall at the beginning of the machines' clock: it is the wall's.
const UNIX_AT_ZERO: u64 = 0;

/// The doors of a domain for RADIUS.
pub struct RadiusDoor {
    doors: Vec<(UdpSocket, Server)>,
    servers: Arc<BTreeMap<String, AccessServer>>,
    outward: Option<Outward>,
    seat: Seat,
    say: Say,
}

/// What a machine knows of access servers.
pub(super) fn known(servers: &BTreeMap<String, AccessServer>) -> BTreeMap<std::net::IpAddr, Nas> {
    let nas = |server: &AccessServer| Nas {
        name: server.name.clone(),
        secret: server.secret.clone(),
        proven: server.proven,
    };
    servers.values().map(|server| (server.address, nas(server))).collect()
}

impl RadiusDoor {
    /// Opens them, to the domain in a seat. Needs a tokio runtime.
    ///
    /// # Errors
    /// An address is not to be had.
    pub async fn open(settings: &RadiusSettings, seat: Seat, say: Say) -> Result<Self, RadiusError> {
        let servers: BTreeMap<String, AccessServer> =
            settings.servers.iter().map(|server| (server.name.clone(), server.clone())).collect();
        let changes = [Code::CoaRequest, Code::DisconnectRequest];
        let wanted: [(Option<SocketAddr>, &[Code]); 2] =
            [(settings.accounting, &[Code::AccountingRequest]), (settings.changes, &changes)];
        let mut doors = Vec::new();
        for (address, codes) in wanted {
            let Some(address) = address else { continue };
            let socket = UdpSocket::bind(address).await.map_err(|source| RadiusError { address, source })?;
            let settings = Settings { known: known(&servers), ..Settings::new(codes, UNIX_AT_ZERO) };
            doors.push((socket, Server::new(settings)));
        }
        let outward = Outward::open(&servers).await?;
        Ok(Self { doors, servers: Arc::new(servers), outward, seat, say })
    }

    /// Where they listen: accounting first.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.doors.iter().filter_map(|(socket, _)| socket.local_addr().ok()).collect()
    }

    /// Serves until `stop` is true.
    pub async fn run(self, stop: watch::Receiver<bool>) {
        let mut tasks = tokio::task::JoinSet::new();
        for (socket, server) in self.doors {
            let (servers, seat, say) = (Arc::clone(&self.servers), self.seat.clone(), Arc::clone(&self.say));
            tasks.spawn(serve(socket, server, servers, seat, say, stop.clone()));
        }
        if let Some(outward) = self.outward {
            tasks.spawn(outward.run(self.servers, self.seat, self.say, stop));
        }
        while tasks.join_next().await.is_some() {}
    }
}

async fn serve(
    socket: UdpSocket,
    mut server: Server,
    servers: Arc<BTreeMap<String, AccessServer>>,
    seat: Seat,
    say: Say,
    mut stop: watch::Receiver<bool>,
) {
    let (answer, mut answers) = mpsc::channel::<(u64, Answer)>(WAITING);
    let mut octets = vec![0; MAX_PACKET + 1];
    let mut logged: Option<tokio::time::Instant> = None;
    loop {
        let input = tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            got = socket.recv_from(&mut octets) => match got {
                Ok((length, from)) => Input::Datagram { from, bytes: octets[..length].to_vec() },
                // What became of a datagram that was sent.
                Err(_) => continue,
            },
            Some((ticket, answer)) = answers.recv() => Input::Answer { ticket, answer },
            () = woken(server.next_wakeup()) => Input::Tick,
        };
        server.handle_input(clock::wall(), input);
        while let Some(output) = server.poll_output() {
            match output {
                // Who is not reached asks again.
                Output::Send { to, bytes } => drop(socket.send_to(&bytes, to).await),
                Output::Ask { ticket, nas, request } => {
                    let (servers, seat, answer) = (Arc::clone(&servers), seat.clone(), answer.clone());
                    tokio::spawn(async move {
                        let done = decide(&seat, servers.get(&nas), request).await;
                        let _ = answer.send((ticket, done)).await;
                    });
                }
                Output::Dropped { from, why } if logged.is_none_or(|at| at.elapsed() >= LOGGED) => {
                    logged = Some(tokio::time::Instant::now());
                    say(RadiusNews::Dropped { from, why: why.to_string(), counts: server.counts() });
                }
                Output::Dropped { .. } => {}
            }
        }
    }
}

async fn decide(seat: &Seat, server: Option<&AccessServer>, request: Request) -> Answer {
    // Another instance leads: the access server asks the next one that it knows.
    let (Some(server), Ok(led)) = (server, seat.led()) else { return Answer::Failed };
    let Ok(policies) = led.policies() else { return Answer::Failed };
    match request {
        Request::Account(record) => account(policies, server, *record).await,
        Request::Change(wanted) => change(policies, server, *wanted).await,
    }
}
