//! What an agent's file says about links and the flows of TCP that share them.

use super::plan::Schedule;
use super::share::Weighted;
use perhop_allocate::Metering;
use perhop_model::Name;
use perhop_units::{Duration, Rate};

/// Everything about links; without links there is nothing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BandwidthSettings {
    /// How often flows are counted, and what is served before them measured.
    pub look: Duration,
    /// A policy keeps its rate while it should change by less than this share of it, in parts per million, unless a link
    /// would carry too much.
    pub least_change_ppm: u32,
    /// The links, in order of the file.
    pub links: Vec<LinkSettings>,
    /// The policies, in order of the file.
    pub policies: Vec<PolicySettings>,
    /// Policies of others, if they are to be granted.
    pub requests: Option<RequestSettings>,
}

impl Default for BandwidthSettings {
    /// No links.
    fn default() -> Self {
        let (links, policies) = (Vec::new(), Vec::new());
        Self { look: Duration::from_millis(200), least_change_ppm: 10_000, links, policies, requests: None }
    }
}

/// One link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkSettings {
    /// How the file calls it.
    pub name: Name,
    /// Port of the router whose rate it has.
    pub port: Option<Name>,
    /// Its rate before the first change; beside a port the lower of both counts.
    pub rate: Option<Rate>,
    /// Whether the port gets the rate that the file or an announcement says, when its time has come.
    pub set_port: bool,
    /// What of it is given away, in parts per million.
    pub utilisation_ppm: u32,
    /// Classes that are served before.
    pub above: Vec<Name>,
    /// How they are measured.
    pub metering: Metering,
    /// The largest of so many looks counts.
    pub intervals: u32,
    /// What is left free beside what they use, in parts per million of it.
    pub margin_ppm: u32,
    /// Lower rates are in force so long before the link is slower.
    pub notice: Duration,
    /// Changes that are known.
    pub schedule: Schedule,
}

/// One policy; what is absent is as the router's object says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicySettings {
    /// Object name in the router.
    pub policy: Name,
    /// Links that its flows cross, by number.
    pub path: Vec<usize>,
    /// Against other policies.
    pub weight: Option<u32>,
    /// Whose weight it is.
    pub weighted: Weighted,
    /// What each flow gets in any case.
    pub min: Option<Rate>,
    /// What each flow gets at most.
    pub peak: Option<Rate>,
    /// What is kept while no flow sends; as a default `min`.
    pub reserve: Option<Rate>,
}

/// Policies of clients of the router's interfaces that the file does not name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestSettings {
    /// Links that their flows cross, by number.
    pub path: Vec<usize>,
    /// Most that are granted at once.
    pub limit: usize,
    /// Most that one flow is granted; no minimum above it.
    pub most: Option<Rate>,
}
