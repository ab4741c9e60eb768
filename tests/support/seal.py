"""The seal of a store (store/seal.h), computed another way: for tests that write into one, and as the truth of what ddl computes."""
import struct
from pathlib import Path

MASK = (1 << 64) - 1
ODD = 0x9E3779B97F4A7C15
BLOCK = 256 << 10


def rotated(value):
    return (value << 29 | value >> 35) & MASK


def checksum(data):
    """The sum of bytes whose number is a multiple of 64."""
    words = struct.unpack(f"<{len(data) // 8}Q", data)
    value = len(data)
    for lane in range(8):
        state = lane + 1
        for word in words[lane::8]:
            state = (((state << 29 | state >> 35) & MASK) ^ word) * ODD & MASK
            state ^= state >> 32
        value = (rotated(value) ^ state) * ODD & MASK
        value ^= value >> 32
    return value


def seal(store):
    """Puts a seal on the store as it is, in place of what stands behind its pages."""
    data = Path(store).read_bytes()
    page = struct.unpack(">H", data[16:18])[0]
    size = (65536 if page == 1 else page) * struct.unpack(">I", data[28:32])[0]
    data = data[:size]
    blocks = [checksum(data[at:at + BLOCK]) for at in range(0, size, BLOCK)]
    blocks += [0] * (-len(blocks) % 8)
    total = checksum(struct.pack(f"<{len(blocks)}Q", *blocks)) ^ size
    Path(store).write_bytes(data + b"ddlseal1" + struct.pack("<QQ", size, total))
