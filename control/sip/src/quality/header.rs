//! The header `QoS-Proxy`, by which the proxies of caller and callee tell each other what they need for reservations.
//!
//! `QoS-Proxy: er=NAME;realm=NAME;mode=uni|bi;dir=send|both|none`. In the request of a caller's proxy it says who reserves for the caller and what is
//! wanted; in the response of the callee's what that has done. Parameters that are not known are passed over.

use crate::message::{Params, scan};

/// Who reserves what (`mode`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Each side what its phone sends.
    Uni,
    /// The caller's side both directions.
    Bi,
}

/// What the side that speaks reserves or has reserved (`dir`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dir {
    /// What its phone sends.
    Send,
    /// Both directions.
    Both,
    /// Nothing: it was refused, or is for the other side to do.
    None,
}

/// What one proxy tells the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// The edge router of its phone.
    pub er: String,
    /// Its domain.
    pub realm: String,
    /// Who reserves what.
    pub mode: Mode,
    /// What it does itself.
    pub dir: Dir,
}

/// Longest name of an edge router or realm.
const NAME: usize = 128;

impl Descriptor {
    /// Reads a value; `None` if it is none.
    pub fn read(value: &[u8]) -> Option<Self> {
        let params = [b";", value].concat();
        let params = Params(&params);
        let name = |key: &str| {
            let value = params.get(key).filter(|value| scan::token(value) && value.len() <= NAME)?;
            String::from_utf8(value.to_vec()).ok()
        };
        let mode = match params.get("mode")? {
            b"uni" => Mode::Uni,
            b"bi" => Mode::Bi,
            _ => return None,
        };
        let dir = match params.get("dir")? {
            b"send" => Dir::Send,
            b"both" => Dir::Both,
            b"none" => Dir::None,
            _ => return None,
        };
        Some(Self { er: name("er")?, realm: name("realm")?, mode, dir })
    }

    /// The value.
    pub fn text(&self) -> String {
        let mode = match self.mode {
            Mode::Uni => "uni",
            Mode::Bi => "bi",
        };
        let dir = match self.dir {
            Dir::Send => "send",
            Dir::Both => "both",
            Dir::None => "none",
        };
        format!("er={};realm={};mode={mode};dir={dir}", self.er, self.realm)
    }
}
