//! What a plan needs in the hub: tenants with keys, sources, destinations and subscriptions.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::iter::Sum;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use streaming_hub::runtime::{Clock, channel, sleep, task};
use streaming_hub::types::{Slot, TenantId};

use super::api::Api;
use super::cluster::{Cluster, SLOTS};
use super::process::Hub;
use crate::failure::Failure;
use crate::measure::bare_cql::Shape;
use crate::measure::metrics;
use crate::plan::{Plan, RESOURCE, event_name};
use crate::publish::SOURCE;
use crate::receive::SECRET;
use crate::report::CqlFigures;

/// Clients at once: the hub writes one change after the other.
const CLIENTS: usize = 4;
/// Until all nodes know a change.
const KNOWN_PATIENCE: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(20);

/// A hub with everything set up.
#[derive(Debug)]
pub struct Stage {
    /// It; on a cluster all of its nodes, of which the first is asked for everything.
    pub hubs: Vec<Hub>,
    /// What the nodes share. It goes after them.
    pub cluster: Option<Cluster>,
    /// What was set up.
    pub plan: Arc<Plan>,
    /// The tenants' ids by number.
    pub tenants: Arc<Vec<String>>,
    /// The topic, if events come through one.
    pub topic: Option<String>,
    /// What was made.
    pub made: Made,
}

/// What a plan has become in the hub.
#[derive(Clone, Debug, Default)]
pub struct Made {
    /// The tenants' keys by number.
    pub keys: Vec<String>,
    /// The path of each tenant's source; empty without HTTP ingest.
    pub paths: Arc<Vec<String>>,
    /// The destinations' ids by number.
    pub destinations: Vec<String>,
}

impl Stage {
    /// The hub, or the node that is asked.
    #[must_use]
    pub fn first(&self) -> &Hub {
        &self.hubs[0]
    }

    /// Fails when a process has ended.
    ///
    /// # Errors
    /// With the end of its log.
    pub fn check(&mut self) -> Result<(), Failure> {
        self.hubs.iter_mut().try_for_each(Hub::check)
    }

    /// The numbers of its processes, as far as they are on this machine and known.
    pub fn processes(&self) -> impl Iterator<Item = u32> {
        self.hubs.iter().filter_map(|hub| hub.process_id)
    }

    /// The sum of a figure over its processes; `None` when that of one can't be read.
    pub fn total<T: Sum>(&self, figure: impl Fn(u32) -> Option<T>) -> Option<T> {
        self.hubs.iter().map(|hub| hub.process_id.and_then(&figure)).sum()
    }

    /// A sum over all labels and nodes of each of these metrics.
    ///
    /// # Errors
    /// When a node does not answer.
    pub async fn sums<const COUNT: usize>(&self, names: [&str; COUNT]) -> Result<[f64; COUNT], Failure> {
        let mut sums = [0.0; COUNT];
        for hub in &self.hubs {
            let text = Api::new(hub.address).metrics().await?;
            sums.iter_mut().zip(names).for_each(|(sum, name)| *sum += metrics::sum(&text, name));
        }
        Ok(sums)
    }

    /// How the bare loop on CQL works as the hub did.
    #[must_use]
    pub fn shape(&self, cql: &CqlFigures) -> Shape {
        let slot = |tenant: &String| Slot::of(&TenantId::new(tenant).expect("tenants have plain names"), SLOTS);
        let slots: BTreeSet<Slot> = self.tenants.iter().map(slot).collect();
        // An event is four rows of its own, and two for a claim that is not in its row.
        let claims_per_event = ((cql.rows_per_event - 4.0) / 2.0).clamp(0.0, 1.0);
        let first = slots.first().copied();
        let tenant = self.tenants.iter().find(|tenant| Some(slot(tenant)) == first).cloned().unwrap_or_default();
        let events_per_batch = 1.0 / cql.batches_per_event.max(1e-3);
        Shape { slots: slots.into_iter().collect(), events_per_batch, claims_per_event, tenant }
    }

    /// Closes every circuit, as an operator would who knows that all receivers are well again.
    ///
    /// # Errors
    /// When the hub does not do it.
    pub async fn reset_circuits(&self) -> Result<(), Failure> {
        let mut api = Api::new(self.first().address);
        for (id, destination) in self.made.destinations.iter().zip(&self.plan.destinations) {
            let path = format!("/v1/destinations/{id}/circuit/reset");
            api.post(&path, &self.made.keys[destination.tenant]).await?;
        }
        Ok(())
    }
}

/// What is set up where.
#[derive(Debug)]
pub struct Setting {
    /// What.
    pub plan: Arc<Plan>,
    /// The tenants' ids by number.
    pub tenants: Arc<Vec<String>>,
    /// The destinations' URLs by number.
    pub urls: Vec<String>,
    /// Whether tenants have a source.
    pub sources: Sources,
}

/// Whether tenants have a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sources {
    /// One each.
    One,
    /// None: their events come from Kafka.
    None,
}

/// Where the workers are.
struct Work {
    setting: Setting,
    /// Numbers of each tenant's destinations and routes.
    of_tenant: Vec<Numbers>,
    next: Cell<usize>,
    made: RefCell<WorkMade>,
    failure: RefCell<Option<Failure>>,
}

