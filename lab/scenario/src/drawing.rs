//! A drawing of the network as text, and the layout it is made from, for other drawings.
//!
//! Nodes stand in columns by their distance from one end of the network's longest shortest path, so that links run from
//! left to right. What does not fit the picture (links inside a column) is listed below it.

use crate::model::{Discipline, Link, LinkIndex, NodeIndex, NodeKind, Scenario, Way};
use std::collections::VecDeque;
use std::fmt::Write as _;

/// Widest picture that has values beside the names of links, in characters.
pub const MAX_WIDTH: usize = 100;

/// Where nodes stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Column and row of each node, in the order of [`Scenario::nodes`]; rows are even numbers apart in a column.
    pub places: Vec<(usize, usize)>,
    /// Number of columns.
    pub columns: usize,
    /// Number of rows.
    pub rows: usize,
}

/// The nodes at the other ends of each node's links, in order of these.
struct Near(Vec<Vec<usize>>);

impl Near {
    fn of(scenario: &Scenario) -> Self {
        let other = |(link, end): &(LinkIndex, usize)| scenario.links[link.0].ends[1 - end].0;
        Self(scenario.links_by_node().iter().map(|links| links.iter().map(other).collect()).collect())
    }
}

/// Lays a network out. O(nodes · (nodes + links)).
pub fn layout(scenario: &Scenario) -> Layout {
    let count = scenario.nodes.len();
    let near = Near::of(scenario);
    let start = far_end(&near);
    let mut column = vec![usize::MAX; count];
    let mut next = Some(start);
    // Parts that hang together with nothing before begin in the first column again.
    while let Some(from) = next {
        for (node, distance) in distances(&near, from).into_iter().enumerate() {
            if distance != usize::MAX && column[node] == usize::MAX {
                column[node] = distance;
            }
        }
        next = (0..count).find(|n| column[*n] == usize::MAX);
    }
    let columns = column.iter().max().map_or(0, |c| c + 1);
    leaves_to_the_left(&near, &mut column, columns);
    let mut order: Vec<Vec<usize>> = vec![Vec::new(); columns];
    let mut members: Vec<Vec<usize>> = vec![Vec::new(); columns];
    column.iter().enumerate().for_each(|(node, c)| members[*c].push(node));
    // Where each node stands in its column, once that is in order.
    let mut standing = vec![usize::MAX; count];
    for (c, members) in members.into_iter().enumerate() {
        let mut members: Vec<(usize, usize)> = members
            .into_iter()
            .map(|n| {
                (if c == 0 { 0 } else { middle(&near, n, |other| column[other] + 1 == c, &standing) }, n)
            })
            .collect();
        members.sort_unstable();
        order[c] = members.into_iter().map(|(_, n)| n).collect();
        order[c].iter().enumerate().for_each(|(at, node)| standing[*node] = at);
    }
    let most = order.iter().map(Vec::len).max().unwrap_or(0);
    let mut places = vec![(0, 0); count];
    for (c, members) in order.iter().enumerate() {
        for (i, node) in members.iter().enumerate() {
            places[*node] = (c, most - members.len() + 2 * i);
        }
    }
    Layout { places, columns, rows: (2 * most).saturating_sub(1) }
}

/// Nodes that hang on the left half stand on its left, as the first one does.
fn leaves_to_the_left(near: &Near, column: &mut [usize], columns: usize) {
    for node in 0..column.len() {
        let [other] = near.0[node][..] else { continue };
        let to = column[other];
        if to > 0 && column[node] == to + 1 && 2 * to + 1 < columns {
            column[node] = to - 1;
        }
    }
}

/// Twice the mean position of a node's neighbours in the column before, so that links cross little.
fn middle(near: &Near, node: usize, is_before: impl Fn(usize) -> bool, standing: &[usize]) -> usize {
    let before = near.0[node].iter().filter(|other| is_before(**other));
    let at: Vec<usize> = before.map(|other| standing[*other]).collect();
    2 * at.iter().sum::<usize>() / at.len().max(1)
}

/// The end of the longest shortest path that has the first node of the file at its nearer end.
fn far_end(near: &Near) -> usize {
    let mut best = (0, 0);
    for from in 0..near.0.len() {
        let longest = distances(near, from).into_iter().filter(|d| *d != usize::MAX).max().unwrap_or(0);
        if longest > best.0 {
            best = (longest, from);
        }
    }
    best.1
}

fn distances(near: &Near, from: usize) -> Vec<usize> {
    let mut distance = vec![usize::MAX; near.0.len()];
    let Some(first) = distance.get_mut(from) else { return distance };
    *first = 0;
    let mut queue = VecDeque::from([from]);
    while let Some(at) = queue.pop_front() {
        for &far in &near.0[at] {
            if distance.get(far) == Some(&usize::MAX) {
                distance[far] = distance[at] + 1;
                queue.push_back(far);
            }
        }
    }
    distance
}

