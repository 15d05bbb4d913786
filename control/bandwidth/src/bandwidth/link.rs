//! What a link has for policies: its rate now and soon, less what is served before.

use super::freeing::Freeing;
use super::plan::Plan;
use super::settings::LinkSettings;
use crate::notice::Notice;
use perhop_agent::ClassReading;
use perhop_allocate::{Metering, WindowConfig, window::WindowMeter};
use perhop_model::{Name, ObjectState, Spec};
use perhop_units::{Duration, Instant, Rate, Share};

/// Shortest time over which a rate is measured: of readings that come sooner the next one counts.
const SHORTEST: Duration = Duration::from_millis(5);

/// One link.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) settings: LinkSettings,
    plan: Plan,
    /// Rate of its port; `None`: it has no port, the router has no such port, or the port no rate.
    port: Option<Rate>,
    /// That this is missing has been told.
    told: bool,
    above: Vec<Above>,
    /// What its policies have given up and still use.
    pub(super) freeing: Freeing,
}

/// A class that is served before.
#[derive(Debug)]
struct Above {
    class: Name,
    /// The router has it.
    present: bool,
    /// Bits counted, and when.
    last: Option<(Instant, u64)>,
    meter: WindowMeter,
    /// Something was measured.
    measured: bool,
}

impl Link {
    pub(super) fn new(settings: &LinkSettings, now: Instant) -> Self {
        let window = WindowConfig { intervals: settings.intervals, ..WindowConfig::default() };
        let above = |class: &Name| Above {
            class: class.clone(),
            present: false,
            last: None,
            meter: WindowMeter::new(&window),
            measured: false,
        };
        Self {
            plan: Plan::new(now, settings.rate, settings.schedule.clone()),
            port: None,
            told: false,
            freeing: Freeing::default(),
            above: settings.above.iter().map(above).collect(),
            settings: settings.clone(),
        }
    }

    /// Nothing is known of what passed since the last reading.
    pub(super) fn gone(&mut self) {
        self.above.iter_mut().for_each(|above| above.last = None);
    }

    pub(super) fn announce(&mut self, now: Instant, at: Instant, rate: Rate) -> bool {
        self.plan.announce(now, at, rate)
    }

    pub(super) fn next_step(&self, now: Instant) -> Option<Instant> {
        self.plan.next_step(now, self.settings.notice)
    }

    /// What ports and classes there are.
    pub(super) fn objects<'a>(
        &mut self,
        now: Instant,
        objects: impl Iterator<Item = &'a ObjectState> + Clone,
        notices: &mut Vec<Notice>,
    ) {
        let port = objects.clone().find_map(|object| match &object.spec {
            Spec::Port(port) if self.settings.port.as_ref() == Some(&object.name) => Some(port.rate),
            _ => None,
        });
        self.port_seen(now, port.filter(|rate| *rate > Rate::ZERO));
        if let Some(port) = self.settings.port.clone() {
            let missing = self.port.is_none();
            if missing && !self.told {
                notices.push(Notice::NoRate { link: self.settings.name.clone(), port });
            }
            self.told = missing;
        }
        for above in &mut self.above {
            let is_it =
                |object: &ObjectState| matches!(object.spec, Spec::Class(_)) && object.name == above.class;
            let found = objects.clone().any(is_it);
            if !found && (above.present || !above.measured) {
                notices.push(Notice::NoClass { class: above.class.clone() });
            }
            // What is not there uses nothing.
            (above.present, above.measured) = (found, above.measured || !found);
        }
    }

    fn port_seen(&mut self, now: Instant, rate: Option<Rate>) {
        let before = std::mem::replace(&mut self.port, rate);
        // Where the agent sets the port, what was announced stays true.
        if let (Some(before), Some(rate), false) = (before, rate, self.settings.set_port)
            && before != rate
        {
            self.plan.seen(now, rate);
        }
    }

    /// What its classes have counted; whether that changes what they are taken to use.
    pub(super) fn readings(&mut self, at: Instant, classes: &[(Name, ClassReading)]) -> bool {
        let metering = self.settings.metering;
        let mut changed = false;
        for above in &mut self.above {
            let Some((_, reading)) = classes.iter().find(|(name, _)| *name == above.class) else { continue };
            let bytes = match metering {
                Metering::Carried => reading.carried_bytes,
                Metering::Offered => reading.offered_bytes,
            };
            changed |= above.count(at, bytes.saturating_mul(8));
        }
        changed
    }

    /// Whether all classes before it have been measured.
    pub(super) fn is_measured(&self) -> bool {
        self.above.iter().all(|above| above.measured)
    }

    /// What policies can have together from now on; `None` while its rate is not known.
    pub(super) fn available(&self, now: Instant) -> Option<Rate> {
        let planned = self.plan.lowest(now, self.settings.notice);
        let rate = planned.into_iter().chain(self.port).min()?;
        if self.settings.port.is_some() && self.port.is_none() && self.settings.rate.is_none() {
            return None;
        }
        let given = Share::Ppm(self.settings.utilisation_ppm).of(rate);
        let margin = Share::Ppm(self.settings.margin_ppm);
        let used = self.above.iter().filter(|above| above.present).map(|above| above.meter.estimate());
        let used = used.map(|used| used.saturating_add(margin.of(used)));
        Some(used.fold(given, Rate::saturating_sub))
    }

    /// The port and the rate that it has to get now.
    pub(super) fn port_to_set(&self, now: Instant) -> Option<(Name, Rate)> {
        let due = self.plan.rate_at(now).filter(|_| self.settings.set_port)?;
        let has = self.port?;
        (has != due).then(|| Some((self.settings.port.clone()?, due))).flatten()
    }

    /// The port got a rate from here.
    pub(super) fn port_has(&mut self, rate: Rate) {
        self.port = Some(rate);
    }
}