#[derive(Clone, Default)]
struct Numbers {
    destinations: Vec<u32>,
    routes: Vec<u32>,
}

#[derive(Default)]
struct WorkMade {
    keys: Vec<String>,
    paths: Vec<String>,
    destinations: Vec<String>,
}

fn numbers(plan: &Plan) -> Vec<Numbers> {
    let mut of_tenant = vec![Numbers::default(); plan.tenants];
    for (number, destination) in (0_u32..).zip(&plan.destinations) {
        of_tenant[destination.tenant].destinations.push(number);
    }
    for (number, _) in (0_u32..).zip(&plan.routes) {
        of_tenant[plan.tenant_of(number)].routes.push(number);
    }
    of_tenant
}

/// Waits until every node knows what was set up through the first: they learn of changes in order, of this one last.
///
/// # Errors
/// When one does not.
pub async fn wait_until_known(hubs: &[Hub], name: &str, clock: Clock) -> Result<(), Failure> {
    let path = format!("/admin/tenants/{name}-last/keys");
    let made = Api::new(hubs[0].address).create(&path, &hubs[0].admin_key, &json!({})).await?;
    let (key, begun) = (text(&made, "key")?, clock.now());
    for hub in hubs {
        let mut api = Api::new(hub.address);
        while !api.knows(&key).await {
            if clock.now().since(begun).to_std() > KNOWN_PATIENCE {
                return Err(Failure::Late { what: "the configuration".to_owned(), seconds: KNOWN_PATIENCE.as_secs() });
            }
            sleep(LOOK).await;
        }
    }
    Ok(())
}

impl Setting {
    /// Sets all of it up over the hub's API.
    ///
    /// # Errors
    /// What the hub refuses.
    pub async fn set_up(self, hub: &Hub) -> Result<Made, Failure> {
        let empty = |count| vec![String::new(); count];
        let (tenants, destinations) = (self.plan.tenants, self.plan.destinations.len());
        let made = WorkMade { keys: empty(tenants), paths: empty(tenants), destinations: empty(destinations) };
        let work = Rc::new(Work {
            of_tenant: numbers(&self.plan),
            setting: self,
            next: Cell::new(0),
            made: RefCell::new(made),
            failure: RefCell::default(),
        });
        let (done, ended) = channel::bounded::<()>(1);
        for _ in 0..CLIENTS {
            let (work, api, key, done) = (Rc::clone(&work), Api::new(hub.address), hub.admin_key.clone(), done.clone());
            task::spawn(async move {
                work.run(api, &key).await;
                drop(done);
            });
        }
        drop(done);
        while ended.recv_async().await.is_ok() {}
        if let Some(failure) = work.failure.borrow_mut().take() {
            return Err(failure);
        }
        let WorkMade { keys, paths, destinations } = work.made.take();
        Ok(Made { keys, paths: Arc::new(paths), destinations })
    }
}

impl Work {
    async fn run(&self, mut api: Api, admin_key: &str) {
        while self.next.get() < self.setting.plan.tenants && self.failure.borrow().is_none() {
            let tenant = self.next.replace(self.next.get() + 1);
            if let Err(failure) = self.set_up_tenant(&mut api, admin_key, tenant).await {
                self.failure.replace(Some(failure));
            }
        }
    }

    async fn set_up_tenant(&self, api: &mut Api, admin_key: &str, tenant: usize) -> Result<(), Failure> {
        let Setting { plan, tenants, urls, sources } = &self.setting;
        let made = api.create(&format!("/admin/tenants/{}/keys", tenants[tenant]), admin_key, &json!({})).await?;
        let key = text(&made, "key")?;
        if *sources == Sources::One {
            let source = api.create("/v1/sources", &key, &json!({"slug": SOURCE, "type": "cloudevents"})).await?;
            self.made.borrow_mut().paths[tenant] = format!("/v1/ingest/{}", text(&source, "id")?);
        }
        for number in &self.of_tenant[tenant].destinations {
            let place = *number as usize;
            let mut body = json!({"url": urls[place], "secret": SECRET, "verification": "none"});
            merge(&mut body, &plan.destinations[place].settings);
            let id = text(&api.create("/v1/destinations", &key, &body).await?, "id")?;
            self.made.borrow_mut().destinations[place] = id;
        }
        for number in &self.of_tenant[tenant].routes {
            let destination = plan.routes[*number as usize].destination as usize;
            let destination = self.made.borrow().destinations[destination].clone();
            let event_type = format!("{RESOURCE}.{}", event_name(*number));
            let body = json!({"destination_id": destination, "event_types": [event_type]});
            api.create("/v1/subscriptions", &key, &body).await?;
        }
        self.made.borrow_mut().keys[tenant] = key;
        Ok(())
    }
}

fn merge(body: &mut Value, more: &Value) {
    if let (Value::Object(body), Value::Object(more)) = (body, more) {
        body.extend(more.clone());
    }
}

fn text(value: &Value, member: &str) -> Result<String, Failure> {
    let text = value[member].as_str().map(str::to_owned);
    text.ok_or_else(|| Failure::Hub(format!("answered without `{member}`: {value}")))
}
