//! The kinds of values settings have, parsed from text. An error is the rule that is broken.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ipnet::IpNet;

use crate::types::limits::CQL_KEYSPACE_MAX_BYTES;
use crate::types::{Duration, Secret};

/// A parsed value, or the rule that the text breaks.
pub type Parsed<T> = Result<T, String>;

/// `true` or `false`.
///
/// # Errors
/// For any other text.
pub fn boolean(text: &str) -> Parsed<bool> {
    match text {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err("must be `true` or `false`".to_owned()),
    }
}

/// A whole number within `range`.
///
/// # Errors
/// For any other text.
pub fn number(text: &str, range: RangeInclusive<u32>) -> Parsed<u32> {
    let number = text.parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| format!("must be a whole number from {} to {}", range.start(), range.end()))
}

/// A duration within `range`: whole numbers with units, such as `30s`, `168h`, `1h30m`.
///
/// # Errors
/// For any other text.
pub fn duration(text: &str, range: RangeInclusive<Duration>) -> Parsed<Duration> {
    let rule = || {
        let (least, most) = (duration_text(*range.start()), duration_text(*range.end()));
        format!("must be a duration such as `30s`, `168h` or `1h30m`, from {least} to {most}")
    };
    sum_of_spans(text).filter(|span| range.contains(span)).ok_or_else(rule)
}

fn sum_of_spans(text: &str) -> Option<Duration> {
    let (mut sum, mut rest) = (Duration::ZERO, text);
    while !rest.is_empty() {
        let (number, after) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit())?);
        let (unit, after) = after.split_at(after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len()));
        sum = sum + span_of_unit(unit)?.times(number.parse().ok()?);
        rest = after;
    }
    (!text.is_empty()).then_some(sum)
}

fn span_of_unit(unit: &str) -> Option<Duration> {
    match unit {
        "ms" => Some(Duration::from_millis(1)),
        "s" => Some(Duration::from_secs(1)),
        "m" => Some(Duration::from_secs(60)),
        "h" => Some(Duration::from_hours(1)),
        "d" => Some(Duration::from_hours(24)),
        _ => None,
    }
}

/// A duration as settings write it, in its largest whole unit.
#[must_use]
pub fn duration_text(span: Duration) -> String {
    let (ms, s) = (span.as_millis(), span.as_secs());
    if ms % 1_000 != 0 {
        format!("{ms}ms")
    } else if s == 0 || s % 60 != 0 {
        format!("{s}s")
    } else if s % 3_600 != 0 {
        format!("{}m", s / 60)
    } else {
        format!("{}h", s / 3_600)
    }
}

/// A size of 1 to `most` bytes, with or without a unit: `1048576`, `512KiB`, `1MiB`.
///
/// # Errors
/// For any other text.
pub fn size(text: &str, most: usize) -> Parsed<usize> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor: Option<usize> = match unit {
        "" | "B" => Some(1),
        "KiB" => Some(1 << 10),
        "MiB" => Some(1 << 20),
        _ => None,
    };
    let bytes = factor.and_then(|factor| number.parse::<usize>().ok()?.checked_mul(factor));
    let rule = || format!("must be a size such as `512KiB` or `1MiB`, from 1 to {most} bytes");
    bytes.filter(|bytes| (1..=most).contains(bytes)).ok_or_else(rule)
}

/// An address to listen on: `:8080` (all of IPv4), `127.0.0.1:8080`, `[::]:8080`.
///
/// # Errors
/// For any other text.
pub fn listen_address(text: &str) -> Parsed<SocketAddr> {
    let any = text.strip_prefix(':').and_then(|port| port.parse().ok());
    let address = any.map(|port| SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port));
    let rule = "must be `:port` or `address:port`, such as `:8080` or `[::1]:8080`";
    address.or_else(|| text.parse().ok()).ok_or_else(|| rule.to_owned())
}

/// A list of addresses and CIDRs, separated by commas.
///
/// # Errors
/// For any other text; the rule names the first entry that breaks it.
pub fn networks(text: &str) -> Parsed<Vec<IpNet>> {
    list(text).map(network).collect()
}

fn network(entry: &str) -> Parsed<IpNet> {
    let single = entry.parse::<IpAddr>().ok().map(IpNet::from);
    let rule = || format!("must be addresses or CIDRs such as `10.0.0.0/8`; `{}` is none", entry.escape_debug());
    single.or_else(|| entry.parse().ok()).ok_or_else(rule)
}

/// A list of `host:port`, separated by commas.
///
/// # Errors
/// For any other text; the rule names the first entry that breaks it.
pub fn brokers(text: &str) -> Parsed<Vec<String>> {
    addresses(text, "broker")
}

/// The nodes of a cluster: `host:port`, separated by commas; at least one.
///
/// # Errors
/// For any other text; the rule names the first entry that breaks it.
pub fn nodes(text: &str) -> Parsed<Vec<String>> {
    addresses(text, "node")
}

fn addresses(text: &str, what: &str) -> Parsed<Vec<String>> {
    let found: Vec<String> = list(text).map(|entry| address(entry, what)).collect::<Parsed<_>>()?;
    if found.is_empty() { Err(format!("must name at least one {what} as `host:port`")) } else { Ok(found) }
}

