//! A connection with both its ends in this process.

use perhop_traffic::tcp::ConnId;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown, sockopt};
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;

/// What is sent: its values mean nothing.
static BYTES: [u8; 64 << 10] = [0x55; 64 << 10];

/// One end.
#[derive(Debug, Default)]
pub(super) struct End {
    /// The socket; none at the server before it accepts.
    pub(super) socket: Option<OwnedFd>,
    /// The handshake is complete.
    pub(super) connected: bool,
    /// Bytes that the application wants to send and the socket has not taken.
    pub(super) unwritten: u64,
    /// Nothing follows what is unwritten.
    pub(super) closing: bool,
    shut: bool,
    finished: bool,
}

/// What an end has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    /// It has become connected.
    pub(super) opened: bool,
    /// Bytes read.
    pub(super) read: u64,
    /// It has read the end of the peer's bytes.
    pub(super) finished: bool,
    /// The connection is gone.
    pub(super) failed: bool,
}

impl End {
    /// Connects, writes, closes and reads as far as that goes without waiting.
    pub(super) fn progress(&mut self, buffer: &mut [u8]) -> Progress {
        let mut progress = Progress::default();
        if let Err(error) = self.advance(buffer, &mut progress) {
            progress.failed = error != Errno::AGAIN;
        }
        progress
    }

    fn advance(&mut self, buffer: &mut [u8], progress: &mut Progress) -> rustix::io::Result<()> {
        let Some(socket) = &self.socket else { return Ok(()) };
        // A reset shows here even when nothing is left to read.
        sockopt::socket_error(socket)??;
        if !self.connected {
            if rustix::net::getpeername(socket).is_err() {
                return Ok(());
            }
            self.connected = true;
            progress.opened = true;
        }
        while self.unwritten > 0 {
            let len = self.unwritten.min(BYTES.len() as u64) as usize;
            match send(socket, &BYTES[..len], SendFlags::NOSIGNAL) {
                Ok(sent) => self.unwritten -= sent as u64,
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        if self.closing && self.unwritten == 0 && !self.shut {
            shutdown(socket, Shutdown::Write)?;
            self.shut = true;
        }
        while !self.finished {
            match recv(socket, &mut *buffer, RecvFlags::empty()) {
                Ok((0, _)) => {
                    self.finished = true;
                    progress.finished = true;
                }
                Ok((read, _)) => progress.read += read as u64,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.shut && self.finished
    }
}

/// Both ends.
#[derive(Debug)]
pub(super) struct Connection {
    /// Index of the application.
    pub(super) application: usize,
    /// Its number there.
    pub(super) id: ConnId,
    /// Client and server.
    pub(super) ends: [End; 2],
    /// Index of its record.
    pub(super) record: usize,
    /// Tells its events from those of the connection that had its place before.
    pub(super) serial: u32,
    /// Client address and port, server port.
    pub(super) client: (Ipv4Addr, u16, u16),
}

impl Connection {
    pub(super) fn new(
        application: usize,
        id: ConnId,
        record: usize,
        serial: u32,
        client: (Ipv4Addr, u16, u16),
    ) -> Self {
        Self { application, id, ends: Default::default(), record, serial, client }
    }

    /// Both directions are closed.
    pub(super) fn is_over(&self) -> bool {
        self.ends.iter().all(End::is_over)
    }

    /// Lets the coming close of the sockets reset the connection.
    pub(super) fn reset(&self) {
        for socket in self.ends.iter().filter_map(|end| end.socket.as_ref()) {
            let _ = sockopt::set_socket_linger(socket, Some(std::time::Duration::ZERO));
        }
    }
}
