//! What an event's id is filed under in the dedup window: 16 bytes, and the minute of its bucket.

use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::types::TenantId;
use crate::types::ids::uuid_v7_time;

/// One tenant's mask: the first 16 bytes of SHA-256(salt ‖ tenant).
#[must_use]
pub fn tenant_mask(salt: &[u8; 16], tenant: &TenantId) -> u128 {
    let digest = Sha256::new().chain_update(salt).chain_update(tenant.as_str()).finalize();
    let (first, _) = digest.split_first_chunk::<16>().expect("SHA-256 has 32 bytes");
    u128::from_be_bytes(*first)
}

/// What an id is filed under: exact within a tenant, and not to be forged across tenants without the salt.
#[must_use]
pub const fn dedup_key(mask: u128, id: Uuid) -> u128 {
    mask ^ id.as_u128()
}

/// The minute an id is filed by: that of the time it carries, wrong as it may be.
#[must_use]
pub fn bucket_minute(id: Uuid) -> u64 {
    uuid_v7_time(id).as_minutes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_exact_within_a_tenant_and_differs_between_tenants() {
        let tenant = |text| TenantId::new(text).expect("a tenant id");
        let mask = tenant_mask(&[7; 16], &tenant("acme"));
        let (one, two) = (Uuid::from_u128(1), Uuid::from_u128(2));
        assert_eq!(dedup_key(mask, one), dedup_key(mask, one));
        assert_ne!(dedup_key(mask, one), dedup_key(mask, two));
        assert_ne!(mask, tenant_mask(&[7; 16], &tenant("acme2")));
        assert_ne!(mask, tenant_mask(&[8; 16], &tenant("acme")));
        let digest = Sha256::digest([[7; 16].as_slice(), b"acme".as_slice()].concat());
        assert_eq!(mask.to_be_bytes(), digest[..16]);
    }

    #[test]
    fn an_id_is_filed_by_its_own_minute() {
        let id: Uuid = "017f22e2-79b0-7cc3-98c4-dc0c0c07398f".parse().expect("the vector of RFC 9562");
        assert_eq!(bucket_minute(id), 1_645_557_742_000 / 60_000);
    }
}
