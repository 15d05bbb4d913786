//! `perhop pki …`: a small authority for the certificates of a domain, and tokens.

use crate::error::{AppError, Verdict};
use crate::output::{Output, progress};
use clap::{Args, Subcommand};
use perhop_io::private_file::create;
use perhop_serve::domain::token_sha256;
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    IsCa, Issuer, KeyPair, KeyUsagePurpose, date_time_ymd,
};
use serde_json::json;
use sha2::{Digest, Sha256};
use std::io::Write;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Name of the authority in its certificate.
const AUTHORITY: &str = "Perhop domain authority";

/// Why there is no certificate.
#[derive(Debug, Error)]
pub enum PkiError {
    /// There is an authority already.
    #[error("{}: there is an authority already\nChoose another folder: a new one would make all its certificates worthless.", .0.display())]
    Exists(PathBuf),
    /// There is a file of this name, which somebody may be known by.
    #[error("{}: there is one already\nChoose another name, or replace it with --replace.", .0.display())]
    Known(PathBuf),
    /// There is none.
    #[error("{}: there is no authority\nMake one with `perhop pki init`.", .0.display())]
    None(PathBuf),
    /// A name that cannot be one of a file and of a client.
    #[error("{0:?} cannot be a name here\n1 to 64 characters of A-Z a-z 0-9 . _ - are allowed.")]
    Name(String),
    /// The key or what is to be certified is not as it should be.
    #[error("{}: {source}", path.display())]
    Make {
        /// File.
        path: PathBuf,
        /// Error.
        source: rcgen::Error,
    },
}

/// Subcommands of `perhop pki`.
#[derive(Debug, Subcommand)]
pub enum PkiCommand {
    /// Make an authority: its certificate is what everybody in the domain believes
    Init(InitArgs),
    /// Make a certificate of a controller, an agent or a client
    Issue(IssueArgs),
    /// Make a token of a client, and say what of it the domain's file has
    Token(TokenArgs),
}

impl PkiCommand {
    /// Does it.
    ///
    /// # Errors
    /// See [`AppError`].
    pub fn run(self) -> Result<Verdict, AppError> {
        match self {
            Self::Init(args) => init(&args),
            Self::Issue(args) => issue(&args),
            Self::Token(args) => token(&args),
        }
    }
}

/// A new authority.
#[derive(Debug, Args)]
#[command(
    after_help = "Example: perhop pki init pki\n\nIt writes authority.pem, for everybody, and authority.key, for nobody else."
)]
pub struct InitArgs {
    /// Folder for its files; it is made if there is none
    #[arg(value_name = "DIR", default_value = ".")]
    folder: PathBuf,
}

/// A new certificate.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  perhop pki issue controller --host controller.example --host 192.0.2.1 --dir pki\n  \
                        perhop pki issue west --dir pki\n\n\
                        It writes NAME.pem and NAME.key and prints the line of the domain's file by which a node or client is \
                        known. A server needs the names and addresses at which it is asked."
)]
pub struct IssueArgs {
    /// Whose: the node's or client's name
    name: String,
    /// Name or address at which it is asked; may be repeated
    #[arg(long, value_name = "NAME|ADDRESS")]
    host: Vec<String>,
    /// How many days it is good for
    #[arg(long, value_name = "N", default_value_t = 825, value_parser = clap::value_parser!(u32).range(1..=36_500))]
    days: u32,
    /// Folder of the authority, and for the files
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Replaces an older one of the name, which is good until its days are over
    #[arg(long)]
    replace: bool,
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// A new token.
#[derive(Debug, Args)]
#[command(after_help = "Example: perhop pki token --out phones.token")]
pub struct TokenArgs {
    /// File that the token is written to, for its client alone; otherwise it is printed
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Replaces an older file
    #[arg(long, requires = "out")]
    replace: bool,
    /// As JSON
    #[arg(long)]
    json: bool,
}

fn init(args: &InitArgs) -> Result<Verdict, AppError> {
    let folder = &args.folder;
    std::fs::create_dir_all(folder).map_err(|source| AppError::Write { path: folder.clone(), source })?;
    let (certificate, key) = (folder.join("authority.pem"), folder.join("authority.key"));
    if certificate.exists() || key.exists() {
        return Err(PkiError::Exists(folder.clone()).into());
    }
    let made = |source| PkiError::Make { path: certificate.clone(), source };
    let own = KeyPair::generate().map_err(made)?;
    let signed = authority().self_signed(&own).map_err(made)?;
    write(&key, &own.serialize_pem())?;
    write_public(&certificate, &signed.pem())?;
    progress(format_args!("{}: keep it where nobody else can read it", key.display()));
    Ok(Verdict::Done)
}

/// What an authority says of itself: always the same, so that its key is all that has to be kept.
fn authority() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = named(AUTHORITY);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(2100, 1, 1);
    params
}

