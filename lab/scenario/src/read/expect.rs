//! `[[expect]]`: values that must come out.

use super::cx::Cx;
use super::{Places, inside};
use crate::figures::{
    self, ADMISSION_FIGURES, AGENT_FIGURES, CONTROLLER_FIGURES, Content, DROP_REASONS, Formula,
    GROUP_FIGURES, LEASES_FIGURES, LINK_FIGURES, OVER, RESERVATION_FIGURES, SEGMENT_FIGURES,
};
use crate::model::{Expect, Link, Node, NodeKind, Scenario, Target};
use crate::router_objects;
use perhop_config::{Diagnostic, Location, Spanned, TableReader, TextError, did_you_mean, quoted_list};

/// Forms of a target, for messages.
const FORMS: &str = "\"<= 34.14\", \">= 2\", \"< 3\", \"> 1\", \"1 .. 2\", \"= 0\"";

/// Reads the expected values.
pub(super) fn read(cx: &Cx<'_>, root: &mut TableReader<'_>, places: &mut Places) -> Vec<Expect> {
    let mut all = Vec::new();
    for mut table in root.tables("expect") {
        let metric = table.required_text("metric", "\"voip.delay_ms.mean\"");
        let target = table.value_with("target", "a string", target).map(|t| t.value);
        let published = table.number("published", -1e15..=1e15).map(|p| p.value);
        let source = table.text("source").map(|s| s.value.to_owned());
        let depends = table.texts("depends").map_or(Vec::new(), |d| d.value);
        let every = table.boolean("every").is_some_and(|e| e.value);
        let mode = table.choice("mode", &[("sim", "sim"), ("netns", "netns")]);
        if let (Some(metric), Some(target), Some(at)) =
            (&metric, &target, cx.child(table.location(), "target"))
            && is_percentage(metric.value)
            && !can_be(target, 0.0, 100.0)
        {
            let error = cx.error(at, format!("cannot be met: {} is between 0 and 100", metric.value));
            cx.push(error.hint("It is a share in percent"));
        }
        let absent = |key| cx.child(table.location(), key).is_none();
        if absent("target") && absent("published") && !cx.file.is_damaged() {
            let error = cx.error(table.location(), "expects nothing").value("");
            cx.push(error.hint("Give it a target, or what was published"));
        }
        if every && absent("target") {
            cx.push(cx.warning(table.location(), "every has no effect: there is no target").value(""));
        }
        places.expect.push(table.location());
        table.finish();
        all.push(Expect {
            metric: metric.map_or(String::new(), |m| m.value.to_owned()),
            target,
            published,
            source,
            depends: depends.iter().map(|d| d.value.to_owned()).collect(),
            every,
            mode: mode.map(|m| m.value.to_owned()),
        });
    }
    all
}

/// Figures that are shares in percent of a whole; utilisation may round above it.
fn is_percentage(metric: &str) -> bool {
    let lone = Formula::new(metric).paths().count() == 1;
    lone && [
        "loss_pct",
        "late_pct",
        "refused_pct",
        "not_granted_pct",
        "congested_pct",
        "exceeded_pct",
        "over_cap_pct",
    ]
    .iter()
    .any(|figure| metric.rsplit('.').next() == Some(figure))
}

/// Whether a value between two bounds can meet a target.
fn can_be(target: &Target, least: f64, most: f64) -> bool {
    match *target {
        Target::AtMost(limit) => limit >= least,
        Target::Below(limit) => limit > least,
        Target::AtLeast(limit) => limit <= most,
        Target::Above(limit) => limit < most,
        Target::Equal(value) => (least..=most).contains(&value),
        Target::Within(low, high) => low <= most && high >= least,
    }
}

