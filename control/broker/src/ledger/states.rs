//! Where a ledger stands with the database: one table.

/// Where a ledger stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Nothing is on its way.
    Ready,
    /// A group is being written.
    Writing,
    /// The database did not take a group: nothing is decided for a while.
    Paused,
    /// Another instance leads.
    Over,
}

/// What changes that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A group is handed out.
    Sealed,
    /// It is in the database.
    Written,
    /// It is not.
    Failed,
    /// Another instance has taken over.
    Replaced,
    /// The pause is over.
    Resumed,
}

/// The next state by state and event; none = the event does not belong here and is passed over.
const TABLE: [[Option<State>; 5]; 4] = {
    use State::{Over, Paused, Ready, Writing};
    [
        // Sealed         Written      Failed        Replaced    Resumed
        [Some(Writing), None, None, Some(Over), None],
        [None, Some(Ready), Some(Paused), Some(Over), None],
        [None, None, None, Some(Over), Some(Ready)],
        [None, None, None, None, None],
    ]
};

impl State {
    /// The state after an event, if the event belongs here.
    pub fn after(self, event: Event) -> Option<Self> {
        TABLE[self as usize][event as usize]
    }
}
