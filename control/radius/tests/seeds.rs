//! The fuzz target's seeds, through its property.

use std::path::Path;

#[test]
fn every_seed_keeps_the_property() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/radius");
    let mut seeds = 0;
    for entry in std::fs::read_dir(folder).expect("seeds") {
        let bytes = std::fs::read(entry.expect("readable").path()).expect("readable");
        perhop_radius::properties::any_datagram(&bytes);
        seeds += 1;
    }
    assert!(seeds >= 5, "{seeds} seeds");
}
