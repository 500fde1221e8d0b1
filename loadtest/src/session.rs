//! One run of the load test: what it has started, what it has measured so far, and how a scenario measures.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use streaming_hub::runtime::{Clock, sleep};

use crate::arguments::{Arguments, IntakeKind, StoreKind};
use crate::failure::Failure;
use crate::hub::{self, Cluster, CqlServer, Directory, Hub, HubSettings, Keyspace, Setting, Sources, Stage};
use crate::interruption::Interruption;
use crate::measure::machine::Machine;
use crate::measure::{bare, bare_cql, noise};
use crate::plan::{Group, Plan};
use crate::progress::Progress;
use crate::receive::{Receivers, Temper, Transport};
use crate::report::{BareCqlFigures, CeilingRun, FORMAT, Goal, Phase, Report};

/// One tenant gets an eighth of a shard's attempts: enough for one destination with 256 of them.
const DISPATCH_WORKERS: u32 = 2_048;
/// A payload's size where neither the command line nor the scenario says another.
pub const PAYLOAD_BYTES: usize = 1_024;
/// How long the bare loop runs each time, and before that to warm up.
const BARE_SPAN: Duration = Duration::from_secs(3);
const BARE_WARM_UP: Duration = Duration::from_millis(500);

/// What a scenario works with.
pub struct Session {
    /// What was asked for.
    pub arguments: Arguments,
    /// Time.
    pub clock: Clock,
    /// The receivers.
    pub receivers: Receivers,
    /// What is said while it goes on.
    pub progress: Progress,
    /// What has been measured.
    pub report: Report,
    /// Tells this run from others.
    pub run: u64,
    interruption: Interruption,
    binary: Option<PathBuf>,
    /// Where the bare loop on CQL writes.
    bare_keyspace: Option<Keyspace>,
    stages: u32,
    phases: u16,
}

impl Session {
    /// Starts the receivers and finds the hub's binary.
    ///
    /// # Errors
    /// When something is asked for that there is not.
    pub async fn start(arguments: Arguments, clock: Clock, interruption: Interruption) -> Result<Self, Failure> {
        arguments.check()?;
        let progress = Progress::new(clock);
        let binary = match arguments.address {
            Some(_) => None,
            None => Some(hub::locate(arguments.hub_binary.as_ref())?),
        };
        let report = Report {
            format: FORMAT,
            scenario: arguments.scenario.name().to_owned(),
            passes_when: arguments.scenario.passes_when().to_owned(),
            started_at: clock.now().to_rfc3339(),
            commit: commit(),
            machine: Machine::this(),
            settings: settings(&arguments),
            ..Report::default()
        };
        let run = clock.now().0 ^ (u64::from(std::process::id()) << 44);
        let receivers = Receivers::start(clock).await?;
        Ok(Self {
            arguments,
            clock,
            receivers,
            progress,
            report,
            run,
            interruption,
            binary,
            bare_keyspace: None,
            stages: 0,
            phases: 0,
        })
    }

    /// A hub with all that a plan needs.
    ///
    /// # Errors
    /// When the hub does not start or refuses something.
    pub async fn stage(&mut self, plan: Plan) -> Result<Stage, Failure> {
        self.stage_over(Transport::Plain, plan, HubSettings::default()).await
    }

    /// The same over another transport, and with settings of the hub's beside the usual ones.
    ///
    /// # Errors
    /// When the hub does not start or refuses something.
    pub async fn stage_over(
        &mut self,
        transport: Transport,
        plan: Plan,
        settings: HubSettings,
    ) -> Result<Stage, Failure> {
        self.interruption.check()?;
        self.stages += 1;
        let name = format!("load-{:x}-{}", self.run, self.stages);
        Group::ALL.iter().for_each(|group| self.receivers.set_temper(*group, Temper::Prompt));
        let topic = self.topic(&name).await?;
        let (hubs, cluster) = self.start_hubs(&name, &settings).await?;
        let tenants: Vec<String> = (0..plan.tenants).map(|number| format!("{name}-{number}")).collect();
        let (plan, tenants) = (Arc::new(plan), Arc::new(tenants));
        let urls = (0..plan.destinations.len()).map(|number| self.receivers.url(transport, number)).collect();
        let sources = match self.arguments.intake {
            IntakeKind::Http => Sources::One,
            IntakeKind::Kafka => Sources::None,
        };
        self.progress.show(&format!("setting up {} subscriptions", plan.routes.len()));
        let setting = Setting { plan: Arc::clone(&plan), tenants: Arc::clone(&tenants), urls, sources };
        let made = setting.set_up(&hubs[0]).await?;
        if let Some(topic) = &topic {
            hub::wait_until_followed(&hubs, topic, hub::PARTITIONS, self.clock).await?;
        }
        if let Some(cluster) = &cluster {
            hub::wait_until_known(&hubs, &name, self.clock).await?;
            hub::wait_until_followed(&hubs, &cluster.topic, hub::SLOTS.into(), self.clock).await?;
        }
        Ok(Stage { hubs, cluster, plan, tenants, topic, made })
    }