fn address(entry: &str, what: &str) -> Parsed<String> {
    let (host, port) = entry.rsplit_once(':').unwrap_or((entry, ""));
    let bracketed = host.starts_with('[') && host.ends_with(']');
    let plain = !host.is_empty() && host.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c));
    let valid = (bracketed || plain) && port.parse::<u16>().is_ok_and(|port| port > 0);
    let rule = || format!("must be {what}s as `host:port`; `{}` is none", entry.escape_debug());
    valid.then(|| entry.to_owned()).ok_or_else(rule)
}

fn list(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|entry| !entry.is_empty())
}

/// A dotted prefix of topics or event types, without a dot at its end, of at most 128 bytes.
///
/// # Errors
/// For any other text.
pub fn dotted_prefix(text: &str) -> Parsed<String> {
    let word = |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
    let valid = text.len() <= 128 && text.split('.').all(word);
    let rule = "must be words of letters, digits, `-` and `_`, joined by single dots, at most 128 bytes";
    valid.then(|| text.to_owned()).ok_or_else(|| rule.to_owned())
}

/// A name of 1 to 255 visible ASCII characters.
///
/// # Errors
/// For any other text.
pub fn name(text: &str) -> Parsed<String> {
    let valid = (1..=255).contains(&text.len()) && text.chars().all(|c| c.is_ascii_graphic());
    valid.then(|| text.to_owned()).ok_or_else(|| "must be 1 to 255 visible ASCII characters".to_owned())
}

/// A Kafka topic's name.
///
/// # Errors
/// For any other text.
pub fn topic(text: &str) -> Parsed<String> {
    let plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
    let valid = plain && (1..=249).contains(&text.len()) && text != "." && text != "..";
    let rule = "must be a Kafka topic: 1 to 249 letters, digits, `.`, `_` and `-`";
    valid.then(|| text.to_owned()).ok_or_else(|| rule.to_owned())
}

/// A keyspace's name, which is the same whether or not a server folds its case.
///
/// # Errors
/// For any other text.
pub fn keyspace(text: &str) -> Parsed<String> {
    let plain = text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    let valid = plain && text.len() <= CQL_KEYSPACE_MAX_BYTES && text.starts_with(|c: char| c.is_ascii_lowercase());
    let rule = "must be at most 48 lower-case letters, digits and `_`, beginning with a letter";
    valid.then(|| text.to_owned()).ok_or_else(|| rule.to_owned())
}

/// A key-encryption key: base64 of 32 bytes; white space around it is ignored.
///
/// # Errors
/// For any other text.
pub fn encryption_key(text: &str) -> Parsed<Secret> {
    let bytes = STANDARD.decode(text.trim()).ok().filter(|bytes| bytes.len() == 32);
    bytes.map(Secret::new).ok_or_else(|| "must be base64 of 32 bytes".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units_and_a_range() {
        let all = Duration::ZERO..=Duration(u64::MAX);
        assert_eq!(duration("30s", all.clone()), Ok(Duration::from_secs(30)));
        assert_eq!(duration("1h30m", all.clone()), Ok(Duration::from_secs(5_400)));
        assert_eq!(duration("7d", all.clone()), Ok(Duration::from_hours(168)));
        for bad in ["", "30", "s", "30 s", "-1s", "1.5h", "99999999999999999999s", "1é"] {
            assert!(duration(bad, all.clone()).is_err(), "{bad}");
        }
        assert!(duration("2h", Duration::ZERO..=Duration::from_hours(1)).is_err_and(|rule| rule.contains("0s to 1h")));
    }

    #[test]
    fn sizes_have_binary_units() {
        assert_eq!(size("1048576", 1 << 20), Ok(1 << 20));
        assert_eq!(size("512KiB", 1 << 20), Ok(1 << 19));
        for bad in ["", "0", "1MB", "2MiB", "MiB", "18446744073709551615KiB"] {
            assert!(size(bad, 1 << 20).is_err(), "{bad}");
        }
    }

    #[test]
    fn listen_addresses_may_leave_out_the_address() {
        assert_eq!(listen_address(":8080").map(|a| a.to_string()), Ok("0.0.0.0:8080".to_owned()));
        assert_eq!(listen_address("[::1]:80").map(|a| a.to_string()), Ok("[::1]:80".to_owned()));
        for bad in ["8080", ":", ":70000", "localhost:80", ""] {
            assert!(listen_address(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn networks_are_addresses_or_cidrs() {
        let parsed = networks("10.0.0.0/8, ::1,").expect("a list");
        assert_eq!(parsed.iter().map(ToString::to_string).collect::<Vec<_>>(), ["10.0.0.0/8", "::1/128"]);
        assert!(networks("10.0.0.0/33").is_err_and(|rule| rule.contains("`10.0.0.0/33`")));
    }

    #[test]
    fn brokers_are_hosts_with_ports() {
        assert_eq!(brokers("a:9092,[::1]:9093").map(|b| b.len()), Ok(2));
        for bad in ["", ",", "a", "a:0", ":9092", "http://a:9092"] {
            assert!(brokers(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn prefixes_have_no_dot_at_either_end() {
        assert!(dotted_prefix("lerian.streaming").is_ok());
        for bad in ["", "lerian.", ".lerian", "a..b", "a b"] {
            assert!(dotted_prefix(bad).is_err(), "{bad}");
        }
    }
}
