//! How to open an AF_XDP port, and how it was opened.

use std::fmt;

/// How to open an AF_XDP port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AfXdpConfig {
    /// Interface name in the calling thread's network namespace.
    pub interface: String,
    /// Port name for messages.
    pub port: String,
    /// Buffers that wait for frames, over all queues: 64 … 65,536, and at most a quarter of the pool.
    pub rx_slots: u32,
    /// Frames that may wait to be sent: a power of two, 64 … 65,536.
    pub tx_slots: u32,
    /// Also receive frames for other stations (bridge mode).
    pub promiscuous: bool,
    /// Where the program may run.
    pub place: Place,
    /// Let the card read and write the pool's buffers where its driver can. Otherwise the kernel copies.
    pub zero_copy: bool,
    /// Poll the card from the receiving thread for so long at a time, µs, instead of waiting for its interrupts; 0: do
    /// not. Worth its processor only where the interface defers interrupts (`napi_defer_hard_irqs`,
    /// `gro_flush_timeout`).
    pub busy_poll_us: u32,
}

impl AfXdpConfig {
    /// 4,096 buffers to receive, 1,024 frames to send, anywhere, zero copy where it can be, no busy polling.
    pub fn new(port: &str, interface: &str) -> Self {
        Self {
            interface: interface.to_owned(),
            port: port.to_owned(),
            rx_slots: 4096,
            tx_slots: 1024,
            promiscuous: false,
            place: Place::Anywhere,
            zero_copy: true,
            busy_poll_us: 0,
        }
    }
}

/// Where the program may run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// In the driver if it can, else behind it.
    #[default]
    Anywhere,
    /// In the driver or not at all.
    Driver,
    /// Behind any driver: no faster than a packet socket.
    Generic,
}

/// How a port was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Program in the driver; on every queue the card reads and writes the pool's buffers.
    DriverZeroCopy,
    /// Program in the driver; the kernel copies frames from and to the pool's buffers.
    DriverCopy,
    /// Program behind the driver; the kernel copies.
    GenericCopy,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::DriverZeroCopy => "driver, zero copy",
            Self::DriverCopy => "driver, copy",
            Self::GenericCopy => "generic, copy",
        })
    }
}
