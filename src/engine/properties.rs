//! How the property tests of this folder run: the same cases each time, others with `PROPTEST_RNG_SEED`.

use proptest::prelude::ProptestConfig;
use proptest::test_runner::RngSeed;

/// The usual settings with a fixed seed, unless the environment names one.
pub fn same_cases() -> ProptestConfig {
    let config = ProptestConfig::default();
    let rng_seed = match config.rng_seed {
        RngSeed::Random => RngSeed::Fixed(1),
        RngSeed::Fixed(seed) => RngSeed::Fixed(seed),
    };
    ProptestConfig { rng_seed, failure_persistence: None, ..config }
}
