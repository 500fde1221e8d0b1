//! The hub as a process: started, watched, killed, started again on what it left behind; never left running.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use streaming_hub::runtime::{Clock, sleep};

use super::api::Api;
use super::directory::Directory;
use crate::failure::Failure;

/// The hub says this and then its address.
const LISTENS: &str = "streaming-hub listens on http://";
/// For the start, with a backlog on disk.
const START_PATIENCE: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(5);
const ADMIN_KEY: &str = "the-load-tests-own-key";

/// How a hub is started: settings as `STREAMING_HUB_<name>` and value.
#[derive(Clone, Debug, Default)]
pub struct HubSettings(Vec<(&'static str, String)>);

impl HubSettings {
    /// The same with one more, in the place of a former one of that name.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.0.retain(|(known, _)| *known != name);
        self.0.push((name, value.into()));
        self
    }

    /// As environment variables.
    pub(super) fn environment(&self) -> impl Iterator<Item = (String, &str)> {
        self.0.iter().map(|(name, value)| (format!("STREAMING_HUB_{name}"), value.as_str()))
    }

    /// The same with all of `more`.
    #[must_use]
    pub fn and(self, more: Self) -> Self {
        more.0.into_iter().fold(self, |all, (name, value)| all.with(name, value))
    }
}

/// A hub to be tested.
#[derive(Debug)]
pub struct Hub {
    /// Where it listens.
    pub address: SocketAddr,
    /// The operator's key.
    pub admin_key: String,
    /// Its process's number, if that is on this machine and known.
    pub process_id: Option<u32>,
    own: Option<Own>,
}

/// What there is of a hub that was started here.
#[derive(Debug)]
struct Own {
    binary: PathBuf,
    settings: HubSettings,
    child: Child,
    directory: Directory,
}

impl Hub {
    /// A hub that runs already.
    #[must_use]
    pub const fn other(address: SocketAddr, admin_key: String, process_id: Option<u32>) -> Self {
        Self { address, admin_key, process_id, own: None }
    }

    /// Starts one with a data directory of its own and waits until it is ready.
    ///
    /// # Errors
    /// When it does not start, with the end of its log.
    pub async fn start(binary: PathBuf, name: &str, settings: HubSettings, clock: Clock) -> Result<Self, Failure> {
        let directory = Directory::make(name)?;
        let child = spawn(&binary, &directory, &settings)?;
        let own = Own { binary, settings, child, directory };
        let admin_key = ADMIN_KEY.to_owned();
        let mut hub = Self { address: ([127, 0, 0, 1], 0).into(), admin_key, process_id: None, own: Some(own) };
        hub.wait_until_ready(clock).await?;
        Ok(hub)
    }

    /// `kill -9`.
    ///
    /// # Errors
    /// When the hub is not this load test's own.
    pub fn kill(&mut self) -> Result<(), Failure> {
        end(&mut self.own()?.child);
        Ok(())
    }

    /// A new process on what the killed one left behind; returns when it is ready.
    ///
    /// # Errors
    /// When the hub is not this load test's own, or does not come up.
    pub async fn start_again(&mut self, clock: Clock) -> Result<(), Failure> {
        let own = self.own()?;
        own.child = spawn(&own.binary, &own.directory, &own.settings)?;
        self.wait_until_ready(clock).await
    }

    fn own(&mut self) -> Result<&mut Own, Failure> {
        self.own.as_mut().ok_or_else(|| Failure::Argument {
            argument: "--address",
            rule: "this scenario kills its hub, so it starts one itself".to_owned(),
        })
    }

    /// Fails when the process has ended.
    ///
    /// # Errors
    /// With the end of its log.
    pub fn check(&mut self) -> Result<(), Failure> {
        let Some(own) = &mut self.own else { return Ok(()) };
        let Some(status) = own.child.try_wait().map_err(Failure::io("looking after the hub"))? else { return Ok(()) };
        Err(Failure::Hub(format!("ended with {status}:\n{}", own.end_of_log())))
    }

    /// Lines of its log that are errors.
    #[must_use]
    pub fn errors(&self) -> Vec<String> {
        let Some(own) = &self.own else { return Vec::new() };
        let alarming = |line: &&str| line.contains("ERROR") || line.contains("panicked");
        own.log().lines().filter(alarming).map(str::to_owned).collect()
    }

    async fn wait_until_ready(&mut self, clock: Clock) -> Result<(), Failure> {
        let begun = clock.now();
        loop {
            self.check()?;
            if let Some(address) = self.own.as_ref().and_then(Own::address) {
                self.address = address;
                self.process_id = self.own.as_ref().map(|own| own.child.id());
                if Api::new(address).is_ready().await {
                    return Ok(());
                }
            }
            if clock.now().since(begun).to_std() > START_PATIENCE {
                return Err(Failure::Late { what: "the hub's start".to_owned(), seconds: START_PATIENCE.as_secs() });
            }
            sleep(POLL).await;
        }
    }
}

impl Own {
    fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }

    fn end_of_log(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }

    /// Where the newest process listens, once it says so.
    fn address(&self) -> Option<SocketAddr> {
        fs::read_to_string(self.directory.path().join("out")).ok()?.trim().strip_prefix(LISTENS)?.parse().ok()
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// In a process group of its own, so that Ctrl-C reaches it through this program alone.
fn spawn(binary: &PathBuf, directory: &Directory, settings: &HubSettings) -> Result<Child, Failure> {
    let failed = |what: &str| Failure::io(format!("{what} {}", directory.path().display()));
    let data = directory.path().join("data").display().to_string();
    let out = File::create(directory.path().join("out")).map_err(failed("a file in"))?;
    let log = File::options().append(true).create(true).open(directory.path().join("log"));
    let fixed = [
        ("HTTP_LISTEN_ADDR", "127.0.0.1:0".to_owned()),
        ("DATA_DIR", data),
        ("ADMIN_KEY", ADMIN_KEY.to_owned()),
        ("ALLOW_PRIVATE_SINKS", "true".to_owned()),
    ];
    let all = fixed.iter().chain(&settings.0);
    Command::new(binary)
        .arg("serve")
        .env_clear()
        .envs(all.map(|(name, value)| (format!("STREAMING_HUB_{name}"), value)))
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(log.map_err(failed("a file in"))?)
        .spawn()
        .map_err(Failure::io(format!("starting {}", binary.display())))
}

fn end(child: &mut Child) {
    // It may have ended by itself.
    let _ = child.kill();
    let _ = child.wait();
}
