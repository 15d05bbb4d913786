//! The top level, faults, programs and the headings of variants.

use super::cx::Cx;
use super::{MAX_VARIANTS, Places, nodes};
use crate::command;
use crate::model::{Fault, FaultKind, FinalState, Node, NodeIndex, Program};
use perhop_config::{Spanned, TableReader, TextError};
use perhop_units::Duration;
use std::collections::BTreeSet;

/// Longest warm-up and duration.
const MAX_TIME: Duration = Duration::from_secs(30 * 86_400);
/// Most repetitions of a scenario.
pub const MAX_REPETITIONS: u32 = 10_000;
/// Largest seed: that of a whole number in a file.
pub const MAX_SEED: u64 = i64::MAX as u64;

/// What stands above the first table.
#[derive(Debug, Default)]
pub(super) struct Head {
    pub(super) id: String,
    pub(super) title: String,
    pub(super) label: Option<String>,
    pub(super) why: String,
    pub(super) source: Option<String>,
    pub(super) warm_up: Duration,
    pub(super) duration: Duration,
    pub(super) repetitions: u32,
    pub(super) seed: u64,
    /// The times are missing or wrong, so that nothing can be compared with the end.
    pub(super) wrong: bool,
}

/// Reads the keys above the first table.
pub(super) fn head(cx: &Cx<'_>, root: &mut TableReader<'_>) -> Head {
    let id = root.required_text("id", "\"three-routers\"");
    if let Some(id) = id {
        let legal = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
        if id.value.len() > 64 || !id.value.chars().all(legal) {
            let error = cx.error(id.span, "is not an id, which also names files");
            cx.push(error.allowed("1 to 64 characters of A-Z a-z 0-9 . - _"));
        }
    }
    let title = root.required_text("title", "\"Calls beside bulk transfers on one slow link\"");
    let label = root.text("label").filter(|label| {
        let fits = (1..=16).contains(&label.value.chars().count()) && !label.value.contains(char::is_control);
        if !fits {
            cx.push(cx.error(label.span, "is no label").allowed("1 to 16 characters"));
        }
        fits
    });
    let why = root.text("why").map_or(String::new(), |w| w.value.trim().to_owned());
    let source = root.text("source").map(|s| s.value.to_owned());
    let warm_up = root.value_in("warm_up", Duration::ZERO..=MAX_TIME);
    let duration = root.required::<Duration>("duration", "\"60 s\"");
    let duration = duration.and_then(|d| root.in_range(d, Duration::from_millis(1)..=MAX_TIME));
    let repetitions =
        root.integer("repetitions", 1..=i64::from(MAX_REPETITIONS)).map_or(1, |r| r.value as u32);
    let seed = root.integer("seed", 0..=MAX_SEED as i64).map_or(1, |s| s.value as u64);
    Head {
        id: id.map_or(String::new(), |i| i.value.to_owned()),
        title: title.map_or(String::new(), |t| t.value.to_owned()),
        label: label.map(|l| l.value.to_owned()),
        why,
        source,
        wrong: duration.is_none() || (warm_up.is_none() && root.has("warm_up")),
        warm_up: warm_up.map_or(Duration::ZERO, |w| w.value),
        duration: duration.map_or(Duration::ZERO, |d| d.value),
        repetitions,
        seed,
    }
}

/// The node that a key names.
fn node(cx: &Cx<'_>, table: &mut TableReader<'_>, nodes: &[Node]) -> Option<NodeIndex> {
    cx.node(table.required_text("node", "\"edge\"")?, nodes)
}

#[derive(Clone, Copy)]
enum Broken {
    Stop,
    Restart,
    Drift,
}

