//! Calls that agents beside their routers decide about.

use super::phone::Phone;
use super::reserving::{call, hang_up};
use super::{Proxy, free, listen, until, zones};
use crate::domain::Domain;
use crate::perhop;

/// Of the agents of west and east among what runs of a domain: behind the controller and three routers.
const AGENTS: [(usize, &str); 2] = [(4, "west"), (6, "east")];

#[test]
fn each_edge_routers_own_agent_is_asked_for_what_enters_there() {
    let Some(mut domain) = Domain::new("sip-agents") else { return };
    let doors = AGENTS.map(|_| free("127.0.0.1"));
    for ((number, node), door) in AGENTS.into_iter().zip(doors) {
        let other = if node == "west" { "east" } else { "west" };
        let file = domain.scratch.0.join(format!("{node}-agent.toml"));
        let text = std::fs::read_to_string(&file).unwrap();
        let more = format!(
            "[[lease]]\nname = \"voice\"\nclasses = [\"wan/voice\"]\nto = [\"{other}\"]\n[[cops]]\naddress = \"{door}\"\n\
             [[client]]\nname = \"phones\"\n"
        );
        std::fs::write(&file, text + &more).unwrap();
        domain.restart(number);
    }
    let address = free("127.0.0.1");
    let mut phones = [Phone::udp("alice", "127.1.0.2", address), Phone::udp("bob", "127.2.0.2", address)];
    let mut edges = zones();
    for ((_, node), door) in AGENTS.into_iter().zip(doors) {
        let name = format!("name = \"{node}\"\n");
        edges = edges.replace(&name, &format!("{name}cops = [\"{door}\"]\n"));
    }
    let text = format!(
        "{}[[domain]]\nname = \"a.example\"\nusers = {{ bob = \"sip:bob@{}\" }}\n[[zone]]\n\
         prefixes = [\"127.1.0.0/16\", \"127.2.0.0/16\"]\nside = \"phones\"\n{edges}\
         [reserve]\nby = \"none\"\nclient = \"phones\"\nclass = \"voice\"\npatience = \"10 s\"\n",
        listen("udp", address),
        phones[1].address
    );
    let mut proxy = Proxy::start(&domain.scratch, "proxy", address, &text);
    until("both agents can be asked", || proxy.said().matches("can be asked for reservations").count() >= 2);
    let flows = |node: &str| {
        let listed = perhop(&["reserve", "list", "--json", "--agent", &domain.router(node)]);
        let row = |row: &serde_json::Value| (row["from"].clone(), row["to"].clone(), row["bps"].clone());
        listed.json().iter().map(row).collect::<Vec<_>>()
    };
    // The first call may come before its lease does, and goes without then.
    until("a call has both directions", || {
        let [mut dialog, _] = call(&mut phones, "sip:bob@a.example");
        let has = AGENTS.map(|(_, node)| flows(node));
        hang_up(&mut phones, &mut dialog);
        has == [
            vec![("west".into(), "east".into(), 80_000.into())],
            vec![("east".into(), "west".into(), 80_000.into())],
        ]
    });
    until("nothing is left", || AGENTS.iter().all(|(_, node)| flows(node).is_empty()));
    proxy.ends();
    let records = proxy.records();
    assert_eq!(records.last().unwrap()["ending"], "bye");
}
