//! A hub: the real binary with a data directory of its own, on an address of its own.
//!
//! The address is one of loopback's sixteen million, so that a restart finds it free and no two tests meet.

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU16, Ordering};

use serde_json::json;
use tempfile::TempDir;

use super::api::Api;
use super::process::{Finished, Process};
use super::tenant::Tenant;
use super::time::eventually;

const ADMIN_KEY: &str = "the-operators-own-key";
const PORT: u16 = 8_080;

/// How a hub is started.
pub struct Setup {
    address: SocketAddr,
    directory: TempDir,
    settings: Vec<(String, String)>,
}

impl Setup {
    /// A hub that tests can reach and that may reach them.
    pub fn new() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let address = own_address();
        let data = directory.path().join("data").display().to_string();
        Self { address, directory, settings: Vec::new() }
            .with("HTTP_LISTEN_ADDR", &address.to_string())
            .with("DATA_DIR", &data)
            .with("ADMIN_KEY", ADMIN_KEY)
            .with("ALLOW_PRIVATE_SINKS", "true")
            .with("SHARDS", "2")
            .with("PRE_STOP_DRAIN_TIMEOUT", "0s")
    }

    /// The same with the setting `STREAMING_HUB_<name>`.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.set(name, value);
        self
    }

    fn set(&mut self, name: &str, value: &str) {
        let name = format!("STREAMING_HUB_{name}");
        self.settings.retain(|(known, _)| *known != name);
        self.settings.push((name, value.to_owned()));
    }

    /// The settings as environment variables.
    pub fn settings(&self) -> &[(String, String)] {
        &self.settings
    }

    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Starts it and waits until it is ready.
    pub fn start(self) -> Hub {
        let process = Process::start(&["serve"], &self.settings);
        let mut hub = Hub { setup: self, process, log: String::new() };
        hub.wait_until_ready();
        hub
    }
}

/// A running hub. When it goes, an ERROR in its log fails the test.
pub struct Hub {
    setup: Setup,
    process: Process,
    /// What former processes wrote.
    log: String,
}

impl Hub {
    pub fn start() -> Self {
        Setup::new().start()
    }

    /// The operator.
    pub fn operator(&self) -> Api {
        Api::new(self.setup.address, Some(ADMIN_KEY))
    }

    /// Somebody without a key.
    pub fn anybody(&self) -> Api {
        Api::new(self.setup.address, None)
    }

    /// A tenant with a key.
    pub fn tenant(&self, name: &str) -> Tenant {
        let made = self.operator().post(&format!("/admin/tenants/{name}/keys"), &json!({})).expect(201);
        self.with_key(made["key"].as_str().expect("a new key is shown"))
    }

    /// The tenant whose key this is.
    pub fn with_key(&self, key: &str) -> Tenant {
        Tenant::new(Api::new(self.setup.address, Some(key)), self.anybody())
    }

    /// A connection that has sent these bytes.
    pub fn connection(&self, bytes: &[u8]) -> TcpStream {
        let mut stream = self.anybody().connect().expect("the hub listens");
        stream.write_all(bytes).expect("the hub reads");
        stream
    }

    pub const fn address(&self) -> SocketAddr {
        self.setup.address
    }

    pub fn data_directory(&self) -> PathBuf {
        let data = self.setup.settings.iter().find(|(name, _)| name == "STREAMING_HUB_DATA_DIR");
        PathBuf::from(&data.expect("every setup names one").1)
    }

    /// Its settings as environment variables.
    pub fn settings(&self) -> &[(String, String)] {
        self.setup.settings()
    }

    /// Its process's number in the system.
    pub fn process_id(&self) -> u32 {
        self.process.id()
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// The setting `STREAMING_HUB_<name>` of the next process.
    pub fn set(&mut self, name: &str, value: &str) {
        self.setup.set(name, value);
    }

    /// `SIGTERM`, without waiting.
    pub fn terminate(&self) {
        self.process.terminate();
    }

    /// Waits for its end.
    pub fn finish(&mut self) -> Finished {
        let code = self.process.wait().code();
        Finished { code, output: self.process.output() }
    }

    /// `kill -9`, and a new one on what it left behind.
    pub fn restart(&mut self) {
        self.kill();
        self.restart_after_end();
    }

    /// A new one, on what the ended one left behind.
    pub fn restart_after_end(&mut self) {
        self.log = self.log();
        self.process = Process::start(&["serve"], &self.setup.settings);
        self.wait_until_ready();
    }

    fn wait_until_ready(&mut self) {
        let anybody = self.anybody();
        eventually("the hub to be ready", || {
            let ended = self.process.ended();
            assert!(ended.is_none(), "the hub ended with {ended:?}:\n{}", self.process.output());
            anybody.try_send("GET", "/readyz", &[], b"").is_ok_and(|answer| answer.status == 200)
        });
    }

    /// Everything all its processes wrote.
    pub fn log(&self) -> String {
        format!("{}\n{}", self.log, self.process.output())
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        let log = self.log();
        if std::thread::panicking() {
            eprintln!("the hub's log:\n{log}");
            return;
        }
        let alarming = |line: &&str| line.contains("ERROR") || line.contains("panicked");
        let alarms: Vec<&str> = log.lines().filter(alarming).collect();
        assert!(alarms.is_empty(), "the hub's log has errors: {alarms:#?}");
    }
}

fn own_address() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let [_, _, third, second] = std::process::id().to_be_bytes();
    let [high, low] = number.to_be_bytes();
    assert_eq!(high, 0, "a process starts at most 255 hubs");
    // 127.0.x.y is left to others; 255 at the end would be a broadcast.
    SocketAddr::from((Ipv4Addr::new(127, second.max(1), third, low), PORT))
}