/// What is written beside a node: its name in brackets that tell its kind.
pub fn node_label(scenario: &Scenario, node: NodeIndex) -> String {
    let node = &scenario.nodes[node.0];
    match node.kind {
        NodeKind::Host => format!("({})", node.name),
        NodeKind::Forwarder => format!("[{}]", node.name),
        NodeKind::Controller(_) => format!("<{}>", node.name),
        NodeKind::Router(_) => format!("[[{}]]", node.name),
    }
}

/// What a link does, beside its name: rate, delay and the rest, behind a slash what is otherwise on the way back, and a
/// star if it changes while the scenario runs.
pub fn link_values(link: &Link) -> String {
    let [there, back] = [values(&link.ways[0]), values(&link.ways[1])];
    let mut all = there.join(", ");
    if there != back {
        let other: Vec<String> = back.into_iter().filter(|value| !there.contains(value)).collect();
        let other = if other.is_empty() { "otherwise back".to_owned() } else { other.join(", ") };
        let _ = write!(all, " / {other}");
    }
    if link.ways.iter().any(|way| !way.changes.is_empty()) {
        all.push_str(" *");
    }
    all.trim_start().to_owned()
}

fn values(way: &Way) -> Vec<String> {
    let mut parts = Vec::new();
    parts.extend(way.rate.map(|r| r.to_string()));
    parts.extend(way.trace.as_ref().map(|t| format!("trace {}", t.origin)));
    if way.delay.as_nanos() > 0 {
        parts.push(way.delay.to_string());
    }
    parts.extend(way.jitter.map(|j| format!("± {}", j.spread)));
    if way.loss.0 > 0 || way.burst_loss.is_some() {
        parts.push("lossy".to_owned());
    }
    if let Discipline::Element(text) = &way.discipline {
        parts.push(text.split('(').next().unwrap_or("").trim().to_lowercase());
    }
    parts
}

const UP: u8 = 1;
const DOWN: u8 = 2;
const LEFT: u8 = 4;
const RIGHT: u8 = 8;

/// A sheet of characters; lines that meet are joined.
struct Sheet {
    cells: Vec<Vec<Cell>>,
}

#[derive(Clone, Copy)]
enum Cell {
    Line(u8),
    Letter(char),
}

impl Sheet {
    fn line(&mut self, row: usize, x: usize, directions: u8) {
        if let Some(cell) = self.cells.get_mut(row).and_then(|r| r.get_mut(x))
            && let Cell::Line(before) = cell
        {
            *before |= directions;
        }
    }

    fn write(&mut self, row: usize, x: usize, text: &str) {
        for (i, letter) in text.chars().enumerate() {
            if let Some(cell) = self.cells.get_mut(row).and_then(|r| r.get_mut(x + i)) {
                *cell = Cell::Letter(letter);
            }
        }
    }

    /// From one column to another along a row.
    fn across(&mut self, row: usize, from: usize, to: usize) {
        for x in from..=to {
            let directions = if x > from { LEFT } else { 0 } | if x < to { RIGHT } else { 0 };
            self.line(row, x, directions);
        }
    }

    fn along(&mut self, x: usize, one: usize, other: usize) {
        let (top, bottom) = (one.min(other), one.max(other));
        for row in top..=bottom {
            let directions = if row > top { UP } else { 0 } | if row < bottom { DOWN } else { 0 };
            self.line(row, x, directions);
        }
    }

