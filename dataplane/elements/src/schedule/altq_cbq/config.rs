//! What graph text says about a tree of classes: lists in the order of the classes.

use super::super::lists::Lists;
use super::estimator::EstimatorConfig;
use crate::classify::DscpTable;
use crate::plumbing::set_class::is_name;
use perhop_element::Reader;
use perhop_units::{Bytes, Duration, Probability, Rate};

/// Most classes besides the root.
pub const MAX_CLASSES: usize = 32;
/// Priorities, 0 … 7; the highest is served first.
pub const PRIORITIES: usize = 8;
/// The longest queue, in packets.
const MAX_LIMIT: u32 = 100_000;
/// What the name of a class may be, for messages.
const NAMES: &str = "1 to 128 of A-Z a-z 0-9 . _ : / -, but not root or the name of a drop reason";
/// Names that counters use for something else.
const RESERVED: [&str; 4] = ["root", "queue_full", "red_early", "red_forced"];

/// One class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassConfig {
    /// Its name.
    pub name: String,
    /// Index of its parent among the classes before it; `None`: the root.
    pub parent: Option<usize>,
    /// Its share of the link, 1 bit/s … the link's rate.
    pub share: Rate,
    /// Whether it may use its parent's spare share.
    pub borrow: bool,
    /// 0 … 7; the highest is served first.
    pub priority: u8,
    /// Bound of its queue in packets; at least 1.
    pub limit: u32,
    /// Random early detection instead of dropping at the tail.
    pub red: bool,
    /// Average packet size in bytes; at least 1.
    pub packet: u32,
    /// As [`EstimatorConfig::maxburst`].
    pub maxburst: Option<u32>,
    /// As [`EstimatorConfig::minburst`].
    pub minburst: u32,
    /// As [`EstimatorConfig::floor`].
    pub floor: Option<Duration>,
}

/// Parameters of random early detection, the same for every class that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RedSettings {
    /// Lower threshold, a part of the queue's limit.
    pub min: Probability,
    /// Upper threshold, a part of the queue's limit; above `min`.
    pub max: Probability,
    /// Drop probability at the upper threshold.
    pub max_p: Probability,
    /// log₂ of 1/w; `None`: by the class's packet rate (9, 7 below 300 a second, 6 below 50).
    pub weight: Option<u8>,
    /// Marks packets of ECN-capable transports.
    pub ecn: bool,
}

/// The whole tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CbqConfig {
    /// Rate of the link.
    pub rate: Rate,
    /// What the link adds to each frame, in bytes.
    pub overhead: u32,
    /// Ticks of the kernel clock a second.
    pub hz: u64,
    /// An overlimit class that may borrow sends when nobody else does.
    pub efficient: bool,
    /// Weighted round robin; otherwise packet by packet.
    pub weighted: bool,
    /// A class that could borrow only above the cut-off is passed over and the cut-off raised; otherwise it is suspended.
    pub adjust_cutoff: bool,
    /// Largest packet in bytes.
    pub mtu: u32,
    /// Random early detection.
    pub red: RedSettings,
    /// The classes, parents before children.
    pub classes: Vec<ClassConfig>,
    /// Index of the class of each code point; only classes without children.
    pub dscp: DscpTable,
}

impl CbqConfig {
    /// The estimator of one class.
    pub fn estimator(&self, class: &ClassConfig) -> EstimatorConfig {
        EstimatorConfig {
            link: self.rate,
            share: class.share,
            packet: class.packet,
            maxburst: class.maxburst,
            minburst: class.minburst,
            floor: class.floor,
        }
    }

    /// Whether a class has children.
    pub fn is_interior(&self, class: usize) -> bool {
        self.classes.iter().any(|c| c.parent == Some(class))
    }
}

/// Reads everything.
pub(super) fn read(r: &mut Reader<'_>) -> CbqConfig {
    let text: String = r.required("classes", Some(0), NAMES);
    let mut names: Vec<String> = Vec::new();
    for name in text.split_whitespace() {
        if !is_name(name) || RESERVED.contains(&name) {
            r.fail("classes", format!("{name} is not a class name"), Some(NAMES.to_owned()));
        } else if names.iter().any(|n| n == name) {
            r.fail("classes", format!("{name} is given twice"), None);
        }
        names.push(name.to_owned());
    }
    if names.len() > MAX_CLASSES {
        let allowed = Some(format!("at most {MAX_CLASSES}"));
        r.fail("classes", format!("{} classes are too many", names.len()), allowed);
        names.truncate(MAX_CLASSES);
    }
    let rate = r.required_in("rate", None, crate::meter::RATE_RANGE);
    let overhead = r.optional_in("overhead", None, Bytes(0), Bytes(0)..=Bytes(256)).0 as u32;
    let mtu = r.optional_in("mtu", None, Bytes(1500), Bytes(64)..=Bytes(65_536)).0 as u32;
    let classes = read_classes(r, &names, rate);
    let mut config = CbqConfig {
        rate,
        overhead,
        hz: r.optional_in("hz", None, 1000, 1..=1_000_000),
        efficient: r.flag("efficient", false),
        weighted: r.choice("scheduler", true, &[("wrr", true), ("prr", false)]),
        adjust_cutoff: r.flag("adjust_cutoff", true),
        mtu,
        red: read_red(r),
        classes,
        dscp: DscpTable::default(),
    };
    check_shares(r, &config);
    config.dscp = read_dscp(r, &config);
    config
}

