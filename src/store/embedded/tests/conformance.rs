//! The embedded store does what every store must.

use super::Opened;
use crate::store::tests::conforms;

#[test]
fn it_conforms() {
    conforms(Opened::new);
}