fn target(text: &str) -> Result<Target, TextError> {
    let wrong = || TextError::new("is not a target").allowed(FORMS);
    let number = |t: &str| t.trim().parse::<f64>().ok().filter(|n| n.is_finite()).ok_or_else(wrong);
    let text = text.trim();
    if let Some((low, high)) = text.split_once("..") {
        let (low, high) = (number(low)?, number(high)?);
        if low > high {
            return Err(TextError::new("is an empty range").hint(format!("Write \"{high} .. {low}\"")));
        }
        return Ok(Target::Within(low, high));
    }
    type Form = fn(f64) -> Target;
    let forms: [(&str, Form); 5] = [
        ("<=", Target::AtMost),
        (">=", Target::AtLeast),
        ("<", Target::Below),
        (">", Target::Above),
        ("=", Target::Equal),
    ];
    let (sign, form) = forms.into_iter().find(|(sign, _)| text.starts_with(sign)).ok_or_else(wrong)?;
    Ok(form(number(&text[sign.len()..])?))
}

/// Checks that what is expected can be: metrics of the result, and paths they depend on.
pub(super) fn check(cx: &Cx<'_>, product: &Scenario, variants: &[(String, Scenario)], places: &Places) {
    // Groups and links that could not be read are missing here.
    let whole = !cx.diagnostics.has_errors();
    for (expect, &at) in product.expect.iter().zip(&places.expect) {
        if let Some(metric) = cx.child(at, "metric")
            && !expect.metric.is_empty()
        {
            let formula = Formula::new(&expect.metric);
            if formula.is_sound() {
                // What ends in no figure at all is wrong whatever else there will be.
                let paths = formula.paths().filter(|path| whole || !ends_in_figure(path));
                paths.for_each(|path| check_metric(cx, metric, path, product, variants, whole));
            } else {
                let error = cx.error(metric, "is neither a figure nor a formula of figures");
                cx.push(error.allowed("figures with +, - or / between them, in spaces"));
            }
        }
        for (i, path) in expect.depends.iter().enumerate() {
            check_path(
                cx,
                product,
                Spanned { value: path, span: cx.file.lookup(at, &format!("depends[{i}]")) },
            );
        }
    }
}

/// Whether a path ends as that of a figure does, whatever it is of.
fn ends_in_figure(path: &str) -> bool {
    let of_domains = RESERVATION_FIGURES.iter().chain(&CONTROLLER_FIGURES);
    let of_routers = AGENT_FIGURES.iter().chain(&ADMISSION_FIGURES).chain(of_domains);
    let mut figures = GROUP_FIGURES.iter().chain(&LINK_FIGURES).chain(of_routers);
    let of_link = path.starts_with("link.") || path.contains(".link.");
    of_link && path.contains(".drops.")
        || figures.any(|figure| path.strip_suffix(figure).is_some_and(|of| of.ends_with('.')))
}

/// An error about a name with those that there are behind `prefix`.
fn one_of(error: Diagnostic, given: &str, prefix: &str, names: &[&str]) -> Diagnostic {
    let error = error.meant(did_you_mean(given, names.iter().copied()));
    match names {
        [] => error.hint("There is none"),
        names => error.allowed(format!("{prefix} and one of {}", quoted_list(names.iter().copied()))),
    }
}

/// A figure of a class that an agent looks after, `CLASS.FIGURE`; names of classes may contain dots.
fn check_agent(cx: &Cx<'_>, at: Location, path: &str, prefix: &str, scenario: &Scenario) {
    let agents = scenario.nodes.iter().filter_map(|node| match &node.kind {
        NodeKind::Router(router) => router.agent.as_ref(),
        _ => None,
    });
    let classes: Vec<&str> = agents.flat_map(|a| &a.classes).map(|class| class.class.as_str()).collect();
    let (class, figure) = path.rsplit_once('.').unwrap_or((path, ""));
    if !classes.contains(&class) {
        let error = cx.error(at, "is about a class that no agent of the scenario looks after");
        cx.push(one_of(error, class, &format!("{prefix}agent."), &classes));
    } else if !AGENT_FIGURES.contains(&figure) {
        wrong_figure(cx, at, figure, &format!("{prefix}agent.{class}"), &AGENT_FIGURES);
    }
}

