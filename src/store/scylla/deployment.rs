//! The deployment: what all nodes of a cluster share, written once by `migrate` and read by every node that starts.
//!
//! Both rows that it makes are conditional writes, and what counts is what is read after them: of two `migrate` at once
//! one finds the other's.

use scylla::client::session::Session as Driver;
use scylla::statement::{Consistency, Statement};
use uuid::Uuid;

use super::connect::ClusterError;
use super::session::{Failure, rows_of};
use crate::store::codec::deployment::{Deployment, decode, encode};
use crate::store::seal::{Kek, SealError};
use crate::types::limits;

/// What is sealed to show the key-encryption key.
const KEY_CHECK: &[u8] = b"key-encryption key";

const READ: &str = "SELECT record FROM deployment WHERE part = 'hub'";
const MAKE: &str = "INSERT INTO deployment (part, record) VALUES ('hub', ?) IF NOT EXISTS";
const MAKE_HEAD: &str = "INSERT INTO config_head (part, number) VALUES ('hub', 0) IF NOT EXISTS";

/// Makes the deployment of a keyspace that has none, with `slots` or the default; gives what is there.
///
/// # Errors
/// [`ClusterError`]: the key is missing or another one, the number of slots is another, a request failed.
pub(super) async fn make(
    driver: &Driver,
    keyspace: &str,
    slots: Option<u16>,
    kek: Option<&Kek>,
) -> Result<Deployment, ClusterError> {
    let kek = kek.ok_or(ClusterError::KeyMissing)?;
    if stored(driver).await?.is_none() {
        let new = new(slots.unwrap_or(limits::CLUSTER_SLOTS))?;
        let check = kek.seal(&place(&new), KEY_CHECK)?;
        // First what the deployment's presence promises.
        conditional(driver, MAKE_HEAD, ()).await?;
        conditional(driver, MAKE, (encode(&new, &check),)).await?;
    }
    let found = read(driver, keyspace, kek).await?;
    match slots {
        Some(asked) if asked != found.slots => {
            Err(ClusterError::Slots { asked, keyspace: keyspace.to_owned(), found: found.slots })
        }
        Some(_) | None => Ok(found),
    }
}

/// The deployment, if `kek` is its key.
///
/// # Errors
/// [`ClusterError`]: there is none, the key is another one, a request failed.
pub(super) async fn read(driver: &Driver, keyspace: &str, kek: &Kek) -> Result<Deployment, ClusterError> {
    let absent = || ClusterError::NoDeployment(keyspace.to_owned());
    let record = stored(driver).await?.ok_or_else(absent)?;
    let (deployment, check) =
        decode(&record).map_err(|source| ClusterError::DamagedDeployment { keyspace: keyspace.to_owned(), source })?;
    let opened = kek.open(&place(&deployment), &check);
    if opened.is_ok_and(|opened| opened.as_slice() == KEY_CHECK) {
        return Ok(deployment);
    }
    Err(ClusterError::OtherKey(keyspace.to_owned()))
}

/// The record; every conditional write that was decided before counts.
async fn stored(driver: &Driver) -> Result<Option<Vec<u8>>, Failure> {
    let mut statement = Statement::new(READ);
    statement.set_consistency(Consistency::LocalSerial);
    let result = driver.query_unpaged(statement, ()).await.map_err(|error| Failure::from(&error))?;
    let rows: Vec<(Option<Vec<u8>>,)> = rows_of(result)?;
    Ok(rows.into_iter().next().and_then(|(record,)| record))
}

async fn conditional(
    driver: &Driver,
    text: &str,
    values: impl scylla::serialize::row::SerializeRow,
) -> Result<(), Failure> {
    driver.query_unpaged(text, values).await.map(|_| ()).map_err(|error| Failure::from(&error))
}

fn new(slots: u16) -> Result<Deployment, SealError> {
    let mut random = [0; 32];
    getrandom::fill(&mut random).map_err(|_| SealError::Randomness)?;
    let (id, salt) = random.split_at(16);
    let to_array = |part: &[u8]| <[u8; 16]>::try_from(part).expect("half of 32 bytes");
    Ok(Deployment { id: Uuid::from_bytes(to_array(id)), dedup_salt: to_array(salt), slots })
}

/// The check is bound to its deployment.
fn place(deployment: &Deployment) -> [u8; 16] {
    *deployment.id.as_bytes()
}
