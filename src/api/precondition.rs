//! `ETag` and `If-Match` (RFC 9110, section 13.1.1): a change is refused when the object has moved on.

use http::HeaderMap;
use http::header::IF_MATCH;

use super::problem::Problem;

/// The entity tag of an object's version.
#[must_use]
pub fn etag(version: u64) -> String {
    format!("\"{version}\"")
}

/// Checks a request's `If-Match` against the stored version; a request without one is free to go on.
///
/// # Errors
/// 412 `precondition_failed` when no listed tag is the stored one.
pub fn check(headers: &HeaderMap, version: u64) -> Result<(), Problem> {
    let mut tags = headers.get_all(IF_MATCH).iter().peekable();
    if tags.peek().is_none() {
        return Ok(());
    }
    let stored = etag(version);
    let matches = |list: &str| list.split(',').map(str::trim).any(|tag| tag == "*" || tag == stored);
    if tags.any(|list| list.to_str().is_ok_and(matches)) {
        return Ok(());
    }
    Err(Problem::new(412, "precondition_failed", format!("the stored version is {stored}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(value: &'static str) -> Result<(), u16> {
        let headers = [(IF_MATCH, http::HeaderValue::from_static(value))].into_iter().collect();
        check(&headers, 7).map_err(|problem| problem.status)
    }

    #[test]
    fn only_the_stored_version_matches() {
        assert_eq!(check(&HeaderMap::new(), 7), Ok(()));
        assert_eq!(ask("\"7\""), Ok(()));
        assert_eq!(ask("\"6\", \"7\""), Ok(()));
        assert_eq!(ask("*"), Ok(()));
        assert_eq!(ask("\"6\""), Err(412));
        assert_eq!(ask("W/\"7\""), Err(412));
    }
}
