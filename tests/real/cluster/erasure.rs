//! Erasure at any node of a tenant whose events came by another; the node that drives it dies, and another goes on.

use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::value::{CqlValue, Row};
use serde_json::json;

use super::{CASSANDRA, Cluster, Everywhere, SCYLLA_USER, short_of_breath, soon};
use crate::harness::{CloudEvent, Hub, Receiver, merged};
use crate::patience::{patiently, within};

const NODES: usize = 3;
const ERASED: &str = "erased-tenant";
const KEPT: &str = "kept-tenant";
const EVENTS: usize = 40;
/// A driver's lease, its successor's look, the slots' way to other nodes.
const TAKEN_OVER: std::time::Duration = std::time::Duration::from_secs(120);

/// Tables that keep nothing by name, or only for a time that their schema says.
const ELSEWHERE: [&str; 4] = ["claims", "config_head", "config_feed", "erasures"];

/// Delivered events, large ones among them, dead letters and jobs that sleep in the store.
fn busy(hubs: &[Hub], name: &str, willing: &Receiver, refusing: &Receiver) -> Everywhere {
    let acme = Everywhere::new(hubs, name);
    let once = json!({"retry": {"type": "curve", "steps_s": [0]}});
    let later = json!({"retry": {"type": "fixed", "intervals_s": [36_000], "max_retries": 1}});
    for (receiver, more, event) in [(willing, json!({}), "paid"), (refusing, once, "lost"), (refusing, later, "late")] {
        let destination =
            acme.at(0).destination(receiver, merged(short_of_breath(more), json!({"circuit": {"enabled": false}})));
        acme.at(0).subscription(&destination, json!({"event_types": [format!("order.{event}")]}));
    }
    let source = acme.at(1).source("shop");
    acme.know_subscriptions();
    for number in 0..EVENTS {
        let event = CloudEvent::new("order", ["paid", "lost", "late"][number % 3]);
        let event = if number < 3 { event.with_data(format!("\"{}\"", "x".repeat(20_000))) } else { event };
        source.publish(&event).expect(200);
    }
    patiently(
        || format!("{name}'s jobs to stand as they should"),
        || {
            let count = |status: &str| acme.at(2).deliveries(&format!("status={status}")).len();
            (count("delivered"), count("dead_lettered"), count("pending")) == (14, 13, 13)
        },
    );
    acme
}

/// Rows of all tables that name the tenant, past the hub.
struct Tables {
    runtime: tokio::runtime::Runtime,
    session: Session,
    keyspace: String,
}

impl Tables {
    fn of(cluster: &Cluster) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let builder = SessionBuilder::new().known_node(CASSANDRA.address).user(SCYLLA_USER, SCYLLA_USER);
        let session = runtime.block_on(builder.build()).expect("the server is there");
        Self { runtime, session, keyspace: cluster.keyspace() }
    }

    fn rows(&self, text: &str) -> Vec<Row> {
        let answer = self.runtime.block_on(self.session.query_unpaged(text, ())).expect("the server answers");
        let rows = answer.into_rows_result().expect("rows");
        rows.rows::<Row>().expect("rows").map(|row| row.expect("a row")).collect()
    }

    /// Each table that names it, with how many rows do.
    fn naming(&self, name: &str) -> Vec<(String, usize)> {
        let text = format!("SELECT table_name FROM system_schema.tables WHERE keyspace_name = '{}'", self.keyspace);
        let tables: Vec<String> = self.rows(&text).iter().filter_map(|row| text_of(row.columns[0].as_ref())).collect();
        let tables = tables.into_iter().filter(|table| !ELSEWHERE.contains(&table.as_str()));
        let counted = tables.map(|table| {
            let rows = self.rows(&format!("SELECT * FROM {}.{table}", self.keyspace));
            let count = rows.iter().filter(|row| row.columns.iter().flatten().any(|value| names(value, name))).count();
            (table, count)
        });
        counted.filter(|(_, count)| *count > 0).collect()
    }

    /// Pieces of large payloads, which name nobody.
    fn payloads(&self) -> usize {
        self.rows(&format!("SELECT piece FROM {}.payloads", self.keyspace)).len()
    }
}

fn text_of(value: Option<&CqlValue>) -> Option<String> {
    value.and_then(CqlValue::as_text).map(ToString::to_string)
}

fn names(value: &CqlValue, name: &str) -> bool {
    let within = |bytes: &[u8]| bytes.windows(name.len()).any(|window| window == name.as_bytes());
    value.as_text().is_some_and(|text| within(text.as_bytes())) || value.as_blob().is_some_and(|blob| within(blob))
}

#[test]
fn a_tenant_is_erased_though_the_node_that_drives_it_dies() {
    let cluster = Cluster::new();
    let mut hubs = cluster.start(NODES);
    let (willing, refusing) = (Receiver::willing(), Receiver::answering(500));
    busy(&hubs, ERASED, &willing, &refusing);
    let kept = busy(&hubs, KEPT, &willing, &refusing);
    let tables = Tables::of(&cluster);
    let (before, others) = (tables.naming(ERASED), tables.naming(KEPT));
    println!("before: {before:?}, {} pieces of payloads", tables.payloads());
    assert!(before.len() >= 6 && tables.payloads() == 6, "{before:?}");
    let answer = hubs[0].operator().delete(&format!("/admin/tenants/{ERASED}")).expect(202);
    assert_eq!(answer["erasing"], true);
    let held = format!("SELECT driver FROM {}.erasures", cluster.keyspace());
    soon("a node to drive it", || !tables.rows(&held).is_empty());
    hubs[0].kill();
    within(
        TAKEN_OVER,
        || format!("nothing to be left: {:?}", tables.naming(ERASED)),
        || tables.naming(ERASED).is_empty(),
    );
    assert_eq!(tables.payloads(), 3, "the other tenant's");
    assert_eq!(history(&tables.naming(KEPT)), history(&others), "others lose nothing");
    assert_eq!(kept.at(1).deliveries("status=dead_lettered").len(), 13);
    hubs[0].restart_after_end();
    let made = |hub: &Hub| hub.operator().post(&format!("/admin/tenants/{ERASED}/keys"), &json!({})).status;
    within(TAKEN_OVER, || "the name to be free again".to_owned(), || made(&hubs[1]) == 201);
    let again = Everywhere::new(&hubs, ERASED);
    let (source, _) = again.at(0).pipeline(&willing, short_of_breath(json!({})));
    again.know_subscriptions();
    let (came, event) = (willing.count(), CloudEvent::new("order", "paid"));
    source.publish(&event).expect(200);
    patiently(|| "the new tenant's delivery".to_owned(), || willing.count() > came);
    patiently(|| "its event to be listed".to_owned(), || listed(&again));
    println!("erased at one of {NODES} nodes, which died, by another; the name serves a new tenant");
}

/// Of what was counted, what never changes once its jobs stand.
fn history(counted: &[(String, usize)]) -> Vec<&(String, usize)> {
    let lasting = ["log", "tenant_index", "dead_letters", "dead_letters_by_hour", "dead_letters_of_event", "due"];
    counted.iter().filter(|(table, _)| lasting.contains(&table.as_str())).collect()
}

/// Whether the one event of a tenant is listed.
fn listed(acme: &Everywhere) -> bool {
    let page = acme.at(2).api.get("/v1/events?limit=10").expect(200);
    page["items"].as_array().is_some_and(|items| items.len() == 1)
}
