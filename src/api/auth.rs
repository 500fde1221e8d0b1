//! Who is calling: the key of a request, and what it opens.
//!
//! Of a key only its SHA-256 is ever kept or compared; keys are random, so the hash needs no salt, and
//! comparing hashes tells nothing about a key. The admin key is compared in constant time all the same.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::types::TenantId;

use super::problem::Problem;

/// What a tenant key begins with.
pub const KEY_PREFIX: &str = "shk_";

/// The SHA-256 of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyHash(pub [u8; 32]);

/// Who is calling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Caller {
    /// The holder of a tenant's key.
    Tenant(TenantId),
    /// The operator.
    Operator,
}

/// What an endpoint asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// No key.
    Open,
    /// A tenant's key.
    Tenant,
    /// The admin key.
    Operator,
}

impl KeyHash {
    /// The hash of a key's text.
    #[must_use]
    pub fn of(key: &str) -> Self {
        Self(Sha256::digest(key.as_bytes()).into())
    }
}

/// A tenant key of 32 random bytes: shown once, then forgotten.
#[must_use]
pub fn key_text(random: [u8; 32]) -> String {
    format!("{KEY_PREFIX}{}", URL_SAFE_NO_PAD.encode(random))
}

/// Who a request comes from.
///
/// `tenant_of` finds the tenant of a key; `admin` is the admin key's hash, if there is one.
///
/// # Errors
/// 401 `unauthorized` when there is no key, or an unknown one.
pub fn caller(
    headers: &HeaderMap,
    admin: Option<KeyHash>,
    tenant_of: impl FnOnce(KeyHash) -> Option<TenantId>,
) -> Result<Caller, Problem> {
    let key =
        presented_key(headers).ok_or_else(|| unauthorized("a key is needed: Authorization: Bearer or X-API-Key"))?;
    let hash = KeyHash::of(key);
    if admin.is_some_and(|admin| bool::from(admin.0.ct_eq(&hash.0))) {
        return Ok(Caller::Operator);
    }
    tenant_of(hash).map(Caller::Tenant).ok_or_else(|| unauthorized("the key is unknown"))
}

/// The tenant on whose behalf an endpoint works.
///
/// # Errors
/// 403 `forbidden` for the wrong kind of key.
pub fn permit(caller: &Caller, access: Access) -> Result<(), Problem> {
    match (access, caller) {
        (Access::Open, _) | (Access::Tenant, Caller::Tenant(_)) | (Access::Operator, Caller::Operator) => Ok(()),
        (Access::Tenant, Caller::Operator) => Err(Problem::new(403, "forbidden", "this needs a tenant's key")),
        (Access::Operator, Caller::Tenant(_)) => Err(Problem::new(403, "forbidden", "this needs the admin key")),
    }
}

/// The key of a request: `Authorization: Bearer` (RFC 6750) before `X-API-Key`.
fn presented_key(headers: &HeaderMap) -> Option<&str> {
    let Some(authorization) = headers.get(AUTHORIZATION) else {
        return headers.get("x-api-key")?.to_str().ok().filter(|key| !key.is_empty());
    };
    let (scheme, key) = authorization.to_str().ok()?.split_once(' ')?;
    let key = key.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !key.is_empty()).then_some(key)
}

fn unauthorized(detail: &str) -> Problem {
    Problem::new(401, "unauthorized", detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(n, v)| (http::HeaderName::from_static(n), http::HeaderValue::from_static(v))).collect()
    }

    fn acme() -> TenantId {
        TenantId::new("acme").expect("a tenant")
    }

    fn ask(pairs: &[(&'static str, &'static str)]) -> Result<Caller, u16> {
        let admin = Some(KeyHash::of("root"));
        let tenant_of = |hash: KeyHash| (hash == KeyHash::of("shk_a")).then(acme);
        caller(&headers(pairs), admin, tenant_of).map_err(|problem| problem.status)
    }

    #[test]
    fn keys_come_in_either_header_and_name_their_holder() {
        assert_eq!(ask(&[("authorization", "Bearer shk_a")]), Ok(Caller::Tenant(acme())));
        assert_eq!(ask(&[("authorization", "bearer shk_a")]), Ok(Caller::Tenant(acme())));
        assert_eq!(ask(&[("x-api-key", "shk_a")]), Ok(Caller::Tenant(acme())));
        assert_eq!(ask(&[("x-api-key", "root")]), Ok(Caller::Operator));
    }

    #[test]
    fn no_key_an_unknown_one_and_another_scheme_are_401() {
        assert_eq!(ask(&[]), Err(401));
        assert_eq!(ask(&[("x-api-key", "")]), Err(401));
        assert_eq!(ask(&[("x-api-key", "shk_b")]), Err(401));
        assert_eq!(ask(&[("authorization", "Basic shk_a")]), Err(401));
        assert_eq!(ask(&[("authorization", "Basic x"), ("x-api-key", "shk_a")]), Err(401));
    }

    #[test]
    fn the_wrong_kind_of_key_is_403() {
        let tenant = Caller::Tenant(acme());
        assert_eq!(permit(&tenant, Access::Tenant), Ok(()));
        assert_eq!(permit(&Caller::Operator, Access::Operator), Ok(()));
        assert_eq!(permit(&tenant, Access::Operator).map_err(|p| p.status), Err(403));
        assert_eq!(permit(&Caller::Operator, Access::Tenant).map_err(|p| p.status), Err(403));
    }

    #[test]
    fn a_key_is_43_characters_after_its_prefix() {
        assert_eq!(key_text([0; 32]).len(), KEY_PREFIX.len() + 43);
    }
}
