//! The hub's HTTP side as an operator and a tenant use it.

use std::net::SocketAddr;

use serde_json::Value;

use crate::connection::Connection;
use crate::failure::Failure;

/// A client that keeps its connection.
pub struct Api {
    address: SocketAddr,
    connection: Option<Connection>,
}

impl Api {
    /// A client of the hub at `address`; it connects when first used.
    #[must_use]
    pub const fn new(address: SocketAddr) -> Self {
        Self { address, connection: None }
    }

    /// Whether the hub says that it is ready.
    pub async fn is_ready(&mut self) -> bool {
        self.exchange("GET", "/readyz", None, "").await.is_ok_and(|(status, _)| status == 200)
    }

    /// Creates an object.
    ///
    /// # Errors
    /// When the hub does not answer, or anything but 201.
    pub async fn create(&mut self, path: &str, key: &str, body: &Value) -> Result<Value, Failure> {
        let (status, text) = self.exchange("POST", path, Some(key), &body.to_string()).await?;
        if status != 201 {
            return Err(Failure::Hub(format!("answered {status} to POST {path}: {text}")));
        }
        serde_json::from_str(&text).map_err(|error| Failure::Hub(format!("answered no JSON to POST {path}: {error}")))
    }

    /// Has something done.
    ///
    /// # Errors
    /// When the hub does not answer, or anything but 2xx.
    pub async fn post(&mut self, path: &str, key: &str) -> Result<(), Failure> {
        let (status, text) = self.exchange("POST", path, Some(key), "{}").await?;
        if (200..300).contains(&status) {
            return Ok(());
        }
        Err(Failure::Hub(format!("answered {status} to POST {path}: {text}")))
    }

    /// Reads an object.
    ///
    /// # Errors
    /// When the hub does not answer, or anything but 200.
    pub async fn read(&mut self, path: &str, key: &str) -> Result<Value, Failure> {
        let (status, text) = self.exchange("GET", path, Some(key), "").await?;
        if status != 200 {
            return Err(Failure::Hub(format!("answered {status} to GET {path}: {text}")));
        }
        serde_json::from_str(&text).map_err(|error| Failure::Hub(format!("answered no JSON to GET {path}: {error}")))
    }

    /// Whether the hub knows this key.
    pub async fn knows(&mut self, key: &str) -> bool {
        self.exchange("GET", "/v1/subscriptions?limit=1", Some(key), "").await.is_ok_and(|(status, _)| status == 200)
    }

    /// The hub's metrics as text.
    ///
    /// # Errors
    /// When the hub does not answer.
    pub async fn metrics(&mut self) -> Result<String, Failure> {
        Ok(self.exchange("GET", "/metrics", None, "").await?.1)
    }

    async fn exchange(
        &mut self,
        method: &str,
        path: &str,
        key: Option<&str>,
        body: &str,
    ) -> Result<(u16, String), Failure> {
        let failed = || Failure::io(format!("{method} {path}"));
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => Connection::open(self.address).await.map_err(failed())?,
        };
        let key = key.map(|key| format!("authorization: Bearer {key}\r\n")).unwrap_or_default();
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: hub\r\n{key}content-type: application/json\r\n\
             content-length: {length}\r\n\r\n{body}"
        );
        let answer = connection.exchange(request.as_bytes()).await.map_err(failed())?;
        let read = (answer.status, String::from_utf8_lossy(answer.body).into_owned());
        self.connection = Some(connection);
        Ok(read)
    }
}
