"""Classes tx and confirm, which choose how a channel publishes, and access, which old clients still ask for."""

from __future__ import annotations

from leveret.errors import SoftError
from leveret.session.ack_timeouts import recheck_acks
from leveret.session.channel import ChannelSession
from leveret.wire.access_methods import AccessRequest, AccessRequestOk
from leveret.wire.confirm_methods import ConfirmSelect, ConfirmSelectOk
from leveret.wire.tx_methods import TxCommit, TxCommitOk, TxRollback, TxRollbackOk, TxSelect, TxSelectOk


def confirm_select(channel_session: ChannelSession, method: ConfirmSelect) -> None:
    if channel_session.core.publish_path.pending is not None:
        raise SoftError(406, "cannot switch from tx to confirm mode")
    channel_session.core.publish_path.start_confirming()
    if not method.nowait:
        channel_session.send(ConfirmSelectOk())


def tx_select(channel_session: ChannelSession, method: TxSelect) -> None:
    if channel_session.core.publish_path.confirming:
        raise SoftError(406, "cannot switch from confirm to tx mode")
    channel_session.core.publish_path.transaction_work_max = (
        channel_session.session.broker.limits.node.transaction_work_max
    )
    channel_session.core.start_transaction()
    channel_session.send(TxSelectOk())


def _check_transactional(channel_session: ChannelSession) -> None:
    if channel_session.core.publish_path.pending is None:
        raise SoftError(406, "channel is not transactional")


def tx_commit(channel_session: ChannelSession, method: TxCommit) -> None:
    _check_transactional(channel_session)
    publish_path = channel_session.core.publish_path
    publish_path.met_known = False
    channel_session.core.commit()
    channel_session.send(TxCommitOk())
    journal = channel_session.session.journal
    # What it published or acknowledged is in the open batch; the first of a duplicate is there, or in flight before it.
    if journal is not None and (journal.commit_wanted or journal.notes_pending or publish_path.met_known):
        channel_session.session.hold_output()


def tx_rollback(channel_session: ChannelSession, method: TxRollback) -> None:
    _check_transactional(channel_session)
    channel_session.core.rollback()
    if channel_session.ack_timeouts is not None:
        recheck_acks(channel_session)
    channel_session.send(TxRollbackOk())


def access_request(channel_session: ChannelSession, method: AccessRequest) -> None:
    channel_session.send(AccessRequestOk(1))


HANDLERS = {
    ConfirmSelect.METHOD: confirm_select,
    TxSelect.METHOD: tx_select,
    TxCommit.METHOD: tx_commit,
    TxRollback.METHOD: tx_rollback,
    AccessRequest.METHOD: access_request,
}
