//! Reads the source text and keeps the rules of the house that no compiler keeps.
//!
//! Each rule is a function of the texts, so that it is tried on a text that breaks it, too.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use streaming_hub::config::Config;
use streaming_hub::config::setting::{Exposure, Fallback, SETTINGS, Setting};
use streaming_hub::telemetry::metrics::{Description, descriptions};

/// A file's lines, at most.
const LINES_MAX: usize = 500;

/// What each folder of `src` may name of the crate beside itself.
const LAYERS: &[(&str, &[&str])] = &[
    ("types", &[]),
    ("engine", &["types"]),
    ("runtime", &["types"]),
    ("telemetry", &["types"]),
    ("config", &["types"]),
    ("source", &["types", "engine", "runtime", "telemetry", "config"]),
    ("store", &["types", "engine", "runtime", "telemetry", "config"]),
    ("deliver", &["types", "engine", "runtime", "telemetry", "config"]),
    ("shard", &["types", "engine", "runtime", "telemetry", "config", "source", "store", "deliver"]),
    ("api", &["types", "engine", "runtime", "telemetry", "config", "source", "store", "deliver", "shard"]),
    ("cli", &["types", "engine", "runtime", "telemetry", "config", "source", "store", "deliver", "shard", "api"]),
];

/// What the pure folders never name: clocks, threads, files, sockets and the crates that touch the world.
const IMPURE: &[&str] = &[
    "Arc",
    "Instant",
    "SystemTime",
    "Mutex",
    "RwLock",
    "TcpStream",
    "TcpListener",
    "UdpSocket",
    "thread",
    "async",
    "await",
    "fs",
    "clap",
    "fjall",
    "flume",
    "futures_lite",
    "futures_rustls",
    "getrandom",
    "glommio",
    "hickory_resolver",
    "hyper",
    "prometheus_client",
    "rdkafka",
    "rustls",
    "scylla",
    "signal_hook",
    "socket2",
    "tokio",
    "toml",
    "tracing",
    "tracing_subscriber",
];

/// The folders whose every file is pure.
const PURE: &[&str] = &["types", "engine"];

/// A source file.
struct Source {
    /// Relative to the repository, with slashes.
    path: String,
    text: String,
}

impl Source {
    /// `engine` for `src/engine/shard.rs`; empty for files right in `src` and elsewhere.
    fn folder(&self) -> &str {
        let inner = self.path.strip_prefix("src/").and_then(|rest| rest.split_once('/'));
        inner.map_or("", |(folder, _)| folder)
    }

