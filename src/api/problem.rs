//! Errors as clients see them: RFC 9457 `application/problem+json`.
//!
//! A [`Problem`] says what is wrong once, for people (`detail`) and programs (`code`). Nothing here holds a
//! secret or a payload: `detail` may be logged.

use serde::Serialize;

use crate::types::limits;

/// The media type of every error answer.
pub const CONTENT_TYPE: &str = "application/problem+json";

/// One error answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The HTTP status, 400 to 599.
    pub status: u16,
    /// A stable word for programs, such as `bad_cursor`.
    pub code: &'static str,
    /// One sentence for a person.
    pub detail: String,
    /// Each fault of the request with its place (422).
    pub errors: Vec<Fault>,
    /// Seconds for `Retry-After` (429, 503).
    pub retry_after_s: Option<u32>,
    /// The methods for `Allow` (405).
    pub allow: Option<String>,
}

/// One fault of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// A JSON pointer (RFC 6901) into the body, or `/` and a query parameter's name.
    pub pointer: String,
    /// The rule that is broken.
    pub detail: String,
}

/// The faults of one request, gathered so that all are told at once.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    list: Vec<Fault>,
}

#[derive(Serialize)]
struct Body<'a> {
    r#type: String,
    title: &'static str,
    status: u16,
    detail: &'a str,
    code: &'static str,
    request_id: &'a str,
    #[serde(skip_serializing_if = "<[Fault]>::is_empty")]
    errors: &'a [Fault],
}

impl Problem {
    /// A problem with nothing but a status, a code and a sentence.
    #[must_use]
    pub fn new(status: u16, code: &'static str, detail: impl Into<String>) -> Self {
        Self { status, code, detail: detail.into(), errors: Vec::new(), retry_after_s: None, allow: None }
    }

    /// 404: there is no such thing, or it is another tenant's.
    #[must_use]
    pub fn not_found() -> Self {
        Self::new(404, "not_found", "there is no such resource")
    }

    /// 422 with one fault.
    #[must_use]
    pub fn unprocessable(code: &'static str, pointer: &str, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        let fault = Fault { pointer: pointer.to_owned(), detail: detail.clone() };
        Self { errors: vec![fault], ..Self::new(422, code, detail) }
    }

    /// 503: the hub cannot do it now.
    #[must_use]
    pub fn unavailable(detail: impl Into<String>) -> Self {
        let retry_after_s = Some(limits::UNAVAILABLE_RETRY_AFTER_S);
        Self { retry_after_s, ..Self::new(503, "unavailable", detail) }
    }

    /// 501: a cluster's operator does this by other means.
    #[must_use]
    pub fn not_on_a_cluster(means: &str) -> Self {
        Self::new(501, "not_on_a_cluster", format!("the hub does not do this on a cluster: {means}"))
    }

    /// The JSON text, naming the request.
    #[must_use]
    pub fn to_json(&self, request_id: &str) -> Vec<u8> {
        let status = http::StatusCode::from_u16(self.status).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
        let body = Body {
            r#type: format!("urn:streaming-hub:problem:{}", self.code),
            title: status.canonical_reason().unwrap_or("Error"),
            status: self.status,
            detail: &self.detail,
            code: self.code,
            request_id,
            errors: &self.errors,
        };
        serde_json::to_vec(&body).expect("a struct of texts and numbers is always JSON")
    }
}

impl Faults {
    /// Notes one fault; beyond [`limits::FAULTS_MAX`] none is added.
    pub fn add(&mut self, pointer: impl Into<String>, detail: impl Into<String>) {
        if self.list.len() < limits::FAULTS_MAX {
            self.list.push(Fault { pointer: pointer.into(), detail: detail.into() });
        }
    }

    /// Whether a fault of this place is noted already.
    #[must_use]
    pub fn names(&self, pointer: &str) -> bool {
        self.list.iter().any(|fault| fault.pointer == pointer)
    }

    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Ends the gathering.
    ///
    /// # Errors
    /// 422 `invalid_request` with all faults, when there are any.
    pub fn check(self) -> Result<(), Problem> {
        if self.list.is_empty() {
            return Ok(());
        }
        let detail = match self.list.as_slice() {
            [only] => format!("{}: {}", only.pointer, only.detail),
            several => format!("{} faults, each named in errors", several.len()),
        };
        Err(Problem { errors: self.list, ..Problem::new(422, "invalid_request", detail) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_has_the_members_of_rfc_9457_and_ours() {
        let problem = Problem::unprocessable("bad_cursor", "/cursor", "is no cursor of this list");
        let json: serde_json::Value = serde_json::from_slice(&problem.to_json("r1")).expect("JSON");
        let expected = serde_json::json!({
            "type": "urn:streaming-hub:problem:bad_cursor", "title": "Unprocessable Entity", "status": 422,
            "detail": "is no cursor of this list", "code": "bad_cursor", "request_id": "r1",
            "errors": [{"pointer": "/cursor", "detail": "is no cursor of this list"}],
        });
        assert_eq!(json, expected);
        let plain: serde_json::Value = serde_json::from_slice(&Problem::not_found().to_json("r2")).expect("JSON");
        assert_eq!(plain.get("errors"), None);
    }

    #[test]
    fn all_faults_are_told_at_once_up_to_a_bound() {
        assert_eq!(Faults::default().check(), Ok(()));
        let mut faults = Faults::default();
        for n in 0..200 {
            faults.add(format!("/{n}"), "is wrong");
        }
        let problem = faults.check().expect_err("faults");
        assert_eq!((problem.status, problem.code), (422, "invalid_request"));
        assert_eq!(problem.errors.len(), limits::FAULTS_MAX);
    }
}