    async fn topic(&self, name: &str) -> Result<Option<String>, Failure> {
        match self.arguments.intake {
            IntakeKind::Http => Ok(None),
            IntakeKind::Kafka => {
                let topic = format!("{name}.{}", crate::publish::SOURCE);
                hub::create_topic(&self.arguments.kafka, &topic).await?;
                Ok(Some(topic))
            }
        }
    }

    /// The hub, or the nodes of a cluster and what they share.
    async fn start_hubs(&mut self, name: &str, more: &HubSettings) -> Result<(Vec<Hub>, Option<Cluster>), Failure> {
        let Some(binary) = self.binary.clone() else { return Ok((vec![self.other_hub()?], None)) };
        let cluster = match self.arguments.store {
            StoreKind::Embedded => None,
            StoreKind::Scylla => {
                self.progress.show("preparing a cluster");
                let server = CqlServer::of(&self.arguments);
                Some(Cluster::make(&binary, server, &self.arguments.kafka, name)?)
            }
        };
        let shared = cluster.as_ref().map(Cluster::settings).unwrap_or_default();
        let settings = self.hub_settings(name).and(shared).and(more.clone());
        let mut hubs = Vec::new();
        for node in 1..=self.arguments.nodes {
            let name = format!("{name}-{node}");
            hubs.push(Hub::start(binary.clone(), &name, settings.clone(), self.clock).await?);
        }
        Ok((hubs, cluster))
    }

    fn hub_settings(&self, name: &str) -> HubSettings {
        let mut settings = HubSettings::default().with("DISPATCH_WORKERS", DISPATCH_WORKERS.to_string());
        if let Some(shards) = self.arguments.shards {
            settings = settings.with("SHARDS", shards.to_string());
        }
        if self.arguments.intake == IntakeKind::Kafka || self.arguments.store == StoreKind::Scylla {
            settings = settings
                .with("KAFKA_BROKERS", &self.arguments.kafka)
                .with("TOPIC_PREFIX", name)
                .with("KAFKA_GROUP", name)
                .with("DLQ_GROUP", format!("{name}-dlq"))
                .with("KAFKA_SESSION_TIMEOUT", "10s");
        }
        settings
    }

    fn other_hub(&self) -> Result<Hub, Failure> {
        let Arguments { address, admin_key, process_id, .. } = &self.arguments;
        let (Some(address), Some(key)) = (address, admin_key) else {
            let rule = "needs the operator's key in STREAMING_HUB_ADMIN_KEY".to_owned();
            return Err(Failure::Argument { argument: "--address", rule });
        };
        Ok(Hub::other(*address, key.clone(), *process_id))
    }

    /// Runs the bare loop and keeps what it did.
    ///
    /// # Errors
    /// When it fails.
    pub async fn ceiling(&mut self) -> Result<(), Failure> {
        self.interruption.check()?;
        self.progress.show("the bare loop");
        let (address, bytes) =
            (self.receivers.listening.plain[0], self.arguments.payload_bytes.unwrap_or(PAYLOAD_BYTES));
        bare::run(address, bytes, BARE_WARM_UP, self.clock).await?;
        let bare = bare::run(address, bytes, BARE_SPAN, self.clock).await?;
        let run = CeilingRun {
            per_second: bare.requests as f64 / bare.seconds,
            per_processor_second: bare.requests as f64 / bare.processor_seconds,
        };
        let CeilingRun { per_second, per_processor_second } = run;
        self.progress.say(&format!("bare loop: {per_second:.0}/s, {per_processor_second:.0} per CPU-second"));
        self.report.ceiling.runs.push(run);
        Ok(())
    }

