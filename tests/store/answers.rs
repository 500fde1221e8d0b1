//! How commands ended, told from one node to another.

use futures_lite::future::block_on;
use streaming_hub::engine::CommandResult;
use streaming_hub::store::tests::first_job;
use uuid::Uuid;

use super::cassandra::{Node, shared};
use super::fresh_slot;

#[test]
fn a_command_s_result_is_read_by_another_node_and_the_later_one_stands() {
    let _server = shared();
    let (owner, asked) = (Node::connect("owner", fresh_slot()), Node::connect("asked", fresh_slot()));
    let id = Uuid::from_u128(u128::from(std::process::id()) << 32 | 1);
    let read = || block_on(asked.store.command_result(id)).expect("the server answers");
    assert_eq!(read(), None, "it has not ended");
    for result in [CommandResult::Busy, CommandResult::Done(Some(first_job(fresh_slot(), 7)))] {
        block_on(owner.store.put_command_result(id, result)).expect("the server answers");
        assert_eq!(read(), Some(result));
    }
}
