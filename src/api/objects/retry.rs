//! The `retry` member and hookstream's flat names for it.

use serde_json::Value;

use crate::api::input::{Field, Fields};
use crate::api::problem::Faults;
use crate::types::retry::RetryPolicyError;
use crate::types::{RetryPolicy, limits};

/// hookstream's intervals where a body names none, in seconds.
const INTERVALS_DEFAULT_S: [u32; 5] = [30, 300, 1_800, 7_200, 86_400];
/// hookstream's number of retries where a body names none.
const RETRIES_DEFAULT: u32 = 5;
/// The flat names.
const FLAT: [&str; 4] = ["retry_enabled", "retry_max_attempts", "retry_backoff_type", "retry_intervals"];
const TYPES: &str = "curve, exponential, linear, fixed";

/// Takes `retry`, checked against the ranges and the payloads' retention.
pub fn take(fields: &mut Fields, payload_retention_s: u64, faults: &mut Faults) -> Field<RetryPolicy> {
    let at = fields.pointer("retry");
    let policy = fields.object("retry", faults).and_then(|policy| read(policy, faults));
    policy.and_then(|policy| check(policy, &at, payload_retention_s, faults))
}

/// Takes `retry`, or hookstream's flat names merged into `stored`; both at once are a fault.
pub fn take_with_flat(
    fields: &mut Fields,
    stored: Option<&RetryPolicy>,
    payload_retention_s: u64,
    faults: &mut Faults,
) -> Field<RetryPolicy> {
    let flat = FLAT.iter().copied().find(|name| fields.has(name));
    let both = flat.filter(|_| fields.has("retry"));
    if let Some(name) = both {
        faults.add(fields.pointer(name), "must not be given beside `retry`");
    }
    let nested = take(fields, payload_retention_s, faults);
    if flat.is_none() {
        return nested;
    }
    let policy = read_flat(fields, stored, faults);
    match both {
        Some(_) => nested,
        None => policy.and_then(|policy| check(policy, &fields.pointer("retry"), payload_retention_s, faults)),
    }
}

fn read(mut fields: Fields, faults: &mut Faults) -> Option<RetryPolicy> {
    let at = fields.pointer("type");
    let kind = fields.text("type", limits::NAME_MAX_BYTES, faults).value();
    let policy = match kind.as_deref() {
        Some("curve") => {
            let default =
                if let RetryPolicy::Curve { steps_s } = RetryPolicy::default() { steps_s } else { Vec::new() };
            Some(RetryPolicy::Curve { steps_s: seconds(&mut fields, "steps_s", faults).over(default.clone(), default) })
        }
        Some(kind @ ("exponential" | "linear" | "fixed")) => {
            let default = INTERVALS_DEFAULT_S.to_vec();
            let intervals_s = seconds(&mut fields, "intervals_s", faults).over(default.clone(), default);
            let retries = fields.whole("max_retries", 0..=limits::RETRIES_MAX, faults);
            named(kind, intervals_s, retries.over(RETRIES_DEFAULT, RETRIES_DEFAULT))
        }
        Some(_) | None => {
            faults.add(at, format!("must be one of {TYPES}"));
            return None;
        }
    };
    fields.finish(faults);
    policy
}

fn named(kind: &str, intervals_s: Vec<u32>, max_retries: u32) -> Option<RetryPolicy> {
    match kind {
        "exponential" => Some(RetryPolicy::Exponential { intervals_s, max_retries }),
        "linear" => Some(RetryPolicy::Linear { intervals_s, max_retries }),
        "fixed" => Some(RetryPolicy::Fixed { intervals_s, max_retries }),
        _ => None,
    }
}

fn read_flat(fields: &mut Fields, stored: Option<&RetryPolicy>, faults: &mut Faults) -> Field<RetryPolicy> {
    let (kind, intervals, retries) = parts(stored);
    let enabled = fields.flag("retry_enabled", faults).over(true, true);
    let retries = fields.whole("retry_max_attempts", 1..=10, faults).over(retries, RETRIES_DEFAULT);
    let at = fields.pointer("retry_backoff_type");
    let kind = fields
        .text("retry_backoff_type", limits::NAME_MAX_BYTES, faults)
        .over(kind.to_owned(), "exponential".to_owned());
    let intervals = seconds(fields, "retry_intervals", faults).over(intervals, INTERVALS_DEFAULT_S.to_vec());
    let policy = named(&kind, intervals, if enabled { retries } else { 0 });
    if policy.is_none() {
        faults.add(at, "must be one of exponential, linear, fixed");
    }
    policy.map_or(Field::Absent, Field::Set)
}

/// What flat names are merged into: a stored schedule of the same family, or the defaults.
fn parts(stored: Option<&RetryPolicy>) -> (&'static str, Vec<u32>, u32) {
    let retries = |stored: u32| if stored == 0 { RETRIES_DEFAULT } else { stored };
    match stored {
        Some(RetryPolicy::Exponential { intervals_s, max_retries }) => {
            ("exponential", intervals_s.clone(), retries(*max_retries))
        }
        Some(RetryPolicy::Linear { intervals_s, max_retries }) => {
            ("linear", intervals_s.clone(), retries(*max_retries))
        }
        Some(RetryPolicy::Fixed { intervals_s, max_retries }) => ("fixed", intervals_s.clone(), retries(*max_retries)),
        Some(RetryPolicy::Curve { .. }) | None => ("exponential", INTERVALS_DEFAULT_S.to_vec(), RETRIES_DEFAULT),
    }
}

