"""Classes tx and confirm, which choose how a channel publishes, and access, which old clients still ask for."""

from __future__ import annotations

from leveret.errors import SoftError
from leveret.session.ack_timeouts import recheck_acks
from leveret.session.channel import ChannelDesk
from leveret.wire.access_methods import AccessRequest, AccessRequestOk
from leveret.wire.confirm_methods import ConfirmSelect, ConfirmSelectOk
from leveret.wire.tx_methods import TxCommit, TxCommitOk, TxRollback, TxRollbackOk, TxSelect, TxSelectOk


def confirm_select(desk: ChannelDesk, method: ConfirmSelect) -> None:
    if desk.core.intake.pending is not None:
        raise SoftError(406, "cannot switch from tx to confirm mode")
    desk.core.intake.start_confirming()
    if not method.nowait:
        desk.send(ConfirmSelectOk())


def tx_select(desk: ChannelDesk, method: TxSelect) -> None:
    if desk.core.intake.confirming:
        raise SoftError(406, "cannot switch from confirm to tx mode")
    desk.core.start_transaction()
    desk.send(TxSelectOk())


def _check_transactional(desk: ChannelDesk) -> None:
    if desk.core.intake.pending is None:
        raise SoftError(406, "channel is not transactional")


def tx_commit(desk: ChannelDesk, method: TxCommit) -> None:
    _check_transactional(desk)
    desk.core.commit()
    desk.send(TxCommitOk())
    journal = desk.session.journal
    if journal is not None and (journal.awake or journal.drowsy):
        desk.session.hold_output()


def tx_rollback(desk: ChannelDesk, method: TxRollback) -> None:
    _check_transactional(desk)
    desk.core.rollback()
    if desk.ack_timeouts is not None:
        recheck_acks(desk)
    desk.send(TxRollbackOk())


def access_request(desk: ChannelDesk, method: AccessRequest) -> None:
    desk.send(AccessRequestOk(1))


HANDLERS = {
    ConfirmSelect.METHOD: confirm_select,
    TxSelect.METHOD: tx_select,
    TxCommit.METHOD: tx_commit,
    TxRollback.METHOD: tx_rollback,
    AccessRequest.METHOD: access_request,
}
