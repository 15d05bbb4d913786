//! A client of the traffic-control API that waits: carries octets between the machine [`perhop_tcapi::client`] and a Unix socket.

use perhop_io::clock;
use perhop_tcapi::client::{Client, Input, Outcome, Output, Settings, Ticket};
use perhop_tcapi::wire::{FlowId, Refusal, Request, Verb};
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// A server that takes nothing for so long is gone.
const PATIENCE: Duration = Duration::from_secs(30);
/// Longest wait of a machine that wants nothing.
const NAP: Duration = Duration::from_secs(3_600);
/// Octets read at once.
const READ: usize = 65_536;

/// A connection to a server, and what is asked on it. Not for asynchronous programs: every call may block.
pub struct TcapiClient {
    path: PathBuf,
    machine: Client,
    stream: Option<UnixStream>,
    buffer: Vec<u8>,
    done: VecDeque<(Ticket, Outcome)>,
    gone: Vec<(FlowId, Refusal)>,
    next: Ticket,
    /// Why there was no connection last.
    error: Option<io::Error>,
}

impl TcapiClient {
    /// Connects. One that was connected once connects again by itself.
    ///
    /// # Errors
    /// Nobody listens.
    pub fn open(path: &Path, settings: Settings) -> io::Result<Self> {
        let mut this = Self {
            path: path.to_owned(),
            machine: Client::new(settings),
            stream: None,
            buffer: vec![0; READ],
            done: VecDeque::new(),
            gone: Vec::new(),
            next: 0,
            error: None,
        };
        this.input(Input::Tick);
        match (&this.stream, this.error.take()) {
            (None, Some(error)) => Err(error),
            _ => Ok(this),
        }
    }

    /// Asks, and does not wait. The outcome comes with the ticket.
    pub fn ask(&mut self, verb: Verb, request: Request) -> Ticket {
        self.ask_all([(verb, request)]).start
    }

    /// Asks for several things, as far as the window allows with one system call. Their tickets.
    pub fn ask_all(&mut self, all: impl IntoIterator<Item = (Verb, Request)>) -> std::ops::Range<Ticket> {
        let first = self.next;
        let now = clock::monotonic();
        for (verb, request) in all {
            self.machine.handle_input(now, Input::Ask(self.next, verb, Box::new(request)));
            self.next += 1;
        }
        self.outputs();
        first..self.next
    }

    /// Waits for the next outcome of anything that was asked: it comes within the patience that the settings say.
    pub fn next_done(&mut self) -> (Ticket, Outcome) {
        loop {
            if let Some(done) = self.done.pop_front() {
                return done;
            }
            self.wait();
        }
    }

    /// Asks for one thing and waits for what comes of it; nothing else is open.
    pub fn call(&mut self, verb: Verb, request: Request) -> Outcome {
        let ticket = self.ask(verb, request);
        loop {
            let (of, outcome) = self.next_done();
            if of == ticket {
                return outcome;
            }
        }
    }

    /// What stood and could not be had back since this was asked last.
    pub fn take_gone(&mut self) -> Vec<(FlowId, Refusal)> {
        std::mem::take(&mut self.gone)
    }

    /// Why there is no connection, if there is none.
    pub fn last_error(&self) -> Option<&io::Error> {
        self.error.as_ref()
    }

    fn input(&mut self, input: Input) {
        self.machine.handle_input(clock::monotonic(), input);
        self.outputs();
    }

    fn outputs(&mut self) {
        let mut bytes = Vec::new();
        while let Some(output) = self.machine.poll_output() {
            match output {
                Output::Connect => {
                    let input = match UnixStream::connect(&self.path) {
                        Ok(stream) => {
                            // Without it a server that takes nothing would hold this for ever.
                            let _ = stream.set_write_timeout(Some(PATIENCE));
                            self.stream = Some(stream);
                            self.error = None;
                            Input::Connected
                        }
                        Err(error) => {
                            self.error = Some(error);
                            Input::Closed
                        }
                    };
                    self.machine.handle_input(clock::monotonic(), input);
                }
                Output::Send(more) => bytes.extend(more),
                Output::Close => {
                    bytes.clear();
                    self.stream = None;
                }
                Output::Done(ticket, outcome) => self.done.push_back((ticket, outcome)),
                Output::Gone(flow, refusal) => self.gone.push((flow, refusal)),
            }
        }
        let Some(stream) = self.stream.as_mut().filter(|_| !bytes.is_empty()) else { return };
        if let Err(error) = stream.write_all(&bytes) {
            self.lost(error);
        }
    }

    fn lost(&mut self, error: io::Error) {
        self.stream = None;
        self.error = Some(error);
        self.input(Input::Closed);
    }

    fn wait(&mut self) {
        let due = self.machine.next_wakeup();
        let left = due.map_or(NAP, |at| Duration::from_nanos(at.since(clock::monotonic()).0).min(NAP));
        let Some(stream) = self.stream.as_mut() else {
            thread::sleep(left);
            return self.input(Input::Tick);
        };
        // None would be for ever.
        let read = stream.set_read_timeout(Some(left.max(Duration::from_micros(1))));
        match read.and_then(|()| stream.read(&mut self.buffer)) {
            Ok(0) => self.lost(io::ErrorKind::UnexpectedEof.into()),
            Ok(length) => {
                let bytes = self.buffer[..length].to_vec();
                self.input(Input::Bytes(bytes));
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                self.input(Input::Tick);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => self.lost(error),
        }
    }
}
