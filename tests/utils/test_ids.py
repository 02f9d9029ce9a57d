"""Identifiers and digests."""

from __future__ import annotations

from vfnb.utils.ids import canonical_json, digest, new_id


def test_ids_are_unique() -> None:
    ids = {new_id() for _ in range(1000)}
    assert len(ids) == 1000
    assert all(len(one) == 16 for one in ids)


def test_digest_keeps_parts_apart() -> None:
    assert digest("ab", "c") != digest("a", "bc")
    assert digest("ab") == digest(b"ab")
    assert len(digest("x", size=4)) == 8


def test_canonical_json_sorts_and_survives_lone_surrogates() -> None:
    assert canonical_json({"b": 1, "a": "é"}) == '{"a":"é","b":1}'.encode()
    assert canonical_json("\ud800") == b'"\xed\xa0\x80"'
