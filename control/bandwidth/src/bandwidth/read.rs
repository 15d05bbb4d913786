//! Links and policies in an agent's file: `[bandwidth]`, `[[link]]`, `[[abr]]` and `[requests]`.

use super::plan::{Change, Schedule};
use super::settings::{BandwidthSettings, LinkSettings, PolicySettings, RequestSettings};
use super::share::{LEAST_RATE, Weighted};
use crate::file::share;
use perhop_allocate::Metering;
use perhop_config::{Spanned, TableReader, TextError};
use perhop_model::Name;
use perhop_units::{Duration, Rate};
use std::collections::BTreeSet;

/// Most links.
const MAX_LINKS: usize = 1_000;
/// Most policies.
const MAX_POLICIES: usize = 10_000;
/// Most changes of a link.
const MAX_CHANGES: usize = 100;
/// Longest repetition, and latest change.
const LONGEST: Duration = Duration::from_secs(365 * 86_400);
/// All of it, in parts per million.
const WHOLE: u32 = 1_000_000;

/// Reads everything about links.
pub(crate) fn bandwidth(root: &mut TableReader<'_>) -> BandwidthSettings {
    let mut settings = BandwidthSettings::default();
    let given = general(root, &mut settings);
    for (name, mut table) in bounded(root, "link", MAX_LINKS) {
        let link = link(&mut table, name);
        settings.links.push(link);
        table.finish();
    }
    for (name, mut table) in bounded(root, "abr", MAX_POLICIES) {
        let policy = policy(&mut table, name, &settings.links);
        settings.policies.extend(policy);
        table.finish();
    }
    settings.requests = requests(root, &settings.links);
    let uses = [("bandwidth", given), ("abr", root.has("abr")), ("requests", settings.requests.is_some())];
    for (key, _) in uses.iter().filter(|(_, given)| *given && settings.links.is_empty()) {
        if !root.has("link") {
            let d = root.error(key, "has no meaning without a [[link]]");
            root.diagnostics().push(d.value("").hint("Say which link is shared, and how fast it is"));
        }
    }
    settings
}

fn general(root: &mut TableReader<'_>, settings: &mut BandwidthSettings) -> bool {
    let Some(mut table) = root.table("bandwidth") else { return false };
    if let Some(look) = table.value_in("look", Duration::from_millis(10)..=Duration::from_secs(10)) {
        settings.look = look.value;
    }
    settings.least_change_ppm = share(&mut table, "least_change", settings.least_change_ppm);
    table.finish();
    true
}

/// The tables of an array that has a limit, with their names; a name that is none is reported and given empty.
fn bounded<'a>(
    root: &mut TableReader<'a>,
    key: &'static str,
    most: usize,
) -> Vec<(Option<Name>, TableReader<'a>)> {
    let tables = root.named_tables(key);
    if tables.len() > most {
        let d = root.error(key, format!("has {} tables", tables.len())).value("");
        root.diagnostics().push(d.allowed(format!("at most {most}")));
    }
    let named = |(given, table): (Spanned<&str>, TableReader<'a>)| {
        let name = Name::new(given.value).ok();
        if name.is_none() && !given.value.is_empty() {
            let d = table.document().error(given.span, "is not a name");
            table.diagnostics().push(d.hint("A name has 1 to 128 characters of A-Z a-z 0-9 . _ : / -"));
        }
        (name, table)
    };
    tables.into_iter().take(most).map(named).collect()
}

fn name(text: &str) -> Result<Name, TextError> {
    Name::new(text).map_err(|e| TextError::new(format!("is not a name: {e}")))
}

fn rate(table: &mut TableReader<'_>, key: &'static str) -> Option<Rate> {
    table.value_in(key, LEAST_RATE..=Rate::MOST).map(|rate| rate.value)
}

/// A link, whatever is wrong with it: what refers to it is not reported then.
fn link(table: &mut TableReader<'_>, link: Option<Name>) -> LinkSettings {
    let port = table.value_with("port", "a name", name).map(|port| port.value);
    let rate = rate(table, "rate");
    if !table.has("port") && !table.has("rate") {
        let d = table.error("rate", "is missing, and so is port");
        table.diagnostics().push(d.hint("Write for example port = \"wan\", or rate = \"2 Mbit/s\""));
    }
    let set_port = table.boolean("set_port").is_some_and(|set| set.value);
    if set_port && !table.has("port") {
        let d = table.error("set_port", "needs a port").hint("Say which: port = \"wan\"");
        table.diagnostics().push(d);
    }
    let utilisation_ppm = share(table, "utilisation", WHOLE);
    if utilisation_ppm < WHOLE / 100 {
        let d = table.error("utilisation", "is out of range").allowed("1 % to 100 %");
        table.diagnostics().push(d);
    }
    let above = table.values_with("above", "a name", name).map_or_else(Vec::new, |names| names.value);
    let mut seen = BTreeSet::new();
    for class in above.iter().filter(|class| !seen.insert(&class.value)) {
        table.diagnostics().push(table.document().error(class.span, "is listed twice"));
    }
    let above: Vec<Name> = above.into_iter().map(|name| name.value).collect();
    let meterings = [("carried", Metering::Carried), ("offered", Metering::Offered)];
    let metering = table.choice("metering", &meterings).map_or(Metering::Carried, |metering| metering.value);
    let intervals = table.integer("intervals", 1..=1_000).map_or(10, |intervals| intervals.value as u32);
    let margin_ppm = share(table, "margin", 0);
    for key in ["metering", "intervals", "margin"] {
        if table.has(key) && !table.has("above") {
            let d = table.error(key, "has no meaning without above");
            table.diagnostics().push(d.hint("Say which classes are served before: above = [\"voice\"]"));
        }
    }
    let notice = table.value_in("notice", Duration::ZERO..=Duration::from_secs(60));
    let notice = notice.map_or(Duration::from_secs(1), |notice| notice.value);
    let schedule = schedule(table);
    // A name that is none is an error already.
    let name = link.unwrap_or_else(|| Name::new("link").expect("it has legal letters alone"));
    LinkSettings {
        name,
        port,
        rate,
        set_port,
        utilisation_ppm,
        above,
        metering,
        intervals,
        margin_ppm,
        notice,
        schedule,
    }
}