/// A figure of a router's admission, `NODE.FIGURE`.
fn check_admission(cx: &Cx<'_>, at: Location, path: &str, prefix: &str, scenario: &Scenario) {
    let admits =
        |kind: &NodeKind| matches!(kind, NodeKind::Router(config) if router_objects::has_admission(config));
    let routers = scenario.nodes.iter().filter(|node| admits(&node.kind));
    let names: Vec<&str> = routers.map(|node| node.name.as_str()).collect();
    let (node, figure) = path.rsplit_once('.').unwrap_or((path, ""));
    if !names.contains(&node) {
        let error = cx.error(at, "is about a node that is no router with [detector.admission]");
        cx.push(one_of(error, node, &format!("{prefix}admission."), &names));
    } else if !ADMISSION_FIGURES.contains(&figure) {
        wrong_figure(cx, at, figure, &format!("{prefix}admission.{node}"), &ADMISSION_FIGURES);
    }
}

/// Checks a figure's path; when not the `whole` scenario could be read, only that it names a figure of what there is.
fn check_metric(
    cx: &Cx<'_>,
    at: Location,
    metric: &str,
    product: &Scenario,
    variants: &[(String, Scenario)],
    whole: bool,
) {
    let variant = metric.split_once('.').and_then(|(name, rest)| {
        variants.iter().find(|(n, _)| n == name).map(|(_, scenario)| (scenario, name, rest))
    });
    let (scenario, prefix, path) = match variant {
        Some((scenario, name, rest)) => (scenario, format!("{name}."), rest),
        None => (product, String::new(), metric),
    };
    let asked = Asked { cx, at, scenario, prefix, whole };
    if let Some(rest) = path.strip_prefix("link.") {
        asked.link(rest);
    } else if let Some(rest) = path.strip_prefix("agent.") {
        if whole {
            check_agent(cx, at, rest, &asked.prefix, scenario);
        }
    } else if let Some(rest) = path.strip_prefix("admission.") {
        if whole {
            check_admission(cx, at, rest, &asked.prefix, scenario);
        }
    } else if let Some(rest) = path.strip_prefix("reservation.") {
        let names = scenario.reservations.iter().map(|one| one.name.as_str());
        asked.of_domain("reservation", rest, &names.collect::<Vec<_>>(), &RESERVATION_FIGURES);
    } else if let Some(rest) = path.strip_prefix("controller.") {
        let controllers = scenario.nodes.iter().filter(|n| matches!(n.kind, NodeKind::Controller(_)));
        let names: Vec<&str> = controllers.map(|node| node.name.as_str()).collect();
        asked.of_domain("controller", rest, &names, &CONTROLLER_FIGURES);
    } else if let Some(rest) = path.strip_prefix("leases.") {
        let decides = |node: &&Node| match &node.kind {
            NodeKind::Router(config) => config.agent.as_ref().is_some_and(|agent| agent.leases.is_some()),
            _ => false,
        };
        let names: Vec<&str> = scenario.nodes.iter().filter(decides).map(|node| node.name.as_str()).collect();
        asked.of_domain("leases", rest, &names, &LEASES_FIGURES);
    } else {
        asked.group(path, variants);
    }
}

/// A figure of one configuration, and where it is asked for.
struct Asked<'a, 't> {
    cx: &'a Cx<'t>,
    at: Location,
    scenario: &'a Scenario,
    /// Of the variant, with its dot.
    prefix: String,
    whole: bool,
}

