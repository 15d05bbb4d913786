//! The traffic-control API of a router, on a Unix socket of its own: carries octets and calls between clients, the machine
//! [`perhop_tcapi::server`], and the router.

use crate::clients::{Clients, Process};
use crate::connection::PAUSE;
use crate::listener::process_of;
use crate::router::{RouterApi, ask};
use crate::server::ServeError;
use crate::socket::{SocketError, open_to, remove_left};
use perhop_contract::{Draft, Entry, Objects, Trees};
use perhop_io::clock;
use perhop_model::{
    Call, Credentials, EventFilter, EventKind, EventsPage, Key, Kind, Name, ObjectState, Owner, Role,
    StatePage, StateQuery,
};
use perhop_tcapi::server::{ClassRoom, Connection, Input, Limits, Output, Server, Who};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;

/// Connections at the same time.
const CONNECTIONS: usize = 256;
/// Octets read at once.
const READ: usize = 16_384;
/// What connections have read and the machine has not.
const INPUTS: usize = 1_024;
/// Answers that a client has not read; one that reads none of so many is gone.
const ANSWERS: usize = 8_192;
/// A client that does not take an answer for so long is gone.
const PATIENCE: Duration = Duration::from_secs(30);
/// Events fetched at once, and objects.
const PAGE_EVENTS: usize = 1_024;
const PAGE_OBJECTS: usize = 10_000;

/// The socket beside a router's.
pub fn tcapi_path(socket: &Path) -> PathBuf {
    socket.with_extension("tcapi")
}

/// Serves the traffic-control API of one router.
pub struct TcapiServer {
    listener: UnixListener,
    path: PathBuf,
    router: Arc<dyn RouterApi>,
    clients: Clients,
    numbers: BTreeMap<u16, Name>,
}

/// A server on a thread of its own, which ends with it.
pub struct TcapiThread {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for TcapiThread {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What the machine hears of.
enum Told {
    Input(Input),
    /// A connection, and where its answers go.
    Connected(Connection, Who, mpsc::Sender<Vec<u8>>),
}

impl TcapiServer {
    /// Listens beside the router's socket, for the same `clients`, and serves on a thread of its own: who asks for reservations
    /// keeps nobody else waiting. `numbers` are the classes that may be called by number.
    ///
    /// # Errors
    /// The operating system's.
    pub fn start(
        socket: &Path,
        router: Arc<dyn RouterApi>,
        clients: &Clients,
        numbers: BTreeMap<u16, Name>,
    ) -> Result<TcapiThread, ServeError> {
        Self::start_at(&tcapi_path(socket), router, clients, numbers)
    }

    /// As [`TcapiServer::start`], at a path of its own, which the caller has claimed.
    ///
    /// # Errors
    /// The operating system's.
    pub fn start_at(
        path: &Path,
        router: Arc<dyn RouterApi>,
        clients: &Clients,
        numbers: BTreeMap<u16, Name>,
    ) -> Result<TcapiThread, ServeError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let server = {
            let _inside = runtime.enter();
            Self::bind(path.to_owned(), router, clients, numbers)?
        };
        let (stop, stopped) = oneshot::channel::<()>();
        let serve = move || runtime.block_on(server.run(async move { drop(stopped.await) }));
        let thread = std::thread::Builder::new().name("tcapi".into()).spawn(serve)?;
        Ok(TcapiThread { stop: Some(stop), thread: Some(thread) })
    }

    fn bind(
        path: PathBuf,
        router: Arc<dyn RouterApi>,
        clients: &Clients,
        numbers: BTreeMap<u16, Name>,
    ) -> Result<Self, ServeError> {
        let failed = |source| SocketError::Io { path: path.clone(), source };
        // Whoever has the claim of the router's socket has this one too.
        remove_left(&path).map_err(failed)?;
        let listener = UnixListener::bind(&path).map_err(failed)?;
        open_to(&path, clients).map_err(failed)?;
        Ok(Self { listener, path, router, clients: clients.clone(), numbers })
    }

