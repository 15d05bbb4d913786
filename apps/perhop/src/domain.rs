//! Talking to the controller of a domain: at its Unix socket, or over the network.

use crate::error::AppError;
use crate::remote::Answer;
use crate::sockets::check_name;
use clap::Args;
use perhop_serve::{Client, Identity, Method, Place, controller_path, runtime_directories};
use serde_json::Value;
use std::path::{Path, PathBuf};
use tokio::runtime::{Builder, Runtime};

/// Which controller, and as whom.
#[derive(Clone, Debug, Default, Args)]
pub struct ControllerArgs {
    /// The domain's name, or https://HOST:PORT; may be left out when only one controller runs here
    #[arg(long, value_name = "NAME|URL", env = "PERHOP_CONTROLLER")]
    pub controller: Option<String>,
    /// A file with the client's token
    #[arg(long, value_name = "FILE", env = "PERHOP_TOKEN_FILE")]
    pub token_file: Option<PathBuf>,
    /// Certificate of the authority that a controller on the network is believed by; PEM
    #[arg(long, value_name = "FILE", env = "PERHOP_AUTHORITY")]
    pub authority: Option<PathBuf>,
    /// The client's own certificate; PEM
    #[arg(long, value_name = "FILE", requires = "key_file")]
    pub certificate: Option<PathBuf>,
    /// The key of that certificate; PEM
    #[arg(long, value_name = "FILE", requires = "certificate")]
    pub key_file: Option<PathBuf>,
}

impl ControllerArgs {
    /// The client that these make.
    ///
    /// # Errors
    /// There is no such controller, or a file cannot be used.
    pub fn client(&self) -> Result<Client, AppError> {
        let place = match &self.controller {
            Some(url) if url.contains("://") => {
                Place::of_url(url).ok_or_else(|| AppError::BadUrl(url.clone()))?
            }
            Some(name) => Place::Controller(controller_path(check_name(name)?)),
            None => Place::Controller(only_controller()?),
        };
        let secure = matches!(place, Place::Network { secure: true, .. });
        let mut client = Client::at(place);
        if secure {
            let authority = self.authority.as_deref().ok_or(AppError::NoAuthority)?;
            let identity = self.certificate.clone().zip(self.key_file.clone());
            let identity = identity.map(|(certificate, key)| Identity { certificate, key });
            client = client
                .secured(authority, identity.as_ref())
                .map_err(crate::controller::ControllerError::from)?;
        }
        if let Some(path) = &self.token_file {
            client = client.with_token(&token(path)?)?;
        }
        Ok(client)
    }
}

/// The token in a file: its first line.
fn token(path: &Path) -> Result<String, AppError> {
    let text = crate::text_file::read_text(path, 65_536)?;
    Ok(text.lines().next().unwrap_or_default().trim().to_owned())
}

/// The socket of the only controller that runs here.
fn only_controller() -> Result<PathBuf, AppError> {
    let mut dirs = runtime_directories();
    dirs.retain(|dir| perhop_serve::check(dir).is_ok());
    let entries = dirs.iter().filter_map(|dir| std::fs::read_dir(dir).ok()).flatten();
    let is_one = |path: &PathBuf| path.extension().is_some_and(|e| e == "controller");
    let listens = |path: &PathBuf| std::os::unix::net::UnixStream::connect(path).is_ok();
    let mut paths: Vec<PathBuf> =
        entries.filter_map(|e| Some(e.ok()?.path())).filter(is_one).filter(listens).collect();
    paths.sort();
    match paths.as_slice() {
        [] => Err(AppError::NoController),
        [one] => Ok(one.clone()),
        several => {
            let name = |path: &PathBuf| path.file_stem().map(|s| s.to_string_lossy().into_owned());
            Err(AppError::SeveralControllers(several.iter().filter_map(name).collect()))
        }
    }
}

/// A controller, and the small runtime that its client needs.
pub struct RemoteDomain {
    client: Client,
    runtime: Runtime,
}

impl RemoteDomain {
    /// The one that the arguments name. Nothing is sent yet.
    ///
    /// # Errors
    /// See [`ControllerArgs::client`].
    pub fn find(args: &ControllerArgs) -> Result<Self, AppError> {
        Self::of(args.client()?)
    }

    /// Of a client.
    ///
    /// # Errors
    /// The runtime cannot be made.
    pub fn of(client: Client) -> Result<Self, AppError> {
        let runtime = Builder::new_current_thread().enable_all().build().map_err(AppError::Runtime)?;
        Ok(Self { client, runtime })
    }

    /// Asks.
    ///
    /// # Errors
    /// The controller is not there or does not answer; a refusal is an answer.
    pub fn ask(&self, method: Method, uri: &str, body: Option<&Value>) -> Result<Answer, AppError> {
        let (status, body) = self.runtime.block_on(self.client.send(method, uri, body))?;
        Ok(Answer { ok: status.is_success(), body })
    }
}