impl Asked<'_, '_> {
    /// Checks `NAME.FIGURE` behind `kind` and a dot.
    fn of_domain(&self, kind: &str, path: &str, names: &[&str], figures: &[&'static str]) {
        let Self { cx, at, prefix, whole, .. } = self;
        let (name, figure) = path.rsplit_once('.').unwrap_or((path, ""));
        if *whole && !names.contains(&name) {
            let error = cx.error(*at, format!("is about a {kind} that the scenario does not have"));
            cx.push(one_of(error, name, &format!("{prefix}{kind}."), names));
        } else if !figures.contains(&figure) {
            wrong_figure(cx, *at, figure, &format!("{prefix}{kind}.{name}"), figures);
        }
    }

    /// Checks `NAME.FIGURE` behind `link.`.
    fn link(&self, path: &str) {
        let Self { cx, at, scenario, prefix, whole } = self;
        let found =
            scenario.links.iter().find_map(|l| Some((l, path.strip_prefix(&l.name)?.strip_prefix('.')?)));
        match found {
            Some((link, figure)) => self.link_figure(link, figure),
            None if !whole => {}
            None => {
                let names: Vec<&str> = scenario.links.iter().map(|l| l.name.as_str()).collect();
                let given = path.split('.').next().unwrap_or(path);
                let error = cx.error(*at, "is about a link that the scenario does not have");
                cx.push(one_of(error, given, &format!("{prefix}link."), &names));
            }
        }
    }

    fn link_figure(&self, link: &Link, figure: &str) {
        let Self { cx, at, prefix, whole, .. } = self;
        let way = &link.ways[0];
        if *whole && way.rate.is_none() && way.trace.is_none() {
            let error = cx.error(*at, format!("is about a link without a limit (\"{}\")", link.name));
            cx.push(error.hint("Only links with a rate or a trace are in the result"));
            return;
        }
        let of = format!("{prefix}link.{}", link.name);
        match figure.strip_prefix("drops.") {
            // A reason that never occurs would be 0 for ever, which many a target takes for met.
            Some(reason) if !DROP_REASONS.contains(&reason) => {
                wrong_figure(cx, *at, reason, &format!("{of}.drops"), &DROP_REASONS);
            }
            None if !LINK_FIGURES.contains(&figure) => wrong_figure(cx, *at, figure, &of, &LINK_FIGURES),
            None if *whole && figure == "utilisation_pct" && way.rate.is_none() => {
                let error = cx.error(*at, "wants the utilisation of a link with a trace: there never is one");
                let has = LINK_FIGURES.into_iter().filter(|f| *f != figure).collect::<Vec<_>>();
                let error = error.hint("A trace has opportunities instead of a rate");
                cx.push(error.allowed(has.join(", ")));
            }
            _ => {}
        }
    }

    /// Checks that what a figure of connections is made from is recorded.
    fn needs(&self, figure: &str, traffic: usize, limit: Option<&str>) {
        let Self { cx, at, scenario, .. } = self;
        let probes = &scenario.probes;
        let of_traffic = &scenario.traffic[traffic];
        let kind = figure.split('.').next().unwrap_or(figure);
        if SEGMENT_FIGURES.contains(&kind) && !probes.segments.contains(&traffic) {
            let error = cx.error(*at, "is a figure of segments, which are not followed");
            cx.push(error.hint(format!("Write segments = [\"{}\"] below [probes]", of_traffic.name)));
        }
        if kind == "utilisation_pct" && of_traffic.kind.tcp().is_some_and(|tcp| tcp.share.is_none()) {
            let error = cx.error(*at, "is a share of a rate that is not told");
            let name = &of_traffic.name;
            cx.push(error.hint(format!("Write share = \"64 kbit/s\" below [traffic.{name}.tcp]")));
        }
        let names: Vec<String> = probes.delay_limits.iter().map(|one| figures::limit_name(*one)).collect();
        if let Some(limit) = limit.filter(|limit| !names.iter().any(|name| name == limit)) {
            let error = cx.error(*at, format!("is about a limit of {limit} ms that is not counted"));
            let error = error.hint(format!("Write delay_limits = [\"{limit} ms\"] below [probes]"));
            cx.push(if names.is_empty() { error } else { error.allowed(names.join(", ")) });
        }
    }

    /// Checks `GROUP.FIGURE`.
    fn group(&self, path: &str, variants: &[(String, Scenario)]) {
        let Self { cx, at, scenario, prefix, whole } = self;
        let total = figures::has_total(scenario).then(|| (figures::TOTAL.to_owned(), Content::Sum));
        let groups = figures::groups(scenario).into_iter();
        let content = |traffic: usize| Content::of(&scenario.traffic[traffic].kind);
        let groups = groups.map(|group| (group.name, content(group.traffic), Some(group.traffic)));
        let total = total.map(|(name, content)| (name, content, None));
        let groups: Vec<(String, Content, Option<usize>)> = groups.chain(total).collect();
        let fits = |name: &str| path.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'));
        match groups.iter().filter(|(name, ..)| fits(name)).max_by_key(|(name, ..)| name.len()) {
            Some((group, content, traffic)) => {
                let (figure, of) = (&path[group.len() + 1..], format!("{prefix}{group}"));
                let limit = figure.strip_prefix(OVER);
                if !GROUP_FIGURES.contains(&figure) && limit.is_none() {
                    wrong_figure(cx, *at, figure, &of, &content.figures());
                } else if *whole && !content.has(figure) {
                    cx.push(never(cx, *at, figure, &of, *content));
                } else if let (true, Some(traffic)) = (*whole, traffic) {
                    self.needs(figure, *traffic, limit);
                }
            }
            None if !whole => {}
            None => {
                let given = path.split('.').next().unwrap_or(path);
                let names = groups.iter().map(|(name, ..)| name.as_str());
                let names = names.chain(variants.iter().map(|(name, _)| name.as_str())).chain(["link"]);
                let names: Vec<&str> = names.collect();
                let error = cx.error(*at, "is about a group that the result does not have");
                let error = error.meant(did_you_mean(given, names.iter().copied()));
                cx.push(error.allowed(format!("a path that begins with one of {}", quoted_list(names))));
            }
        }
    }
}

/// A figure that other groups have, but none of this content.
fn never(cx: &Cx<'_>, at: Location, figure: &str, of: &str, content: Content) -> Diagnostic {
    let what = match content {
        Content::Connections => "TCP connections",
        Content::Calls => "calls",
        Content::Datagrams => "datagrams",
        Content::Sum => "all traffic together",
    };
    let hint = match content {
        Content::Sum => "It adds up throughput; ask a group for the rest",
        _ if figure.starts_with("mos.") => "Only kind = \"voice\" has an opinion score",
        Content::Connections => "TCP sends again what is lost, so only datagrams are followed one by one",
        Content::Calls | Content::Datagrams => "Only traffic over TCP has connections",
    };
    let error = cx.error(at, format!("wants {figure} of {what} ({of}): there never is one"));
    error.hint(hint).allowed(content.figures().join(", "))
}

fn wrong_figure(cx: &Cx<'_>, at: Location, figure: &str, of: &str, figures: &[&'static str]) {
    let error = cx.error(at, format!("names no figure of {of}"));
    let meant = did_you_mean(figure, figures.iter().copied());
    let error = error.meant(meant.map(|figure| format!("{of}.{figure}")));
    cx.push(error.allowed(figures.join(", ")));
}