    /// Serves until `stop` resolves or the router is gone, then removes the socket.
    async fn run(self, stop: impl Future<Output = ()> + Send) {
        let (told, inputs) = mpsc::channel(INPUTS);
        let Self { listener, path, router, clients, numbers } = self;
        tokio::select! {
            () = accept(&listener, &clients, &told) => {}
            () = Driver::run(router, numbers, inputs) => {}
            () = stop => {}
        }
        drop(listener);
        let _ = remove_left(&path);
    }
}

async fn accept(listener: &UnixListener, clients: &Clients, told: &mpsc::Sender<Told>) {
    let mut connections = JoinSet::new();
    let mut next: Connection = 0;
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) if connections.len() < CONNECTIONS => {
                    next += 1;
                    connections.spawn(serve(next, stream, clients.clone(), told.clone()));
                }
                Ok(_) => {}
                Err(_) => tokio::time::sleep(PAUSE).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Who a process is here; `None` if it is nobody who may reserve anything.
fn who(clients: &Clients, process: Option<&Process>) -> Option<Who> {
    let Credentials { role, speaks } = clients.credentials(process)?;
    let user = process.map_or(u32::MAX, |p| p.user);
    let client = speaks.only_tcapi().unwrap_or_else(|| Name::new(&format!("user-{user}")).expect("plain"));
    (role != Role::Read).then_some(Who { client, speaks })
}

async fn serve(connection: Connection, stream: UnixStream, clients: Clients, told: mpsc::Sender<Told>) {
    let process = process_of(&stream);
    let Some(who) = who(&clients, process.as_ref()) else { return };
    let (reader, writer) = stream.into_split();
    let (answers, to_write) = mpsc::channel(ANSWERS);
    let (client, speaks) = (who.client.clone(), who.speaks.clone());
    // A reload changes who may do what, for connections that are open too: such a client has to come again.
    let is_the_same = || {
        self::who(&clients, process.as_ref()).is_some_and(|who| who.client == client && who.speaks == speaks)
    };
    if told.send(Told::Connected(connection, who, answers)).await.is_err() {
        return;
    }
    tokio::select! {
        () = read(connection, reader, &told, is_the_same) => {}
        () = write(writer, to_write) => {}
    }
    let _ = told.send(Told::Input(Input::Closed(connection))).await;
}

async fn read(
    connection: Connection,
    mut reader: OwnedReadHalf,
    told: &mpsc::Sender<Told>,
    may_go_on: impl Fn() -> bool,
) {
    let mut buffer = vec![0; READ];
    while let Ok(length @ 1..) = reader.read(&mut buffer).await {
        if !may_go_on() {
            return;
        }
        let bytes = Input::Bytes(connection, buffer[..length].to_vec());
        if told.send(Told::Input(bytes)).await.is_err() {
            return;
        }
    }
}

async fn write(mut writer: OwnedWriteHalf, mut answers: mpsc::Receiver<Vec<u8>>) {
    while let Some(mut bytes) = answers.recv().await {
        // What else there is goes with it.
        while bytes.len() < READ
            && let Ok(more) = answers.try_recv()
        {
            bytes.extend(more);
        }
        if !matches!(tokio::time::timeout(PATIENCE, writer.write_all(&bytes)).await, Ok(Ok(()))) {
            return;
        }
    }
}

/// The machine between its clients and its router.
struct Driver {
    server: Server,
    router: Arc<dyn RouterApi>,
    told: mpsc::UnboundedSender<Input>,
    connections: HashMap<Connection, mpsc::Sender<Vec<u8>>>,
    events: u64,
    /// What classes have is to be read.
    look: bool,
}

impl Driver {
    async fn run(router: Arc<dyn RouterApi>, numbers: BTreeMap<u16, Name>, mut inputs: mpsc::Receiver<Told>) {
        let (ring, mut bell) = watch::channel(());
        router.call(Call::OnEvents(Box::new(move || ring.send(()).is_ok())));
        let Some(page) = state(&*router, StateQuery { limit: Some(1), ..StateQuery::default() }).await else {
            return;
        };
        let (told, mut answers) = mpsc::unbounded_channel();
        let server = Server::new(page.epoch, numbers, Limits::default());
        let mut driver = Self { server, router, told, connections: HashMap::new(), events: 0, look: true };
        if driver.hear_events().await.is_none() {
            return;
        }
        loop {
            if std::mem::take(&mut driver.look) {
                let Some(rooms) = rooms(&*driver.router).await else { return };
                driver.input(Input::Rooms(rooms));
            }
            tokio::select! {
                Some(input) = answers.recv() => driver.input(input),
                changed = bell.changed() => {
                    if changed.is_err() || driver.hear_events().await.is_none() {
                        return;
                    }
                }
                Some(told) = inputs.recv() => match told {
                    Told::Input(input) => driver.input(input),
                    Told::Connected(connection, who, answers) => {
                        driver.connections.insert(connection, answers);
                        driver.input(Input::Connected(connection, who));
                    }
                },
            }
        }
    }

