//! The client's address: the socket's, or what trusted proxies say of it.

use std::net::IpAddr;

use http::HeaderMap;
use ipnet::IpNet;

use crate::types::limits;

/// The address of the client behind `peer`: from a trusted proxy, the right-most entry of `X-Forwarded-For` that
/// is no trusted proxy itself. An entry that is no address ends the search: what stands left of it proves nothing.
#[must_use]
pub fn client_address(peer: IpAddr, headers: &HeaderMap, trusted: &[IpNet]) -> IpAddr {
    let is_trusted = |address: IpAddr| trusted.iter().any(|net| net.contains(&address));
    let mut client = peer.to_canonical();
    let entries = headers.get_all("x-forwarded-for").iter().rev();
    let entries = entries.flat_map(|value| value.to_str().unwrap_or("?").rsplit(','));
    for entry in entries.take(limits::FORWARDED_MAX) {
        let Some(address) = entry_address(entry).filter(|_| is_trusted(client)) else { break };
        client = address;
    }
    client
}

/// An entry is an address, perhaps with a port: `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`, `[2001:db8::1]:80`.
fn entry_address(entry: &str) -> Option<IpAddr> {
    let entry = entry.trim();
    let bare = entry.parse().ok();
    let with_port = || entry.parse::<std::net::SocketAddr>().ok().map(|address| address.ip());
    let bracketed = || entry.strip_prefix('[')?.strip_suffix(']')?.parse().ok();
    bare.or_else(with_port).or_else(bracketed).map(|address: IpAddr| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(peer: &str, forwarded: &[&'static str]) -> String {
        let mut headers = HeaderMap::new();
        for value in forwarded {
            headers.append("x-forwarded-for", http::HeaderValue::from_static(value));
        }
        let trusted = ["10.0.0.0/8".parse().expect("a network"), "fd00::/8".parse().expect("a network")];
        client_address(peer.parse().expect("an address"), &headers, &trusted).to_string()
    }

    #[test]
    fn only_trusted_proxies_are_believed_and_only_as_far_as_they_go() {
        assert_eq!(ask("192.0.2.1", &["198.51.100.1"]), "192.0.2.1");
        assert_eq!(ask("10.0.0.1", &[]), "10.0.0.1");
        assert_eq!(ask("10.0.0.1", &["198.51.100.1"]), "198.51.100.1");
        assert_eq!(ask("10.0.0.1", &["203.0.113.9, 198.51.100.1, 10.0.0.2"]), "198.51.100.1");
        assert_eq!(ask("10.0.0.1", &["203.0.113.9", "198.51.100.1", "10.0.0.2"]), "198.51.100.1");
        assert_eq!(ask("10.0.0.1", &["203.0.113.9, unknown, 10.0.0.2"]), "10.0.0.2");
    }

    #[test]
    fn ports_brackets_and_mapped_addresses_are_understood() {
        assert_eq!(ask("::ffff:10.0.0.1", &["[2001:db8::1]:443"]), "2001:db8::1");
        assert_eq!(ask("fd00::1", &["198.51.100.1:80"]), "198.51.100.1");
        assert_eq!(ask("fd00::1", &["::ffff:198.51.100.1"]), "198.51.100.1");
        assert_eq!(ask("::ffff:192.0.2.1", &[]), "192.0.2.1");
    }
}
