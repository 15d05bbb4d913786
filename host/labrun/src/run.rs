//! One run: the network is built, traffic sent, and everything taken down again.

use crate::awake::Awake;
use crate::bulk::Bulk;
use crate::dataplane::{DataPlane, Observed, RouterKind};
use crate::error::{LabError, io};
use crate::machine::{CpuTime, MachineState, socket_drops, waited_for_processor};
use crate::options::{DemoOptions, Timeline};
use crate::pace::{Lateness, sleep_until};
use crate::tap::{Tap, TapCounts};
use crate::topology::{CALLEE_DEVICE, CALLER_DEVICE, Topology};
use crate::udp::{
    CallSockets, DOWN_STREAM, FLOOD_STREAM, SendLog, flood_sockets, receive_calls, receive_flood, send,
};
use perhop_io::clock::monotonic;
use perhop_quality::{CallRecord, Received};
use perhop_traffic::{
    Activity, Arrival, BulkConfig, BulkTally, Constant, ConstantConfig, FlowTally, Seed, UDP_IPV4_OVERHEAD,
    VoiceCalls, VoiceConfig, VoiceFormat,
};
use perhop_units::{Duration, Instant, Rate};
use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Bulk transfers beside the calls.
pub(crate) const TRANSFERS: u16 = 4;
/// UDP payload of the flood's datagrams is what the link carries in a ms, within these: on a slow link a call should
/// not wait for large packets that have already begun, as no router can help that.
const FLOOD_PAYLOAD: RangeInclusive<u64> = 200..=1_172;
/// Bytes a transfer hands to its socket at once.
const BULK_CHUNK: u32 = 32 << 10;
/// From the start of the threads to the first instant of the run.
const LEAD: Duration = Duration::from_millis(150);
/// Datagram index at which a call counts as detected when nothing says so: the edge's detector wants ten packets.
pub(crate) const DETECTION_PACKETS: u64 = 10;

/// What one run gave.
#[derive(Debug)]
pub(crate) struct RunOutcome {
    pub(crate) kind: RouterKind,
    pub(crate) timeline: Timeline,
    /// Start of the run.
    pub(crate) epoch: Instant,
    /// Caller to callee, by call.
    pub(crate) up: Vec<CallRecord>,
    /// Callee to caller, by call.
    pub(crate) down: Vec<CallRecord>,
    /// First packet of each call, caller to callee.
    pub(crate) begins: Vec<Instant>,
    pub(crate) bulk: Vec<BulkTally>,
    pub(crate) congestion_control: String,
    pub(crate) flood_sent: u64,
    pub(crate) flood: FlowTally,
    pub(crate) tap: TapCounts,
    pub(crate) observed: Observed,
    pub(crate) machine: MachineState,
}

struct Threads {
    up: JoinHandle<SendLog>,
    down: JoinHandle<SendLog>,
    flood: Option<JoinHandle<SendLog>>,
    at_callee: JoinHandle<Vec<Arrival>>,
    at_caller: JoinHandle<Vec<Arrival>>,
    flood_sink: JoinHandle<FlowTally>,
    bulk: Bulk,
    taps: [Tap; 2],
}

/// The two ends of a run: `stop` ends the senders, `done` the receivers.
#[derive(Clone, Default)]
struct Ends {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicBool>,
}

impl Drop for Ends {
    /// However a run ends, no thread outlives it.
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.done.store(true, Ordering::Relaxed);
    }
}

/// Runs the traffic through a router of this kind. `progress` is told what happens and how long it will take still.
pub(crate) fn run(
    kind: RouterKind,
    options: &DemoOptions,
    interrupted: &AtomicBool,
    progress: &mut dyn FnMut(&str, Duration),
) -> Result<RunOutcome, LabError> {
    let timeline = options.timeline();
    progress(&format!("{}: building the network", kind.name()), timeline.quiet);
    let topology = Topology::build()?;
    let captures = options.pcap.as_ref().map(|directory| directory.join(kind.directory()));
    let plane = DataPlane::start(kind, &topology, options, captures.as_deref())?;
    let ends = Ends::default();
    let epoch = monotonic() + LEAD;
    let awake = Awake::start();
    let (cpu, kept) = (CpuTime::now()?, awake.cpu_time());
    let waited = waited_for_processor();
    let threads = start(&topology, options, &timeline, epoch, &ends)?;
    let finished = watch(kind, &timeline, epoch, interrupted, progress);
    ends.stop.store(true, Ordering::Relaxed);
    ends.done.store(true, Ordering::Relaxed);
    let cpu = CpuTime::now()?.since(&cpu, awake.cpu_time() - kept);
    let waited = waited_for_processor() - waited;
    let drops = socket_drops(&topology.callee) + socket_drops(&topology.caller);
    let mut outcome = gather(kind, options, timeline, epoch, threads, plane)?;
    if !finished {
        return Err(LabError::Interrupted);
    }
    let machine = &mut outcome.machine;
    (machine.steal_pct, machine.busy_pct) = cpu;
    machine.waiting_pct = waited.as_secs_f64() / timeline.quiet.as_secs_f64() * 100.0;
    machine.lost_inside += drops + outcome.tap.lost + outcome.observed.lost_inside;
    let call_packets: usize = outcome.up.iter().map(|c| c.packets().count()).sum();
    machine.lost_pct = machine.lost_inside as f64 * 100.0 / call_packets.max(1) as f64;
    Ok(outcome)
}