/// Reads `[[fault]]`, in order of time.
pub(super) fn faults(
    cx: &Cx<'_>,
    root: &mut TableReader<'_>,
    nodes: &[Node],
    places: &mut Places,
) -> Vec<Fault> {
    let kinds = [("stop", Broken::Stop), ("restart", Broken::Restart), ("clock-drift", Broken::Drift)];
    let mut faults = Vec::new();
    for mut table in root.tables("fault") {
        let at = table.required::<Duration>("at", "\"30 s\"");
        let node = node(cx, &mut table, nodes);
        table.require("kind", "\"stop\"");
        let kind = table.choice("kind", &kinds);
        let ppm = match kind {
            Some(Spanned { value: Broken::Drift, .. }) => {
                table.require("ppm", "100");
                table.integer("ppm", -100_000..=100_000)
            }
            _ => None,
        };
        let place = table.location();
        table.finish();
        let kind = match (kind.map(|k| k.value), ppm) {
            (Some(Broken::Stop), _) => FaultKind::Stop,
            (Some(Broken::Restart), _) => FaultKind::Restart,
            (Some(Broken::Drift), Some(ppm)) => FaultKind::ClockDrift { ppm: ppm.value as i32 },
            _ => continue,
        };
        if let (Some(at), Some(node)) = (at, node) {
            faults.push((Fault { at: at.value, node, kind }, place));
        }
    }
    faults.sort_by_key(|(fault, _)| fault.at);
    let mut stopped = BTreeSet::new();
    for (fault, place) in &faults {
        let idle = match fault.kind {
            FaultKind::Stop => !stopped.insert(fault.node.0),
            FaultKind::Restart => !stopped.remove(&fault.node.0),
            FaultKind::ClockDrift { .. } => false,
        };
        if idle {
            let state = if fault.kind == FaultKind::Stop { "has stopped already" } else { "has not stopped" };
            let name = nodes.get(fault.node.0).map_or("", |node| &node.name);
            let message = format!("has no effect: node \"{name}\" {state}");
            cx.push(cx.warning(*place, message).value(""));
        }
    }
    places.faults = faults.iter().map(|(_, place)| *place).collect();
    faults.into_iter().map(|(fault, _)| fault).collect()
}

/// Reads `[[program]]`.
pub(super) fn programs(
    cx: &Cx<'_>,
    root: &mut TableReader<'_>,
    nodes: &[Node],
    places: &mut Places,
) -> Vec<Program> {
    let mut programs: Vec<Program> = Vec::new();
    for (i, mut table) in root.tables("program").into_iter().enumerate() {
        let name = table.text("name");
        let node = node(cx, &mut table, nodes);
        table.require("run", "\"ping -c 10 10.0.0.2\"");
        let command = table.value_with("run", "a command line", |text| {
            command::split(text).map_err(|e| TextError::new(e.to_string()))
        });
        let start = table.value::<Duration>("start").map_or(Duration::ZERO, |s| s.value);
        let stop = table.value::<Duration>("stop");
        if let Some(stop) = stop.as_ref().filter(|s| s.value <= start) {
            cx.push(cx.error(stop.span, format!("is not after its start ({start})")));
        }
        let expect = table.value_with("expect", "a string", final_state);
        let expect = expect.map_or(FinalState::Exit(0), |e| e.value);
        let given = name.map_or_else(|| format!("program{}", i + 1), |n| n.value.to_owned());
        if let Some(name) = name.filter(|n| programs.iter().any(|p| p.name == n.value)) {
            cx.push(cx.error(name.span, "is the name of another program"));
        }
        let place = table.location();
        table.finish();
        let (Some(node), Some(command)) = (node, command) else { continue };
        let at = cx.file.position(command.span);
        let (command, stop) = (command.value, stop.map(|s| s.value));
        places.programs.push(place);
        let at = Some(at).filter(|at| at.line > 0);
        programs.push(Program { name: given, node, command, at, start, stop, expect });
    }
    programs
}

fn final_state(text: &str) -> Result<FinalState, TextError> {
    match text.trim() {
        "running" => Ok(FinalState::Running),
        "any" => Ok(FinalState::Any),
        other => {
            let code = other.strip_prefix("exit ").and_then(|c| c.trim().parse::<u8>().ok());
            code.map(|c| FinalState::Exit(c.into())).ok_or_else(|| {
                TextError::new("is not how a program can end")
                    .allowed("\"exit 0\" to \"exit 255\", \"running\", \"any\"")
            })
        }
    }
}

/// Checks the headings of `[variants.NAME]`; what they set is checked where it goes.
pub(super) fn variants(cx: &Cx<'_>, root: &mut TableReader<'_>) {
    for (i, (name, mut table)) in root.named("variants").into_iter().enumerate() {
        nodes::check_name(cx, &table, name);
        if i == MAX_VARIANTS {
            cx.one_too_many(&table, "variant", MAX_VARIANTS);
        }
        let _ = table.text("title");
        table.require("set", "{ \"link.core.queue\" = \"100 packets\" }");
        if let Some(set) = table.table("set")
            && cx.file.count(set.location()) == 0
        {
            let error = cx.error(set.location(), "sets nothing").value("");
            cx.push(error.hint("The variant would be the product once more"));
        }
        table.finish();
    }
}
