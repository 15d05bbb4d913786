//! The domain that is measured, and what is asked of it.

use perhop_broker::ledger::{Request, Reserve, Way};
use perhop_broker::record::{CapacityRow, Change, ClientRow, LinkRow, PathRow, Snapshot};

const LINKS: u64 = 200;
const PATHS: u64 = 500;
const OWNERS: u64 = 10;
const CLASS: &str = "voice";
/// Rate of a reservation, bit/s.
const BPS: u64 = 64_000;

fn links() -> impl Iterator<Item = LinkRow> {
    (1..=LINKS).map(|id| LinkRow {
        id,
        node: format!("n{id}"),
        port: "wan".into(),
        to_node: format!("n{}", id + 1),
    })
}

fn capacities() -> impl Iterator<Item = CapacityRow> {
    (1..=LINKS).map(|link| CapacityRow { link, class: CLASS.into(), bps: 1 << 60, reserved: 0, short: false })
}

fn paths() -> impl Iterator<Item = PathRow> {
    let links = |path| (0..10).map(move |n| 1 + (path * 7 + n * 101) % LINKS).collect();
    (1..=PATHS).map(move |id| PathRow { id, from_node: "a".into(), to_node: "b".into(), links: links(id) })
}

fn clients() -> impl Iterator<Item = ClientRow> {
    (0..OWNERS).map(|n| ClientRow {
        name: owner(n),
        kind: "http".into(),
        cert_sha256: None,
        token_sha256: None,
        role: "proxy".into(),
        most_bps: None,
        most_count: None,
        per_second: None,
    })
}

/// The domain as rows of a database.
pub fn changes() -> Vec<Change> {
    let clients = clients().map(Change::Client);
    let rest = capacities().map(Change::Capacity).chain(paths().map(Change::Path)).chain(clients);
    links().map(Change::Link).chain(rest).collect()
}

/// The same for a ledger.
pub fn snapshot() -> Snapshot {
    Snapshot {
        links: links().collect(),
        capacities: capacities().collect(),
        paths: paths().collect(),
        clients: clients().collect(),
        ..Snapshot::default()
    }
}

/// Who asks for a number.
pub fn owner(number: u64) -> String {
    format!("proxy{}", number % OWNERS)
}

/// What is asked for a number.
pub fn request(number: u64) -> Request {
    // Keys as programs draw them, of 128 bits.
    let key = format!("{:032x}", u128::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835));
    let way = Way::Path(1 + number.wrapping_mul(2_654_435_761) % PATHS);
    let flow =
        r#"{"packets":[{"src":"10.1.2.3/32","dst":"10.4.5.6/32","protocol":17,"dst_ports":[5004,5004]}]}"#;
    // They live as long as they may, so that none ends while it is measured.
    let reserve = Reserve {
        lifetime_ms: Some(24 * 60 * 60 * 1_000),
        flow: flow.into(),
        ..Reserve::new(key, way, CLASS, BPS)
    };
    Request::Reserve(Box::new(reserve))
}
