//! Running it.

use super::error::AbrError;
use super::policies::{Floor, Simple, Way, load};
use crate::demo::watch_signals;
use crate::error::{AppError, Verdict};
use crate::output::{Output, progress};
use crate::table::Table;
use clap::Args;
use ipnet::IpNet;
use perhop_engine::{HostAbr, HostAbrConfig, HostLoop, HostPage, Row};
use perhop_io::clock;
use perhop_io::nfqueue::{Nfqueue, NfqueueConfig};
use perhop_netlink::firewall::{FirewallError, Rules, Selection, Tool};
use perhop_units::Rate;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// A signal is heard within this time.
const PATIENCE: Duration = Duration::from_millis(100);
/// Part of the queue that held acknowledgments may take; when it is full, packets pass unseen.
const HELD_PART: u32 = 4;

/// Arguments of `perhop abr`.
#[derive(Debug, Args)]
#[command(after_help = "Examples: perhop abr --host --rate \"2 Mbit/s\" --interface eth0\n          \
                        perhop abr --host --link \"3 Mbit/s\" --only received\n          \
                        perhop abr --host uplink.toml\n\n\
                        Holds TCP flows at rates by lowering the receive window in acknowledgments (docs/host-mode.md). Needs root and \
                        iptables. When it ends, however it ends, packets pass untouched.")]
pub struct AbrArgs {
    /// On this host; a router has policies in its file
    #[arg(long, required = true)]
    host: bool,
    /// File of policies and of the rate of the link; instead of --rate
    #[arg(value_name = "FILE", conflicts_with_all = ["rate", "only", "floor"])]
    file: Option<PathBuf>,
    /// Most that each flow gets, as "2 Mbit/s"
    #[arg(long, value_name = "RATE")]
    rate: Option<Rate>,
    /// What each direction of the link carries; flows share it equally, policies of FILE by weight
    #[arg(long, value_name = "RATE")]
    link: Option<Rate>,
    /// Only data of one direction
    #[arg(long, value_name = "WAY", conflicts_with = "forward")]
    only: Option<Way>,
    /// Flows whose rate is below one segment a round trip
    #[arg(long, value_name = "HOW", default_value = "pace")]
    floor: Floor,
    /// What passes through this host, instead of what it sends and receives
    #[arg(long)]
    forward: bool,
    /// Only by this interface; may be given several times, as --port and --prefix
    #[arg(long, value_name = "NAME", value_parser = interface)]
    interface: Vec<String>,
    /// Only with this port, here or there
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    port: Vec<u16>,
    /// Only to and from this prefix
    #[arg(long, value_name = "PREFIX", value_parser = prefix)]
    prefix: Vec<IpNet>,
    /// Number of the kernel's queue
    #[arg(long, value_name = "N", default_value_t = 7_117)]
    queue: u16,
    /// Packets that wait in the queue at most; those beyond pass
    #[arg(long, value_name = "PACKETS", default_value_t = 4_096, value_parser = clap::value_parser!(u32).range(64..=1_000_000))]
    queue_length: u32,
    /// Sets no rules and prints them, for iptables and for nft
    #[arg(long)]
    no_rules: bool,
    /// Prints the state of the flows every second and at the end, one JSON object a line
    #[arg(long)]
    json: bool,
}

/// As the kernel takes names, and not as an option.
fn interface(text: &str) -> Result<String, String> {
    let is_name = (1..=15).contains(&text.len())
        && !text.starts_with(['-', '!'])
        && !text.contains(|c: char| c.is_whitespace() || "/:\"".contains(c));
    if is_name { Ok(text.to_owned()) } else { Err("no interface can have this name".to_owned()) }
}

/// The interfaces of this network namespace.
fn interfaces() -> Result<Vec<String>, AppError> {
    let here = std::fs::read_dir("/sys/class/net");
    let tool = |source| FirewallError::Tool { tool: "/sys/class/net".to_owned(), source };
    let names = here
        .map_err(|e| AbrError::from(tool(e)))?
        .filter_map(|entry| Some(entry.ok()?.file_name().to_str()?.to_owned()));
    let mut names: Vec<String> = names.collect();
    names.sort();
    Ok(names)
}

