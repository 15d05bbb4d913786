//! Methods.

/// What a request asks for. Methods are told apart by case (RFC 3261 §7.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// Begin or change a call.
    Invite,
    /// A final response to INVITE has arrived.
    Ack,
    /// End a call.
    Bye,
    /// Give up a request that has no final response yet.
    Cancel,
    /// Say where somebody is reached.
    Register,
    /// What can you do?
    Options,
    /// A provisional response has arrived (RFC 3262).
    Prack,
    /// Change a session without a new INVITE (RFC 3311).
    Update,
    /// Any other; proxies pass it on.
    Other,
}

impl Method {
    /// The method that a token is.
    pub fn of(token: &[u8]) -> Self {
        match token {
            b"INVITE" => Self::Invite,
            b"ACK" => Self::Ack,
            b"BYE" => Self::Bye,
            b"CANCEL" => Self::Cancel,
            b"REGISTER" => Self::Register,
            b"OPTIONS" => Self::Options,
            b"PRACK" => Self::Prack,
            b"UPDATE" => Self::Update,
            _ => Self::Other,
        }
    }
}
