//! From options or a file to policies.

use crate::error::{AbrError, AppError};
use crate::output::progress;
use crate::text_file::read_text;
use clap::{Args, ValueEnum};
use perhop_config::MAX_FILE_BYTES;
use perhop_model::{AbrFloor, AbrMatch, AbrPolicySpec, Name};
use perhop_routerfile::host::{DEFAULT_CONNECTIONS, HostFile, HostPolicy};
use perhop_units::Rate;
use std::path::Path;

/// Slowest rate.
const LEAST: Rate = Rate::from_kbit(1);

/// Which way the data of limited flows goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Way {
    /// What this host sends
    Sent,
    /// What this host receives
    Received,
}

/// What happens to flows whose rate is below one segment a round trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Floor {
    /// One segment a round trip: more than the rate
    Clamp,
    /// Acknowledgments are held back as well
    Pace,
}

/// The options that stand for a file.
#[derive(Clone, Copy, Debug, Args)]
pub struct Simple {
    /// Most that each flow gets, as "2 Mbit/s"
    #[arg(long, value_name = "RATE")]
    pub rate: Option<Rate>,
    /// What each direction of the link carries; flows share it equally, policies of FILE by weight
    #[arg(long, value_name = "RATE")]
    pub link: Option<Rate>,
    /// Only data of one direction
    #[arg(long, value_name = "WAY", conflicts_with = "forward")]
    pub only: Option<Way>,
    /// Flows whose rate is below one segment a round trip
    #[arg(long, value_name = "HOW", default_value = "pace")]
    pub floor: Floor,
    /// What passes through this host, instead of what it sends and receives
    #[arg(long)]
    pub forward: bool,
}

/// Policies and what they share.
///
/// # Errors
/// No rate, or one out of range; the file cannot be read or has errors, which were shown.
pub fn load(file: Option<&Path>, simple: &Simple) -> Result<HostFile, AppError> {
    for (option, rate) in [("rate", simple.rate), ("link", simple.link)] {
        if let Some(given) = rate.filter(|rate| !(LEAST..=Rate::MOST).contains(rate)) {
            return Err(AbrError::Rate { option, given }.into());
        }
    }
    match file {
        Some(path) => {
            let text = read_text(path, MAX_FILE_BYTES)?;
            let (file, diagnostics) = HostFile::read(&path.display().to_string(), &text);
            if !diagnostics.is_empty() {
                progress(diagnostics.to_string().trim_end());
            }
            let file = file
                .ok_or_else(|| AppError::BadFile { path: path.to_owned(), errors: diagnostics.errors() })?;
            Ok(HostFile { rate: simple.link.or(file.rate), ..file })
        }
        None if simple.rate.is_none() && simple.link.is_none() => Err(AbrError::NoRate.into()),
        None => Ok(of_options(simple)),
    }
}

/// A policy for each direction: data one way takes nothing from the other.
fn of_options(simple: &Simple) -> HostFile {
    let ways: &[&str] = match simple.only {
        _ if simple.forward => &["forwarded"],
        None => &["sent", "received"],
        Some(Way::Sent) => &["sent"],
        Some(Way::Received) => &["received"],
    };
    let policies = ways.iter().map(|way| {
        let name = Name::new(way).expect("it has letters only");
        HostPolicy { spec: spec(simple, &name), name }
    });
    HostFile { rate: simple.link, connections: DEFAULT_CONNECTIONS, policies: policies.collect() }
}

fn spec(simple: &Simple, class: &Name) -> AbrPolicySpec {
    AbrPolicySpec {
        matches: AbrMatch { class: Some(class.clone()), ..AbrMatch::default() },
        // Without a link there is no sum that flows share.
        rate: if simple.link.is_some() { Rate::ZERO } else { Rate::MOST },
        peak: simple.rate.unwrap_or_default(),
        floor: match simple.floor {
            Floor::Clamp => AbrFloor::Clamp,
            Floor::Pace => AbrFloor::Pace,
        },
        ..AbrPolicySpec::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perhop_abr::AbrPolicyId;
    use perhop_routerfile::host::{FORWARDED, RECEIVED, SENT};

    const NONE: Simple = Simple { rate: None, link: None, only: None, floor: Floor::Pace, forward: false };

    #[test]
    fn options_become_a_policy_for_each_direction() {
        let classes = |simple: Simple| {
            let file = load(None, &simple).unwrap();
            let policies = file.policies.iter().zip(0..).map(|(p, id)| p.policy(AbrPolicyId(id)));
            policies.map(|p| (p.matches.class.unwrap(), p.rate, p.peak)).collect::<Vec<_>>()
        };
        let rate = Rate::from_mbit(2);
        let flows = Simple { rate: Some(rate), ..NONE };
        assert_eq!(classes(flows), [(SENT, Rate::MOST, rate), (RECEIVED, Rate::MOST, rate)]);
        let link = Simple { link: Some(rate), only: Some(Way::Received), ..NONE };
        assert_eq!(classes(link), [(RECEIVED, Rate(0), Rate(0))]);
        assert_eq!(load(None, &link).unwrap().rate, Some(rate));
        assert_eq!(classes(Simple { forward: true, ..flows }), [(FORWARDED, Rate::MOST, rate)]);
    }

    #[test]
    fn rates_that_cannot_be_are_refused() {
        let refused = |simple: Simple| load(None, &simple).unwrap_err().exit_code();
        assert_eq!(refused(NONE), 2);
        assert_eq!(refused(Simple { rate: Some(Rate(999)), ..NONE }), 2);
        assert_eq!(refused(Simple { link: Some(Rate(Rate::MOST.0 + 1)), ..NONE }), 2);
    }
}