/// A rule for an interface that is not there would match nothing, and nobody would notice. `ppp+` stands for all that begin so.
fn exist(given: &[String], known: &[String]) -> Result<(), AbrError> {
    let is_there = |given: &String| match given.strip_suffix('+') {
        Some(begin) => known.iter().any(|name| name.starts_with(begin)),
        None => known.contains(given),
    };
    match given.iter().find(|given| !is_there(given)) {
        Some(given) => Err(AbrError::NoInterface { given: given.clone(), known: known.to_vec() }),
        None => Ok(()),
    }
}

/// A network, or an address alone.
fn prefix(text: &str) -> Result<IpNet, String> {
    let net = text.parse::<IpNet>().or_else(|_| text.parse::<std::net::IpAddr>().map(IpNet::from));
    net.map(|net| net.trunc()).map_err(|_| "it is no prefix, as 192.0.2.0/24 or 2001:db8::/32".to_owned())
}

/// Runs until it is interrupted.
///
/// # Errors
/// The options or the file are wrong, or the environment lacks something.
pub fn run(args: &AbrArgs) -> Result<Verdict, AppError> {
    let simple = Simple {
        rate: args.rate,
        link: args.link,
        only: args.only,
        floor: args.floor,
        forward: args.forward,
    };
    let file = load(args.file.as_deref(), &simple)?;
    let selection = Selection {
        queue: args.queue,
        forward: args.forward,
        interfaces: args.interface.clone(),
        ports: args.port.clone(),
        prefixes: args.prefix.clone(),
    };
    let printed = selection.printed().map_err(AbrError::from)?;
    if !args.no_rules {
        exist(&args.interface, &interfaces()?)?;
    }
    let interrupted = watch_signals().map_err(AppError::Signals)?;
    let firewalls = if args.no_rules { Vec::new() } else { firewalls().map_err(AbrError::from)? };
    let config = NfqueueConfig { length: args.queue_length, ..NfqueueConfig::new(args.queue) };
    let queue = Nfqueue::open(&config).map_err(AbrError::from)?;
    let machine = HostAbr::new(HostAbrConfig {
        connections: file.connections as usize,
        held: (args.queue_length / HELD_PART) as usize,
        policies: file.policies,
        link: file.rate,
        seed: seed(),
    });
    let (loop_, pages) = Packets::start(HostLoop::new(queue, machine), args.queue, args.json)?;
    // From here on packets come.
    let rules = Rules::place(firewalls, &selection).map_err(AbrError::from)?;
    if args.no_rules {
        progress(printed.trim_end());
    } else {
        progress(format_args!(
            "perhop: {} rules send TCP to queue {}; Ctrl-C ends it",
            rules.count(),
            args.queue
        ));
    }
    let watched = watch(&loop_, &pages, &interrupted);
    drop(rules);
    let ended = loop_.end()?;
    let mut out = Output::new();
    let page = HostPage::of(ended.machine(), args.queue, clock::monotonic());
    if args.json {
        out.json(&page)?;
    } else {
        out.text(summary(&page, ended.oddities()))?;
    }
    out.flush()?;
    watched.map(|()| Verdict::Done)
}

/// IPv4 must be had; without IPv6 the rest works.
fn firewalls() -> Result<Vec<Tool>, FirewallError> {
    let mut tools = vec![Tool::find(false)?];
    match Tool::find(true) {
        Ok(tool) => tools.push(tool),
        Err(error) => {
            let why = error.to_string();
            progress(format_args!("perhop: IPv6 is not limited: {}", why.lines().next().unwrap_or_default()));
        }
    }
    Ok(tools)
}