    fn print(&self) -> String {
        let mut out = String::new();
        for row in &self.cells {
            let line: String = row.iter().map(|cell| cell.symbol()).collect();
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }
}

impl Cell {
    fn symbol(self) -> char {
        match self {
            Self::Letter(letter) => letter,
            Self::Line(0) => ' ',
            Self::Line(lines) => match (lines & (UP | DOWN), lines & (LEFT | RIGHT)) {
                (_, 0) => '│',
                (0, _) => '─',
                (UP, LEFT) => '┘',
                (UP, RIGHT) => '└',
                (DOWN, LEFT) => '┐',
                (DOWN, RIGHT) => '┌',
                (UP, _) => '┴',
                (DOWN, _) => '┬',
                (_, LEFT) => '┤',
                (_, RIGHT) => '├',
                _ => '┼',
            },
        }
    }
}

/// A link as drawn: its left and right node, the row its label stands on, and the row its line changes on the way.
struct Drawn {
    link: usize,
    left: usize,
    right: usize,
    /// The label stands on the left node's row, else on the right one's.
    label_left: bool,
}

/// Draws a network of any size; it is made for up to a dozen nodes. `(host)`, `[forwarder]`, `[[router]]`. Values stand
/// beside the names of links, or below the picture where it would be wider than [`MAX_WIDTH`]. Ends with a line feed.
pub fn draw(scenario: &Scenario) -> String {
    let full = |link: &Link| format!("{} {}", link.name, link_values(link)).trim_end().to_owned();
    let layout = layout(scenario);
    let with_values = picture(scenario, &layout, &full);
    let widest = with_values.lines().map(|line| line.chars().count()).max().unwrap_or(0);
    let mut out = if widest <= MAX_WIDTH {
        with_values
    } else {
        let mut out = picture(scenario, &layout, &|link| link.name.clone());
        let longest = scenario.links.iter().map(|l| l.name.chars().count()).max().unwrap_or(0);
        out.push('\n');
        for link in scenario.links.iter().filter(|l| !link_values(l).is_empty()) {
            let _ = writeln!(out, "{:longest$}  {}", link.name, link_values(link));
        }
        out
    };
    if scenario.links.iter().any(|l| l.ways.iter().any(|w| !w.changes.is_empty())) {
        out.push_str("* changes while the scenario runs\n");
    }
    out
}

/// The picture with a label on each link, and links that do not fit it below.
fn picture(scenario: &Scenario, layout: &Layout, link_label: &dyn Fn(&Link) -> String) -> String {
    let (drawn, listed) = choose(scenario, layout);
    let labels: Vec<String> = (0..scenario.nodes.len()).map(|n| node_label(scenario, NodeIndex(n))).collect();
    let width = |text: &str| text.chars().count();
    let mut node_width = vec![0; layout.columns];
    let mut gap_width = vec![4; layout.columns];
    for (node, (column, _)) in layout.places.iter().enumerate() {
        node_width[*column] = node_width[*column].max(width(&labels[node]));
    }
    for one in &drawn {
        let column = layout.places[one.left].0;
        gap_width[column] = gap_width[column].max(width(&link_label(&scenario.links[one.link])) + 8);
    }
    let mut left = vec![0; layout.columns + 1];
    for c in 0..layout.columns {
        left[c + 1] = left[c] + node_width[c] + gap_width[c];
    }
    let whole = left.last().copied().unwrap_or(0);
    let mut sheet = Sheet { cells: vec![vec![Cell::Line(0); whole]; layout.rows] };
    for one in &drawn {
        let ((column, a), (_, b)) = (layout.places[one.left], layout.places[one.right]);
        let begin = left[column] + width(&labels[one.left]);
        let end = left[column + 1] - 1;
        let bus = if one.label_left { end - 1 } else { left[column] + node_width[column] + 1 };
        sheet.across(a, begin, bus);
        sheet.along(bus, a, b);
        sheet.across(b, bus, end);
        let row = if one.label_left { a } else { b };
        let text = format!(" {} ", link_label(&scenario.links[one.link]));
        sheet.write(row, left[column] + node_width[column] + 3, &text);
    }
    for (node, (column, row)) in layout.places.iter().enumerate() {
        sheet.write(*row, left[*column], &labels[node]);
    }
    let mut out = sheet.print();
    for link in listed.into_iter().map(|l| &scenario.links[l]) {
        let [a, b] = link.ends.map(|end| node_label(scenario, end));
        let _ = writeln!(out, "{a} ── {} ── {b}", link_label(link));
    }
    out
}

/// The links that the picture shows, and those that are listed below it. A link has its label on the row of an end that
/// has no other link in the same gap.
fn choose(scenario: &Scenario, layout: &Layout) -> (Vec<Drawn>, Vec<usize>) {
    let mut ends: Vec<Option<(usize, usize)>> = Vec::new();
    for link in &scenario.links {
        let [a, b] = link.ends.map(|end| end.0);
        let [ca, cb] = [layout.places[a].0, layout.places[b].0];
        let next = ca.abs_diff(cb) == 1;
        ends.push(next.then_some(if ca < cb { (a, b) } else { (b, a) }));
    }
    let (mut links_right, mut links_left) = (vec![0; layout.places.len()], vec![0; layout.places.len()]);
    for (left, right) in ends.iter().flatten() {
        links_right[*left] += 1;
        links_left[*right] += 1;
    }
    let (mut drawn, mut listed) = (Vec::new(), Vec::new());
    for (link, end) in ends.iter().enumerate() {
        match end {
            Some((left, right)) if links_right[*left] == 1 => {
                drawn.push(Drawn { link, left: *left, right: *right, label_left: true });
            }
            Some((left, right)) if links_left[*right] == 1 => {
                drawn.push(Drawn { link, left: *left, right: *right, label_left: false });
            }
            _ => listed.push(link),
        }
    }
    (drawn, listed)
}

#[cfg(test)]
#[path = "drawing_tests.rs"]
mod tests;
