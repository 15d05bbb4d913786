//! The command line of `perhop abr`.

use super::policies::Simple;
use clap::Args;
use ipnet::IpNet;
use perhop_io::nfqueue::NfqueueConfig;
use perhop_model::is_device_name;
use perhop_netlink::firewall::Selection;
use std::path::PathBuf;

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
    pub(super) file: Option<PathBuf>,
    #[command(flatten)]
    pub(super) simple: Simple,
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
    pub(super) no_rules: bool,
    /// Prints the state of the flows every second and at the end, one JSON object a line
    #[arg(long)]
    pub(super) json: bool,
}

impl AbrArgs {
    /// Which packets go to the queue.
    pub(super) fn selection(&self) -> Selection {
        Selection {
            queue: self.queue,
            forward: self.simple.forward,
            interfaces: self.interface.clone(),
            ports: self.port.clone(),
            prefixes: self.prefix.clone(),
        }
    }

    /// The queue.
    pub(super) fn queue(&self) -> NfqueueConfig {
        NfqueueConfig { length: self.queue_length, ..NfqueueConfig::new(self.queue) }
    }
}

/// As the kernel takes names, and not as an option.
fn interface(text: &str) -> Result<String, String> {
    let is_name = is_device_name(text) && !text.starts_with(['-', '!']) && !text.contains('"');
    if is_name { Ok(text.to_owned()) } else { Err("no interface can have this name".to_owned()) }
}

/// A network, or an address alone.
fn prefix(text: &str) -> Result<IpNet, String> {
    let net = text.parse::<IpNet>().or_else(|_| text.parse::<std::net::IpAddr>().map(IpNet::from));
    net.map(|net| net.trunc()).map_err(|_| "it is no prefix, as 192.0.2.0/24 or 2001:db8::/32".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

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
