//! The options of `perhop demo`.

use clap::Args;
use perhop_quality::Codec;
use perhop_units::{Duration, Rate};
use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;

/// Sends calls, TCP transfers and a flood over an emulated link: through Perhop with examples/edge.toml, then through a
/// plain FIFO. Takes about a minute; needs root or unprivileged user namespaces.
#[derive(Clone, Debug, Args)]
pub struct DemoArgs {
    /// Instead: a reservation that is granted, calls with it beside a flood, and one that is refused and why. In the
    /// simulator, in seconds, as `perhop lab run demo-reserve`
    #[arg(long, conflicts_with_all = ["calls", "codec", "rate", "delay", "flood", "seconds", "json", "pcap"])]
    pub(super) reserve: bool,
    /// Calls, 1 to 200
    #[arg(long, default_value_t = 10, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=200))]
    pub(super) calls: u16,
    /// Codec of the calls: g711, g711a, g729, g729ab, g723.1-6.3, g723.1-5.3
    #[arg(long, default_value = "g711", value_name = "C")]
    pub(super) codec: Codec,
    /// Rate of the link, such as "4 Mbit/s"; 500 kbit/s to 200 Mbit/s
    #[arg(long, default_value = "10 Mbit/s", value_name = "R", value_parser = within(Rate::from_kbit(500), Rate::from_mbit(200)))]
    pub(super) rate: Rate,
    /// One-way delay of the link, such as "100 ms"; at most 1 s
    #[arg(long, default_value = "20 ms", value_name = "D", value_parser = within(Duration::ZERO, Duration::from_secs(1)))]
    pub(super) delay: Duration,
    /// Rate of the UDP flood, 0 for none; 1.6 times the link's when not given
    #[arg(long, value_name = "R", value_parser = within(Rate::ZERO, Rate::from_mbit(1_000)))]
    pub(super) flood: Option<Rate>,
    /// Length of every call in seconds, 1 to 3600; short calls lose a larger share before they are recognised
    #[arg(long, default_value_t = 22, value_name = "S", value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub(super) seconds: u32,
    /// Seed of the traffic's random numbers
    #[arg(long, default_value_t = 1, value_name = "N", allow_negative_numbers = true)]
    pub(super) seed: u64,
    /// Print the result as one JSON object on standard output, everything else on standard error
    #[arg(long)]
    pub(super) json: bool,
    /// Write captures of the link's ends here
    #[arg(long, value_name = "DIR")]
    pub(super) pcap: Option<PathBuf>,
    /// Write report.html and the other files of a result here
    #[arg(long, default_value = "out/demo", value_name = "DIR")]
    pub(super) out: PathBuf,
}

/// Reads a quantity within a range.
fn within<T>(least: T, most: T) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static
where
    T: FromStr<Err: Display> + PartialOrd + Display + Copy + Send + Sync + 'static,
{
    move |text| match text.parse::<T>() {
        Ok(value) if value >= least && value <= most => Ok(value),
        Ok(_) => Err(format!("allowed is {least} to {most}")),
        Err(error) => Err(error.to_string()),
    }
}
