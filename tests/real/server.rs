//! A server of `tests/real/servers` as a process: stopped where it stands, or killed and started again on its data.

use std::fs::{self, OpenOptions};
use std::net::TcpStream;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::patience::{LONG, within};

/// One of the servers.
#[derive(Clone, Copy, Debug)]
pub struct Server {
    /// What its files are called.
    pub name: &'static str,
    /// Where it accepts.
    pub address: &'static str,
}

/// A server that was killed. Dropping it starts the server again.
pub struct Stopped {
    server: Server,
    command: Vec<String>,
}

/// A server that does nothing until this is dropped.
pub struct Frozen {
    process: i32,
}

impl Server {
    pub fn accepts(self) -> bool {
        TcpStream::connect(self.address).is_ok()
    }

    #[track_caller]
    pub fn expect_running(self) {
        let Self { name, address } = self;
        assert!(self.accepts(), "no {name} on {address}: start it with `tests/real/servers up`");
    }

    /// Stops its process where it stands; whoever does so has it alone.
    pub fn freeze(self) -> Frozen {
        let process = self.process();
        signal(process, Signal::STOP);
        // Until then one that still runs may answer.
        within(LONG, || format!("all threads of {} to stop", self.name), || all_stopped(process));
        Frozen { process }
    }

    /// `kill -9`; gives what starts it again on the same data.
    pub fn kill(self) -> Stopped {
        let process = self.process();
        let line = fs::read(format!("/proc/{process}/cmdline")).expect("the server runs");
        let words = line.split(|byte| *byte == 0).filter(|word| !word.is_empty());
        let command = words.map(|word| String::from_utf8_lossy(word).into_owned()).collect();
        signal(process, Signal::KILL);
        within(LONG, || format!("{} to end", self.name), || !self.accepts());
        Stopped { server: self, command }
    }

    fn process(self) -> i32 {
        let text = fs::read_to_string(self.file("pid")).expect("`tests/real/servers up` writes it");
        text.trim().parse().expect("a process's number")
    }

    fn file(self, kind: &str) -> PathBuf {
        directory().join(format!("{}.{kind}", self.name))
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let server = self.server;
        let log = OpenOptions::new().append(true).open(server.file("log")).expect("the server had a log");
        let mut child = Command::new(&self.command[0])
            .args(&self.command[1..])
            .process_group(0)
            .stdin(Stdio::null())
            .stderr(log.try_clone().expect("a descriptor is free"))
            .stdout(log)
            .spawn()
            .expect("the server starts as it did");
        fs::write(server.file("pid"), format!("{}\n", child.id())).expect("a writable directory");
        std::thread::spawn(move || child.wait());
        within(LONG, || format!("{} to accept again", server.name), || server.accepts());
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        signal(self.process, Signal::CONT);
    }
}

/// What `tests/real/servers` has installed and keeps.
pub fn directory() -> PathBuf {
    std::env::var_os("REAL_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("target/real"), PathBuf::from)
}

/// Whether each thread of a process stands still.
fn all_stopped(process: i32) -> bool {
    let threads = fs::read_dir(format!("/proc/{process}/task")).expect("the server runs");
    threads.flatten().all(|thread| {
        // The state comes after the name, which stands in parentheses.
        let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('T'))
    })
}

fn signal(process: i32, signal: Signal) {
    let process = Pid::from_raw(process).expect("a process's number is positive");
    kill_process(process, signal).expect("the server runs");
}
