//! The demo's own hub: in this process, in a temporary directory, on a free port of loopback.
//!
//! Nothing of the user's environment or configuration reaches it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::cli::serve::{self, Running};
use crate::config::Config;
use crate::runtime::Clock;

/// A running hub.
pub struct DemoHub {
    running: Running,
    directory: TemporaryDirectory,
    admin_key: String,
}

impl DemoHub {
    /// Starts it.
    ///
    /// # Errors
    /// One line that says what the machine does not allow.
    pub fn start(clock: Clock) -> Result<Self, String> {
        let directory = TemporaryDirectory::make()?;
        let admin_key = random_text()?;
        let config = config(directory.path(), &admin_key)?;
        let running = serve::start(&config, clock).map_err(|error| error.to_string())?;
        Ok(Self { running, directory, admin_key })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.running.address()
    }

    /// The key of its operator.
    #[must_use]
    pub fn admin_key(&self) -> &str {
        &self.admin_key
    }

    /// Where its data is.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Drains and stops it, and removes its data.
    ///
    /// # Errors
    /// One line that says what failed.
    pub fn stop(self) -> Result<(), String> {
        let Self { running, directory, admin_key: _ } = self;
        let stopped = running.stop().map_err(|error| error.to_string());
        drop(directory);
        stopped
    }
}

fn config(directory: &Path, admin_key: &str) -> Result<Config, String> {
    let secrets = [("STREAMING_HUB_ADMIN_KEY", admin_key)];
    let data = directory.join("data").to_string_lossy().into_owned();
    let settings = [
        ("env", "local"),
        ("http.listen_addr", "127.0.0.1:0"),
        ("store.data_dir", data.as_str()),
        ("security.allow_private_sinks", "true"),
        ("security.allow_unverified", "true"),
        ("shutdown.timeout", "2s"),
    ];
    let flags = settings.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let listed =
        |faults: Vec<crate::config::ConfigFault>| faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    Config::load(None, secrets, flags).map_err(listed)
}

fn random_text() -> Result<String, String> {
    let mut bytes = [0; 24];
    getrandom::fill(&mut bytes).map_err(|error| format!("no randomness: {error}"))?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

/// A directory of our own that goes when this value does.
struct TemporaryDirectory(PathBuf);

impl TemporaryDirectory {
    fn make() -> Result<Self, String> {
        let path = std::env::temp_dir().join(format!("streaming-hub-demo-{:.8}", random_text()?));
        std::fs::create_dir(&path).map_err(|error| format!("can't make {}: {error}", path.display()))?;
        Ok(Self(path))
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TemporaryDirectory {
    fn drop(&mut self) {
        // Whatever can't be removed lies in the system's directory for such things.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hub_is_local_without_kafka_and_on_a_free_port() {
        let config = config(Path::new("/nonexistent"), "0123456789abcdef").expect("a configuration");
        assert!(config.kafka.is_none() && config.security.allow_private_sinks && config.security.allow_unverified);
        assert_eq!(config.http.listen.to_string(), "127.0.0.1:0");
        assert_eq!(config.store.data_dir, Path::new("/nonexistent/data"));
    }

    #[test]
    fn a_temporary_directory_goes_with_its_value() {
        let directory = TemporaryDirectory::make().expect("a directory");
        let path = directory.path().to_owned();
        std::fs::write(path.join("file"), "x").expect("a written file");
        drop(directory);
        assert!(!path.exists());
    }
}
