//! A maker's own phones across a domain in namespaces: their media is in the reserved class, where a flood beside it drops none of it.

use super::{listen, until};
use crate::domain::{Domain, reserve};
use crate::router::Running;
use crate::{Scratch, command, skip};
use perhop_netlink::{Namespace, Netlink};
use rustix::process::Signal;
use std::fs::File;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Where the phones are, and the proxy, which is beside the first.
const PHONES: [&str; 2] = ["10.1.0.2", "10.2.0.2"];
const PROXY: &str = "10.1.0.3";
/// The folder of its modules, where Debian has it.
const MODULES: &str = "/usr/lib/baresip/modules";

/// A phone in its host; what it says is in the log.
fn phone(scratch: &Scratch, host: &Namespace, side: usize, more: &[&str]) -> (Running, PathBuf) {
    let name = ["alice", "bob"][side];
    let folder = scratch.0.join(name);
    std::fs::create_dir_all(&folder).unwrap();
    let dir = folder.to_str().unwrap();
    tone(&folder.join("tone.wav"));
    let config = format!(
        "sip_listen {0}:5070\nnet_interface {0}\naudio_source aufile,{dir}/tone.wav\naudio_player aufile,{dir}/heard.wav\n\
         audio_alert aufile,{dir}/alert.wav\nrtp_ports 20000-20100\nmodule_path {MODULES}\nmodule g711.so\nmodule aufile.so\n\nmodule_tmp account.so\nmodule_app menu.so\n",
        PHONES[side]
    );
    std::fs::write(folder.join("config"), config).unwrap();
    let account = format!(
        "<sip:{name}@a.example>;outbound=\"sip:{PROXY}:5060\";regint=0;answermode=auto;audio_codecs=PCMA\n"
    );
    std::fs::write(folder.join("accounts"), account).unwrap();
    std::fs::write(folder.join("contacts"), "").unwrap();
    let log = folder.join("log");
    let spawn = || {
        let out = File::create(&log).unwrap();
        let mut baresip = Command::new("baresip");
        baresip.args(["-f", dir]).args(more).stdin(Stdio::null()).stderr(out.try_clone().unwrap());
        Running::of(baresip.stdout(out))
    };
    (host.run(spawn).unwrap(), log)
}

/// 20 s of sound, 8,000 samples a second.
fn tone(path: &Path) {
    const RATE: u32 = 8_000;
    let samples: Vec<u8> =
        (0..RATE * 20).flat_map(|n| (((n % 16) * 1_000) as i16 - 8_000).to_le_bytes()).collect();
    let length = samples.len() as u32;
    let mut wav = b"RIFF".to_vec();
    wav.extend((36 + length).to_le_bytes());
    wav.extend(b"WAVEfmt \x10\0\0\0\x01\0\x01\0");
    wav.extend(RATE.to_le_bytes());
    wav.extend((2 * RATE).to_le_bytes());
    wav.extend(b"\x02\0\x10\0data");
    wav.extend(length.to_le_bytes());
    wav.extend(samples);
    std::fs::write(path, wav).unwrap();
}

/// Packets that the western router has sent of a class to the network, and those that it has dropped.
fn passed(domain: &Domain, class: &str) -> (u64, u64) {
    let classes = domain.rows("west", "classes");
    let row = classes.iter().find(|row| row["name"] == class).unwrap();
    let counters = row["counters"].as_object().unwrap();
    let drops = counters.iter().filter(|(name, _)| name.contains("drop")).filter_map(|(_, n)| n.as_u64());
    (counters["packets"].as_u64().unwrap(), drops.sum())
}

#[test]
fn the_media_of_baresips_calls_has_its_class_beside_a_flood() {
    const TEST: &str = "the_media_of_baresips_calls_has_its_class";
    if Command::new("baresip").arg("-h").output().is_err() || !PathBuf::from(MODULES).exists() {
        return skip(TEST, "baresip", "baresip is not installed");
    }
    let Some(domain) = Domain::new("sip-phones") else { return };
    let near = Netlink::open_in(&domain.hosts[0]).unwrap();
    near.add_address("eth0", format!("{PROXY}/24").parse().unwrap()).unwrap();
    let text = format!(
        "{}[[domain]]\nname = \"a.example\"\nusers = {{ alice = \"sip:alice@{1}:5070\", bob = \"sip:bob@{2}:5070\" }}\n\
         [[zone]]\nprefixes = [\"{1}\", \"{2}\"]\nside = \"phones\"\n\
         [[edge]]\nname = \"west\"\nprefixes = [\"10.1.0.0/24\"]\n[[edge]]\nname = \"east\"\nprefixes = [\"10.2.0.0/24\"]\n\
         [reserve]\nby = \"http\"\ncontroller = \"{3}\"\nclass = \"voice\"\npatience = \"10 s\"\n",
        listen("udp", format!("{PROXY}:5060").parse().unwrap()),
        PHONES[0],
        PHONES[1],
        domain.name
    );
    // The same call once with its reservations, once without.
    for reserves in [true, false] {
        let rule = format!("[[rule]]\nreserve = {reserves}\n");
        let file = domain.scratch.file("sip-proxy.toml", &format!("{text}{rule}"));
        let before = passed(&domain, "wan/voice");
        call_beside_a_flood(&domain, &file, reserves);
        let after = passed(&domain, "wan/voice");
        let (sent, dropped) = (after.0 - before.0, after.1 - before.1);
        if reserves {
            assert!(sent > 200 && dropped == 0, "{sent} packets of the call in its class, {dropped} dropped");
        } else {
            assert_eq!(sent, 0, "what is not reserved for is in another class");
        }
        until("nothing is reserved any more", || reserve(&domain.name, &["list", "--json"]).out.is_empty());
    }
}

fn call_beside_a_flood(domain: &Domain, file: &str, reserves: bool) {
    let said = domain.scratch.0.join("sip-proxy.log");
    let spawn = || {
        let log = File::create(&said).unwrap();
        Running::of(command(&["sip-proxy", "run", file]).stdout(Stdio::null()).stderr(log))
    };
    let _proxy = domain.hosts[0].run(spawn).unwrap();
    until("the proxy listens", || std::fs::read_to_string(&said).unwrap().contains("listening"));
    let (_bob, of_bob) = phone(&domain.scratch, &domain.hosts[1], 1, &["-t", "60"]);
    until("bob is ready", || std::fs::read_to_string(&of_bob).unwrap().contains("baresip is ready"));
    let dial = ["-t", "60", "-e", "/dial sip:bob@a.example"];
    let (alice, of_alice) = phone(&domain.scratch, &domain.hosts[0], 0, &dial);
    until("the call is there", || std::fs::read_to_string(&of_alice).unwrap().contains("Call established"));
    if reserves {
        let expected = ("80 kbit/s".to_owned(), 1);
        until("the routers have both directions", || {
            domain.has("west", "wan/voice") == expected && domain.has("east", "wan/voice") == expected
        });
    }
    let flood = domain.hosts[0].run(|| UdpSocket::bind("10.1.0.2:0")).unwrap().unwrap();
    let end = Instant::now() + Duration::from_secs(5);
    while Instant::now() < end {
        for _ in 0..25 {
            let _ = flood.send_to(&[0; 1_200], "10.2.0.2:9");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    alice.signal(Signal::INT);
    until("the call is over", || std::fs::read_to_string(&of_bob).unwrap().contains("terminated"));
}
