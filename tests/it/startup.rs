//! Starting: a wrong configuration is told whole and ends with 2, what fails at run time ends with 1.

use crate::harness::{Hub, Setup, run};

fn with<'a>(setup: Setup, pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Setup {
    pairs.into_iter().fold(setup, |setup, (name, value)| setup.with(name, value))
}

#[test]
fn every_fault_of_the_configuration_is_told_at_once_and_the_code_is_2() {
    let wrong = [
        ("HTTP_LISTEN_ADDR", "nowhere"),
        ("SHARDS", "0"),
        ("MAX_PAYLOAD", "11MiB"),
        ("SHUTDOWN_TIMEOUT", "soon"),
        ("EGRESS_ALLOW", "10.0.0.0/33"),
        ("STORE", "papyrus"),
        ("NO_SUCH_SETTING", "1"),
    ];
    let setup = with(Setup::new(), wrong);
    for command in ["serve", "check"] {
        let finished = run(&[command], setup.settings());
        assert_eq!(finished.code, Some(2), "{command}: {}", finished.output);
        for (name, value) in wrong {
            let named = finished.output.contains(&format!("STREAMING_HUB_{name}"));
            assert!(named, "{command}: {name} is not named:\n{}", finished.output);
            assert!(name == "NO_SUCH_SETTING" || finished.output.contains(value), "{command}: {value}");
        }
    }
}

#[test]
fn production_refuses_to_start_unsafely() {
    let setup = Setup::new().with("ENV", "production").with("ADMIN_KEY", "short").with("KAFKA_BROKERS", "127.0.0.1:1");
    let finished = run(&["serve"], setup.settings());
    assert_eq!(finished.code, Some(2), "{}", finished.output);
    for key in ["security.admin_key", "security.kek_source", "kafka.tls_enabled"] {
        assert!(finished.output.contains(key), "{key} is not named:\n{}", finished.output);
    }
    assert!(!finished.output.contains("\"short\""), "a secret is shown:\n{}", finished.output);
}

#[test]
fn a_file_is_read_and_the_environment_goes_before_it() {
    let setup = Setup::new().with("SHARDS", "3");
    let file = setup.directory().join("hub.toml");
    std::fs::write(&file, "shards = 1\n[limits]\nmax_payload = \"2MiB\"\n").expect("a written file");
    let finished = run(&["check", "--config", &file.display().to_string()], setup.settings());
    assert_eq!(finished.code, Some(0), "{}", finished.output);
    assert!(
        finished.output.contains("2MiB") && finished.output.contains("STREAMING_HUB_SHARDS"),
        "{}",
        finished.output
    );
    std::fs::write(&file, "shards = 1\nno_such = 2\n[limits]\nmax_payload = \"x\"\n").expect("a written file");
    let finished = run(&["serve", "--config", &file.display().to_string()], setup.settings());
    assert_eq!(finished.code, Some(2), "{}", finished.output);
    assert!(
        finished.output.contains("no_such") && finished.output.contains("limits.max_payload"),
        "{}",
        finished.output
    );
}

#[test]
fn misuse_of_the_command_line_is_2_and_help_is_0() {
    assert_eq!(run(&["serve", "--no-such-flag"], &[]).code, Some(2));
    assert_eq!(run(&["fly"], &[]).code, Some(2));
    assert_eq!(run(&[], &[]).code, Some(2));
    let help = run(&["--help"], &[]);
    assert_eq!(help.code, Some(0));
    assert!(help.output.contains("serve"), "{}", help.output);
}

#[test]
fn a_data_directory_has_one_hub() {
    let hub = Hub::start();
    let data = hub.data_directory().display().to_string();
    let second = run(&["serve"], Setup::new().with("DATA_DIR", &data).settings());
    assert_eq!(second.code, Some(1), "{}", second.output);
    assert!(second.output.contains(&data) && second.output.contains("in use"), "{}", second.output);
    assert_eq!(hub.anybody().get("/readyz").status, 200, "the first goes on");
}

#[test]
fn a_taken_address_and_an_unusable_directory_end_with_1_and_a_name() {
    let hub = Hub::start();
    let taken = hub.address().to_string();
    let second = run(&["serve"], Setup::new().with("HTTP_LISTEN_ADDR", &taken).settings());
    assert_eq!(second.code, Some(1), "{}", second.output);
    assert!(second.output.contains(&taken), "{}", second.output);
    let third = run(&["serve"], Setup::new().with("DATA_DIR", "/proc/none").settings());
    assert_eq!(third.code, Some(1), "{}", third.output);
    assert!(third.output.contains("/proc/none"), "{}", third.output);
}