/// Checks that a setting could be made under a path.
fn check_path(cx: &Cx<'_>, product: &Scenario, path: Spanned<&String>) {
    // Elements of arrays are not among the known keys.
    let exists = path.value.contains('[') && cx.file.leads_somewhere(path.value);
    if cx.known.has(path.value) || exists || inside_router(product, path.value) || cx.file.is_damaged() {
        return;
    }
    let candidates = cx.known.paths();
    let error = cx.error(path.span, super::UNKNOWN_PATH);
    let meant = did_you_mean(path.value, candidates.iter().map(String::as_str));
    let hint = "A path is the keys of the file joined by dots, such as link.core.rate";
    cx.push(if meant.is_some() { error.meant(meant) } else { error.hint(hint) });
}

fn inside_router(product: &Scenario, path: &str) -> bool {
    let mut parts = path.splitn(4, '.');
    let (Some("node"), Some(name), Some("router" | "config"), Some(rest)) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return false;
    };
    product.nodes.iter().filter(|n| n.name == name).any(|node| match &node.kind {
        NodeKind::Router(config) => inside::find(&config.text, rest).is_ok(),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_in_every_form() {
        assert_eq!(target("<= 34.14"), Ok(Target::AtMost(34.14)));
        assert_eq!(target(">=2"), Ok(Target::AtLeast(2.0)));
        assert_eq!(target(" < 3"), Ok(Target::Below(3.0)));
        assert_eq!(target("> -1"), Ok(Target::Above(-1.0)));
        assert_eq!(target("1 .. 2.5"), Ok(Target::Within(1.0, 2.5)));
        assert_eq!(target("= 0"), Ok(Target::Equal(0.0)));
        assert_eq!(target("2 .. 1").map_err(|e| e.hint), Err(Some("Write \"1 .. 2\"".into())));
        for wrong in ["", "3", "<= x", "< nan", "1 .. inf", "=="] {
            assert_eq!(target(wrong).map_err(|e| e.message), Err("is not a target".into()), "{wrong}");
        }
    }
}