fn read_red(r: &mut Reader<'_>) -> RedSettings {
    const PART: fn(u64) -> Probability = |percent| Probability((percent * (1 << 32) / 100) as u32);
    let red = RedSettings {
        min: r.optional("red_min", None).unwrap_or(PART(30)),
        max: r.optional("red_max", None).unwrap_or(PART(90)),
        max_p: r.optional("red_max_p", None).unwrap_or(PART(10)),
        weight: Some(r.optional_in("red_weight", None, 0, 1..=16)).filter(|weight| *weight > 0),
        ecn: r.flag("red_ecn", false),
    };
    if red.min >= red.max {
        r.fail("red_max", "red_max is not above red_min".to_owned(), Some("above red_min".to_owned()));
    }
    red
}

fn read_classes(r: &mut Reader<'_>, names: &[String], rate: Rate) -> Vec<ClassConfig> {
    let mut lists = Lists { r, count: names.len() };
    let parents = lists.words("parent");
    let shares = shares(&mut lists, rate);
    let borrow = lists.either("borrow", "no", "yes");
    let priority = lists.values("priority", 0..=PRIORITIES as u8 - 1);
    let limit = lists.values("limit", 1..=MAX_LIMIT);
    let red = lists.either("queue", "fifo", "red");
    let packet = lists.values("packet", 64..=65_536u32);
    let maxburst = lists.values("maxburst", 1..=64u32);
    let minburst = lists.values("minburst", 1..=64u32);
    let floor = lists.values("floor", Duration(1)..=Duration::from_secs(1000));
    let mut classes: Vec<ClassConfig> = Vec::new();
    for (n, name) in names.iter().enumerate() {
        let parent = parents.get(n).filter(|p| *p != "root").and_then(|p| {
            let at = names[..n].iter().position(|name| name == p);
            if at.is_none() {
                let message = format!("parent of {name}: {p} is not a class before it");
                r.fail("parent", message, Some("root, or a class written before".to_owned()));
            }
            at
        });
        classes.push(ClassConfig {
            name: name.clone(),
            parent,
            share: shares[n],
            borrow: borrow[n],
            priority: priority[n].unwrap_or(1),
            limit: limit[n].unwrap_or(50),
            red: red[n],
            packet: packet[n].unwrap_or(1500),
            maxburst: maxburst[n],
            minburst: minburst[n].unwrap_or(2),
            floor: floor[n],
        });
    }
    classes
}

/// A rate, or a part of the link: `30%`.
fn shares(lists: &mut Lists<'_, '_>, rate: Rate) -> Vec<Rate> {
    let words = lists.words("share");
    let allowed = format!("above 0, at most the link's {rate}");
    if words.is_empty() && lists.r.text("share", None).is_none() {
        let allowed = "above 0, at most the link's rate".to_owned();
        lists.r.fail("share", "share is missing".to_owned(), Some(allowed));
    }
    let mut shares = vec![Rate(1); lists.count];
    for (share, word) in shares.iter_mut().zip(&words) {
        let parsed = if word.ends_with('%') {
            word.parse::<Probability>().map(|p| Rate((u128::from(rate.0) * exact(p) / 1_000_000) as u64))
        } else {
            word.parse::<Rate>()
        };
        match parsed {
            Ok(value) if (Rate(1)..=rate).contains(&value) => *share = value,
            Ok(value) => {
                lists.r.fail("share", format!("share = {value} is out of range"), Some(allowed.clone()));
            }
            Err(e) => lists.r.fail("share", format!("share: {e}"), Some(allowed.clone())),
        }
    }
    shares
}

/// A probability in parts per million, rounded: what was written in per cent comes back.
fn exact(p: Probability) -> u128 {
    if p == Probability::ONE { 1_000_000 } else { (u128::from(p.0) * 1_000_000 + (1 << 31)) >> 32 }
}

/// The shares of the children of a class are parts of its own.
fn check_shares(r: &mut Reader<'_>, config: &CbqConfig) {
    let parents = std::iter::once((None, "the link", config.rate))
        .chain(config.classes.iter().enumerate().map(|(n, c)| (Some(n), c.name.as_str(), c.share)));
    for (parent, name, whole) in parents {
        let children = config.classes.iter().filter(|c| c.parent == parent).map(|c| c.share);
        let sum = children.fold(Rate::ZERO, Rate::saturating_add);
        if sum > whole {
            let message = format!("the children of {name} share {sum}, it has {whole}");
            r.fail("share", message, Some(format!("at most {whole} together")));
        }
    }
}

/// Which class takes which code points; a class that is alone takes all.
fn read_dscp(r: &mut Reader<'_>, config: &CbqConfig) -> DscpTable {
    let count = config.classes.len();
    if let Some(table) = (Lists { r, count }).code_points(|n| !config.is_interior(n)) {
        return table;
    }
    let mut leaves = (0..count).filter(|n| !config.is_interior(*n));
    let mut table = DscpTable::default();
    table.set_rest(leaves.next().unwrap_or(0) as u8);
    if leaves.next().is_some() {
        let allowed = Some("code points a class, such as EF+VA; - for all others, none for none".to_owned());
        r.fail("dscp", "dscp is missing".to_owned(), allowed);
    }
    table
}
