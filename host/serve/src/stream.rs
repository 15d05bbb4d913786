//! A client's connection as bytes: who reads nothing is given up, and what is no HTTP is answered in JSON too.

use crate::limits::{Gauges, Limit};
use crate::listener::Carrier;
use crate::refusal::to_no_request;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// A connection whose writes time out.
pub(crate) struct ClientStream {
    stream: Box<dyn Carrier>,
    gauges: Gauges,
    /// Runs while a write waits for the client.
    stalled: Option<Pin<Box<Sleep>>>,
    /// Written in place of what the reader of heads says to bytes that are no request, up to the number.
    instead: Option<(Vec<u8>, usize)>,
}

impl ClientStream {
    pub(crate) fn new(stream: Box<dyn Carrier>, gauges: Gauges) -> Self {
        Self { stream, gauges, stalled: None, instead: None }
    }

    fn write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if let Poll::Ready(done) = Pin::new(&mut self.stream).poll_write(cx, bytes) {
            self.stalled = None;
            return Poll::Ready(done);
        }
        let patience = self.gauges.duration(Limit::WriteMs);
        let timer = self.stalled.get_or_insert_with(|| Box::pin(sleep(patience)));
        ready!(timer.as_mut().poll(cx));
        self.gauges.hit(Limit::WriteMs);
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

/// The status, if these bytes are an answer that no handler gave: all of theirs have a content type when they refuse.
fn bare_refusal(bytes: &[u8]) -> Option<u16> {
    let rest = bytes.strip_prefix(b"HTTP/1.1 4").or_else(|| bytes.strip_prefix(b"HTTP/1.0 4"))?;
    let status = std::str::from_utf8(rest.get(..2)?).ok()?.parse::<u16>().ok()?;
    let named = bytes.windows(13).any(|w| w.eq_ignore_ascii_case(b"content-type:"));
    (!named).then_some(400 + status)
}

impl AsyncRead for ClientStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for ClientStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        if this.instead.is_none()
            && let Some(status) = bare_refusal(bytes)
        {
            this.instead = Some((to_no_request(status, this.gauges.value(Limit::HeadBytes)), 0));
        }
        let Some((text, mut from)) = this.instead.take() else { return this.write(cx, bytes) };
        while from < text.len() {
            match this.write(cx, &text[from..]) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(n)) => from += n,
                other => {
                    this.instead = Some((text, from));
                    return other;
                }
            }
        }
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
