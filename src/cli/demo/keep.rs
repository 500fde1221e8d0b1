//! `--keep`: what to try with the hub that goes on running.

use std::io::{self, Write};

use super::hub::DemoHub;
use super::plan::EVENT_KEY_HEADER;
use super::stage::{Stage, text};

/// Commands to try, ready to be pasted.
pub struct Commands {
    /// Shell variables, set first.
    variables: Vec<(&'static str, String)>,
    /// What a command shows, and the command.
    commands: Vec<(&'static str, String)>,
}

impl Commands {
    /// The commands for what the demo has made.
    ///
    /// # Errors
    /// One line when the API does not answer as it should.
    pub fn gather(stage: &Stage, hub: &DemoHub) -> Result<Self, String> {
        let key = |tenant: &str| stage.member(tenant).key.clone();
        let crm = &stage.actor("crm").destination;
        let dead = stage.client("acme").read(&format!("/v1/dead-letters?limit=1&destination_id={crm}"))?;
        let delivery = text(&dead["items"][0], "delivery_id").unwrap_or_else(|_| "<id>".to_owned());
        let variables = vec![
            ("HUB", format!("http://{}", stage.address)),
            ("ACME", key("acme")),
            ("GLOBEX", key("globex")),
            ("ADMIN", hub.admin_key().to_owned()),
        ];
        let circuit = format!("/v1/destinations/{}/circuit", stage.actor("old-erp").destination);
        let publish = format!(
            "curl -s \"$HUB{}\" \\\n    -H '{EVENT_KEY_HEADER}: order.created' -H 'content-type: application/json' -d '{{\"amount\":7}}'",
            stage.member("globex").ingest
        );
        let commands = vec![
            ("acme's newest events", curl("ACME", "/v1/events?order=desc&limit=2")),
            ("a delivery that failed, with its attempts", curl("ACME", &format!("/v1/deliveries/{delivery}"))),
            ("acme's dead letters, and trying them all again", curl("ACME", "/v1/dead-letters?limit=2")),
            ("", curl("ACME", "/v1/dead-letters/retry\" -d \"{}")),
            ("the circuit of the receiver that never answers", curl("GLOBEX", &circuit)),
            ("publish a webhook, then see where it went", publish),
            ("", curl("GLOBEX", "/v1/deliveries?limit=1")),
            ("what an operator sees", curl("ADMIN", "/admin/circuits")),
            ("", curl("ADMIN", "/admin/shards")),
        ];
        Ok(Self { variables, commands })
    }

    /// Writes them.
    ///
    /// # Errors
    /// When the output can't be written.
    pub fn write(&self, output: &mut dyn Write) -> io::Result<()> {
        writeln!(output, "\nThe hub goes on. Try in another terminal (`| jq` makes the answers readable):\n")?;
        for (name, value) in &self.variables {
            writeln!(output, "  {name}={value}")?;
        }
        for (what, command) in &self.commands {
            if !what.is_empty() {
                writeln!(output, "\n  # {what}")?;
            }
            writeln!(output, "  {command}")?;
        }
        writeln!(output, "\nCtrl-C stops it and removes its data.")?;
        output.flush()
    }
}

fn curl(key: &str, path: &str) -> String {
    format!("curl -s -H \"X-API-Key: ${key}\" \"$HUB{path}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_come_before_the_commands_that_use_them() {
        let commands = Commands {
            variables: vec![("HUB", "http://127.0.0.1:1".to_owned())],
            commands: vec![("one", curl("ACME", "/v1/events")), ("", curl("ADMIN", "/admin/shards"))],
        };
        let mut output = Vec::new();
        commands.write(&mut output).expect("written");
        let text = String::from_utf8(output).expect("UTF-8");
        let expected =
            "  HUB=http://127.0.0.1:1\n\n  # one\n  curl -s -H \"X-API-Key: $ACME\" \"$HUB/v1/events\"\n  curl";
        assert!(text.contains(expected), "{text}");
    }
}
