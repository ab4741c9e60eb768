"""The seal of a store (store/seal.h), computed another way: for tests that write into one, and as the truth of what ddl computes."""
import struct
from pathlib import Path

MASK = (1 << 64) - 1
DIGITS = [0x243F6A8885A308D3, 0x13198A2E03707344, 0xA4093822299F31D0, 0x082EFA98EC4E6C89]  # of pi
BEGIN = [0x452821E638D01377, 0xBE5466CF34E90C6C, 0xC0AC29B7C97C50DD, 0x3F84D5B5B5470917]


def folded(a, b):
    return (a * b & MASK) ^ (a * b >> 64)


def checksum(data):
    """The sum of bytes whose number is a multiple of 64."""
    words = struct.unpack(f"<{len(data) // 8}Q", data)
    value = len(data)
    for lane, (digits, state) in enumerate(zip(DIGITS, BEGIN)):
        for first, second in zip(words[2 * lane::8], words[2 * lane + 1::8]):
            product = (first ^ state) * (second ^ digits)  # folded(), written out: this is all that sealing takes
            state = (product & MASK) ^ (product >> 64)
        value = folded(value ^ state, digits | 1)
    return value


def seal(store):
    """Puts a seal on the store as it is, in place of what stands behind its pages."""
    data = Path(store).read_bytes()
    page = struct.unpack(">H", data[16:18])[0]
    page = 65536 if page == 1 else page
    size = page * struct.unpack(">I", data[28:32])[0]
    data = data[:size]
    sums = [checksum(data[at:at + page]) for at in range(0, size, page)]
    words = [size, page, *sums]
    words += [0] * (-len(words) % 8)
    total = checksum(struct.pack(f"<{len(words)}Q", *words))
    Path(store).write_bytes(data + struct.pack(f"<{len(sums)}Q", *sums) + b"ddlseal3" + struct.pack("<3Q", size, page, total))
