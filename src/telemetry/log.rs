//! The log: one line an event to standard error, as JSON or as text.
//!
//! Callers log fields, not sentences, and neither payloads nor secrets. What a tenant wrote is logged with `?`,
//! which escapes it.

use std::io;

use tracing::Subscriber;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// How a line looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For machines.
    Json,
    /// For people, without colours.
    Text,
}

/// Why the log could not be started.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The filter is malformed.
    #[error("the log filter is malformed: {0}")]
    Filter(#[from] tracing_subscriber::filter::ParseError),
    /// The process has a log already.
    #[error("the process has a log already")]
    Started(#[from] tracing::subscriber::SetGlobalDefaultError),
}

/// Starts the process's log.
///
/// # Errors
/// [`LogError`] when `filter` is malformed or the process has a log already.
pub fn start(format: LogFormat, filter: &str) -> Result<(), LogError> {
    tracing::subscriber::set_global_default(subscriber(format, filter, io::stderr)?)?;
    Ok(())
}

fn subscriber<W>(format: LogFormat, filter: &str, writer: W) -> Result<Box<dyn Subscriber + Send + Sync>, LogError>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let filter = EnvFilter::builder().parse(filter)?;
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer).with_ansi(false);
    Ok(match format {
        LogFormat::Json => Box::new(lines.json().flatten_event(true).with_current_span(false).finish()),
        LogFormat::Text => Box::new(lines.finish()),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("no test panics while writing").extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(format: LogFormat, filter: &str) -> String {
        let shared = Shared::default();
        let writer = shared.clone();
        let subscriber = subscriber(format, filter, move || writer.clone()).expect("a filter");
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!(topic = ?"a\nb", "lane_assigned");
            tracing::debug!("hidden");
        });
        let bytes = shared.0.lock().expect("written").clone();
        String::from_utf8(bytes).expect("UTF-8")
    }

    #[test]
    fn json_lines_have_fields_and_obey_the_filter() {
        let line: serde_json::Value = serde_json::from_str(&logged(LogFormat::Json, "info")).expect("one JSON line");
        assert_eq!(line["message"], "lane_assigned");
        assert_eq!(line["level"], "INFO");
        assert_eq!(line["topic"], "\"a\\nb\"");
    }

    #[test]
    fn text_is_one_escaped_line() {
        let text = logged(LogFormat::Text, "info");
        assert!(text.contains("lane_assigned topic=\"a\\nb\"") && text.lines().count() == 1, "{text}");
    }

    #[test]
    fn a_malformed_filter_is_an_error() {
        assert!(matches!(subscriber(LogFormat::Text, "a=b=c", io::sink), Err(LogError::Filter(_))));
    }
}
