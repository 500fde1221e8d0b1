//! Reading request bodies: counted while streaming, bounded in size, time and in all.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;

use crate::runtime::timer;
use crate::types::{TenantId, limits};

use super::ingest::too_large;
use super::problem::Problem;

/// The bytes of all bodies being read at once, by whom they are for: one tenant's slow senders must not take
/// everybody's room.
#[derive(Clone, Debug, Default)]
pub struct BodyBudget(Rc<RefCell<Taken>>);

#[derive(Debug, Default)]
struct Taken {
    bytes: usize,
    by_owner: BTreeMap<Owner, usize>,
}

/// Whose body it is; the operator's when absent.
pub type Owner = Option<TenantId>;

/// A share of the budget, given back when dropped.
struct Share<'a> {
    budget: &'a BodyBudget,
    owner: Owner,
    bytes: usize,
}

impl BodyBudget {
    /// Reads a whole body of at most `limit` bytes.
    ///
    /// # Errors
    /// 413 beyond the limit, 408 when it does not come in time, 503 beyond the budget, 400 when it breaks off.
    pub async fn read(&self, owner: Owner, body: &mut Incoming, limit: usize) -> Result<Bytes, Problem> {
        let mut share = Share { budget: self, owner, bytes: 0 };
        let read = timer::timeout(limits::REQUEST_BODY_TIMEOUT.to_std(), collect(body, limit, &mut share)).await;
        read.unwrap_or_else(|| Err(Problem::new(408, "body_timeout", "the body did not come in time")))
    }

    fn take(&self, owner: &Owner, bytes: usize) -> Result<(), Problem> {
        let mut taken = self.0.borrow_mut();
        let own = taken.by_owner.get(owner).copied().unwrap_or(0) + bytes;
        let all = taken.bytes + bytes;
        if all > limits::REQUEST_BODIES_BYTES || own > limits::REQUEST_BODIES_BYTES / limits::BODIES_SHARE_DIVISOR {
            return Err(Problem::unavailable("too many bodies are being read"));
        }
        taken.bytes = all;
        taken.by_owner.insert(owner.clone(), own);
        Ok(())
    }

    fn give_back(&self, owner: &Owner, bytes: usize) {
        let mut taken = self.0.borrow_mut();
        taken.bytes -= bytes;
        let own = taken.by_owner.get(owner).copied().unwrap_or(0) - bytes;
        if own == 0 {
            taken.by_owner.remove(owner);
        } else {
            taken.by_owner.insert(owner.clone(), own);
        }
    }
}

impl Share<'_> {
    fn grow(&mut self, bytes: usize) -> Result<(), Problem> {
        self.budget.take(&self.owner, bytes)?;
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        self.budget.give_back(&self.owner, self.bytes);
    }
}

/// The body in memory of exactly its size: a frame is a part of the connection's read buffer, and an event that
/// kept one would keep all of that.
async fn collect(body: &mut Incoming, limit: usize, share: &mut Share<'_>) -> Result<Bytes, Problem> {
    let mut whole = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Problem::new(400, "malformed_body", "the body is malformed or breaks off"))?;
        let Ok(data) = frame.into_data() else { continue };
        if whole.len() + data.len() > limit {
            return Err(too_large(limit));
        }
        share.grow(data.len())?;
        if whole.is_empty() {
            whole.reserve_exact(data.len());
        }
        whole.extend_from_slice(&data);
    }
    Ok(Bytes::from(whole.into_boxed_slice()))
}

/// Reads and drops some of a refused body, so that its sender gets to read the answer.
pub async fn discard(body: &mut Incoming) {
    let dropping = async {
        let mut dropped = 0;
        while let Some(Ok(frame)) = body.frame().await {
            dropped += frame.into_data().map_or(0, |data| data.len());
            if dropped > limits::REFUSED_BODY_BYTES {
                break;
            }
        }
    };
    let _ = timer::timeout(limits::REFUSED_BODY_TIMEOUT.to_std(), dropping).await;
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::net::Ipv4Addr;

    use futures_lite::{AsyncReadExt as _, AsyncWriteExt as _};
    use http_body_util::Empty;
    use hyper::server::conn::http1;
    use hyper::service::service_fn;
    use hyper::{Request, Response};

    use super::*;
    use crate::runtime::boot::run_local;
    use crate::runtime::{HyperIo, Listener, net, task};

    #[test]
    fn a_tenant_takes_its_part_at_most_and_gives_it_back() {
        let budget = BodyBudget::default();
        let [acme, other] = ["acme", "other"].map(|name| Some(TenantId::new(name).expect("a tenant")));
        let part = limits::REQUEST_BODIES_BYTES / limits::BODIES_SHARE_DIVISOR;
        let mut share = Share { budget: &budget, owner: acme.clone(), bytes: 0 };
        assert_eq!(share.grow(part), Ok(()));
        assert_eq!(share.grow(1).map_err(|problem| problem.status), Err(503));
        assert_eq!(budget.take(&other, part), Ok(()));
        drop(share);
        assert_eq!(budget.take(&acme, 1), Ok(()));
        budget.give_back(&acme, 1);
        budget.give_back(&other, part);
        let taken = budget.0.borrow();
        assert_eq!((taken.bytes, taken.by_owner.len()), (0, 0));
    }

    #[test]
    fn a_body_is_no_part_of_its_connections_buffer() {
        let (body, alone) = run_local(async {
            let listener = Listener::bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
            let address = listener.local_address().unwrap();
            task::spawn(async move {
                let mut stream = net::connect(address, std::time::Duration::from_secs(5)).await.unwrap();
                stream.write_all(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\nhi").await.unwrap();
                let _ = stream.read(&mut [0; 1_024]).await;
            });
            let (stream, _) = listener.accept().await.unwrap();
            let read = RefCell::new(None);
            let service = service_fn(|mut request: Request<Incoming>| {
                let read = &read;
                async move {
                    let body = BodyBudget::default().read(None, request.body_mut(), 2).await.unwrap();
                    let alone = body.is_unique();
                    *read.borrow_mut() = Some((body, alone));
                    Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))
                }
            });
            // The client leaves once it is answered.
            let _ = http1::Builder::new().serve_connection(HyperIo(stream), service).await;
            read.into_inner().unwrap()
        });
        assert_eq!((&body[..], alone), (b"hi".as_slice(), true));
    }

    #[test]
    fn all_together_take_the_whole_at_most() {
        let budget = BodyBudget::default();
        let part = limits::REQUEST_BODIES_BYTES / limits::BODIES_SHARE_DIVISOR;
        let tenant = |number: usize| Some(TenantId::new(&number.to_string()).expect("a tenant"));
        for number in 0..limits::BODIES_SHARE_DIVISOR {
            assert_eq!(budget.take(&tenant(number), part), Ok(()));
        }
        assert_eq!(budget.take(&None, 1).map_err(|problem| problem.status), Err(503));
    }
}
