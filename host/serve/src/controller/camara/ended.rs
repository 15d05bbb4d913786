//! Sessions that are over and can still be looked at: for 360 s, as the interface promises to those who do not listen, but no more
//! than there is room for. They are not in the database: whoever leads next does not know them.

use super::id::SessionId;
use super::kept::{Ended, StatusInfo};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

/// How long they can be looked at, ms.
const LIFE_MS: u64 = 360_000;
/// Most of them; the oldest goes for a new one.
const MOST: usize = 65_536;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Memory {
    sessions: HashMap<SessionId, Arc<Ended>>,
    /// In the order of their ends; some may be gone already.
    order: VecDeque<(u64, SessionId)>,
    /// By owner and key, to find those of a device.
    keys: BTreeSet<(Arc<str>, String, SessionId)>,
}

impl Memory {
    pub(super) fn put(&mut self, now_ms: u64, ended: Ended) {
        self.forget(now_ms);
        while self.sessions.len() >= MOST || self.order.len() >= 2 * MOST {
            let Some((_, id)) = self.order.pop_front() else { break };
            self.remove(id);
        }
        let id = ended.id;
        self.keys.insert((Arc::clone(&ended.owner), ended.key.clone(), id));
        self.sessions.insert(id, Arc::new(ended));
        self.order.push_back((now_ms, id));
        debug_assert_eq!(self.keys.len(), self.sessions.len());
    }

    pub(super) fn get(&mut self, now_ms: u64, id: SessionId) -> Option<Arc<Ended>> {
        self.forget(now_ms);
        self.sessions.get(&id).cloned()
    }

    pub(super) fn remove(&mut self, id: SessionId) -> bool {
        let Some(ended) = self.sessions.remove(&id) else { return false };
        self.keys.remove(&(Arc::clone(&ended.owner), ended.key.clone(), id))
    }

    /// An owner's whose key begins so, at most so many.
    pub(super) fn of(&mut self, now_ms: u64, owner: &Arc<str>, prefix: &str, most: usize) -> Vec<Arc<Ended>> {
        self.forget(now_ms);
        let first = (Arc::clone(owner), prefix.to_owned(), SessionId { number: 0, nonce: 0 });
        let own = self.keys.range(first..).take_while(|(o, key, _)| o == owner && key.starts_with(prefix));
        own.filter_map(|(.., id)| self.sessions.get(id)).take(most).cloned().collect()
    }

    /// The session that has to be deleted before another with the same key can be.
    pub(super) fn in_the_way(&mut self, now_ms: u64, owner: &Arc<str>, key: &str) -> Option<SessionId> {
        let all = self.of(now_ms, owner, key, MOST);
        all.iter().find(|e| e.key == key && e.why == StatusInfo::NetworkTerminated).map(|e| e.id)
    }

    fn forget(&mut self, now_ms: u64) {
        while let Some((at, id)) = self.order.front().copied() {
            if now_ms < at.saturating_add(LIFE_MS) {
                return;
            }
            self.order.pop_front();
            self.remove(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::camara::kept::Kept;

    fn ended(number: u64, key: &str, why: StatusInfo) -> Ended {
        let kept = Kept {
            nonce: 7,
            address: [10, 1, 0, 2].into(),
            device: None,
            server: serde_json::from_str("{}").expect("a server"),
            device_ports: None,
            server_ports: None,
            profile: "voice".into(),
            sink: None,
            token: None,
        };
        let (id, owner) = (SessionId::new(number, 7), Arc::from("app"));
        Ended { id, owner, key: key.into(), kept, duration_s: 1, ended_ms: 0, why, refusal: None }
    }

    #[test]
    fn a_session_that_is_over_is_there_for_six_minutes() {
        let (mut memory, owner) = (Memory::default(), Arc::from("app"));
        memory.put(1_000, ended(1, "camara/10.1.0.2/a", StatusInfo::NetworkTerminated));
        memory.put(2_000, ended(2, "camara/10.1.0.2/b", StatusInfo::DurationExpired));
        memory.put(2_000, ended(3, "camara/10.1.0.20/a", StatusInfo::DurationExpired));
        assert_eq!(memory.of(2_000, &owner, "camara/10.1.0.2/", 9).len(), 2);
        assert!(memory.in_the_way(2_000, &owner, "camara/10.1.0.2/a").is_some());
        assert!(memory.in_the_way(2_000, &owner, "camara/10.1.0.2/b").is_none(), "it had its time");
        assert!(memory.get(360_999, SessionId::new(1, 7)).is_some());
        assert!(memory.get(361_000, SessionId::new(1, 7)).is_none());
        assert!(memory.get(361_000, SessionId::new(2, 8)).is_none(), "another nonce");
        assert!(memory.remove(SessionId::new(2, 7)) && !memory.remove(SessionId::new(2, 7)));
    }

    #[test]
    fn there_is_room_for_so_many_and_the_oldest_goes() {
        let mut memory = Memory::default();
        for number in 0..MOST as u64 + 10 {
            memory.put(5, ended(number, "k", StatusInfo::DurationExpired));
        }
        assert_eq!((memory.sessions.len(), memory.keys.len()), (MOST, MOST));
        assert!(
            memory.get(5, SessionId::new(9, 7)).is_none() && memory.get(5, SessionId::new(10, 7)).is_some()
        );
    }
}