/// Waits for the end of the run, telling every second how it stands; `false` after Ctrl-C.
fn watch(
    kind: RouterKind,
    timeline: &Timeline,
    epoch: Instant,
    interrupted: &AtomicBool,
    progress: &mut dyn FnMut(&str, Duration),
) -> bool {
    let mut next = epoch;
    let end = epoch + timeline.quiet;
    loop {
        let now = monotonic();
        if interrupted.load(Ordering::Relaxed) {
            return false;
        }
        if now >= end {
            return true;
        }
        if now >= next {
            let at = now.since(epoch);
            let phase = if at < timeline.flood_start {
                "bulk transfers start"
            } else if at < timeline.calls_start {
                "the flood fills the queue"
            } else if at < timeline.end {
                "calls through the full queue"
            } else {
                "the last packets arrive"
            };
            progress(&format!("{}: {phase}", kind.name()), end.since(now));
            next += Duration::from_secs(1);
        }
        sleep_until(end.min(now + Duration::from_millis(50)));
    }
}

fn start(
    topology: &Topology,
    options: &DemoOptions,
    timeline: &Timeline,
    epoch: Instant,
    ends: &Ends,
) -> Result<Threads, LabError> {
    let sockets = CallSockets::open(&topology.caller, &topology.callee, options.calls)?;
    let (flood_out, flood_in) = flood_sockets(&topology.caller, &topology.callee)?;
    let tap = |namespace, device| Tap::start(namespace, device, epoch, &ends.done);
    let taps = [tap(&topology.callee, CALLEE_DEVICE)?, tap(&topology.caller, CALLER_DEVICE)?];
    let clones = |from: &[std::net::UdpSocket]| -> Result<Vec<_>, LabError> {
        from.iter().map(|s| s.try_clone().map_err(io("copy a socket"))).collect()
    };
    let (caller_in, callee_in) = (clones(&sockets.caller)?, clones(&sockets.callee)?);
    let done = Arc::clone(&ends.done);
    let at_callee = thread("callee", move || receive_calls(&callee_in, 0, &done))?;
    let done = Arc::clone(&ends.done);
    let at_caller = thread("caller", move || receive_calls(&caller_in, DOWN_STREAM, &done))?;
    let done = Arc::clone(&ends.done);
    let flood_sink = thread("flood-sink", move || receive_flood(&flood_in, &done))?;
    let up = calls(options, timeline, 0)?;
    let stop = Arc::clone(&ends.stop);
    let up =
        thread("calls-up", move || send(up, epoch, |s| sockets.caller.get(usize::from(s)), true, &stop))?;
    let down = calls(options, timeline, DOWN_STREAM)?;
    let stop = Arc::clone(&ends.stop);
    let down = thread("calls-down", move || {
        let socket_of = |s: u16| sockets.callee.get(usize::from(s.checked_sub(DOWN_STREAM)?));
        send(down, epoch, socket_of, true, &stop)
    })?;
    let flood = match flood(options, timeline)? {
        Some(source) => {
            let stop = Arc::clone(&ends.stop);
            Some(thread("flood", move || send(source, epoch, |_| Some(&flood_out), false, &stop))?)
        }
        None => None,
    };
    let transfers = BulkConfig {
        transfers: TRANSFERS,
        start: Duration::ZERO,
        spacing: Duration::from_millis(20),
        stop: timeline.end,
        chunk_bytes: BULK_CHUNK,
    }
    .transfers()?;
    let bulk = Bulk::start(&topology.caller, &topology.callee, &transfers, epoch, &ends.stop, &ends.done)?;
    Ok(Threads { up, down, flood, at_callee, at_caller, flood_sink, bulk, taps })
}

fn thread<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, LabError> {
    std::thread::Builder::new().name(name.to_owned()).spawn(work).map_err(io("start a thread"))
}

