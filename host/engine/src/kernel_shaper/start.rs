//! An interface as it is set up, and as it is left again.

use super::books::{Books, ROOT};
use super::error::ShaperError;
use super::rules::{DESTINATION_BITS, Family};
use super::{ShapedClass, ShaperConfig};
use perhop_model::Name;
use perhop_netlink::tc::{Handle, HtbClass, QdiscSpec, TcChange, U32Key, U32Place, U32Then};
use perhop_netlink::{Namespace, Netlink, NetlinkError};
use perhop_units::{Bytes, Duration, Rate};
use std::collections::BTreeMap;
use std::io;

/// The class of the whole interface, and that of what has no class.
pub(super) const LINK: u16 = 1;
pub(super) const DEFAULT: u16 = 2;
/// Classes by their place in the configuration, and the leaf of each for packets that are of no flow.
const FIRST_CLASS: u16 = 0x10;
const FIRST_LEAF: u16 = 0x20;
/// HTB knows eight priorities; the last is of what has no class.
pub(super) const CLASSES: usize = 7;
/// Least rate of a class that is guaranteed nothing.
const LEAST: Rate = Rate(8_000);
/// A full frame.
const FRAME: u64 = 1_514;
/// Order of code points in the chain of a family, behind the two tables.
const FIRST_DSCP: u16 = 0x10;

/// A class of the interface.
#[derive(Clone, Debug)]
pub(super) struct Service {
    pub(super) minor: u16,
    /// Its object.
    pub(super) class: Name,
    pub(super) htb: HtbClass,
}

/// Name of a class's object.
pub(super) fn class_name(port: &Name, logical: &Name) -> Result<Name, ShaperError> {
    let text = format!("{port}/{logical}");
    Name::new(&text)
        .map_err(|why| ShaperError::Class { what: format!("class {logical}"), why: why.to_string() })
}

/// A class that has its rate, and what others leave.
pub(super) fn shared(rate: Rate, link: Rate, priority: u32) -> HtbClass {
    // A burst of a hundredth of a second, and at least two frames: the kernel's clock is finer.
    let burst = |rate: Rate| Bytes(rate.bytes_in(Duration::from_millis(10)).0.max(2 * FRAME));
    let rate = rate.max(LEAST).min(link);
    HtbClass {
        rate,
        ceil: link,
        burst: burst(rate),
        cburst: burst(link),
        priority,
        quantum: 2 * FRAME as u32,
    }
}

/// What guarantees leave of the link.
pub(super) fn rest_class(link: Rate, guarantees: Rate) -> HtbClass {
    shared(Rate(link.0.saturating_sub(guarantees.0)), link, CLASSES as u32)
}

/// Sets the interface up.
///
/// # Errors
/// Something else is there, or the kernel lacks something: then it is as it was.
pub(super) fn set_up(config: &ShaperConfig, port: &Name) -> Result<Books, ShaperError> {
    let netlink = match &config.namespace {
        Some(namespace) => Netlink::open_in(namespace)?,
        None => Netlink::open()?,
    };
    let ifindex = netlink.link(&config.interface)?.index;
    clear(&netlink, &config.interface)?;
    let mut services = BTreeMap::new();
    for (at, class) in config.classes.iter().enumerate() {
        let htb = shared(class.guarantee, config.rate, at as u32);
        let class_of = class_name(port, &class.name)?;
        let service = Service { minor: FIRST_CLASS + at as u16, class: class_of, htb };
        services.insert(class.name.clone(), service);
    }
    let sum = Rate(config.classes.iter().map(|class| class.guarantee.0).sum());
    let rest = rest_class(config.rate, sum);
    if let Err(error) = make(&netlink, ifindex, config, &services, rest) {
        let _ = netlink.delete_qdisc(&config.interface, Handle::ROOT);
        return Err(error);
    }
    Ok(Books::new(netlink, ifindex, config.rate, services, rest))
}

