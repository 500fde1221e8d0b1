//! The `auth` member of a destination: credentials, written but never read back.

use serde_json::{Map, Value, json};

use crate::api::input::{Field, Fields};
use crate::api::problem::Faults;
use crate::types::destination::Auth;
use crate::types::{Secret, limits};

const TYPES: &str = "none, bearer, basic, api_key";

/// What a body says about credentials. Parts that are absent keep what is stored of the same type.
#[derive(Clone, Debug)]
pub enum AuthChange {
    /// None.
    None,
    /// `bearer`.
    Bearer {
        /// The token.
        token: Option<Secret>,
    },
    /// `basic`.
    Basic {
        /// The user name.
        username: Option<String>,
        /// The password.
        password: Option<Secret>,
    },
    /// `api_key`.
    ApiKey {
        /// The header's name, lower case.
        header: Option<String>,
        /// The key.
        value: Option<Secret>,
    },
}

/// Takes `auth`.
pub fn take(fields: &mut Fields, faults: &mut Faults) -> Field<AuthChange> {
    fields.object("auth", faults).and_then(|auth| read(auth, faults))
}

fn read(mut fields: Fields, faults: &mut Faults) -> Option<AuthChange> {
    let at = fields.pointer("type");
    let kind = fields.text("type", limits::NAME_MAX_BYTES, faults).value();
    let change = match kind.as_deref() {
        Some("none") => AuthChange::None,
        Some("bearer") => AuthChange::Bearer { token: credential(&mut fields, "token", faults) },
        Some("basic") => AuthChange::Basic {
            username: username(&mut fields, faults),
            password: credential(&mut fields, "password", faults),
        },
        Some("api_key") => {
            AuthChange::ApiKey { header: header(&mut fields, faults), value: credential(&mut fields, "value", faults) }
        }
        Some("oauth2_client_credentials") => {
            faults.add(at, "`oauth2_client_credentials` is not available in this version");
            return None;
        }
        Some(_) | None => {
            faults.add(at, format!("must be one of {TYPES}"));
            return None;
        }
    };
    fields.finish(faults);
    Some(change)
}

/// The credentials afterwards; `at` is where `auth` stands.
pub fn apply(change: Field<AuthChange>, stored: Auth, at: &str, faults: &mut Faults) -> Auth {
    let mut need = |part: &str| {
        let at = format!("{at}/{part}");
        if !faults.names(&at) {
            faults.add(at, "is required");
        }
    };
    let change = match change {
        Field::Absent => return stored,
        Field::Null => AuthChange::None,
        Field::Set(change) => change,
    };
    let merged = match (change, stored) {
        (AuthChange::Bearer { token: None }, Auth::Bearer { token }) => AuthChange::Bearer { token: Some(token) },
        (AuthChange::Basic { username, password }, Auth::Basic { username: u, password: p }) => {
            AuthChange::Basic { username: username.or(Some(u)), password: password.or(Some(p)) }
        }
        (AuthChange::ApiKey { header, value }, Auth::ApiKey { header: h, value: v }) => {
            AuthChange::ApiKey { header: header.or(Some(h)), value: value.or(Some(v)) }
        }
        (change, Auth::None | Auth::Bearer { .. } | Auth::Basic { .. } | Auth::ApiKey { .. }) => change,
    };
    complete(merged, &mut need).unwrap_or_default()
}

fn complete(change: AuthChange, need: &mut impl FnMut(&str)) -> Option<Auth> {
    match change {
        AuthChange::None => Some(Auth::None),
        AuthChange::Bearer { token } => {
            let token = required(token, "token", need);
            Some(Auth::Bearer { token: token? })
        }
        AuthChange::Basic { username, password } => {
            let (username, password) = (required(username, "username", need), required(password, "password", need));
            Some(Auth::Basic { username: username?, password: password? })
        }
        AuthChange::ApiKey { header, value } => {
            let (header, value) = (required(header, "header", need), required(value, "value", need));
            Some(Auth::ApiKey { header: header?, value: value? })
        }
    }
}

fn required<T>(part: Option<T>, name: &str, need: &mut impl FnMut(&str)) -> Option<T> {
    if part.is_none() {
        need(name);
    }
    part
}