fn schedule(table: &mut TableReader<'_>) -> Schedule {
    let repeat = table.value_in("repeat", Duration::from_secs(1)..=LONGEST).map(|repeat| repeat.value);
    let tables = table.tables("change");
    if repeat.is_some() && tables.is_empty() && !table.has("change") {
        let d = table.error("repeat", "has no meaning without changes");
        table.diagnostics().push(d.hint("Write [[link.change]] with at and rate for each"));
    }
    if tables.len() > MAX_CHANGES {
        let d = table.error("change", format!("has {} tables", tables.len())).value("");
        table.diagnostics().push(d.allowed(format!("at most {MAX_CHANGES}")));
    }
    let (mut changes, mut latest) = (Vec::new(), None);
    for mut table in tables.into_iter().take(MAX_CHANGES) {
        table.require("at", "\"20 s\"");
        table.require("rate", "\"512 kbit/s\"");
        let at = table.value_in("at", Duration::ZERO..=LONGEST).map(|at| at.value);
        let rate = rate(&mut table, "rate");
        if let (Some(at), Some(before)) = (at, latest)
            && at <= before
        {
            let d = table.error("at", format!("is not after the change before it, at {before}"));
            table.diagnostics().push(d.hint("Write the changes in order of time"));
        } else if let (Some(at), Some(repeat)) = (at, repeat)
            && at >= repeat
        {
            let d = table.error("at", format!("is not before the end of the repetition, repeat = {repeat}"));
            table.diagnostics().push(d.hint("Times are counted from the beginning of each"));
        }
        latest = at.or(latest);
        changes.extend(at.zip(rate).map(|(at, rate)| Change { at, rate }));
        table.finish();
    }
    Schedule { changes, repeat }
}

fn policy(
    table: &mut TableReader<'_>,
    policy: Option<Name>,
    links: &[LinkSettings],
) -> Option<PolicySettings> {
    let path = path(table, links);
    let weight = table.integer("weight", 1..=1_000_000).map(|weight| weight.value as u32);
    let whose = [("flow", Weighted::Flow), ("policy", Weighted::Policy)];
    let weighted = table.choice("weighted", &whose).map_or(Weighted::Flow, |weighted| weighted.value);
    let (min, peak) = (rate(table, "min"), rate(table, "peak"));
    if let (Some(min), Some(peak)) = (min, peak)
        && peak < min
    {
        let d = table.error("peak", format!("is below min = {min}"));
        table.diagnostics().push(d.hint("Exchange the two, or raise peak"));
    }
    let reserve = rate(table, "reserve");
    Some(PolicySettings { policy: policy?, path, weight, weighted, min, peak, reserve })
}

/// The links of a path by number; those that are not there are reported.
fn path(table: &mut TableReader<'_>, links: &[LinkSettings]) -> Vec<usize> {
    let Some(names) = table.texts("links") else {
        if links.len() > 1 && !table.has("links") {
            let d = table.error("links", "is missing: there are several");
            table.diagnostics().push(d.hint(format!("Write for example links = [\"{}\"]", links[0].name)));
        }
        return if links.is_empty() { Vec::new() } else { vec![0] };
    };
    if names.value.is_empty() {
        let d = table.document().error(names.span, "is empty");
        table.diagnostics().push(d.hint("Say which link the flows cross, or leave it out if there is one"));
    }
    let mut path = Vec::new();
    for given in &names.value {
        match links.iter().position(|link| link.name.as_str() == given.value) {
            Some(link) if path.contains(&link) => {
                table.diagnostics().push(table.document().error(given.span, "is listed twice"));
            }
            Some(link) => path.push(link),
            None => {
                let d = table.document().error(given.span, "is the name of no [[link]]");
                let meant =
                    perhop_config::did_you_mean(given.value, links.iter().map(|link| link.name.as_str()));
                table.diagnostics().push(match meant {
                    Some(meant) => d.hint(format!("did you mean \"{meant}\"?")),
                    None => d,
                });
            }
        }
    }
    path
}

fn requests(root: &mut TableReader<'_>, links: &[LinkSettings]) -> Option<RequestSettings> {
    let mut table = root.table("requests")?;
    let path = path(&mut table, links);
    let limit = table.integer("limit", 0..=100_000).map_or(1_000, |limit| limit.value as usize);
    let most = rate(&mut table, "most");
    table.finish();
    Some(RequestSettings { path, limit, most })
}

#[cfg(test)]
#[path = "read_tests.rs"]
mod tests;
