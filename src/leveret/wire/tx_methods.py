"""Class tx (90): select, commit, rollback."""

from typing import ClassVar

from leveret.wire.constants import CLASS_TX
from leveret.wire.method import Method, combine_ids


class TxSelect(Method, frozen=True):
    METHOD: ClassVar[int] = combine_ids(CLASS_TX, 10)


class TxSelectOk(Method, frozen=True):
    METHOD: ClassVar[int] = combine_ids(CLASS_TX, 11)


class TxCommit(Method, frozen=True):
    METHOD: ClassVar[int] = combine_ids(CLASS_TX, 20)


class TxCommitOk(Method, frozen=True):
    METHOD: ClassVar[int] = combine_ids(CLASS_TX, 21)


class TxRollback(Method, frozen=True):
    METHOD: ClassVar[int] = combine_ids(CLASS_TX, 30)


class TxRollbackOk(Method, frozen=True):
    METHOD: ClassVar[int] = combine_ids(CLASS_TX, 31)
