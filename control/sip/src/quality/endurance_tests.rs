//! A day of calls over a network that loses messages: at its end nothing is left over, neither in proxies nor in edge routers.

use super::*;
use crate::testing::phone::{Manners, sdp};
use crate::testing::world::{PROXY_A, PROXY_B, World};
use perhop_units::Duration;

/// Runs so many hours of random calls between phones of two domains.
fn day(seed: u64, hours: u64, loss_percent: u64, adjust: impl Fn(Settings) -> Settings) -> World {
    let mut world = World::new(|mut settings| {
        // Who loses BYE and its repetitions has no other end than this.
        settings.longest = Duration::from_secs(1_800);
        adjust(settings)
    });
    world.seed = seed;
    world.loss_percent = loss_percent;
    world.log = None;
    for n in 2..=4 {
        world.phone(&format!("u{n}@a.example"), &format!("10.1.0.{n}:5060"), PROXY_A);
        world.phone(&format!("u{n}@b.example"), &format!("10.2.0.{n}:5060"), PROXY_B);
    }
    let end = Instant(0) + Duration::from_secs(hours * 3_600);
    let addresses: Vec<_> = world.phones.keys().copied().collect();
    while world.now < end {
        let wait = 1_000 + world.draw(60_000);
        world.run(Duration::from_millis(wait));
        let now = world.now;
        let who = addresses[world.draw(addresses.len() as u64) as usize];
        let draws = [world.draw(100), world.draw(4), world.draw(2), world.draw(5_000), world.draw(5)];
        let phone = world.phones.get_mut(&who).expect("there");
        phone.tidy();
        phone.sdp = sdp(
            who,
            ["0", "18", "3"][draws[1] as usize % 3],
            ["", "a=sendonly\r\n"][usize::from(draws[0] == 1)],
        );
        phone.manners = Manners {
            ring: (draws[4] > 0).then_some((Duration::from_millis(draws[3] / 2), draws[2] == 0)),
            answer: (draws[0] != 2)
                .then_some((Duration::from_millis(draws[3]), [200, 200, 200, 486, 200][draws[4] as usize])),
            expires: (draws[2] == 1).then_some(300),
        };
        let calls: Vec<u64> = phone.dialogs.keys().copied().collect();
        match draws[0] {
            0..=49 => {
                let domain = if draws[2] == 0 { "a" } else { "b" };
                let uri = format!("sip:u{}@{domain}.example", 1 + draws[1]);
                if draws[4] == 0 {
                    phone.call_without_offer(now, &uri);
                } else {
                    phone.call(now, &uri);
                }
            }
            50..=74 => calls.iter().for_each(|call| phone.hang_up(now, *call)),
            75..=84 => calls.iter().for_each(|call| phone.cancel(now, *call)),
            85..=97 => {
                let open = |call: &&u64| phone.dialogs[call].answered && !phone.dialogs[call].over;
                let Some(call) = calls.iter().find(open).copied() else { continue };
                match draws[0] {
                    85..=92 => phone.invite(now, call, draws[2] == 0),
                    _ => phone.update(now, call),
                }
            }
            // It is switched off and on: its calls have no end.
            99 => phone.dialogs.clear(),
            _ => {}
        }
    }
    world
}

fn ends_empty(mut world: World) -> Counters {
    let counters = world.quality(PROXY_A).quality().counters();
    world.run(Duration::from_secs(3 * 1_800));
    world.assert_empty();
    counters
}

#[test]
fn after_a_day_with_loss_nothing_is_left_over() {
    let counters = ends_empty(day(1, 24, 5, |settings| settings));
    assert!(counters.calls > 200 && counters.reserved > 50, "{counters:?}");
}

#[test]
fn nothing_is_left_over_whatever_is_configured_and_lost() {
    for seed in 2..9 {
        let counters = ends_empty(day(seed, 2, [0, 5, 30][seed as usize % 3], |mut settings| {
            settings.early = seed % 2 == 0;
            settings.mode = if seed % 3 == 0 { Mode::Bi } else { Mode::Uni };
            settings.on_refusal = if seed % 4 == 0 { OnRefusal::Refuse(488) } else { OnRefusal::BestEffort };
            settings.patience = Duration::from_millis(if seed % 5 == 0 { 1 } else { 500 });
            settings
        }));
        assert!(counters.calls > 10, "{counters:?}");
    }
}