    fn input(&mut self, input: Input) {
        if let Input::Closed(connection) = input {
            self.connections.remove(&connection);
        }
        self.server.handle_input(clock::monotonic(), input);
        while let Some(output) = self.server.poll_output() {
            match output {
                Output::Send(connection, bytes) => {
                    let full = self.connections.get(&connection).is_some_and(|c| c.try_send(bytes).is_err());
                    if full {
                        // Without its sender the connection ends, and says so.
                        self.connections.remove(&connection);
                    }
                }
                Output::Close(connection) => drop(self.connections.remove(&connection)),
                Output::Look => self.look = true,
                Output::Claim(client, claim) => {
                    let (told, who) = (self.told.clone(), Credentials::writer(claim.owner.clone()));
                    let done = move |result| drop(told.send(Input::Claimed(client, result)));
                    self.router.call(Call::Claim(who, claim, Box::new(done)));
                }
                Output::Submit(client, transaction) => {
                    let (told, who) = (self.told.clone(), Credentials::writer(transaction.owner.clone()));
                    let done = move |reply| drop(told.send(Input::Reply(client, reply)));
                    self.router.call(Call::Submit(who, transaction, Box::new(done)));
                }
            }
        }
    }

    /// What has happened since it was asked last; `None` when the router is gone.
    async fn hear_events(&mut self) -> Option<()> {
        loop {
            let types = ["committed", "expired", "reverted"].to_vec();
            let filter = EventFilter { types: Some(types), ..EventFilter::default() };
            let after = self.events;
            let page: EventsPage =
                ask(&*self.router, |done| Call::Events(after, filter, PAGE_EVENTS, done)).await?;
            for event in page.events {
                match event.kind {
                    EventKind::Committed { owner: Owner::Tcapi(_), forced: false, .. } => {}
                    EventKind::Expired { keys, revision, owners, .. } => {
                        self.look |= owners.iter().any(|owner| !matches!(owner, Owner::Tcapi(_)));
                        self.look |= keys.iter().any(|key| key.kind == Kind::Allocation);
                        self.input(Input::Expired(keys, revision));
                    }
                    EventKind::Gap { .. } => {
                        self.look = true;
                        self.find_ended().await?;
                    }
                    _ => self.look = true,
                }
            }
            if page.upto <= after {
                return Some(());
            }
            self.events = page.upto;
        }
    }