    /// Runs the bare loop on CQL as the hub was seen to work in `phase`, the report's last, and keeps what it did; nothing
    /// without a cluster.
    ///
    /// # Errors
    /// When it fails.
    pub async fn ceiling_on_cql(&mut self, stage: &Stage, phase: &mut Phase) -> Result<(), Failure> {
        self.interruption.check()?;
        let (Some(cluster), Some(cql), Some(binary)) = (&stage.cluster, &mut phase.figures.cql, &self.binary) else {
            return Ok(());
        };
        self.progress.show("the bare loop on CQL");
        let server = CqlServer::of(&self.arguments);
        if self.bare_keyspace.is_none() {
            let name = format!("bare_{:x}", self.run);
            self.bare_keyspace =
                Some(Keyspace::make(binary, server.clone(), name, hub::SLOTS, HubSettings::default())?);
        }
        let keyspaces =
            (cluster.keyspace.name.clone(), self.bare_keyspace.iter().map(|made| made.name.clone()).collect());
        let run = |span| bare_cql::run(server.clone(), keyspaces.clone(), stage.shape(cql), span, self.clock);
        run(BARE_WARM_UP).await?;
        let bare = run(BARE_SPAN).await?;
        let each = |number: u64| number as f64 / bare.events.max(1) as f64;
        let figures = BareCqlFigures {
            per_second: bare.events as f64 / bare.seconds,
            per_processor_second: bare.events as f64 / bare.processor_seconds,
            requests_per_event: each(bare.requests),
            rows_per_event: each(bare.rows),
        };
        cql.bare = Some(figures);
        let BareCqlFigures { per_second, requests_per_event, rows_per_event, .. } = figures;
        let said = format!(
            "bare loop on CQL: {per_second:.0}/s, {requests_per_event:.3} requests and {rows_per_event:.2} rows each; the hub {:.3} and {:.2}",
            cql.requests_per_event, cql.rows_per_event
        );
        self.progress.say(&said);
        if let Some(last) = self.report.phases.last_mut() {
            last.figures.cql = Some(*cql);
        }
        Ok(())
    }

    /// Notes what delays the machine has by itself, before anything is played.
    ///
    /// # Errors
    /// When it fails.
    pub async fn note_noise(&mut self) -> Result<(), Failure> {
        let directory = Directory::make("noise")?;
        let noise = noise::measure(directory.path(), self.clock).await?;
        self.note(noise.sentence());
        Ok(())
    }

    /// Makes every receiver prompt and closes the circuits.
    ///
    /// # Errors
    /// When the hub does not do it.
    pub async fn heal(&self, stage: &Stage) -> Result<(), Failure> {
        Group::ALL.iter().for_each(|group| self.receivers.set_temper(*group, Temper::Prompt));
        stage.reset_circuits().await
    }

    /// Events of the phase delivered so far.
    #[must_use]
    pub fn delivered(&self) -> u64 {
        self.receivers.live.delivered.load(Ordering::Relaxed)
    }

    /// A number for the next phase.
    pub const fn next_phase(&mut self) -> u16 {
        self.phases += 1;
        self.phases
    }

    /// A moment's pause, unless somebody wants this program to end, or the hub has.
    ///
    /// # Errors
    /// If so.
    pub async fn pause(&self, span: Duration, stage: &mut Stage) -> Result<(), Failure> {
        self.interruption.check()?;
        stage.check()?;
        sleep(span).await;
        Ok(())
    }

    /// Keeps a sentence for the report.
    pub fn note(&mut self, note: String) {
        self.progress.say(&note);
        self.report.notes.push(note);
    }

    /// Adds a goal.
    pub fn judge(&mut self, goal: Goal) {
        self.report.goals.push(goal);
    }
}

fn settings(arguments: &Arguments) -> BTreeMap<String, String> {
    let unset = || "unset".to_owned();
    [
        ("in", format!("{:?}", arguments.intake).to_lowercase()),
        ("store", format!("{:?}", arguments.store).to_lowercase()),
        ("nodes", arguments.nodes.to_string()),
        ("shards", arguments.shards.map_or_else(unset, |shards| shards.to_string())),
        ("payload", arguments.payload_bytes.map_or_else(unset, |bytes| format!("{bytes} bytes"))),
        ("outstanding", arguments.outstanding.to_string()),
        ("connections", arguments.connections.to_string()),
        ("batch", arguments.batch.map_or_else(unset, |batch| batch.to_string())),
        ("delivery.dispatch_workers", DISPATCH_WORKERS.to_string()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

/// The sources' commit; a `+` behind it says that they were changed since.
fn commit() -> String {
    let git = |arguments: &[&str]| {
        let output =
            std::process::Command::new("git").arg("-C").arg(env!("CARGO_MANIFEST_DIR")).args(arguments).output();
        output.ok().filter(|output| output.status.success()).map(|output| output.stdout)
    };
    let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) else { return String::new() };
    let changed = git(&["status", "--porcelain"]).is_some_and(|changes| !changes.is_empty());
    format!("{}{}", String::from_utf8_lossy(&commit).trim(), if changed { "+" } else { "" })
}
