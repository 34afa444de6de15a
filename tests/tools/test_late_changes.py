# SPDX-License-Identifier: Apache-2.0
"""The table of late changes gets the rows of new releases and keeps the older rows."""

from tools.author.late_changes import HEAD, Schemas, extended

TABLE = HEAD + "1.5 ::Crop:1 removed\n1.13 ::GridSample:16 lost input 0 tensor(string)\n"


def found(*types: str) -> Schemas:
    mod = {"deprecated": False, "input": [[*types]], "output": [], "attributes": []}
    return {"::Mod:13": mod, "::Newest:28": mod}


def test_rows_of_later_releases_are_written_anew():
    schemas = {(1, 23): found("tensor(int8)", "tensor(bool)"), (1, 24): found("tensor(int8)")}
    rows = [f"1.24 ::{name} lost input 0 tensor(bool)\n" for name in ("Mod:13", "Newest:28")]
    assert extended(TABLE, schemas) == TABLE + "".join(rows)
    assert extended(TABLE + rows[0], {(1, 23): found(), (1, 24): found()}) == TABLE
    assert extended(TABLE, {(1, 4): found(), (1, 23): found()}) == HEAD
