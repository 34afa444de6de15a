# SPDX-License-Identifier: Apache-2.0
"""The table of late changes is compared with the wheels of onnx that a maintainer has."""

from tools.author.late_changes import HEAD, compare

TABLE = HEAD + "1.5 ::Crop:1 removed\n1.13 ::GridSample:16 T1 without string\n"


def test_a_table_is_compared_after_the_first_release(capsys):
    later = [HEAD, "1.13 ::GridSample:16 T1 without string\n"]
    assert compare(later, TABLE, (1, 5)) == 0
    assert capsys.readouterr().out == ""
    assert compare([*later, "1.23 ::Attention:25 added\n"], TABLE, (1, 5)) == 1
    assert "+1.23 ::Attention:25 added" in capsys.readouterr().out
    assert compare([HEAD], TABLE, (1, 5)) == 1
    assert compare(later, TABLE, (1, 4)) == 1
