//! Both signatures of a delivery of 1 KiB. Budget: 3 µs.

use std::hint::black_box;

use bytes::BytesMut;
use criterion::Criterion;
use streaming_hub::deliver::sign::Signer;
use streaming_hub::types::destination::Ordering;

use super::common::{NOW, destination, payload, tenant};

const ID: &str = "018bcfe5-6800-7abc-8def-0123456789ab";

pub fn bench(criterion: &mut Criterion) {
    let destination = destination(&tenant(1), 1, "http://example.com/", Ordering::Parallel);
    let signer = Signer::new(&destination.secrets);
    let body = payload(1_024);
    let mut out = BytesMut::with_capacity(256);
    criterion.bench_function("sign/both_1KiB", |bencher| {
        bencher.iter(|| {
            out.clear();
            signer.write_lerian(&mut out, NOW, "1700000000", black_box(&body));
            signer.write_standard(&mut out, NOW, ID, "1700000000", black_box(&body));
            out.len()
        });
    });
}
