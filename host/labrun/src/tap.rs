//! What arrives at an interface, seen beside the sockets: frames and bits by kind of traffic, captures.

use crate::bulk::BULK_PORT;
use crate::error::LabError;
use crate::udp::{CALLEE_PORT, CALLER_PORT, FLOOD_PORT};
use perhop_element::{CounterSink, Port};
use perhop_io::clock::monotonic;
use perhop_io::pcap::CaptureWriter;
use perhop_io::{AfPacket, AfPacketConfig};
use perhop_netlink::Namespace;
use perhop_packet::{Batch, Pool};
use perhop_units::{Duration, Instant};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