fn calls(options: &DemoOptions, timeline: &Timeline, first_stream: u16) -> Result<VoiceCalls, LabError> {
    let codec = options.codec;
    let config = VoiceConfig {
        calls: options.calls,
        format: VoiceFormat {
            payload_type: codec.payload_type(),
            payload_bytes: codec.payload_bytes(),
            packet_interval: codec.packet_interval(),
            timestamp_step: codec.timestamp_step(),
        },
        start: timeline.calls_start,
        spacing: timeline.call_spacing,
        length: timeline.call_length,
        activity: Activity::Continuous,
        first_stream,
    };
    Ok(VoiceCalls::new(config, Seed::new(options.seed))?)
}

fn flood(options: &DemoOptions, timeline: &Timeline) -> Result<Option<Constant>, LabError> {
    let rate = options.flood_rate();
    if rate == Rate::ZERO {
        return Ok(None);
    }
    let payload = options.rate.bytes_in(Duration::from_millis(1)).get();
    let config = ConstantConfig {
        rate,
        payload_bytes: payload.clamp(*FLOOD_PAYLOAD.start(), *FLOOD_PAYLOAD.end()) as u16,
        overhead_bytes: UDP_IPV4_OVERHEAD,
        start: timeline.flood_start,
        stop: timeline.end,
        stream: FLOOD_STREAM,
    };
    Ok(Some(Constant::new(config)?))
}

fn gather(
    kind: RouterKind,
    options: &DemoOptions,
    timeline: Timeline,
    epoch: Instant,
    threads: Threads,
    plane: DataPlane,
) -> Result<RunOutcome, LabError> {
    let up = threads.up.join().unwrap_or_default();
    let down = threads.down.join().unwrap_or_default();
    let flood = threads.flood.map(|f| f.join().unwrap_or_default()).unwrap_or_default();
    let at_callee = threads.at_callee.join().unwrap_or_default();
    let at_caller = threads.at_caller.join().unwrap_or_default();
    let flood_tally = threads.flood_sink.join().unwrap_or_default();
    let congestion_control = threads.bulk.congestion_control.clone();
    let bulk = threads.bulk.finish();
    let [tap, back] = threads.taps;
    let (tap, back) = (tap.finish(), back.finish());
    let observed = plane.stop()?;
    let mut lateness = Lateness::default();
    lateness.merge(&up.lateness);
    lateness.merge(&down.lateness);
    let machine = MachineState {
        lateness_p99: lateness.p99(),
        lateness_max: lateness.max(),
        lost_inside: back.lost,
        send_refused: up.refused + down.refused + flood.refused,
        ..MachineState::default()
    };
    let begins = begins(&up, options.calls);
    Ok(RunOutcome {
        kind,
        timeline,
        epoch,
        up: records(options, &up, &at_callee, &tap, 0),
        down: records(options, &down, &at_caller, &back, DOWN_STREAM),
        begins,
        bulk,
        congestion_control,
        flood_sent: flood.count,
        flood: flood_tally,
        tap,
        observed,
        machine,
    })
}

/// When each call's first packet was sent.
fn begins(log: &SendLog, calls: u16) -> Vec<Instant> {
    let mut begins = vec![Instant::FAR_FUTURE; usize::from(calls)];
    for sent in log.sent.iter().filter(|sent| sent.index == 0) {
        if let Some(begin) = begins.get_mut(usize::from(sent.stream)) {
            *begin = sent.at;
        }
    }
    begins
}

/// What was sent and what a socket received, as a record for each call. The instant of arrival is the kernel's stamp
/// where there is one: what the receiving thread then waits for a processor is this machine's doing, not the network's.
fn records(
    options: &DemoOptions,
    sent: &SendLog,
    arrivals: &[Arrival],
    tap: &TapCounts,
    first_stream: u16,
) -> Vec<CallRecord> {
    let stamps: HashMap<(u16, u32), Instant> =
        tap.stamps.iter().rev().map(|(stream, index, at)| ((*stream, *index), *at)).collect();
    let mut records = vec![CallRecord::new(options.codec); usize::from(options.calls)];
    let place = |stream: u16| stream.checked_sub(first_stream).map(usize::from);
    for packet in &sent.sent {
        if let Some(record) = place(packet.stream).and_then(|i| records.get_mut(i)) {
            record.sent(packet.index, packet.at);
        }
    }
    for arrival in arrivals {
        let Some(record) = place(arrival.stream).and_then(|i| records.get_mut(i)) else { continue };
        let stamp = stamps.get(&(arrival.stream, arrival.index)).copied();
        record.received(Received {
            index: arrival.index,
            rtp_timestamp: arrival.rtp.map_or(0, |rtp| rtp.timestamp),
            sent: arrival.sent,
            arrived: stamp.unwrap_or(arrival.arrived).max(arrival.sent),
        });
    }
    records
}
