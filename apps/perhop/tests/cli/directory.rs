//! Where a router keeps its files when /run/perhop is not for it: nowhere that somebody else could tamper with.

use super::{Ended, Scratch, command, skip};
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;

/// An ordinary user, to whom /run/perhop does not belong.
const NOBODY: u32 = 65_534;

const FILE: &str = "[[port]]\nname = \"nowhere0\"\n[[port]]\nname = \"nowhere1\"\n";

/// Starts a router as an ordinary user; it finds no interfaces, so it ends with exit code 3 in any case.
fn run(scratch: &Scratch, user: Option<&Path>, temporary: &Path) -> Option<Ended> {
    let file = scratch.file("router.toml", FILE);
    let mut command = command(&["router", "run", &file, "--name", "cli-test-directory"]);
    command.env("TMPDIR", temporary).env_remove("XDG_RUNTIME_DIR");
    if let Some(user) = user {
        command.env("XDG_RUNTIME_DIR", user);
    }
    if fs::metadata("/proc/self").unwrap().uid() == 0 {
        command.uid(NOBODY).gid(NOBODY);
    }
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => {
            skip("a_router_keeps_its_files_where_nobody_tampers", "user", &error.to_string());
            return None;
        }
    };
    Some(Ended {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    })
}

/// A directory of the user that the router runs as.
fn own(path: &Path, mode: u32) {
    fs::create_dir(path).unwrap();
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    if fs::metadata("/proc/self").unwrap().uid() == 0 {
        chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
}

#[test]
fn a_router_keeps_its_files_where_nobody_tampers() {
    let scratch = Scratch::new("directory");
    let (user, temporary, elsewhere) =
        (scratch.0.join("user"), scratch.0.join("temporary"), scratch.0.join("elsewhere"));
    [&user, &temporary, &elsewhere].into_iter().for_each(|d| own(d, 0o700));

    symlink(&elsewhere, user.join("perhop")).unwrap();
    let Some(linked) = run(&scratch, Some(&user), &temporary) else { return };
    assert_eq!(linked.code, Some(3));
    assert!(linked.err.contains("is a symbolic link"), "{}", linked.err);
    fs::remove_file(user.join("perhop")).unwrap();

    own(&user.join("perhop"), 0o777);
    let shared = run(&scratch, Some(&user), &temporary).unwrap();
    assert_eq!(shared.code, Some(3));
    assert!(shared.err.contains("others may write to it (mode 0777)"), "{}", shared.err);

    // Without a directory of the user's: one among the temporary files, made for its owner alone.
    let made = run(&scratch, None, &temporary).unwrap();
    assert_eq!(made.code, Some(3));
    assert!(!made.err.contains("kept safely"), "{}", made.err);
    let fallback: Vec<_> = fs::read_dir(&temporary).unwrap().map(|e| e.unwrap().path()).collect();
    assert_eq!(fallback.len(), 1);
    assert_eq!(fs::metadata(&fallback[0]).unwrap().mode() & 0o7777, 0o700);
    assert_eq!(fs::read_dir(&fallback[0]).unwrap().count(), 0, "and empty again");
    fs::set_permissions(&fallback[0], Permissions::from_mode(0o722)).unwrap();
    let opened = run(&scratch, None, &temporary).unwrap();
    assert!(opened.code == Some(3) && opened.err.contains("others may write to it"), "{}", opened.err);
}
