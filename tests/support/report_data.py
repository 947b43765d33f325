"""What is in a report: its page, unpacked as its script does it (src/report/payload.c)."""

import base64
import gzip
import json
import re
import struct

EVIL = "</script><img src=x onerror=alert(1)>"  # a name that would do harm if it were taken for HTML
TYPES = {"u8": "B", "i32": "i", "f64": "d"}
SIZES = {"u8": 1, "i32": 4, "f64": 8}


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def unpacked(page):
    """The head and the columns of a page, as its script unpacks them."""
    packed = re.search(r'<script id="data" type="application/octet-stream">([A-Za-z0-9+/=]*)</script>', page)[1]
    raw = gzip.decompress(base64.b64decode(packed, validate=True))
    (length,) = struct.unpack_from("<Q", raw)
    head, begin = json.loads(raw[8 : 8 + length]), 8 + (length + 7) // 8 * 8
    columns = {}
    for name, kind, offset, count in head["columns"]:
        assert offset % 8 == 0 and begin + offset + count * SIZES[kind] <= len(raw), name
        columns[name] = struct.unpack_from(f"<{count}{TYPES[kind]}", raw, begin + offset)
    return head, columns
