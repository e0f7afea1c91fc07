"""Writes Parquet files of every kind with pyarrow, and the same texts as JSON lines.

Usage: parquet_cases.py FOLDER; or parquet_cases.py FOLDER MEBIBYTES, for large.parquet with one row group of that size
"""
import json
import os
import pathlib
import random
import struct
import sys

import pyarrow as pa
import pyarrow.parquet as pq

COMPRESSIONS = ("none", "snappy", "gzip", "zstd", "brotli", "lz4")


def texts():
    draw = random.Random(5)
    words = ["sea", "lighthouse", "é", "東京", "😀", "nets;", "\n", "\t\"", "7", "gulls"]
    some = [" ".join(draw.choice(words) for _ in range(draw.randrange(300))) for _ in range(500)]
    return some + ["", "a\0b", "x" * 200_000, some[0], some[0]]


def table(texts, kind=None):
    return pa.table({"id": pa.array(range(len(texts))), "text": pa.array(texts, kind or pa.string()),
                     "tags": pa.array([["a", "b"]] * len(texts))})


def variants(folder, rows):
    plain = table(rows)
    for compression in COMPRESSIONS:
        yield compression, plain, {"compression": compression}
    yield "groups", plain, {"row_group_size": 7}
    yield "one_page", plain, {"data_page_size": 1 << 30, "use_dictionary": False}
    yield "small_pages", plain, {"data_page_size": 100, "use_dictionary": False, "data_page_version": "2.0"}
    yield "checksums", plain, {"write_page_checksum": True, "compression": "none", "use_dictionary": False}
    yield "delta", plain, {"use_dictionary": False, "column_encoding": {"text": "DELTA_BYTE_ARRAY"}}
    yield "delta_length", plain, {"use_dictionary": False, "column_encoding": {"text": "DELTA_LENGTH_BYTE_ARRAY"}}
    yield "without_schema", plain, {"store_schema": False}
    yield "large", table(rows, pa.large_string()), {}
    yield "view", table(rows, pa.string_view()), {}
    yield "bytes", table([row.encode() for row in rows], pa.binary()), {}
    yield "dictionary", pa.table({"text": pa.array(rows).dictionary_encode()}), {}
    required = pa.schema([pa.field("text", pa.string(), nullable=False)])
    yield "required", pa.table([pa.array(rows)], schema=required), {}


def write_all(folder):
    rows = texts()
    (folder / "same.jsonl").write_text("".join(json.dumps({"text": row}) + "\n" for row in rows))
    (folder / "same").mkdir()
    for name, content, options in variants(folder, rows):
        pq.write_table(content, folder / f"same/{name}.parquet", **options)
    nested = pa.array([{"text": row, "n": i} for i, row in enumerate(rows)])
    pq.write_table(pa.table({"meta": nested, "text": ["wrong"] * len(rows)}), folder / "nested.parquet", row_group_size=50)
    pq.write_table(pa.table({"meta.text": rows, "text": ["wrong"] * len(rows)}), folder / "dotted.parquet")

    inner = pa.array(["one", None, "", None, "five"])
    meta = pa.StructArray.from_arrays([inner], ["text"], mask=pa.array([False, False, False, True, False]))
    pq.write_table(pa.table({"text": inner, "meta": meta}), folder / "nulls.parquet", row_group_size=2)
    pq.write_table(pa.table({"text": pa.array([b"good", b"b\xffd", b"fine"], pa.binary())}), folder / "not_utf8.parquet")
    pq.write_table(pa.table({"text": pa.array([], pa.string())}), folder / "no_rows.parquet")
    pq.write_table(pa.table({}), folder / "no_columns.parquet")

    content = (folder / "same/checksums.parquet").read_bytes()
    third = len(content) // 3
    inverted = bytes(255 - byte for byte in content[third:third + 8])
    (folder / "damaged.parquet").write_bytes(content[:third] + inverted + content[third + 8:])
    (folder / "cut_off.parquet").write_bytes(content[:len(content) // 2])
    (folder / "empty.parquet").write_bytes(b"")
    (folder / "text.parquet").write_text("text that is named like Parquet\n" * 10)
    # A whole footer behind half of the pages, as after copying with holes.
    footer = 8 + struct.unpack("<I", content[-8:-4])[0]
    (folder / "hole.parquet").write_bytes(content[:4] + bytes(len(content) - 4 - footer) + content[-footer:])


def write_large(file, mebibytes):
    # Random, so that neither a dictionary nor the compression makes it small.
    rows = [os.urandom(512).hex() for _ in range(mebibytes * 1024)]
    pq.write_table(pa.table({"text": rows}), file, row_group_size=len(rows))


if __name__ == "__main__":
    target = pathlib.Path(sys.argv[1])
    write_large(target / "large.parquet", int(sys.argv[2])) if len(sys.argv) > 2 else write_all(target)
