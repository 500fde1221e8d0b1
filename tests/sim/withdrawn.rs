//! A claim whose attempt never started is no sign of a job that crashes its process.

use streaming_hub::engine::Bounds;
use streaming_hub::types::{ConfigChange, Duration, End, limits};

use crate::stage::{Stage, StoreMood, destination, status, tenant};

fn pause(stage: &mut Stage) {
    stage.configure(ConfigChange::PauseTenant(tenant("acme")));
}

fn resume(stage: &mut Stage) {
    stage.configure(ConfigChange::ResumeTenant(tenant("acme")));
}

#[test]
fn a_claim_that_was_withdrawn_does_not_make_its_job_poison() {
    let mut stage = Stage::new(Bounds::default());
    stage.pipeline(destination("acme", 1));
    stage.publish("acme");
    for _ in 1..limits::POISON_THRESHOLD {
        stage.crash();
        stage.pass(Duration::from_secs(10));
    }
    pause(&mut stage);
    stage.crash();
    assert_eq!(stage.jobs()[0].reclaims, limits::POISON_THRESHOLD, "one more, alone, would be poison");
    let sent = stage.sent.len();
    stage.mood = StoreMood::Silent;
    resume(&mut stage);
    pause(&mut stage);
    stage.store_answers();
    stage.pass(Duration::from_secs(10));
    assert_eq!(stage.sent.len(), sent, "the claim was durable when the pause held the attempt back");
    stage.crash();
    assert_eq!(stage.ends(1), [None], "another job's crash is not this one's");
    assert_eq!(stage.jobs()[0].reclaims, limits::POISON_THRESHOLD);
    resume(&mut stage);
    stage.pass(Duration::from_secs(10));
    assert_eq!(stage.sent.len(), sent + 1);
    stage.answer(sent, status(200));
    assert_eq!(stage.ends(1), [Some(End::Delivered)]);
}