fn named(name: &str) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    distinguished
}

fn issue(args: &IssueArgs) -> Result<Verdict, AppError> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let name = &args.name;
    if name.is_empty()
        || name.len() > 64
        || name.starts_with('.')
        || name == "authority"
        || !name.chars().all(is_name)
    {
        return Err(PkiError::Name(name.chars().take(80).collect()).into());
    }
    let path = args.dir.join("authority.key");
    let Ok(text) = std::fs::read_to_string(&path) else {
        return Err(PkiError::None(args.dir.clone()).into());
    };
    let wrong = |source| PkiError::Make { path: path.clone(), source };
    let issuer = Issuer::new(authority(), KeyPair::from_pem(&text).map_err(wrong)?);
    let (certificate, key) = (args.dir.join(format!("{name}.pem")), args.dir.join(format!("{name}.key")));
    is_new(&key, args.replace)?;
    let made = |source| PkiError::Make { path: certificate.clone(), source };
    let own = KeyPair::generate().map_err(made)?;
    let signed =
        leaf(name, &args.host, args.days).and_then(|params| params.signed_by(&own, &issuer)).map_err(made)?;
    write(&key, &own.serialize_pem())?;
    write_public(&certificate, &signed.pem())?;
    let sha256 = fingerprint(&signed);
    let mut out = Output::new();
    if args.json {
        out.json(&json!({ "certificate": certificate, "key": key, "sha256": sha256 }))?;
    } else {
        out.line(format_args!("certificate = \"{sha256}\""))?;
    }
    out.flush()?;
    Ok(Verdict::Done)
}

fn leaf(name: &str, hosts: &[String], days: u32) -> Result<CertificateParams, rcgen::Error> {
    let names = if hosts.is_empty() { vec![name.to_owned()] } else { hosts.to_vec() };
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = named(name);
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    let now = std::time::SystemTime::now();
    let day = std::time::Duration::from_secs(24 * 60 * 60);
    // Clocks of the domain may differ.
    params.not_before = (now - day).into();
    params.not_after = (now + day * days).into();
    Ok(params)
}

fn fingerprint(certificate: &Certificate) -> String {
    Sha256::digest(certificate.der()).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn token(args: &TokenArgs) -> Result<Verdict, AppError> {
    let mut bytes = [0_u8; 32];
    let path = Path::new("/dev/urandom");
    let failed = |source| AppError::Read { path: path.to_owned(), source };
    let mut random = std::fs::File::open(path).map_err(failed)?;
    std::io::Read::read_exact(&mut random, &mut bytes).map_err(failed)?;
    let token: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let sha256 = token_sha256(&token);
    let mut out = Output::new();
    if let Some(path) = &args.out {
        is_new(path, args.replace)?;
        write(path, &format!("{token}\n"))?;
    }
    let shown = args.out.is_none().then_some(&token);
    if args.json {
        out.json(&json!({ "token": shown, "token_sha256": sha256 }))?;
    } else {
        if let Some(token) = shown {
            out.line(format_args!("token: {token}"))?;
        }
        out.line(format_args!("token_sha256 = \"{sha256}\""))?;
    }
    out.flush()?;
    Ok(Verdict::Done)
}

/// What somebody is known by is not replaced unasked.
fn is_new(path: &Path, replace: bool) -> Result<(), PkiError> {
    if replace || !path.exists() { Ok(()) } else { Err(PkiError::Known(path.to_owned())) }
}

/// Writes a new file that only its owner may read.
fn write(path: &Path, text: &str) -> Result<(), AppError> {
    let failed = |source| AppError::Write { path: path.to_owned(), source };
    create(path)
        .and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()))
        .map_err(failed)
}

/// Writes a new file for everybody.
fn write_public(path: &Path, text: &str) -> Result<(), AppError> {
    std::fs::write(path, text).map_err(|source| AppError::Write { path: path.to_owned(), source })
}
