//! Sealing of records that hold secrets: AES-256-GCM under a data key of their own, which is wrapped by the
//! key-encryption key. A sealed record is bound to its place: moved elsewhere it does not open.

use aes_gcm::aead::{Aead, KeyInit, Payload};
use aes_gcm::{Aes256Gcm, Nonce};
use zeroize::Zeroizing;

use super::codec::CodecError;
use super::codec::wire::Reader;

const VERSION: u8 = 1;
const KEY_BYTES: usize = 32;
const NONCE_BYTES: usize = 12;
const TAG_BYTES: usize = 16;

/// A key-encryption key: 32 bytes that never reach the disk beside what they protect, in production.
#[derive(Clone)]
pub struct Kek(Zeroizing<[u8; KEY_BYTES]>);

/// Why a record was not sealed or did not open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// The operating system gave no randomness.
    #[error("no randomness from the operating system")]
    Randomness,
    /// The bytes are no sealed record.
    #[error(transparent)]
    Codec(#[from] CodecError),
    /// The key-encryption key is not the one it was sealed with, or the record was changed or moved.
    #[error("the sealed record does not open: the key-encryption key is another one, or the record was changed")]
    Broken,
}

impl Kek {
    /// Takes 32 bytes as a key-encryption key.
    #[must_use]
    pub fn new(bytes: [u8; KEY_BYTES]) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// A new one.
    ///
    /// # Errors
    /// [`SealError::Randomness`].
    pub fn random() -> Result<Self, SealError> {
        random().map(Self)
    }

    /// The bytes themselves: for the key file only.
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        self.0.as_slice()
    }

    /// Seals `plain` for the place named `place`.
    ///
    /// # Errors
    /// [`SealError::Randomness`].
    pub fn seal(&self, place: &[u8], plain: &[u8]) -> Result<Vec<u8>, SealError> {
        let data_key = random::<KEY_BYTES>()?;
        let mut out = vec![VERSION];
        encrypt(&self.0, place, data_key.as_slice(), &mut out)?;
        encrypt(&data_key, place, plain, &mut out)?;
        Ok(out)
    }

    /// Opens what [`Kek::seal`] made for the same place.
    ///
    /// # Errors
    /// [`SealError::Broken`] when key or place are others, or a bit was changed.
    pub fn open(&self, place: &[u8], sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>, SealError> {
        let mut reader = Reader::versioned("sealed record", VERSION, sealed)?;
        let nonce = reader.array::<NONCE_BYTES>()?;
        let wrapped = reader.take(KEY_BYTES + TAG_BYTES)?;
        let key = decrypt(&self.0, nonce, place, wrapped)?;
        let key: Zeroizing<[u8; KEY_BYTES]> = Zeroizing::new(key.as_slice().try_into().map_err(|_| SealError::Broken)?);
        let nonce = reader.array::<NONCE_BYTES>()?;
        decrypt(&key, nonce, place, reader.remainder())
    }
}

impl std::fmt::Debug for Kek {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Kek(…)")
    }
}

fn random<const N: usize>() -> Result<Zeroizing<[u8; N]>, SealError> {
    let mut bytes = Zeroizing::new([0; N]);
    getrandom::fill(bytes.as_mut_slice()).map_err(|_| SealError::Randomness)?;
    Ok(bytes)
}

fn encrypt(key: &[u8; KEY_BYTES], aad: &[u8], msg: &[u8], out: &mut Vec<u8>) -> Result<(), SealError> {
    let nonce = random::<NONCE_BYTES>()?;
    let cipher = Aes256Gcm::new(key.into());
    let sealed = cipher.encrypt(&Nonce::from(*nonce), Payload { msg, aad }).map_err(|_| SealError::Broken)?;
    out.extend_from_slice(nonce.as_slice());
    out.extend_from_slice(&sealed);
    Ok(())
}

fn decrypt(
    key: &[u8; KEY_BYTES],
    nonce: [u8; NONCE_BYTES],
    aad: &[u8],
    msg: &[u8],
) -> Result<Zeroizing<Vec<u8>>, SealError> {
    let cipher = Aes256Gcm::new(key.into());
    cipher.decrypt(&Nonce::from(nonce), Payload { msg, aad }).map(Zeroizing::new).map_err(|_| SealError::Broken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_record_opens_only_with_its_key_and_at_its_place() {
        let kek = Kek::new([1; 32]);
        let sealed = kek.seal(b"place", b"secret words").expect("randomness");
        assert!(!sealed.windows(6).any(|window| window == b"secret"));
        assert_eq!(kek.open(b"place", &sealed).expect("the same key").as_slice(), b"secret words");
        assert_eq!(kek.open(b"elsewhere", &sealed), Err(SealError::Broken));
        assert_eq!(Kek::new([2; 32]).open(b"place", &sealed), Err(SealError::Broken));
        let mut changed = sealed.clone();
        *changed.last_mut().expect("not empty") ^= 1;
        assert_eq!(kek.open(b"place", &changed), Err(SealError::Broken));
        assert!(kek.open(b"place", &sealed[..20]).is_err());
    }
}