    /// The text without line comments. Text inside string literals stays: naming something there is rare.
    fn code(&self) -> String {
        let code = |line: &str| line.find("//").map_or(line.len(), |at| at);
        self.text.lines().fold(String::new(), |all, line| all + &line[..code(line)] + "\n")
    }
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// All Rust files of the repository, in order of path.
fn sources() -> Vec<Source> {
    let mut paths = Vec::new();
    for folder in ["src", "tests", "benches", "loadtest"] {
        collect(&root().join(folder), &mut paths);
    }
    paths.sort();
    let source = |path: PathBuf| Source {
        path: path.strip_prefix(root()).expect("found below it").to_str().expect("UTF-8 names").to_owned(),
        text: fs::read_to_string(&path).expect("a readable source"),
    };
    let sources: Vec<Source> = paths.into_iter().map(source).collect();
    assert!(sources.len() > 10, "the sources were not found");
    sources
}

fn collect(folder: &Path, paths: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries {
        let path = entry.expect("a readable folder").path();
        if path.is_dir() {
            collect(&path, paths);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            paths.push(path);
        }
    }
}

fn words(code: &str) -> impl Iterator<Item = &str> {
    code.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// The folders of the crate that `code` names as `crate::<folder>`, or in a `crate::{…}` group.
fn named_folders(code: &str) -> Vec<&str> {
    let mut named = Vec::new();
    for after in code.split("crate::").skip(1) {
        match after.strip_prefix('{') {
            Some(group) => named.extend(group_heads(group)),
            None => named.extend(words(after).next()),
        }
    }
    named
}

/// The first word of each entry of a `{a::b, c}` group, its opening brace taken off.
fn group_heads(group: &str) -> Vec<&str> {
    let (mut depth, mut start, mut heads) = (1, 0, Vec::new());
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 || (depth == 1 && c == ',') {
            heads.extend(words(&group[start..at]).next());
            start = at + 1;
        }
        if depth == 0 {
            break;
        }
    }
    heads
}

fn layering(source: &Source) -> Vec<String> {
    let Some((_, allowed)) = LAYERS.iter().find(|(folder, _)| *folder == source.folder()) else {
        let known = source.folder().is_empty();
        return if known { vec![] } else { vec![format!("{}: its folder has no place in the layers", source.path)] };
    };
    let code = source.code();
    let folders = named_folders(&code).into_iter().filter(|named| LAYERS.iter().any(|(folder, _)| folder == named));
    let forbidden = folders.filter(|named| *named != source.folder() && !allowed.contains(named));
    forbidden.map(|named| format!("{}: `{}` never names `{named}`", source.path, source.folder())).collect()
}

fn purity(source: &Source) -> Vec<String> {
    let code = source.code();
    let pure = PURE.contains(&source.folder());
    let outside = source.path.starts_with("src/") && source.folder() != "runtime";
    let impure = words(&code).filter(|word| pure && IMPURE.contains(word));
    let runtime = words(&code).filter(|word| outside && *word == "glommio");
    impure.chain(runtime).map(|word| format!("{}: never names `{word}`", source.path)).collect()
}

fn size(source: &Source) -> Vec<String> {
    let lines = source.text.lines().count();
    if lines <= LINES_MAX { vec![] } else { vec![format!("{}: {lines} lines, more than {LINES_MAX}", source.path)] }
}

/// Words that must not stand anywhere, written in two halves so that this file may name them.
fn leftovers(source: &Source) -> Vec<String> {
    let marks = [concat!("TO", "DO"), concat!("FIX", "ME")];
    let never = [concat!("#[ig", "nore"), concat!("allow(clip", "py"), concat!("db", "g!("), concat!("/wo", "rk/")];
    let mut found = Vec::new();
    for (index, line) in source.text.lines().enumerate() {
        let unbound = |mark: &&&str| line.contains(**mark) && !line.contains(&format!("{mark}(#"));
        let met = marks.iter().filter(unbound).chain(never.iter().filter(|text| line.contains(**text)));
        found.extend(met.map(|text| format!("{}:{}: `{text}`", source.path, index + 1)));
    }
    found
}

fn setting_row(setting: &Setting) -> String {
    let default = match (setting.default, setting.exposure) {
        (Fallback::Unset, Exposure::Open) => "–".to_owned(),
        (Fallback::Unset, Exposure::Secret) => "– (secret)".to_owned(),
        (Fallback::Text(text), _) => format!("`{text}`"),
        (Fallback::PerEnvironment { local, production }, _) => {
            format!("`{local}`; in `production` `{production}`")
        }
    };
    format!("| `{}` | `{}` | {default} | {} |", setting.key, setting.variable, setting.help)
}

fn metric_row(metric: &Description) -> String {
    format!("| `{}` | {} | {} |", metric.name, metric.kind, metric.help)
}

fn missing_rows(readme: &str, rows: impl Iterator<Item = String>) -> Vec<String> {
    rows.filter(|row| !readme.lines().any(|line| line == row)).collect()
}

fn assert_none(faults: &[String]) {
    let text = faults.iter().fold(String::new(), |mut all, fault| {
        writeln!(all, "{fault}").expect("writing to a string can't fail");
        all
    });
    assert!(faults.is_empty(), "{} fault(s):\n{text}", faults.len());
}

fn assert_sources(rule: fn(&Source) -> Vec<String>) {
    assert_none(&sources().iter().flat_map(rule).collect::<Vec<_>>());
}

#[test]
fn layers_name_only_those_below() {
    assert_sources(layering);
}

#[test]
fn pure_folders_stay_pure_and_the_runtime_stays_in_its_folder() {
    assert_sources(purity);
}

#[test]
fn files_stay_small() {
    assert_sources(size);
}

#[test]
fn nothing_is_left_over() {
    assert_sources(leftovers);
}

#[test]
fn the_readme_lists_every_setting_with_its_default() {
    let readme = fs::read_to_string(root().join("README.md")).expect("a README");
    assert_none(&missing_rows(&readme, SETTINGS.iter().map(setting_row)));
}

#[test]
fn the_example_of_the_readme_is_a_good_configuration() {
    let readme = fs::read_to_string(root().join("README.md")).expect("a README");
    let after = readme.split_once("```toml\n").expect("an example").1;
    let example = after.split_once("```").expect("the example's end").0;
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("hub.toml");
    fs::write(&file, example).expect("a written file");
    let environment = [
        ("STREAMING_HUB_KAFKA_SCRAM_PASSWORD", "hunter2"),
        ("STREAMING_HUB_ADMIN_KEY", "0123456789abcdef"),
        ("HUB_KEY_ENCRYPTION_KEY", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="),
    ];
    let config = Config::load(Some(&file), environment, []).expect("a good configuration");
    assert!(config.kafka.is_some_and(|kafka| kafka.tls && kafka.scram.is_some()));
}

#[test]
fn the_readme_lists_every_metric() {
    let readme = fs::read_to_string(root().join("README.md")).expect("a README");
    assert_none(&missing_rows(&readme, descriptions().iter().map(metric_row)));
}

/// Names of settings and metrics in `text` that are none: left from what they were once called.
fn stale_names(text: &str) -> Vec<String> {
    let metrics: Vec<String> = descriptions().into_iter().map(|metric| metric.name).collect();
    let setting = |word: &str| word.starts_with("STREAMING_HUB_") && !SETTINGS.iter().any(|s| s.variable == word);
    let metric = |word: &str| word.starts_with("streaming_hub_") && !metrics.iter().any(|name| name == word);
    words(text).filter(|word| setting(word) || metric(word)).map(str::to_owned).collect()
}

#[test]
fn the_documents_name_no_setting_or_metric_that_is_none() {
    for document in ["README.md", "src/ARCHITECTURE.md"] {
        assert_none(&stale_names(&fs::read_to_string(root().join(document)).expect("a document")));
    }
    assert_eq!(stale_names("`STREAMING_HUB_ENV` STREAMING_HUB_ENVY streaming_hub_retries").len(), 2);
}

#[test]
fn the_architecture_names_every_folder() {
    let text = fs::read_to_string(root().join("src/ARCHITECTURE.md")).expect("src/ARCHITECTURE.md");
    let mut folders: Vec<String> = sources().iter().map(|source| source.folder().to_owned()).collect();
    folders.dedup();
    let unnamed = |folder: &String| !folder.is_empty() && !text.contains(&format!("`{folder}`"));
    assert_none(&folders.into_iter().filter(unnamed).collect::<Vec<_>>());
}

#[test]
fn the_rules_find_what_breaks_them() {
    let source = |path: &str, text: &str| Source { path: path.to_owned(), text: text.to_owned() };
    let broken = |rule: fn(&Source) -> Vec<String>, path: &str, text: &str| rule(&source(path, text)).len();
    assert_eq!(broken(layering, "src/store/a.rs", "use crate::deliver::Guard;"), 1);
    assert_eq!(broken(layering, "src/store/a.rs", "use crate::{types::Time, source::{a, b}, engine};"), 1);
    assert_eq!(broken(layering, "src/store/a.rs", "// crate::deliver\nuse crate::types::Time;"), 0);
    assert_eq!(broken(layering, "src/elsewhere/a.rs", ""), 1);
    assert_eq!(broken(purity, "src/engine/a.rs", "use std::sync::Arc; // Instant"), 1);
    assert_eq!(broken(purity, "src/shard/a.rs", "use glommio::Task;"), 1);
    assert_eq!(broken(purity, "src/runtime/a.rs", "use glommio::Task;"), 0);
    assert_eq!(broken(size, "src/a.rs", &"\n".repeat(LINES_MAX + 1)), 1);
    assert_eq!(broken(leftovers, "src/a.rs", concat!("// TO", "DO later\n// TO", "DO(#7) later")), 1);
    assert_eq!(broken(leftovers, "src/a.rs", concat!("#[ig", "nore = \"slow\"]")), 1);
    assert_eq!(missing_rows("| a |\n", ["| a |", "| b |"].map(str::to_owned).into_iter()), ["| b |"]);
}
