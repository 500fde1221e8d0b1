//! The cluster over TLS: its authority's certificates are taken, and no others.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustls::{ServerConfig, ServerConnection, StreamOwned};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use streaming_hub::store::Scylla;
use streaming_hub::store::scylla::{ClusterError, ClusterSettings};

use super::cassandra::{NODE, cluster, directory, node_settings, shared};

/// How long one direction waits for bytes before it is the other's turn.
const TURN: Duration = Duration::from_millis(2);

#[test]
fn only_the_authority_of_the_settings_is_trusted() {
    let _server = shared();
    let address = encrypted();
    let through = |authority: Option<&str>| {
        let authority = authority.map(|name| directory().join("tls").join(name));
        let cluster = ClusterSettings { nodes: vec![address.clone()], authority, ..cluster() };
        Scylla::connect(node_settings(cluster, "encrypted")).err()
    };
    assert!(through(Some("ca.pem")).is_none());
    let other = through(Some("other-ca.pem")).expect("it has signed nothing here").to_string();
    assert!(other.contains("certificate verify failed"), "{other}");
    assert!(matches!(through(None), Some(ClusterError::Unreachable { .. })), "plain text is not understood");
    for bad in ["ca.key", "absent.pem"] {
        let refused = through(Some(bad)).expect("it holds no certificate");
        assert!(matches!(&refused, ClusterError::Authority { path, .. } if path.ends_with(bad)), "{refused}");
    }
}

/// Speaks TLS with the broker's certificate to whoever connects, and plain text to the server. Gives where it listens.
fn encrypted() -> String {
    let tls = directory().join("tls");
    let config = Arc::new(config(tls.join("broker.crt"), tls.join("broker.key")));
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let config = Arc::clone(&config);
            // It ends when either side goes, and nobody waits for it.
            std::thread::spawn(move || drop(serve(client, config)));
        }
    });
    address
}

fn config(certificate: PathBuf, key: PathBuf) -> ServerConfig {
    let certificate = CertificateDer::from_pem_file(certificate).expect("`servers up` makes it");
    let key = PrivateKeyDer::from_pem_file(key).expect("`servers up` makes it");
    ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the provider does TLS 1.2 and 1.3")
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .expect("they belong together")
}

fn serve(client: TcpStream, config: Arc<ServerConfig>) -> std::io::Result<()> {
    let mut server = TcpStream::connect(NODE)?;
    client.set_read_timeout(Some(TURN))?;
    server.set_read_timeout(Some(TURN))?;
    let connection = ServerConnection::new(config).expect("a good configuration");
    let mut client = StreamOwned::new(connection, client);
    while pass_on(&mut client, &mut server)? && pass_on(&mut server, &mut client)? {}
    Ok(())
}

/// Passes on what there is; whether more may come.
fn pass_on(from: &mut impl Read, to: &mut impl Write) -> std::io::Result<bool> {
    let mut buffer = [0; 16 * 1024];
    match from.read(&mut buffer) {
        Ok(0) => Ok(false),
        Ok(count) => to.write_all(&buffer[..count]).map(|()| true),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Ok(true),
        Err(error) => Err(error),
    }
}
