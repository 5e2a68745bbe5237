"""Names of tables that come from settings: checked once, then safe to stand in SQL.

A name cannot be a parameter of a statement, so what is not plainly a name is refused."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["TableName"]

# PostgreSQL cuts names at 63 octets; what is left over is for the names of indexes made from this one.
NAME_LENGTH_MAX = 48
CHANNEL_LENGTH_MAX = 63
WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


@dataclass(frozen=True, slots=True)
class TableName:
    schema: str
    name: str

    @classmethod
    def checked(cls, text: str, *, with_schema: bool = True) -> TableName:
        """`orders_outbox`, or `sales.orders_outbox` where the database has schemas."""
        if not isinstance(text, str):
            raise TypeError(f"the name of a table is a str, not {type(text).__name__}")
        schema, dot, name = text.rpartition(".")
        if dot and not with_schema:
            raise ValueError(f"the table {text!r} has a schema in its name, which SQLite does not know")
        for word in [name, schema] if dot else [name]:
            if not WORD.match(word) or len(word) > NAME_LENGTH_MAX:
                raise ValueError(
                    f"{text!r} cannot be the name of a table: it takes letters, digits and _, at most "
                    f"{NAME_LENGTH_MAX}, and does not begin with a digit"
                )
        return cls(schema, name)

    @property
    def sql(self) -> str:
        return f'"{self.schema}"."{self.name}"' if self.schema else f'"{self.name}"'

    @property
    def plain(self) -> str:
        return f"{self.schema}.{self.name}" if self.schema else self.name

    @property
    def channel(self) -> str:
        """Of its notifications; PostgreSQL takes names of up to 63 octets."""
        return self.plain[-CHANNEL_LENGTH_MAX:]

    def index(self, suffix: str) -> str:
        """The name of one of its indexes, which lives in the schema of its table."""
        return f'"{self.name}_{suffix}"'