impl Above {
    /// Closes an interval; whether the estimate is another.
    fn count(&mut self, at: Instant, bits: u64) -> bool {
        let Some((before, counted)) = self.last else {
            self.last = Some((at, bits));
            return false;
        };
        let elapsed = at.since(before);
        if elapsed < SHORTEST {
            return false;
        }
        self.last = Some((at, bits));
        let estimate = self.meter.estimate();
        let measured = std::mem::replace(&mut self.measured, true);
        // A class that was made anew counts from 0.
        self.meter.close(bits.checked_sub(counted).unwrap_or(bits), elapsed) != estimate || !measured
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::object;
    use perhop_model::{ClassSpec, PortSpec};
    use serde_json::json;

    fn link(above: &[&str]) -> Link {
        let settings = LinkSettings {
            name: Name::new("sat").unwrap(),
            port: Some(Name::new("wan").unwrap()),
            rate: None,
            set_port: false,
            utilisation_ppm: 980_000,
            above: above.iter().map(|name| Name::new(name).unwrap()).collect(),
            metering: Metering::Offered,
            intervals: 3,
            margin_ppm: 100_000,
            notice: Duration::from_secs(1),
            schedule: super::super::Schedule::default(),
        };
        Link::new(&settings, Instant::ZERO)
    }

    fn objects(rate: u64, classes: &[&str]) -> Vec<ObjectState> {
        let port: PortSpec = serde_json::from_value(json!({ "rate": rate })).unwrap();
        let class: ClassSpec = serde_json::from_value(json!({ "port": "wan" })).unwrap();
        let classes = classes.iter().map(|name| object(name, Spec::Class(class.clone())));
        std::iter::once(object("wan", Spec::Port(port))).chain(classes).collect()
    }

    fn seen(link: &mut Link, now: Instant, objects: &[ObjectState]) -> usize {
        let mut notices = Vec::new();
        link.objects(now, objects.iter(), &mut notices);
        notices.len()
    }

    #[test]
    fn what_is_served_before_is_taken_off_with_its_margin() {
        let mut link = link(&["voice"]);
        assert_eq!(seen(&mut link, Instant::ZERO, &objects(1_000_000, &["voice"])), 0);
        let read = |link: &mut Link, ms: u64, bytes| {
            let reading = ClassReading { offered_bytes: bytes, ..ClassReading::default() };
            link.readings(Instant(ms * 1_000_000), &[(Name::new("voice").unwrap(), reading)])
        };
        assert!(!read(&mut link, 0, 5_000_000) && !link.is_measured(), "what was before is no measure");
        // 2,500 B in 200 ms are 100 kbit/s, with the margin 110, of 980.
        assert!(read(&mut link, 200, 5_002_500) && link.is_measured());
        assert_eq!(link.available(Instant::ZERO), Some(Rate(870_000)));
        // The largest of the window and the one before counts; nothing is measured over an outage.
        link.gone();
        assert!(!read(&mut link, 10_000, 9_000_000));
        assert!(!read(&mut link, 10_200, 9_000_000));
        assert!(!read(&mut link, 10_400, 9_000_000), "the first window ends with its peak");
        assert!(!read(&mut link, 10_600, 9_000_000) && !read(&mut link, 10_800, 9_000_000));
        assert!(read(&mut link, 11_000, 9_000_000));
        assert_eq!(link.available(Instant::ZERO), Some(Rate(980_000)));
    }

    #[test]
    fn a_port_without_a_rate_and_a_class_that_is_not_there_are_told_once() {
        let mut link = link(&["voice"]);
        assert_eq!(seen(&mut link, Instant::ZERO, &objects(0, &[])), 2);
        assert_eq!(seen(&mut link, Instant::ZERO, &objects(0, &[])), 0);
        assert_eq!((link.available(Instant::ZERO), link.is_measured()), (None, true));
        assert_eq!(seen(&mut link, Instant::ZERO, &objects(1_000_000, &["voice"])), 0);
        assert_eq!(link.available(Instant::ZERO), Some(Rate(980_000)));
        assert_eq!(seen(&mut link, Instant::ZERO, &objects(1_000_000, &[])), 1);
    }

    #[test]
    fn an_announcement_holds_until_the_port_has_changed() {
        let (mut link, second) = (link(&[]), |s: u64| Instant(s * 1_000_000_000));
        seen(&mut link, second(0), &objects(1_000_000, &[]));
        assert!(link.announce(second(0), second(10), Rate(500_000)));
        let available = |link: &Link, s| link.available(second(s)).unwrap().0;
        assert_eq!([8, 9, 10, 11].map(|s| available(&link, s)), [980_000, 490_000, 490_000, 490_000]);
        seen(&mut link, second(11), &objects(500_000, &[]));
        seen(&mut link, second(20), &objects(1_000_000, &[]));
        assert_eq!(available(&link, 20), 980_000);
    }
}