/// Takes a list of whole seconds; how many and how long is the policy's own rule.
fn seconds(fields: &mut Fields, name: &str, faults: &mut Faults) -> Field<Vec<u32>> {
    let at = fields.pointer(name);
    let list = fields.list(name, limits::FAULTS_MAX, faults);
    list.and_then(|list| {
        let whole = |value: &Value| value.as_u64().and_then(|seconds| u32::try_from(seconds).ok());
        let seconds: Vec<u32> = list.iter().filter_map(whole).collect();
        for (index, value) in list.iter().enumerate() {
            if whole(value).is_none() {
                faults.add(format!("{at}/{index}"), "must be a whole number of seconds");
            }
        }
        (seconds.len() == list.len()).then_some(seconds)
    })
}

fn check(policy: RetryPolicy, at: &str, payload_retention_s: u64, faults: &mut Faults) -> Option<RetryPolicy> {
    let Err(error) = policy.check(payload_retention_s) else { return Some(policy) };
    let member = match error {
        RetryPolicyError::Steps | RetryPolicyError::Step => "/steps_s",
        RetryPolicyError::Intervals | RetryPolicyError::Interval => "/intervals_s",
        RetryPolicyError::Retries => "/max_retries",
        RetryPolicyError::OutlivesPayload { .. } => "",
    };
    faults.add(format!("{at}{member}"), error.to_string());
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const WEEK_S: u64 = 7 * 86_400;

    fn ask(body: Value, stored: Option<&RetryPolicy>) -> Result<Field<RetryPolicy>, Vec<String>> {
        let mut faults = Faults::default();
        let mut fields = Fields::of_value(String::new(), body, &mut faults).expect("an object");
        let policy = take_with_flat(&mut fields, stored, WEEK_S, &mut faults);
        fields.finish(&mut faults);
        let pointers = |problem: crate::api::problem::Problem| problem.errors.into_iter().map(|f| f.pointer).collect();
        faults.check().map(|()| policy).map_err(pointers)
    }

    fn exponential(intervals_s: &[u32], max_retries: u32) -> Field<RetryPolicy> {
        Field::Set(RetryPolicy::Exponential { intervals_s: intervals_s.to_vec(), max_retries })
    }

    #[test]
    fn each_kind_is_read() {
        let curve = ask(json!({"retry": {"type": "curve", "steps_s": [0, 5]}}), None);
        assert_eq!(curve, Ok(Field::Set(RetryPolicy::Curve { steps_s: vec![0, 5] })));
        let body = json!({"retry": {"type": "exponential", "intervals_s": [1, 2], "max_retries": 3}});
        assert_eq!(ask(body, None), Ok(exponential(&[1, 2], 3)));
        assert_eq!(ask(json!({"retry": null}), None), Ok(Field::Null));
        assert_eq!(ask(json!({}), None), Ok(Field::Absent));
        assert_eq!(ask(json!({"retry": {"type": "exponential"}}), None), Ok(exponential(&INTERVALS_DEFAULT_S, 5)));
    }

    #[test]
    fn each_fault_has_its_pointer() {
        let fault = |retry: Value, expected: &[&str]| {
            let expected: Vec<String> = expected.iter().map(|at| (*at).to_owned()).collect();
            assert_eq!(ask(json!({"retry": retry}), None), Err(expected));
        };
        fault(json!(7), &["/retry"]);
        fault(json!({}), &["/retry/type"]);
        fault(json!({"type": "spiral"}), &["/retry/type"]);
        fault(json!({"type": "curve", "steps_s": []}), &["/retry/steps_s"]);
        fault(json!({"type": "curve", "steps_s": [-1, 1, "x"]}), &["/retry/steps_s/0", "/retry/steps_s/2"]);
        fault(json!({"type": "curve", "steps_s": [36001]}), &["/retry/steps_s"]);
        fault(json!({"type": "fixed", "intervals_s": [0]}), &["/retry/intervals_s"]);
        fault(json!({"type": "fixed", "max_retries": 101}), &["/retry/max_retries"]);
        fault(json!({"type": "fixed", "intervals_s": [86400], "max_retries": 7}), &["/retry"]);
        fault(json!({"type": "curve", "steps": [1]}), &["/retry/steps"]);
    }

    #[test]
    fn flat_names_merge_and_exclude_the_nested_one() {
        let body = json!({"retry_max_attempts": 2, "retry_backoff_type": "linear", "retry_intervals": [9]});
        let linear = RetryPolicy::Linear { intervals_s: vec![9], max_retries: 2 };
        assert_eq!(ask(body, None), Ok(Field::Set(linear.clone())));
        let more = RetryPolicy::Linear { intervals_s: vec![9], max_retries: 4 };
        assert_eq!(ask(json!({"retry_max_attempts": 4}), Some(&linear)), Ok(Field::Set(more)));
        assert_eq!(ask(json!({"retry_enabled": false}), None), Ok(exponential(&INTERVALS_DEFAULT_S, 0)));
        let faulty = json!({"retry_enabled": 1, "retry_max_attempts": 11, "retry_backoff_type": "curve"});
        let expected = ["/retry_enabled", "/retry_max_attempts", "/retry_backoff_type"].map(str::to_owned).to_vec();
        assert_eq!(ask(faulty, None), Err(expected));
        let both = json!({"retry": {"type": "curve"}, "retry_enabled": true});
        assert_eq!(ask(both, None), Err(vec!["/retry_enabled".to_owned()]));
    }
}