/// Prints what is told until it is interrupted or the packets' thread has ended.
fn watch(packets: &Packets, pages: &Receiver<HostPage>, interrupted: &AtomicBool) -> Result<(), AppError> {
    while !interrupted.load(Ordering::Relaxed) {
        match pages.recv_timeout(PATIENCE) {
            Ok(page) => {
                let mut out = Output::new();
                out.json(&page)?;
                out.flush()?;
            }
            Err(RecvTimeoutError::Timeout) if !packets.thread.is_finished() => {}
            Err(_) => return Ok(()),
        }
    }
    Ok(())
}

/// Nobody outside may guess which connections share a place in the table.
fn seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(clock::monotonic().0)
}

/// The thread that carries packets.
struct Packets {
    thread: JoinHandle<(HostLoop, io::Result<()>)>,
    stop: Arc<AtomicBool>,
}

impl Packets {
    fn start(mut host: HostLoop, queue: u16, json: bool) -> Result<(Self, Receiver<HostPage>), AppError> {
        let stop = Arc::new(AtomicBool::new(false));
        let (tell, told): (SyncSender<HostPage>, _) = sync_channel(1);
        let stopped = Arc::clone(&stop);
        let work = move || {
            let ended = host.run(&stopped, &mut |machine, now| {
                if json {
                    // A reader that is slow misses some; packets do not wait for it.
                    let _ = tell.try_send(HostPage::of(machine, queue, now));
                }
            });
            (host, ended)
        };
        let thread =
            std::thread::Builder::new().name("packets".into()).spawn(work).map_err(AppError::Runtime)?;
        Ok((Self { thread, stop }, told))
    }

    /// Ends it, when nothing is sent to the queue any more.
    fn end(self) -> Result<HostLoop, AbrError> {
        self.stop.store(true, Ordering::Relaxed);
        let (host, ended) = self.thread.join().map_err(|_| AbrError::Died)?;
        ended.map_err(AbrError::Lost).map(|()| host)
    }
}

/// What has been done, for people.
fn summary(page: &HostPage, (unreadable, refused): (u64, u64)) -> String {
    let host = page.rows.iter().find(|row| row.kind == "host");
    let counter = |name| host.map_or(0, |row: &Row| row.counter(name));
    let mut text = format!(
        "{} packets, {} with several segments; {} windows lowered, {} acknowledgments held; {} passed unseen\n",
        counter("packets"),
        counter("large"),
        counter("rewritten"),
        counter("held_packets"),
        counter("missed"),
    );
    if unreadable + refused > 0 {
        text.push_str(&format!("{unreadable} messages not understood, {refused} verdicts came too late\n"));
    }
    let mut table = Table::new(["POLICY", "PACKETS", "BYTES", "LOWERED", "FLOOR"]);
    for row in page.rows.iter().filter(|row| row.kind == "abr_policy") {
        let numbers =
            ["packets", "bytes", "rewritten", "floor_limited"].map(|name| row.counter(name).to_string());
        table.row([row.name.clone()].into_iter().chain(numbers));
    }
    format!("{text}{table}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_that_is_not_there_is_an_error_with_those_that_are() {
        let known = ["eth0", "lo", "ppp0"].map(str::to_owned);
        let check =
            |given: &[&str]| exist(&given.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>(), &known);
        assert!(check(&[]).is_ok() && check(&["eth0", "ppp+"]).is_ok());
        for wrong in ["eth1", "tun+"] {
            let error = check(&["eth0", wrong]).unwrap_err();
            let text = error.to_string();
            assert!(text.contains(wrong) && text.contains("eth0, lo, ppp0"), "{text}");
            assert_eq!(error.exit_code(), 2);
        }
    }

    #[test]
    fn names_that_look_like_options_are_refused() {
        assert_eq!(interface("eth0.7"), Ok("eth0.7".to_owned()));
        for bad in ["", "-j", "!", "a b", "sixteen-letters-", "a/b"] {
            assert!(interface(bad).is_err(), "{bad}");
        }
        assert_eq!(prefix("10.1.2.3/8").unwrap().to_string(), "10.0.0.0/8");
        assert_eq!(prefix("2001:db8::1").unwrap().to_string(), "2001:db8::1/128");
        assert!(prefix("ten").is_err());
    }
}
