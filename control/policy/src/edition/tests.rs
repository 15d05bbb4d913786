use super::*;
use crate::diff::{Rows, assemble};
use crate::validate::from_toml;
use perhop_units::mix;

fn policy(rate: u64) -> Policy {
    let text = format!(
        "[[sla]]\nname = \"gold\"\nrate = \"{rate} kbit/s\"\n[[subscriber]]\nname = \"s{rate}\"\nsla = \"gold\"\n"
    );
    from_toml("p.toml", &text).0.expect("sound")
}

const UNIX: u64 = 1_800_000_000_000;

/// What a database has, written group by group.
#[derive(Clone, Default)]
struct Store {
    editions: BTreeMap<u64, EditionRow>,
    policy: BTreeMap<(crate::validate::Section, perhop_model::Name), BTreeMap<u64, Option<String>>>,
}

impl Store {
    fn write(&mut self, group: &Group) {
        for change in &group.changes {
            match change {
                Change::Edition(row) => drop(self.editions.insert(row.n, row.clone())),
                Change::Policy { edition, change } => {
                    let key = (change.section, change.name.clone());
                    self.policy.entry(key).or_default().insert(*edition, change.spec.clone());
                }
            }
        }
    }

    fn policy_of(&self, edition: u64) -> Policy {
        let last = |all: &BTreeMap<u64, Option<String>>| all.range(..=edition).next_back()?.1.clone();
        let rows: Rows =
            self.policy.iter().filter_map(|(key, all)| Some((key.clone(), last(all)?))).collect();
        assemble(&rows).expect("what was written is read")
    }

    fn kept(&self) -> Kept {
        let last = self.editions.keys().next_back().copied().unwrap_or(0);
        let row = self.editions.get(&last);
        let to_confirm = row.filter(|row| row.state == EditionState::ToConfirm);
        Kept {
            editions: self.editions.values().cloned().collect(),
            in_force: self.policy_of(last),
            fallback: to_confirm.map(|row| self.policy_of(row.parent)),
        }
    }
}

struct World {
    store: Store,
    editions: Editions,
    now: Instant,
    answers: BTreeMap<u64, Result<u64, Refused>>,
    request: u64,
    in_force: Vec<u64>,
}

impl World {
    fn new() -> Self {
        let store = Store::default();
        let editions = Editions::new(store.kept(), UNIX);
        let (answers, in_force) = (BTreeMap::new(), Vec::new());
        Self { store, editions, now: Instant(0), answers, request: 0, in_force }
    }

    /// Tells it something and does what it wants; a store that fails writes nothing.
    fn tell(&mut self, input: Input, store_works: bool, broken: &[Broken]) {
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            self.editions.handle_input(self.now, input);
            while let Some(output) = self.editions.poll_output() {
                match output {
                    Output::Answer { request, answer } => {
                        assert_eq!(self.answers.insert(request, answer), None, "answered once");
                    }
                    Output::Try { candidate, .. } => {
                        inputs.push_back(Input::Tried { candidate, broken: broken.to_vec() });
                    }
                    Output::Load { edition } => {
                        let policy = Some(Box::new(self.store.policy_of(edition)));
                        inputs.push_back(Input::Loaded { edition, policy });
                    }
                    Output::Write { group, .. } => {
                        if store_works {
                            self.store.write(&group);
                        }
                        inputs.push_back(Input::Written { group: group.number, done: store_works });
                    }
                    Output::InForce { edition, policy } => {
                        self.in_force.push(edition);
                        assert_eq!(*policy, self.store.policy_of(edition), "what is in force is written");
                    }
                }
            }
        }
    }

    fn wish(&mut self, wish: Wish) -> Result<u64, Refused> {
        self.request += 1;
        let request = self.request;
        self.tell(Input::Wish { request, by: "ann".into(), wish }, true, &[]);
        self.answers[&request].clone()
    }

    fn commit(&mut self, policy: Policy, within: Option<Duration>) -> Result<u64, Refused> {
        let base = self.editions.number();
        self.wish(Wish::Propose { policy: Box::new(policy), base, trial: false })?;
        self.wish(Wish::Commit { reason: "because".into(), confirm_within: within })
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.tell(Input::Tick, true, &[]);
    }
}

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn a_candidate_becomes_the_edition_in_force() {
    let mut world = World::new();
    assert_eq!(world.commit(policy(1), None), Ok(1));
    assert_eq!(world.commit(policy(2), None), Ok(2));
    assert_eq!(**world.editions.policy(), policy(2));
    let row = world.editions.history().next().expect("a row");
    assert_eq!((row.n, row.parent, row.author.as_str(), row.reason.as_str()), (2, 1, "ann", "because"));
    assert_eq!((row.at_ms, row.state, &row.sha256), (UNIX, EditionState::Confirmed, &sha256_of(&policy(2))));
    assert_eq!(world.in_force, [1, 2]);
}

