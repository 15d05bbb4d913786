//! `[[expect]]`: values that must come out.

use super::cx::{At, Cx, list};
use super::table::Table;
use super::tree::{Id, Origin};
use super::{Places, router_text};
use crate::figures::{self, Formula, GROUP_FIGURES, LINK_FIGURES};
use crate::model::{Expect, NodeKind, Scenario, Target};
use perhop_config::{TextError, did_you_mean};

/// Forms of a target, for messages.
const FORMS: &str = "\"<= 34.14\", \">= 2\", \"< 3\", \"> 1\", \"1 .. 2\", \"= 0\"";

/// Reads the expected values.
pub(super) fn read(root: &mut Table<'_>, places: &mut Places) -> Vec<Expect> {
    let mut all = Vec::new();
    for mut table in root.tables("expect") {
        let metric = table.required_text("metric", "\"voip.delay_ms.mean\"");
        let target = table.value_with("target", "a string", target).map(|t| t.value);
        let published = table.number("published", -1e15..=1e15).map(|p| p.value);
        let source = table.text("source").map(|s| s.value.to_owned());
        let depends = table.texts("depends").map_or(Vec::new(), |d| d.value);
        let every = table.boolean("every").is_some_and(|e| e.value);
        let mode = table.choice("mode", &[("sim", "sim"), ("netns", "netns")]);
        let cx = table.cx;
        let absent = |key| cx.tree.child(table.at, key).is_none();
        if absent("target") && absent("published") && !cx.damaged {
            let error = cx.error(table.at, "expects nothing").value("");
            cx.push(error.hint("Give it a target, or what was published"));
        }
        if every && absent("target") {
            cx.push(cx.warning(table.at, "every has no effect: there is no target").value(""));
        }
        places.expect.push(table.at);
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
        if let Some(metric) = cx.tree.child(at, "metric")
            && whole
            && !expect.metric.is_empty()
        {
            let formula = Formula::new(&expect.metric);
            if formula.is_sound() {
                formula.paths().for_each(|path| check_metric(cx, metric, path, product, variants));
            } else {
                let error = cx.error(metric, "is neither a figure nor a formula of figures");
                cx.push(error.allowed("figures with +, - or / between them, in spaces"));
            }
        }
        if let Some(depends) = cx.tree.child(at, "depends") {
            let elements = cx.tree.children(depends);
            let elements = if elements.is_empty() { vec![depends] } else { elements.to_vec() };
            for (path, id) in expect.depends.iter().zip(elements) {
                check_path(cx, product, At { value: path, at: id });
            }
        }
    }
}

fn check_metric(cx: &Cx<'_>, at: Id, metric: &str, product: &Scenario, variants: &[(String, Scenario)]) {
    let variant = metric.split_once('.').and_then(|(name, rest)| {
        variants.iter().find(|(n, _)| n == name).map(|(_, scenario)| (scenario, name, rest))
    });
    let (scenario, prefix, path) = match variant {
        Some((scenario, name, rest)) => (scenario, format!("{name}."), rest),
        None => (product, String::new(), metric),
    };
    if let Some(rest) = path.strip_prefix("link.") {
        let found =
            scenario.links.iter().find_map(|l| Some((l, rest.strip_prefix(&l.name)?.strip_prefix('.')?)));
        match found {
            Some((link, figure)) => {
                let way = &link.ways[0];
                if way.rate.is_none() && way.trace.is_none() {
                    let error = cx.error(at, format!("is about a link without a limit (\"{}\")", link.name));
                    cx.push(error.hint("Only links with a rate or a trace are in the result"));
                } else if !LINK_FIGURES.contains(&figure) && !figure.starts_with("drops.") {
                    wrong_figure(cx, at, figure, &format!("{prefix}link.{}", link.name), &LINK_FIGURES);
                }
            }
            None => {
                let names: Vec<&str> = scenario.links.iter().map(|l| l.name.as_str()).collect();
                let given = rest.split('.').next().unwrap_or(rest);
                let error = cx.error(at, "is about a link that the scenario does not have");
                let meant = did_you_mean(given, names.iter().copied());
                let error = meant.map_or(error.clone(), |m| error.hint(format!("did you mean \"{m}\"?")));
                cx.push(error.allowed(format!("{prefix}link. and one of {}", list(names))));
            }
        }
        return;
    }
    let groups = figures::groups(scenario);
    let fits = |g: &&String| path.strip_prefix(g.as_str()).is_some_and(|rest| rest.starts_with('.'));
    match groups.iter().filter(fits).max_by_key(|g| g.len()) {
        Some(group) => {
            let figure = &path[group.len() + 1..];
            if !GROUP_FIGURES.contains(&figure) {
                wrong_figure(cx, at, figure, &format!("{prefix}{group}"), &GROUP_FIGURES);
            }
        }
        None => {
            let given = path.split('.').next().unwrap_or(path);
            let names = groups.iter().map(String::as_str).chain(variants.iter().map(|(n, _)| n.as_str()));
            let names: Vec<&str> = names.chain(["link"]).collect();
            let error = cx.error(at, "is about a group that the result does not have");
            let meant = did_you_mean(given, names.iter().copied());
            let error = meant.map_or(error.clone(), |m| error.hint(format!("did you mean \"{m}\"?")));
            cx.push(error.allowed(format!("a path that begins with one of {}", list(names))));
        }
    }
}

fn wrong_figure(cx: &Cx<'_>, at: Id, figure: &str, of: &str, figures: &[&'static str]) {
    let error = cx.error(at, format!("names no figure of {of}"));
    let meant = did_you_mean(figure, figures.iter().copied());
    let error = meant.map_or(error.clone(), |m| error.hint(format!("did you mean \"{of}.{m}\"?")));
    cx.push(error.allowed(figures.join(", ")));
}

/// Checks that a setting could be made under a path.
fn check_path(cx: &Cx<'_>, product: &Scenario, path: At<&String>) {
    let known = cx.known.borrow();
    let (table, key) = path.value.rsplit_once('.').unwrap_or(("", path.value));
    let plain = known.get(table).is_some_and(|keys| keys.contains(&key));
    if plain || inside_router(product, path.value) || exists(cx, path.value) || cx.damaged {
        return;
    }
    let candidates = known.iter().flat_map(|(table, keys)| {
        let prefix = if table.is_empty() { String::new() } else { format!("{table}.") };
        keys.iter().map(move |key| format!("{prefix}{key}"))
    });
    let candidates: Vec<String> = candidates.collect();
    let error = cx.error(path.at, crate::settings::UNKNOWN_PATH);
    let meant = did_you_mean(path.value, candidates.iter().map(String::as_str));
    let error = meant.map_or(error.clone(), |m| error.hint(format!("did you mean \"{m}\"?")));
    let hint = "A path is the keys of the file joined by dots, such as link.core.rate";
    cx.push(if meant.is_some() { error } else { error.hint(hint) });
}

/// Whether a path leads to something written in the file, such as `link.core.change[1].at`.
fn exists(cx: &Cx<'_>, path: &str) -> bool {
    let is = |id: &Id| cx.tree.node(*id).origin == Origin::File && cx.tree.path(*id) == path;
    path.contains('[') && (0..cx.tree.nodes.len()).any(|id| is(&id))
}

fn inside_router(product: &Scenario, path: &str) -> bool {
    let mut parts = path.splitn(4, '.');
    let (Some("node"), Some(name), Some("router" | "config"), Some(rest)) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return false;
    };
    product.nodes.iter().filter(|n| n.name == name).any(|node| match &node.kind {
        NodeKind::Router(config) => router_text::find(&config.text, rest).is_ok(),
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
