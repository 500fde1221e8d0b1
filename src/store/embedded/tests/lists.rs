//! The lists that every store has, and what an erasure leaves of them.

use std::rc::Rc;

use uuid::Uuid;

use super::Opened;
use crate::engine::{Batch, BatchNumber, Row, Unit};
use crate::store::codec::samples;
use crate::store::queries::ListOrder;
use crate::store::tests::lists::{Listed, events_of, events_page, list};
use crate::store::tests::records::all_dead_letters;
use crate::store::tests::{Subject as _, tenant};
use crate::store::{ConfigRecord, ConfigWrite, Queries};
use crate::types::{End, EndReason, JobKey, JobRecord, Sequence, Slot, Time};

impl Listed for Opened {
    fn queries(&self) -> Queries {
        self.store.queries()
    }

    fn slots(&self) -> u16 {
        self.store.record().slots
    }
}

#[test]
fn it_lists() {
    list(Opened::new);
}

#[test]
fn an_erased_tenant_is_gone_and_its_neighbour_is_not() {
    let mut opened = Opened::new();
    for name in ["acme", "other"] {
        let slot = Slot::of(&tenant(name), opened.slots());
        let key = JobKey { slot, sequence: Sequence(1), ordinal: 0 };
        let end = Some((End::DeadLettered(EndReason::Gone), Time(10)));
        let job = Box::new(JobRecord { end, ..samples::plain_job(key) });
        let event = Rc::new(samples::plain_event(name, 1));
        let letter = Row::DeadLetter { event: Rc::clone(&event), job };
        let rows = vec![Row::Event { event, jobs: vec![samples::claimed_job(1)] }, letter];
        opened.apply(&Batch { unit: Unit::Slot(slot), number: BatchNumber(1), rows: Rc::new(rows) });
        let destination = samples::destination(&tenant(name), Uuid::from_u128(1));
        let put = ConfigWrite::Put(ConfigRecord::Destination(Box::new(destination)));
        opened.wait(opened.store.configure(&[put])).expect("the store takes it");
    }
    opened.wait(opened.store.erase(&tenant("acme"))).expect("the tenant is erased");
    let events = |name| events_page(&opened, events_of(name, ListOrder::NewestFirst)).0;
    assert!(events("acme").is_empty());
    assert_eq!(events("other"), [1]);
    let letters = opened.wait(opened.store.queries().dead_letters(all_dead_letters())).expect("a page").items;
    assert_eq!(letters.iter().map(|letter| letter.event.tenant.as_str()).collect::<Vec<_>>(), ["other"]);
    let records = opened.store.load_configuration().expect("readable");
    assert!(matches!(&records[..], [ConfigRecord::Destination(own)] if own.tenant == tenant("other")));
}
