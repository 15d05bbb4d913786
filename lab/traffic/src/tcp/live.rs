//! The state of one connection: what was sent and read in the exchange that it carries.

use crate::tcp::Side;
use crate::tcp::job::{Exchange, Volume};

/// Bytes of an endless transfer that are written and not yet read at the other end, which are counted and not kept: more
/// than two sockets hold, whose buffers are at most 1 GiB each, and a portion, so that the transfer is never short of bytes.
pub const ENDLESS_BACKLOG_BYTES: u64 = 4 << 30;
/// Read bytes of an endless transfer are replaced in portions of this many.
const ENDLESS_PORTION_BYTES: u64 = 1 << 20;

/// A connection about which news may come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Live {
    pub(crate) slot: u16,
    pub(crate) exchange: Exchange,
    /// Its last exchange is complete.
    pub(crate) done: bool,
    /// Bytes of this exchange read by the client and by the server.
    at_client: u64,
    at_server: u64,
    requested: bool,
    responded: bool,
    /// Read bytes of an endless transfer that are not yet replaced.
    unreplaced: u64,
    client_closed: bool,
    server_closed: bool,
}

/// What a side is to send, and whether it closes behind it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sending {
    pub(crate) bytes: u64,
    pub(crate) closes: bool,
}

/// What bytes read at a side mean.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    /// They are data, not the request in front of data.
    pub(crate) is_data: bool,
    /// Everything that was to come to this side has come.
    pub(crate) whole: bool,
    /// Bytes that the other side is to send in their place.
    pub(crate) replaced: u64,
}

impl Live {
    pub(crate) fn new(slot: u16, exchange: Exchange) -> Self {
        Self {
            slot,
            exchange,
            done: false,
            at_client: 0,
            at_server: 0,
            requested: false,
            responded: false,
            unreplaced: 0,
            client_closed: false,
            server_closed: false,
        }
    }

    /// What the client sends now that it is connected; once.
    pub(crate) fn request(&mut self) -> Option<Sending> {
        if self.done || std::mem::replace(&mut self.requested, true) {
            return None;
        }
        let is_data = self.exchange.response == Volume::NOTHING;
        Some(sending(self.exchange.request, is_data && self.exchange.sender_closes))
    }

    /// What the server sends when it is connected and has read the request; once.
    pub(crate) fn response(&mut self) -> Option<Sending> {
        let Exchange { request, response, sender_closes } = self.exchange;
        let waits = !request.is_met(self.at_server);
        if self.done || waits || response == Volume::NOTHING || std::mem::replace(&mut self.responded, true) {
            return None;
        }
        Some(sending(response, sender_closes))
    }

    /// A side has read bytes.
    pub(crate) fn read(&mut self, side: Side, bytes: u64) -> Reading {
        let (read, volume) = match side {
            Side::Client => (&mut self.at_client, self.exchange.response),
            Side::Server => (&mut self.at_server, self.exchange.request),
        };
        *read = read.saturating_add(bytes);
        let whole = volume.is_met(*read);
        if volume == Volume::Endless {
            self.unreplaced = self.unreplaced.saturating_add(bytes);
        }
        let replaces = self.unreplaced >= ENDLESS_PORTION_BYTES;
        let replaced = if replaces { std::mem::take(&mut self.unreplaced) } else { 0 };
        Reading { is_data: self.exchange.reader() == side, whole, replaced }
    }

    /// Marks a side closed; false if it was.
    pub(crate) fn close(&mut self, side: Side) -> bool {
        let closed = match side {
            Side::Client => &mut self.client_closed,
            Side::Server => &mut self.server_closed,
        };
        !std::mem::replace(closed, true)
    }
}

fn sending(volume: Volume, closes: bool) -> Sending {
    match volume {
        Volume::Bytes(bytes) => Sending { bytes, closes },
        Volume::Endless => Sending { bytes: ENDLESS_BACKLOG_BYTES, closes: false },
    }
}