/// What is read back: the type and the parts that are no secret.
#[must_use]
pub fn view(auth: &Auth) -> Option<Value> {
    let (kind, part) = match auth {
        Auth::None => return None,
        Auth::Bearer { .. } => ("bearer", None),
        Auth::Basic { username, .. } => ("basic", Some(("username", username))),
        Auth::ApiKey { header, .. } => ("api_key", Some(("header", header))),
    };
    let mut members = Map::from_iter([("type".to_owned(), json!(kind))]);
    members.extend(part.map(|(name, value)| (name.to_owned(), json!(value))));
    Some(Value::Object(members))
}

/// Takes a text that must fit a header's value (RFC 9110, section 5.5).
fn credential(fields: &mut Fields, name: &str, faults: &mut Faults) -> Option<Secret> {
    let at = fields.pointer(name);
    let text = fields.text(name, limits::STATIC_HEADER_VALUE_MAX_BYTES, faults).value()?;
    if http::HeaderValue::from_str(&text).is_err() || text.is_empty() {
        faults.add(at, "must be a non-empty text without control characters");
        return None;
    }
    Some(Secret::new(text.into_bytes()))
}

fn username(fields: &mut Fields, faults: &mut Faults) -> Option<String> {
    let at = fields.pointer("username");
    let text = fields.text("username", limits::NAME_MAX_BYTES, faults).value()?;
    if text.contains(':') || text.chars().any(char::is_control) {
        faults.add(at, "must have no colon and no control characters (RFC 7617)");
        return None;
    }
    Some(text)
}

fn header(fields: &mut Fields, faults: &mut Faults) -> Option<String> {
    let at = fields.pointer("header");
    let text = fields.text("header", limits::NAME_MAX_BYTES, faults).value()?;
    super::static_headers::header_name(&text).map_err(|rule| faults.add(at, rule)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(body: impl Into<Value>, stored: Auth) -> Result<Auth, Vec<String>> {
        let mut faults = Faults::default();
        let mut fields = Fields::of_value(String::new(), json!({"auth": body.into()}), &mut faults).expect("an object");
        let change = take(&mut fields, &mut faults);
        let auth = apply(change, stored, "/auth", &mut faults);
        faults.check().map(|()| auth).map_err(|p| p.errors.into_iter().map(|f| f.pointer).collect())
    }

    fn secret(text: &str) -> Secret {
        Secret::new(text.as_bytes().to_vec())
    }

    #[test]
    fn each_type_is_read_and_shown_without_its_secret() {
        let bearer = ask(json!({"type": "bearer", "token": "t"}), Auth::None).expect("bearer");
        assert_eq!(bearer, Auth::Bearer { token: secret("t") });
        assert_eq!(view(&bearer), Some(json!({"type": "bearer"})));
        let basic = ask(json!({"type": "basic", "username": "u", "password": "p"}), Auth::None).expect("basic");
        assert_eq!(view(&basic), Some(json!({"type": "basic", "username": "u"})));
        let key = ask(json!({"type": "api_key", "header": "X-Key", "value": "v"}), Auth::None).expect("api_key");
        assert_eq!(view(&key), Some(json!({"type": "api_key", "header": "x-key"})));
        assert_eq!(ask(Value::Null, key.clone()), Ok(Auth::None));
        assert_eq!(ask(json!({"type": "none"}), key), Ok(Auth::None));
    }

    #[test]
    fn a_part_that_is_not_named_keeps_its_stored_value_within_one_type() {
        let stored = Auth::Basic { username: "u".to_owned(), password: secret("p") };
        let changed = ask(json!({"type": "basic", "username": "w"}), stored.clone());
        assert_eq!(changed, Ok(Auth::Basic { username: "w".to_owned(), password: secret("p") }));
        assert_eq!(ask(json!({"type": "bearer"}), stored), Err(vec!["/auth/token".to_owned()]));
    }

    #[test]
    fn each_fault_has_its_pointer() {
        let fault = |body: Value, expected: &[&str]| {
            let expected: Vec<String> = expected.iter().map(|at| (*at).to_owned()).collect();
            assert_eq!(ask(body, Auth::None), Err(expected));
        };
        fault(json!("x"), &["/auth"]);
        fault(json!({"type": "digest"}), &["/auth/type"]);
        fault(json!({"type": "oauth2_client_credentials", "token_url": "x"}), &["/auth/type"]);
        fault(json!({"type": "bearer", "token": "a\r\nb"}), &["/auth/token"]);
        fault(json!({"type": "basic", "username": "a:b", "password": "p"}), &["/auth/username"]);
        fault(json!({"type": "api_key", "header": "Host", "value": "v"}), &["/auth/header"]);
        fault(json!({"type": "none", "extra": 1}), &["/auth/extra"]);
    }
}
