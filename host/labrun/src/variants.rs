//! Which variants of a scenario are run beside the product's configuration.

use crate::jobs::Mode;
use perhop_scenario::Loaded;
use perhop_scenario::figures::Formula;

/// Which variants run beside the product's configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variants {
    /// Every one of the file.
    All,
    /// None.
    None,
}

impl Variants {
    /// Takes out of a scenario what is not run, and the expected values that are about it; the names of the variants
    /// that are gone. When nobody says (`chosen` is `None`), all run in the simulator; in real time, where every variant
    /// takes as long again, those that a target for that world alone names.
    pub fn leave(chosen: Option<Self>, mode: Mode, loaded: &mut Loaded) -> Vec<String> {
        let kept = |name: &str| match (chosen, mode) {
            (Some(Self::All), _) | (None, Mode::Sim) => true,
            (Some(Self::None), _) => false,
            (None, Mode::Netns) => loaded.product.expect.iter().any(|expect| {
                let judged = expect.target.is_some() && expect.mode.as_deref() == Some(mode.name());
                judged && Formula::new(&expect.metric).paths().any(|path| is_about(path, name))
            }),
        };
        let names = loaded.variants.iter().map(|(name, _)| name.clone());
        let gone: Vec<String> = names.filter(|name| !kept(name)).collect();
        loaded.variants.retain(|(name, _)| !gone.contains(name));
        let about_one = |path: &str| gone.iter().any(|name| is_about(path, name));
        loaded.product.expect.retain(|expect| !Formula::new(&expect.metric).paths().any(about_one));
        gone
    }
}

/// Whether a path is a figure of a variant.
fn is_about(path: &str, variant: &str) -> bool {
    path.split_once('.').is_some_and(|(name, _)| name == variant)
}

#[cfg(test)]
mod tests {
    use super::*;
    use perhop_scenario::Settings;

    fn left(chosen: Option<Variants>, mode: Mode) -> (Vec<String>, usize) {
        let text = r#"
id = "t"
title = "t"
duration = "1 s"
node.a.kind = "host"
node.b.kind = "host"
link.core = { ends = ["a", "b"], rate = "1 Mbit/s" }
traffic.voip = { kind = "voice", from = "a", to = "b" }
variants.off.set.link.core.delay = "1 ms"
variants.old.set.link.core.delay = "2 ms"
expect = [
    { metric = "voip.delay_ms.mean - off.voip.delay_ms.mean", target = "<= 0.1", mode = "netns" },
    { metric = "old.voip.loss_pct", target = "= 0" },
    { metric = "voip.loss_pct", target = "= 0" },
]
"#;
        let (loaded, said) =
            perhop_scenario::Scenario::read("t.toml", text, &Settings::new(), &|_| Err(String::new()));
        let mut loaded = loaded.unwrap_or_else(|| panic!("{said}"));
        let gone = Variants::leave(chosen, mode, &mut loaded);
        assert_eq!(loaded.variants.len() + gone.len(), 2);
        (gone, loaded.product.expect.len())
    }

    #[test]
    fn a_variant_that_a_target_of_the_world_needs_is_run() {
        assert_eq!(left(None, Mode::Sim), (vec![], 3));
        assert_eq!(left(None, Mode::Netns), (vec!["old".to_owned()], 2));
        assert_eq!(left(Some(Variants::All), Mode::Netns), (vec![], 3));
        let none = (vec!["off".to_owned(), "old".to_owned()], 1);
        assert_eq!(left(Some(Variants::None), Mode::Netns), none);
    }
}
