//! `backup`: of a running hub under load, and of a stopped one; the copy is a hub of its own with nothing missing.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::harness::{Gate, Hub, Receiver, Reply, Setup, eventually, run};

fn ids(deliveries: &[Value]) -> BTreeSet<String> {
    deliveries.iter().map(|delivery| delivery["id"].as_str().expect("an id").to_owned()).collect()
}

fn backup(hub: &Hub, arguments: &[&str]) -> crate::harness::process::Finished {
    run(&[&["backup"], arguments].concat(), hub.settings())
}

#[test]
fn a_running_hub_is_backed_up_and_the_copy_goes_on_where_it_was() {
    const EVENTS: usize = 60;
    let (mut hub, gate) = (Hub::start(), Gate::default());
    let healed = gate.clone();
    let receiver = Receiver::start(move |_| Reply::status(if healed.is_open() { 200 } else { 500 }));
    let acme = hub.tenant("acme");
    let retry = json!({"type": "fixed", "intervals_s": [2], "max_retries": 100});
    let circuit = json!({"enabled": false});
    let (source, _) = acme.pipeline(&receiver, json!({"retry": retry, "circuit": circuit}));
    let published = source.publish_many(EVENTS);
    let before = ids(&acme.deliveries(""));
    assert_eq!(before.len(), EVENTS);
    let to = hub.data_directory().with_file_name("copy");
    let (to_text, address) = (to.display().to_string(), format!("http://{}", hub.address()));
    let made = backup(&hub, &["--to", &to_text, "--address", &address]);
    assert_eq!(made.code, Some(0), "{}", made.output);
    assert!(made.output.contains(&to_text) && made.output.contains("rows"), "{}", made.output);
    let again = backup(&hub, &["--to", &to_text, "--address", &address]);
    assert_eq!(again.code, Some(1));
    assert!(again.output.contains(&to_text) && again.output.contains("exists"), "{}", again.output);
    // The hub goes on meanwhile, and what comes later is not in the copy.
    source.publish_many(1);
    hub.kill();
    hub.set("DATA_DIR", &to_text);
    gate.open();
    hub.restart_after_end();
    assert_eq!(ids(&acme.deliveries("")), before, "the keys and jobs of the moment of the backup");
    eventually("everything to be delivered", || acme.count_delivered() == EVENTS);
    let delivered: BTreeSet<String> = receiver.received().iter().map(|request| request.event_id()).collect();
    assert!(published.iter().all(|id| delivered.contains(id)));
    source.publish_many(3);
    acme.wait_for_delivered(EVENTS + 3);
}

#[test]
fn a_stopped_hub_is_backed_up_from_its_directory() {
    let (mut hub, receiver) = (Hub::start(), Receiver::willing());
    let acme = hub.tenant("acme");
    let (source, _) = acme.pipeline(&receiver, json!({}));
    source.publish_many(5);
    acme.wait_for_all(5, "delivered");
    let data = hub.data_directory().display().to_string();
    let to = hub.data_directory().with_file_name("copy").display().to_string();
    let refused = backup(&hub, &["--to", &to, "--data-dir", &data]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.output.contains("in use") && refused.output.contains("--address"), "{}", refused.output);
    hub.terminate();
    assert_eq!(hub.finish().code, Some(0));
    let made = backup(&hub, &["--to", &to]);
    assert_eq!(made.code, Some(0), "{}", made.output);
    hub.set("DATA_DIR", &to);
    hub.restart_after_end();
    acme.wait_for_all(5, "delivered");
    assert_eq!(receiver.count(), 5);
}

#[test]
fn the_operators_route_refuses_what_it_cannot_do() {
    let hub = Hub::start();
    assert_eq!(hub.operator().get("/admin/backup").problem(404), "not_found");
    for body in [json!({}), json!({"path": "relative"}), json!({"path": 1}), json!({"path": "/tmp/x", "more": 1})] {
        assert_eq!(hub.operator().post("/admin/backup", &body).status, 422, "{body}");
    }
    let there = hub.data_directory().display().to_string();
    let exists = hub.operator().post("/admin/backup", &json!({"path": there}));
    assert_eq!(exists.problem(409), "backup_target_exists");
    assert_eq!(hub.tenant("acme").api.post("/admin/backup", &json!({"path": "/tmp/x"})).status, 403);
    hub.operator().post("/admin/backup", &json!({"path": "/proc/none/copy"})).expect(202);
    eventually("the failure to be told", || {
        let shown = hub.operator().get("/admin/backup").expect(200);
        shown["state"] == "failed" && shown["error"].as_str().is_some_and(|error| error.contains("/proc/none"))
    });
}

#[test]
fn a_backup_without_a_hub_names_the_address() {
    let setup = Setup::new();
    let to = setup.directory().join("copy").display().to_string();
    let refused = run(&["backup", "--to", &to, "--address", "http://127.0.0.1:9"], setup.settings());
    assert_eq!(refused.code, Some(1));
    assert!(refused.output.contains("127.0.0.1"), "{}", refused.output);
}