    /// What ended is not known from events any more: what is not there any more has.
    async fn find_ended(&mut self) -> Option<()> {
        let mut known: BTreeSet<Key> = self.server.main_keys().collect();
        let mut revision = u64::MAX;
        for kind in [Kind::Profile, Kind::Allocation] {
            let query =
                StateQuery { kind: Some(kind), prefix: Some("tcapi/".into()), ..StateQuery::default() };
            for object in objects(&*self.router, query, &mut revision).await? {
                known.remove(&Key { kind: object.kind, name: object.name });
            }
        }
        self.input(Input::Expired(known.into_iter().collect(), revision));
        Some(())
    }
}

async fn state(router: &dyn RouterApi, query: StateQuery) -> Option<StatePage> {
    ask(router, |done| Call::State(query, done)).await?.ok()
}

/// All objects of a query, which are of one revision, and the oldest revision that was read so; `None` when the router is gone.
async fn objects(
    router: &dyn RouterApi,
    mut query: StateQuery,
    revision: &mut u64,
) -> Option<Vec<ObjectState>> {
    query.limit = Some(PAGE_OBJECTS);
    let mut all = Vec::new();
    loop {
        let asked = query.clone();
        let Ok(page) = ask(router, |done| Call::State(asked, done)).await? else {
            // Between two pages the revision that is read may be forgotten.
            query.cursor.take()?;
            all.clear();
            continue;
        };
        *revision = page.revision.min(*revision);
        all.extend(page.objects);
        query.cursor = page.cursor;
        if query.cursor.is_none() {
            return Some(all);
        }
    }
}

/// What the classes of the router have.
async fn rooms(router: &dyn RouterApi) -> Option<Vec<ClassRoom>> {
    let mut known = Objects::new();
    for kind in [Kind::Port, Kind::Class, Kind::Allocation] {
        let query = StateQuery { kind: Some(kind), ..StateQuery::default() };
        for ObjectState { kind, name, owner, id, version, expires_at_ns, spec, .. } in
            objects(router, query, &mut u64::MAX.clone()).await?
        {
            let entry = Entry { owner, id, version, expires_at_ns, spec: Arc::new(spec) };
            known.insert(Key { kind, name }, Arc::new(entry));
        }
    }
    let draft = Draft::new(&known);
    let trees = Trees::new(&draft);
    let room = |(class, spec, _): (&Name, &perhop_model::ClassSpec, &Entry)| ClassRoom {
        port: spec.port.clone(),
        logical: spec.logical_name(class).to_owned(),
        class: class.clone(),
        guarantee_bps: trees.guarantee(class, 0).0,
    };
    Some(draft.classes().map(room).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use perhop_model::{ErrorItem, PortSpec, Spec, Status};
    use perhop_reason::Code;
    use std::sync::Mutex;

    fn port(name: &str) -> ObjectState {
        ObjectState {
            kind: Kind::Port,
            name: Name::new(name).unwrap(),
            owner: Owner::File,
            id: 1,
            version: 1,
            expires_at_ns: None,
            spec: Spec::Port(PortSpec::default()),
            status: Status::Active,
        }
    }

    /// Forgets a revision before its second page is read.
    struct Forgetful(Mutex<u64>);

    impl RouterApi for Forgetful {
        fn call(&self, call: Call) {
            let Call::State(query, done) = call else { return };
            let mut asked = self.0.lock().unwrap();
            *asked += 1;
            let page = |revision, cursor: Option<&str>| StatePage {
                epoch: 1,
                digests: BTreeMap::new(),
                revision,
                objects: vec![port(&format!("p{revision}"))],
                cursor: cursor.map(str::to_owned),
            };
            done(match (*asked, query.cursor.as_deref()) {
                (1, None) => Ok(page(1, Some("1"))),
                (2, Some("1")) => Err(ErrorItem::new(Code::StaleRevision, "", "")),
                (3, None) => Ok(page(2, None)),
                other => panic!("{other:?}"),
            });
        }
    }

    #[test]
    fn what_is_read_in_pages_is_read_again_when_its_revision_is_forgotten() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let router = Forgetful(Mutex::new(0));
        let all = runtime.block_on(objects(&router, StateQuery::default(), &mut u64::MAX.clone()));
        let names: Vec<String> = all.unwrap().iter().map(|object| object.name.to_string()).collect();
        assert_eq!(names, ["p2"]);
    }
}
