//! Messages of a stream (RFC 3261 §18.3): Content-Length says where one ends.

use super::fault::Unreadable;
use super::read::head_end;
use super::{MAX_BODY, MAX_HEAD, Message};

/// Octets of a connection that are no whole message yet. At most a head and a body are kept.
#[derive(Clone, Debug, Default)]
pub struct Stream {
    bytes: Vec<u8>,
    /// A head that waits for its body of so many octets.
    waiting: Option<(Box<Message>, usize)>,
}

/// What a stream has brought.
#[derive(Clone, Debug)]
pub enum Piece {
    /// A message.
    Message(Box<Message>),
    /// A double CRLF, which wants one CRLF back (RFC 5626 §3.5.1).
    Ping,
}

impl Stream {
    /// Takes octets in.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Octets that wait for more.
    pub fn held(&self) -> usize {
        self.bytes.len()
    }

    /// The next piece, if it is whole. After an error the connection must be closed: nothing behind it can be told apart.
    ///
    /// # Errors
    /// [`Unreadable`].
    #[expect(clippy::should_implement_trait, reason = "an iterator would end with the first None")]
    pub fn next(&mut self) -> Result<Option<Piece>, Unreadable> {
        if let Some((mut message, len)) = self.waiting.take() {
            if self.bytes.len() < len {
                self.waiting = Some((message, len));
                return Ok(None);
            }
            message.take_body(&self.bytes[..len]);
            self.bytes.drain(..len);
            return Ok(Some(Piece::Message(message)));
        }
        if self.bytes.starts_with(b"\r\n\r\n") {
            self.bytes.drain(..4);
            return Ok(Some(Piece::Ping));
        }
        if matches!(self.bytes.as_slice(), b"\r" | b"\r\n" | b"\r\n\r") {
            return Ok(None);
        }
        let blank = self.bytes.iter().take_while(|&&o| matches!(o, b'\r' | b'\n')).count();
        self.bytes.drain(..blank);
        let Some(end) = head_end(&self.bytes) else {
            return if self.bytes.len() > MAX_HEAD { Err(Unreadable::Head) } else { Ok(None) };
        };
        if end > MAX_HEAD {
            return Err(Unreadable::Head);
        }
        let message = Message::head(self.bytes.drain(..end).collect())?;
        let len = match message.length() {
            // RFC 3261 §20.14 wants it on streams; without it only an empty body is possible.
            Ok(len) => len.unwrap_or(0),
            Err(_) => return Err(Unreadable::Length),
        };
        if len > MAX_BODY {
            return Err(Unreadable::Body);
        }
        self.waiting = Some((Box::new(message), len));
        self.next()
    }
}
