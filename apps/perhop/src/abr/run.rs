//! Running it.

use super::args::AbrArgs;
use super::policies::load;
use crate::error::{AbrError, AppError, Verdict};
use crate::interrupt::watch_signals;
use crate::output::{Output, progress};
use crate::table::Table;
use perhop_engine::{HostPage, HostThread};
use perhop_model::ShowRow;
use perhop_netlink::Netlink;
use perhop_netlink::firewall::{FirewallError, Rules, Selection, Tool};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A signal is heard within this time.
const PATIENCE: Duration = Duration::from_millis(100);

/// Runs until it is interrupted.
///
/// # Errors
/// The options or the file are wrong, or the environment lacks something.
pub fn run(args: &AbrArgs) -> Result<Verdict, AppError> {
    let file = load(args.file.as_deref(), &args.simple)?;
    let selection = args.selection();
    let printed = selection.printed().map_err(AbrError::from)?;
    if !args.no_rules {
        let links = Netlink::open().and_then(|netlink| netlink.links()).map_err(AbrError::from)?;
        exist(&selection, links.into_iter().map(|link| link.name).collect())?;
    }
    let interrupted = watch_signals(None).map_err(AppError::Signals)?;
    let firewalls = if args.no_rules { Vec::new() } else { firewalls().map_err(AbrError::from)? };
    let packets = HostThread::start(&args.queue(), file, args.json).map_err(AbrError::from)?;
    // From here on packets come.
    let rules = Rules::place(firewalls, &selection).map_err(AbrError::from)?;
    if args.no_rules {
        progress(printed.trim_end());
    } else {
        let (count, queue) = (rules.count(), selection.queue);
        progress(format_args!("perhop: {count} rules send TCP to queue {queue}; Ctrl-C ends it"));
    }
    let watched = watch(&packets, &interrupted);
    drop(rules);
    let ended = packets.end().map_err(AbrError::from)?;
    let mut out = Output::new();
    if args.json {
        out.json(&ended.page())?;
    } else {
        out.text(summary(&ended.page(), ended.oddities()))?;
    }
    out.flush()?;
    watched.map(|()| Verdict::Done)
}

/// A rule for an interface that is not there would match nothing, and nobody would notice.
fn exist(selection: &Selection, known: Vec<String>) -> Result<(), AbrError> {
    match selection.missing(&known) {
        Some(given) => Err(AbrError::NoInterface { given: given.to_owned(), known }),
        None => Ok(()),
    }
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
fn watch(packets: &HostThread, interrupted: &AtomicBool) -> Result<(), AppError> {
    while !interrupted.load(Ordering::Relaxed) && !packets.is_finished() {
        if let Some(page) = packets.page(PATIENCE) {
            let mut out = Output::new();
            out.json(&page)?;
            out.flush()?;
        }
    }
    Ok(())
}

/// What has been done, for people.
fn summary(page: &HostPage, (unreadable, refused): (u64, u64)) -> String {
    let host = page.rows.iter().find(|row| row.kind == "host");
    let counter = |name| host.map_or(0, |row: &ShowRow| row.counter(name));
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
        let check = |given: &[&str]| {
            let interfaces = given.iter().map(|name| (*name).to_owned()).collect();
            exist(&Selection { interfaces, ..Selection::default() }, known.to_vec())
        };
        assert!(check(&[]).is_ok() && check(&["eth0", "ppp+"]).is_ok());
        for wrong in ["eth1", "tun+"] {
            let error = check(&["eth0", wrong]).unwrap_err();
            let text = error.to_string();
            assert!(text.contains(wrong) && text.contains("eth0, lo, ppp0"), "{text}");
            assert_eq!(error.exit_code(), 2);
        }
    }
}