#[test]
fn what_is_not_confirmed_returns_by_itself_byte_by_byte() {
    let mut world = World::new();
    world.commit(policy(1), None).expect("granted");
    assert_eq!(world.commit(policy(2), Some(MINUTE)), Ok(2));
    assert_eq!(world.wish(Wish::Rollback { to: 9, reason: String::new() }), Err(Refused::NoEdition(9)));
    let stale = Wish::Propose { policy: Box::new(policy(3)), base: 2, trial: false };
    assert_eq!(world.wish(stale), Err(Refused::Pending(2)));
    world.pass(Duration::from_secs(59));
    assert_eq!(**world.editions.policy(), policy(2));
    world.pass(Duration::from_secs(1));
    assert_eq!(world.editions.policy().to_json(), policy(1).to_json());
    assert_eq!(world.editions.number(), 3);
    let states: Vec<_> = world.editions.history().map(|row| (row.n, row.state)).collect();
    assert_eq!(
        states,
        [(3, EditionState::Confirmed), (2, EditionState::Reverted), (1, EditionState::Confirmed)]
    );
    assert_eq!(world.editions.history().next().map(|row| row.author.as_str()), Some(DOMAIN));
    assert_eq!(world.store.editions[&3].sha256, world.store.editions[&1].sha256);
}

#[test]
fn what_is_confirmed_stays() {
    let mut world = World::new();
    world.commit(policy(2), Some(MINUTE)).expect("granted");
    assert_eq!(world.wish(Wish::Confirm), Ok(1));
    world.pass(MINUTE);
    assert_eq!((world.editions.number(), world.editions.next_wakeup()), (1, None));
    assert_eq!(world.wish(Wish::Confirm), Err(Refused::NothingPending));
    assert_eq!(world.in_force, [1], "it was in force already");
}

#[test]
fn any_edition_comes_back_byte_by_byte() {
    let mut world = World::new();
    for rate in 1..=4 {
        world.commit(policy(rate), None).expect("granted");
    }
    assert_eq!(world.wish(Wish::Rollback { to: 2, reason: "it was better".into() }), Ok(5));
    assert_eq!(world.editions.policy().to_json(), policy(2).to_json());
    assert_eq!(world.store.policy_of(5).to_json(), world.store.policy_of(2).to_json());
    assert_eq!(world.store.editions[&5].sha256, world.store.editions[&2].sha256);
    for to in [0, 5, 6] {
        assert_eq!(world.wish(Wish::Rollback { to, reason: String::new() }), Err(Refused::NoEdition(to)));
    }
}

#[test]
fn faults_broken_guarantees_and_other_bases_are_refused_and_nothing_changes() {
    let mut world = World::new();
    world.commit(policy(1), None).expect("granted");
    let mut faulty = policy(2);
    faulty.slas.clear();
    let wish = |policy: Policy, base| Wish::Propose { policy: Box::new(policy), base, trial: true };
    assert!(matches!(world.wish(wish(faulty, 1)), Err(Refused::Faults(faults)) if faults.len() == 1));
    assert_eq!(world.wish(wish(policy(2), 0)), Err(Refused::Stale { in_force: 1 }));
    let broken = Broken { class: "voice".into(), measure: "delay_ms".into(), figure: 31, bound: 20 };
    let input = Input::Wish { request: 900, by: "ann".into(), wish: wish(policy(2), 1) };
    world.tell(input, true, std::slice::from_ref(&broken));
    assert_eq!(world.answers[&900], Err(Refused::Broken(vec![broken])));
    let commit = Wish::Commit { reason: String::new(), confirm_within: None };
    assert_eq!(world.wish(commit.clone()), Err(Refused::NoCandidate));
    assert_eq!(world.wish(wish(policy(2), 1)), Ok(1), "tried, and nothing breaks");
    assert_eq!(world.wish(Wish::Withdraw), Ok(1));
    assert_eq!(world.wish(commit), Err(Refused::NoCandidate));
    let long = Wish::Commit { reason: "x".repeat(MAX_TEXT + 1), confirm_within: None };
    assert_eq!(world.wish(long), Err(Refused::OutOfRange));
    let never = Wish::Commit { reason: String::new(), confirm_within: Some(Duration::ZERO) };
    assert_eq!(world.wish(never), Err(Refused::OutOfRange));
    assert_eq!((world.editions.number(), world.in_force.len()), (1, 1));
}

