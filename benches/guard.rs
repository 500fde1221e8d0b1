//! The outbound guard: an attempt's addresses, and a URL when it is saved. Part of the 3 µs for headers and
//! bookkeeping.

use std::hint::black_box;
use std::net::IpAddr;

use criterion::Criterion;
use streaming_hub::deliver::Guard;
use url::Url;

pub fn bench(criterion: &mut Criterion) {
    let guard = Guard::default();
    let addresses: [IpAddr; 2] = [[93, 184, 216, 34].into(), [0x2606, 0x2800, 0x220, 1, 0, 0, 0, 1].into()];
    criterion.bench_function("guard/addresses", |bencher| {
        bencher.iter(|| guard.check_addresses("example.com", black_box(&addresses)).is_ok());
    });
    let url: Url = "https://example.com/hook?x=1".parse().expect("a URL");
    criterion.bench_function("guard/url", |bencher| bencher.iter(|| guard.check_url(black_box(&url)).is_ok()));
}
