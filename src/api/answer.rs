//! An answer before it is sent: status, headers, body.

use bytes::Bytes;
use serde::Serialize;

use super::precondition;
use super::problem::{self, Problem};

/// One answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status, 200 to 599.
    pub status: u16,
    /// Headers beside those of the connection.
    pub headers: Vec<(&'static str, String)>,
    /// The whole body.
    pub body: Bytes,
}

impl Answer {
    /// A body of a media type.
    #[must_use]
    pub fn bytes(status: u16, content_type: &str, body: Vec<u8>) -> Self {
        Self { status, headers: vec![("content-type", content_type.to_owned())], body: body.into() }
    }

    /// A JSON body.
    #[must_use]
    pub fn json(status: u16, body: &impl Serialize) -> Self {
        let text = serde_json::to_vec(body).expect("views are structs of texts, numbers and lists");
        Self::bytes(status, "application/json", text)
    }

    /// 204, nothing to say.
    #[must_use]
    pub const fn empty() -> Self {
        Self { status: 204, headers: Vec::new(), body: Bytes::new() }
    }

    /// The same with the entity tag of `version`.
    #[must_use]
    pub fn tagged(self, version: u64) -> Self {
        self.with("etag", precondition::etag(version))
    }

    /// The same with one more header.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: String) -> Self {
        self.headers.push((name, value));
        self
    }

    /// A problem, naming the request.
    #[must_use]
    pub fn problem(problem: &Problem, request_id: &str) -> Self {
        let mut answer = Self::bytes(problem.status, problem::CONTENT_TYPE, problem.to_json(request_id));
        if let Some(seconds) = problem.retry_after_s {
            answer = answer.with("retry-after", seconds.to_string());
        }
        if let Some(methods) = &problem.allow {
            answer = answer.with("allow", methods.clone());
        }
        if problem.status == 401 {
            answer = answer.with("www-authenticate", "Bearer".to_owned());
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_carries_its_headers() {
        let header = |problem: &Problem, name: &str| {
            let answer = Answer::problem(problem, "r");
            answer.headers.into_iter().find(|(other, _)| *other == name).map(|(_, value)| value)
        };
        assert_eq!(header(&Problem::unavailable("full"), "retry-after").as_deref(), Some("1"));
        assert_eq!(header(&Problem::new(401, "unauthorized", ""), "www-authenticate").as_deref(), Some("Bearer"));
        assert_eq!(header(&Problem::not_found(), "content-type").as_deref(), Some(problem::CONTENT_TYPE));
        assert_eq!(header(&Problem::not_found(), "allow"), None);
    }
}
