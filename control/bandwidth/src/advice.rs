//! What is allowed in a file and is hardly meant.

use crate::file::{AgentFile, ClassSettings};
use perhop_allocate::{CongestionConfig, Law};
use perhop_units::{Bytes, Duration, Rate};

/// A class that has nothing else to send gets a packet through in this time at least.
const PATIENCE: Duration = Duration::from_secs(1);

impl AgentFile {
    /// What a person should know of settings that are not wrong: a sentence each, beginning with the class.
    pub fn advice(&self) -> Vec<String> {
        self.classes.iter().flat_map(of_class).collect()
    }
}

fn of_class(class: &ClassSettings) -> Vec<String> {
    let settings = class.allocation.settings();
    let least = settings.bounds.least;
    let mtu = settings.congestion.map_or(CongestionConfig::default().mtu, |congestion| congestion.mtu);
    let mut advice = Vec::new();
    if let Some(congestion) = settings.congestion {
        let needed = rate_of(mtu, congestion.target);
        if least < needed {
            advice.push(format!(
                "least = {least}: below {needed} a packet of {mtu} takes longer than the target of {}, so that there \
                 is no bound on the delay; use at least {needed} for one",
                congestion.target
            ));
        }
        let quarter = Duration(congestion.target.0 / 4);
        if let Some(poll) = class.poll.filter(|poll| *poll > quarter) {
            advice.push(format!(
                "congestion.poll = {poll} is more than a quarter of the target: a long queue may be seen too late; use \
                 at most {quarter}"
            ));
        }
    } else if least < rate_of(mtu, PATIENCE) {
        advice.push(format!("least = {least}: a packet of {mtu} would take longer than {PATIENCE}"));
    }
    if let Law::Logarithmic(law) = settings.law
        && law.faithful
        && least.0 < law.gain.0 / 2
    {
        let share = 1_000_000 - u64::from(law.margin_ppm);
        let load = Rate(law.gain.0 / 2 * share / 1_000_000);
        advice.push(format!("faithful = true: the allocation oscillates at loads below {load}"));
    }
    advice.into_iter().map(|text| format!("class \"{}\": {text}", class.class)).collect()
}

/// The rate at which a packet takes a time.
fn rate_of(packet: Bytes, time: Duration) -> Rate {
    let bits = u128::from(packet.0) * 8 * 1_000_000_000;
    Rate(u64::try_from(bits.div_ceil(u128::from(time.0.max(1)))).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn advice(text: &str) -> Vec<String> {
        let text = format!("[[class]]\nname = \"ef\"\nmost = \"9 Mbit/s\"\n{text}");
        let (file, diagnostics) = AgentFile::read("agent.toml", &text);
        file.unwrap_or_else(|| panic!("{diagnostics}")).advice()
    }

    #[test]
    fn settings_that_are_hardly_meant_are_told() {
        // 1500 B in 15 ms are 800 kbit/s, and in a second 12 kbit/s.
        let congestion = "[class.congestion]\ntarget = \"15 ms\"\n";
        let told = advice(&format!("least = \"799 kbit/s\"\n{congestion}"));
        assert!(told.len() == 1 && told[0].contains("at least 800 kbit/s"), "{told:?}");
        assert_eq!(advice(&format!("least = \"800 kbit/s\"\n{congestion}")), [""; 0]);
        let looks = |poll| advice(&format!("least = \"800 kbit/s\"\n{congestion}poll = \"{poll}\"\n"));
        assert!(looks("3.8 ms").len() == 1 && looks("3.8 ms")[0].contains("at most 3.75 ms"));
        assert_eq!(looks("3.75 ms"), [""; 0]);
        assert!(advice("least = \"1 bit/s\"\n")[0].contains("longer than 1 s"));
        assert_eq!(advice("least = \"12 kbit/s\"\n"), [""; 0]);
        // K = 600 kbit/s and s = 0.9: unstable below 270 kbit/s.
        assert!(advice("least = \"64 kbit/s\"\nfaithful = true\n")[0].contains("below 270 kbit/s"));
        assert_eq!(advice("least = \"300 kbit/s\"\nfaithful = true\n"), [""; 0]);
    }
}
