//! Connecting to one of several vetted addresses: the next is started when one fails or is slow, the first
//! to connect wins (a small form of RFC 8305).

use std::future::{Future, poll_fn};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};

use super::classify::Failure;
use crate::runtime::net::{TcpStream, connect};
use crate::runtime::timer;
use crate::types::limits::{CONNECT_ADDRESSES_MAX, CONNECT_STAGGER};
use crate::types::{Duration, ErrorKind};

/// Errors of the machine itself (errno(3) on Linux): no memory, no descriptors, no local ports, no buffers.
const OWN_FAULTS: [i32; 5] = [12, 23, 24, 99, 105];

/// Attempts to connect end this much after the caller's limit: the caller's own deadline comes first.
const SLACK: Duration = Duration::from_secs(1);

/// Connects to one of `addresses`. The caller gives up at `limit`; nothing is left behind long after it.
///
/// # Errors
/// [`Failure`] of kind `connect`, or `internal` where the machine itself is at fault.
pub async fn dial(addresses: &[IpAddr], port: u16, limit: Duration) -> Result<TcpStream, Failure> {
    let targets = interleaved(addresses, port);
    let limit = limit + SLACK;
    match targets.as_slice() {
        [] => Err(Failure::new(ErrorKind::Dns, "no address".to_owned())),
        [only] => connect(*only, limit.to_std()).await.map_err(|error| failure(*only, &error)),
        several => race(several, limit).await,
    }
}

type Attempt = Pin<Box<dyn Future<Output = Result<TcpStream, Failure>>>>;

async fn race(targets: &[SocketAddr], limit: Duration) -> Result<TcpStream, Failure> {
    let mut waiting = targets.iter().copied();
    let mut running: Vec<Attempt> = Vec::with_capacity(targets.len());
    let mut last = Failure::new(ErrorKind::Connect, "no address".to_owned());
    loop {
        let next = waiting.next();
        running.extend(next.map(|target| start(target, limit)));
        let stagger = if next.is_some() { CONNECT_STAGGER } else { limit };
        match timer::timeout(stagger.to_std(), poll_fn(|context| first(&mut running, context))).await {
            Some(Ok(stream)) => return Ok(stream),
            Some(Err(failure)) => last = failure,
            None => {}
        }
        if running.is_empty() && waiting.len() == 0 {
            return Err(last);
        }
    }
}

fn start(target: SocketAddr, limit: Duration) -> Attempt {
    Box::pin(async move { connect(target, limit.to_std()).await.map_err(|error| failure(target, &error)) })
}

/// The first attempt to end; it is taken out.
fn first(running: &mut Vec<Attempt>, context: &mut Context<'_>) -> Poll<Result<TcpStream, Failure>> {
    for index in 0..running.len() {
        if let Poll::Ready(result) = running[index].as_mut().poll(context) {
            drop(running.swap_remove(index));
            return Poll::Ready(result);
        }
    }
    Poll::Pending
}

/// The first few addresses, families taking turns, each family in its own order.
fn interleaved(addresses: &[IpAddr], port: u16) -> Vec<SocketAddr> {
    let first_is_v4 = addresses.first().is_some_and(IpAddr::is_ipv4);
    let (first, second): (Vec<_>, Vec<_>) =
        addresses.iter().copied().partition(|address| address.is_ipv4() == first_is_v4);
    let longest = first.len().max(second.len());
    let turns = (0..longest).flat_map(|i| [first.get(i), second.get(i)]).flatten();
    turns.take(CONNECT_ADDRESSES_MAX).map(|&address| SocketAddr::new(address, port)).collect()
}

fn failure(target: SocketAddr, error: &io::Error) -> Failure {
    let own = error.raw_os_error().is_some_and(|code| OWN_FAULTS.contains(&code));
    let kind = if own { ErrorKind::Internal } else { ErrorKind::Connect };
    Failure::new(kind, format!("no connection to {target}: {error}"))
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;
    use crate::runtime::boot::run_local;

    #[test]
    fn families_take_turns_and_the_number_is_bounded() {
        let list: Vec<IpAddr> =
            ["10.0.0.1", "10.0.0.2", "10.0.0.3", "::1", "::2"].iter().map(|t| t.parse().unwrap()).collect();
        let order: Vec<String> = interleaved(&list, 80).iter().map(ToString::to_string).collect();
        assert_eq!(order, ["10.0.0.1:80", "[::1]:80", "10.0.0.2:80", "[::2]:80"]);
        assert!(interleaved(&[], 80).is_empty());
    }

    #[test]
    fn a_refusing_address_does_not_hide_a_working_one() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let addresses = [IpAddr::from([127, 9, 9, 9]), IpAddr::from(Ipv4Addr::LOCALHOST)];
        let peer = run_local(async move {
            dial(&addresses, port, Duration::from_secs(5)).await.unwrap().peer_addr().unwrap().ip()
        });
        assert_eq!(peer, Ipv4Addr::LOCALHOST);
    }

    #[test]
    fn a_machine_out_of_descriptors_is_not_the_receivers_fault() {
        let target = SocketAddr::from((Ipv4Addr::LOCALHOST, 80));
        for (code, kind) in [(24, ErrorKind::Internal), (99, ErrorKind::Internal), (111, ErrorKind::Connect)] {
            assert_eq!(failure(target, &io::Error::from_raw_os_error(code)).kind, kind, "errno {code}");
        }
    }

    #[test]
    fn all_addresses_refusing_is_a_connect_failure() {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        let addresses = [IpAddr::from([127, 9, 9, 9]), IpAddr::from(Ipv4Addr::LOCALHOST)];
        let failure = run_local(async move { dial(&addresses, port, Duration::from_secs(5)).await.unwrap_err() });
        assert_eq!(failure.kind, ErrorKind::Connect);
    }
}
