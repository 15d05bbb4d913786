//! Against another implementation: smoltcp, both directions at once, with loss and reordering.

use crate::bytes::{ADDRESSES, Host, StreamHost, run, text};
use perhop_tcp::stream::Stream;
use perhop_tcp::{Algorithm, Config};
use perhop_units::{Duration, Instant};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use smoltcp::iface::{Config as InterfaceConfig, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::tcp::{Socket, SocketBuffer, State};
use smoltcp::time::Instant as Micros;
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr};
use std::collections::VecDeque;

#[derive(Default)]
struct Card {
    arrived: VecDeque<Vec<u8>>,
    sent: Vec<Vec<u8>>,
}

struct Taken(Vec<u8>);
struct Given<'a>(&'a mut Vec<Vec<u8>>);

impl RxToken for Taken {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read: F) -> R {
        read(&self.0)
    }
}

impl TxToken for Given<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, write: F) -> R {
        let mut packet = vec![0; len];
        let result = write(&mut packet);
        self.0.push(packet);
        result
    }
}

impl Device for Card {
    type RxToken<'a> = Taken;
    type TxToken<'a> = Given<'a>;
    fn receive(&mut self, _: Micros) -> Option<(Taken, Given<'_>)> {
        Some((Taken(self.arrived.pop_front()?), Given(&mut self.sent)))
    }
    fn transmit(&mut self, _: Micros) -> Option<Given<'_>> {
        Some(Given(&mut self.sent))
    }
    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = 1500;
        capabilities
    }
}

struct Smol {
    card: Card,
    interface: Interface,
    sockets: SocketSet<'static>,
    handle: SocketHandle,
    sends: Vec<u8>,
    sent: usize,
    received: Vec<u8>,
    closed: bool,
}

fn micros(now: Instant) -> Micros {
    Micros::from_micros((now.as_nanos() / 1000) as i64)
}

impl Smol {
    fn new(number: usize, sends: Vec<u8>, connects: bool) -> Self {
        let mut card = Card::default();
        let mut config = InterfaceConfig::new(HardwareAddress::Ip);
        config.random_seed = 5;
        let mut interface = Interface::new(config, &mut card, micros(Instant::ZERO));
        interface.update_ip_addrs(|all| {
            all.push(IpCidr::new(IpAddress::Ipv4(ADDRESSES[number]), 24)).unwrap();
        });
        let mut socket = Socket::new(SocketBuffer::new(vec![0; 100_000]), SocketBuffer::new(vec![0; 50_000]));
        let remote = (IpAddress::Ipv4(ADDRESSES[1 - number]), 80);
        if connects {
            socket.connect(interface.context(), remote, 1000).unwrap();
        } else {
            socket.listen(80).unwrap();
        }
        let mut sockets = SocketSet::new(Vec::new());
        let handle = sockets.add(socket);
        Self { card, interface, sockets, handle, sends, sent: 0, received: Vec::new(), closed: false }
    }
}

impl Host for Smol {
    fn serve(&mut self, now: Instant, packet: Option<&[u8]>, out: &mut Vec<Vec<u8>>) {
        self.card.arrived.extend(packet.map(<[u8]>::to_vec));
        for _ in 0..2 {
            self.interface.poll(micros(now), &mut self.card, &mut self.sockets);
            let socket = self.sockets.get_mut::<Socket<'_>>(self.handle);
            while socket.can_recv() {
                socket.recv(|bytes| (bytes.len(), self.received.extend_from_slice(bytes))).unwrap();
            }
            if socket.can_send() {
                self.sent += socket.send_slice(&self.sends[self.sent..]).unwrap();
            }
            if socket.may_send() && self.sent == self.sends.len() && !self.closed {
                self.closed = true;
                socket.close();
            }
        }
        out.append(&mut self.card.sent);
    }
    fn next_wakeup(&mut self, now: Instant) -> Option<Instant> {
        let at = self.interface.poll_at(micros(now), &self.sockets)?;
        Some(Instant(at.total_micros() as u64 * 1000).max(now + Duration::from_micros(1)))
    }
    fn received(&self) -> &[u8] {
        &self.received
    }
    fn is_done(&self) -> bool {
        let state = self.sockets.get::<Socket<'_>>(self.handle).state();
        self.closed && matches!(state, State::Closed | State::TimeWait | State::LastAck | State::Closing)
    }
}

/// Exchanges 300 kB each way; loss, reordering and duplication in percent.
fn exchange(config: Config, smol_connects: bool, loss: u32, reorder: u32, seed: u64) {
    let (ours, theirs) = (text(300_000, 1), text(300_000, 2));
    let now = Instant::ZERO;
    let (here, there) = if smol_connects { (1, 0) } else { (0, 1) };
    let stream = if smol_connects {
        Stream::listen(config, 80, 77, now).unwrap()
    } else {
        Stream::connect(config, 1000, 80, 77, now).unwrap()
    };
    let mut us = StreamHost::new(stream, here, ours.clone());
    let mut them = Smol::new(there, theirs.clone(), smol_connects);
    let mut rng = Pcg64::seed_from_u64(seed);
    let damage = Box::new(move |_: usize, _: &mut [u8]| {
        if rng.random_range(0..100) < loss {
            return vec![];
        }
        let late = if rng.random_range(0..100) < reorder { rng.random_range(0..30) } else { 0 };
        let copies = if rng.random_range(0..100) < reorder { 2 } else { 1 };
        vec![Duration::from_millis(late); copies]
    });
    let hosts: &mut [&mut dyn Host; 2] =
        if smol_connects { &mut [&mut them, &mut us] } else { &mut [&mut us, &mut them] };
    let outcome = run(hosts, Duration::from_millis(10), 200_000, damage);
    let context = format!("seed {seed}, loss {loss}, smoltcp connects: {smol_connects}, {outcome:?}");
    assert!(us.received() == theirs, "received {} bytes from smoltcp, {context}", us.received().len());
    assert!(them.received() == ours, "smoltcp received {} bytes, {context}", them.received().len());
    println!("{context}: {:?}", us.stream.endpoint().counters());
}

#[test]
fn bytes_pass_to_and_from_smoltcp() {
    for smol_connects in [false, true] {
        exchange(Config::default(), smol_connects, 0, 0, 1);
        exchange(Config::rfc(), smol_connects, 0, 0, 2);
    }
}

#[test]
fn bytes_pass_to_and_from_smoltcp_under_loss_and_reordering() {
    for seed in 0..4 {
        let reno = Config { congestion: Algorithm::NewReno, ecn: true, nagle: true, ..Config::default() };
        for smol_connects in [false, true] {
            exchange(Config::default(), smol_connects, 3, 10, seed);
            exchange(reno, smol_connects, 3, 10, seed);
            exchange(Config { receive_buffer: 9000, ..Config::rfc() }, smol_connects, 3, 10, seed);
        }
    }
}