/// Leaves the interface with what the kernel gives one that nobody has touched.
///
/// # Errors
/// The kernel's. That somebody else's is there by now is none: it stays.
pub(super) fn leave(interface: &str, namespace: Option<&Namespace>) -> Result<(), ShaperError> {
    let netlink = match namespace {
        Some(namespace) => Netlink::open_in(namespace)?,
        None => Netlink::open()?,
    };
    match clear(&netlink, interface) {
        Err(ShaperError::Foreign { .. } | ShaperError::Netlink(NetlinkError::NoSuchInterface { .. })) => {
            Ok(())
        }
        other => other,
    }
}

/// Removes what one that was killed has left; refuses what is somebody else's.
fn clear(netlink: &Netlink, interface: &str) -> Result<(), ShaperError> {
    let all = netlink.qdiscs(interface)?;
    let Some(root) = all.iter().find(|qdisc| qdisc.parent == Handle::ROOT) else { return Ok(()) };
    if root.handle == Handle::NONE {
        return Ok(());
    }
    if root.handle == ROOT && matches!(root.spec, QdiscSpec::Htb { .. }) {
        return Ok(netlink.delete_qdisc(interface, Handle::ROOT)?);
    }
    Err(ShaperError::Foreign {
        interface: interface.to_owned(),
        kind: root.spec.kind().to_owned(),
        handle: root.handle.to_string(),
    })
}

fn make(
    netlink: &Netlink,
    ifindex: u32,
    config: &ShaperConfig,
    services: &BTreeMap<Name, Service>,
    rest: HtbClass,
) -> Result<(), ShaperError> {
    let lacks = |what, option| {
        move |errno: i32| {
            let source = io::Error::from_raw_os_error(errno);
            ShaperError::Lacks { what, option, source }
        }
    };
    let put = |changes: &[TcChange], refused: &dyn Fn(i32) -> ShaperError| {
        let said = netlink.change_traffic_control(ifindex, ROOT, changes)?;
        said.into_iter().find(|errno| *errno != 0).map_or(Ok(()), |errno| Err(refused(errno)))
    };
    let whole = HtbClass { priority: 0, ..shared(config.rate, config.rate, 0) };
    let mut classes = vec![
        TcChange::Root { default_minor: DEFAULT },
        TcChange::AddClass { parent: 0, minor: LINK, class: whole },
        TcChange::AddClass { parent: LINK, minor: DEFAULT, class: rest },
    ];
    for Service { minor, htb, .. } in services.values() {
        let leaf = shared(Rate::ZERO, config.rate, htb.priority);
        classes.push(TcChange::AddClass { parent: LINK, minor: *minor, class: *htb });
        let minor_of_leaf = minor - FIRST_CLASS + FIRST_LEAF;
        classes.push(TcChange::AddClass { parent: *minor, minor: minor_of_leaf, class: leaf });
    }
    put(&classes, &lacks("hierarchical token bucket with size tables", "CONFIG_NET_SCH_HTB"))?;
    for family in Family::BOTH {
        put(&tables(family, &config.classes), &lacks("u32 filters with hash tables", "CONFIG_NET_CLS_U32"))?;
    }
    Ok(())
}

/// The tables of a family, and the code points of classes.
fn tables(family: Family, classes: &[ShapedClass]) -> Vec<TcChange> {
    let chain = family.chain();
    let at = |node| U32Place { table: 0, bucket: 0, node };
    let ask = |table, offset, mask| U32Then::Table { table, offset, mask };
    let by_destination = ask(family.by_destination(), family.destination_at(), DESTINATION_BITS);
    let mut changes = vec![
        TcChange::AddTable { chain, table: family.by_destination(), hashed: true },
        TcChange::AddTable { chain, table: family.list(), hashed: false },
        TcChange::AddRule { chain, place: at(1), keys: vec![], then: by_destination },
        TcChange::AddRule { chain, place: at(2), keys: vec![], then: ask(family.list(), 0, 0) },
    ];
    for (number, class) in classes.iter().enumerate() {
        let Some(dscp) = class.dscp else { continue };
        let shift = [18, 22][family as usize];
        let value = u32::from(dscp.get()) << shift;
        let keys = vec![U32Key { offset: 0, mask: 0x3f << shift, value }];
        let then = U32Then::Class(Handle::new(ROOT.major(), FIRST_LEAF + number as u16));
        changes.push(TcChange::AddRule { chain, place: at(FIRST_DSCP + number as u16), keys, then });
    }
    changes
}
