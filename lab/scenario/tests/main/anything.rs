//! Any bytes are read or refused: files put together from pieces of files, and files with bytes changed.

use perhop_scenario::properties::scenario_file;

/// Numbers that follow from a seed (Marsaglia's xorshift64).
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % n.max(1)
    }
}

fn seeds() -> Vec<String> {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |path: &str| std::fs::read_to_string(root.join(path)).expect("readable");
    let page = read("docs/scenario-file.md");
    let block = page.split("```toml\n").nth(1).and_then(|b| b.split("```").next()).expect("a block");
    let settings =
        "\n---\nlink.core.rate=1 Mbit/s\nnode.edge.router.class.rest.weight=3\nlink.core.change[1].at=9 s\n";
    vec![format!("{block}{settings}"), read("scenarios/examples/three-routers.toml")]
}

#[test]
fn whole_files_and_their_settings_hold_the_property() {
    seeds().iter().for_each(|text| scenario_file(text.as_bytes()));
}

#[test]
fn lines_left_out_doubled_and_moved_never_panic() {
    for seed in 1..=60_u64 {
        let mut random = Random(seed * 0x9E37_79B9);
        let texts = seeds();
        let mut lines: Vec<&str> = texts[random.below(2)].lines().collect();
        for _ in 0..=random.below(6) {
            let (i, j) = (random.below(lines.len()), random.below(lines.len()));
            match random.below(3) {
                0 => drop(lines.remove(i)),
                1 => lines.insert(j, lines[i]),
                _ => lines.swap(i, j),
            }
        }
        println!("seed {seed}");
        scenario_file(lines.join("\n").as_bytes());
    }
}

#[test]
fn bytes_changed_never_panic() {
    for seed in 1..=80_u64 {
        let mut random = Random(seed * 0x51_7CC1);
        let mut bytes = seeds().swap_remove(random.below(2)).into_bytes();
        for _ in 0..=random.below(8) {
            let at = random.below(bytes.len());
            match random.below(4) {
                0 => drop(bytes.drain(at..(at + random.below(40)).min(bytes.len()))),
                1 => bytes[at] = random.below(256) as u8,
                2 => bytes.insert(at, b"\"'[]{}=.,#\n-0\xc3"[random.below(14)]),
                _ => bytes.truncate(at.max(1)),
            }
        }
        println!("seed {seed}");
        scenario_file(&bytes);
    }
}

#[test]
fn hostile_texts_never_panic() {
    let deep = "x = ".to_owned() + &"[".repeat(100_000);
    let tables = "[a".to_owned() + &".a".repeat(20_000) + "]";
    let names = (0..5_000).map(|i| format!("[node.n{i}]\nkind = \"host\"\n")).collect::<String>();
    let set = "id = \"t\"\n---\nlink=".to_owned() + &"{a=".repeat(50_000);
    let many = "\n---\n".to_owned() + &"a.".repeat(100_000) + "=1";
    let keys = "a".to_owned() + &".a".repeat(20_000) + " = 1";
    for text in [deep, tables, keys, names, set, many, "\u{feff}".into(), "\0".into(), "id".into()] {
        scenario_file(text.as_bytes());
    }
}
