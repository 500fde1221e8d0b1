//! The binary as a process: started with settings, its output kept, ended by signals, never left behind.

use std::io::{BufRead as _, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use super::time::eventually_some;

/// A running process; dropping it kills it.
pub struct Process {
    child: Child,
    output: Arc<Mutex<Vec<String>>>,
    readers: Vec<JoinHandle<()>>,
}

/// A process that has ended.
#[derive(Debug)]
pub struct Finished {
    /// `None` when a signal ended it.
    pub code: Option<i32>,
    /// Its lines, of both streams.
    pub output: String,
}

/// Runs the binary to its end.
pub fn run(arguments: &[&str], settings: &[(String, String)]) -> Finished {
    let mut process = Process::start(arguments, settings);
    let status = process.wait();
    Finished { code: status.code(), output: process.output() }
}

impl Process {
    /// Starts the binary with nothing in its environment but `settings`.
    pub fn start(arguments: &[&str], settings: &[(String, String)]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_streaming-hub"))
            .args(arguments)
            .env_clear()
            .envs(settings.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let output = Arc::new(Mutex::new(Vec::new()));
        let readers = vec![
            keep(child.stdout.take().expect("it is piped"), &output),
            keep(child.stderr.take().expect("it is piped"), &output),
        ];
        Self { child, output, readers }
    }

    /// What it has written so far.
    pub fn output(&self) -> String {
        self.output.lock().expect("no holder panics").join("\n")
    }

    /// Its number in the system.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Asks it to end.
    pub fn terminate(&self) {
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, rustix::process::Signal::TERM).expect("the process is there");
    }

    /// Ends it with `SIGKILL`.
    pub fn kill(&mut self) {
        self.child.kill().expect("the process is there");
        self.wait();
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("it was started here")
    }

    /// Waits for its end, and the end of its output.
    pub fn wait(&mut self) -> ExitStatus {
        let status = eventually_some("the process's end", || self.ended());
        for reader in self.readers.drain(..) {
            reader.join().expect("a reader does not panic");
        }
        status
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ended_already = self.child.kill();
        let _reaped = self.child.wait();
    }
}

fn keep(stream: impl Read + Send + 'static, output: &Arc<Mutex<Vec<String>>>) -> JoinHandle<()> {
    let output = Arc::clone(output);
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            output.lock().expect("no holder panics").push(line);
        }
    })
}