#[test]
fn what_cannot_be_written_is_not_in_force() {
    let mut world = World::new();
    world.commit(policy(1), None).expect("granted");
    world.wish(Wish::Propose { policy: Box::new(policy(2)), base: 1, trial: false }).expect("granted");
    let commit = Wish::Commit { reason: String::new(), confirm_within: Some(MINUTE) };
    world.tell(Input::Wish { request: 900, by: "ann".into(), wish: commit.clone() }, false, &[]);
    assert_eq!(world.answers[&900], Err(Refused::NotWritten));
    assert_eq!(**world.editions.policy(), policy(1));
    assert_eq!(world.wish(commit), Ok(2), "the candidate is there yet");
    // A store that fails at the deadline: it is tried again.
    world.now += MINUTE;
    world.tell(Input::Tick, false, &[]);
    assert_eq!(**world.editions.policy(), policy(2));
    world.pass(Duration::from_millis(999));
    assert_eq!(**world.editions.policy(), policy(2));
    world.pass(Duration::from_millis(1));
    assert_eq!(**world.editions.policy(), policy(1));
}

/// Random wishes, a store that fails now and then, restarts between any two inputs and in the middle of a write: what is in
/// force is what is written last, nothing waits beyond its time, and each digest is that of its policy.
#[test]
fn random_schedules_with_restarts_keep_force_and_store_together() {
    for seed in 0..150u64 {
        let mut random = seed;
        let mut draw = |below: u64| mix::next(&mut random) % below;
        let mut world = World::new();
        for _ in 0..60 {
            world.now += Duration::from_secs(draw(40));
            let number = world.editions.number();
            let wish = match draw(8) {
                0..=2 => Wish::Propose {
                    policy: Box::new(policy(1 + draw(5))),
                    base: number.saturating_sub(draw(6) / 5),
                    trial: draw(2) == 0,
                },
                3 | 4 => {
                    Wish::Commit { reason: String::new(), confirm_within: (draw(2) == 0).then_some(MINUTE) }
                }
                5 => Wish::Confirm,
                6 => Wish::Rollback { to: draw(number + 2), reason: String::new() },
                _ => Wish::Withdraw,
            };
            world.request += 1;
            let input = match draw(4) {
                0 => Input::Tick,
                _ => Input::Wish { request: world.request, by: "ann".into(), wish },
            };
            match draw(6) {
                // It dies while the store writes, or just before.
                0 => {
                    world.editions.handle_input(world.now, input);
                    while let Some(output) = world.editions.poll_output() {
                        if let Output::Write { group, .. } = output
                            && draw(2) == 0
                        {
                            world.store.write(&group);
                        }
                    }
                    world.editions = Editions::new(world.store.kept(), UNIX);
                }
                1 => world.tell(input, false, &[]),
                _ => world.tell(input, true, &[]),
            }
            let (number, row) = (world.editions.number(), world.store.editions.values().next_back());
            assert_eq!(number, row.map_or(0, |row| row.n), "seed {seed}");
            assert_eq!(**world.editions.policy(), world.store.policy_of(number), "seed {seed}");
            if let Some(row) = row {
                assert_eq!(row.sha256, sha256_of(world.editions.policy()), "seed {seed}");
            }
        }
        // Whatever waits is settled in the end.
        for _ in 0..3 {
            world.pass(MINUTE);
            world.pass(Duration::from_secs(1));
        }
        assert!(world.store.editions.values().all(|row| row.state != EditionState::ToConfirm), "seed {seed}");
        assert_eq!(world.editions.next_wakeup(), None, "seed {seed}");
    }
}
