"""A trace on disk: the ops of a run, in blocks, each of which can be compared without being decoded.

A file begins with `MAGIC`. A block is two lengths (four bytes each, little-endian), then two parts in MessagePack: what
its records refer to for the first time, as lists of names, and the records, as flat lists of numbers and digests. Two
runs that do the same write the same bytes.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import msgspec

from repro_audit.errors import EvidenceError

MAGIC = b"repro-audit trace 1\n"
BLOCK_RECORDS = 2048
_LENGTHS = struct.Struct("<II")
_HEAD = struct.Struct(">BH")
"""MessagePack's beginning of a list of up to 65535 items.

Source: https://github.com/msgpack/msgpack/blob/master/spec.md#array-format-family
"""

MARK = -1
"""In the place of an op's number: the record is a mark."""

EXTERNAL = 1
"""A tensor whose memory no traced op has made or written: its value came from outside."""
UNINITIALISED = 2
"""A tensor whose memory was allocated and never written, and that the op reads."""
UNDIGESTED = 4
"""A tensor without a digest: it has no bits of its own, or they are still under way."""
OVERLAPPING = 8
"""A tensor that the op writes to and whose elements share memory."""


@dataclass(frozen=True, slots=True)
class TensorSeen:
    """A tensor that an op took or gave."""

    kind: str
    """Dtype, shape and, where they are not the usual ones, strides."""
    digest: bytes
    """xxh3_128 of its bytes; empty where it has none."""
    flags: int


@dataclass(frozen=True, slots=True)
class OpRecord:
    """One op, as it was executed."""

    sequence: int
    op: str
    module: str
    line: str
    """The user's own line, ``path:number``; of a backward op, the forward line that made it."""
    inputs: tuple[TensorSeen, ...]
    outputs: tuple[TensorSeen, ...]
    arguments: str
    """Everything the op was given besides tensors."""
    generator: bytes
    """Digest of the state of the generator that it draws from, before it does."""

    @property
    def identity(self) -> tuple[str, str, str]:
        """What makes two ops of two runs the same."""
        return self.module, self.op, self.line


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in the run."""

    text: str


class Names:
    """Texts by number, in the order of their first use."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.fresh: list[str] = []
        self._texts: list[str] = []

    def number(self, text: str) -> int:
        """The number of a text; new ones are told to the reader with the next block."""
        number = self.numbers.get(text)
        if number is None:
            number = self.numbers[text] = len(self.numbers)
            self.fresh.append(text)
            self._texts.append(text)
        return number

    def text(self, number: int) -> str:
        """The text of a number."""
        return self._texts[number]


class TraceWriter:
    """Writes records block by block; holds no more than a block."""

    def __init__(self, path: Path) -> None:
        self.names = Names()
        self._file: IO[bytes] = path.open("wb")
        self._file.write(MAGIC)
        self._records = bytearray()
        self._count = 0
        self._encoder = msgspec.msgpack.Encoder()

    def add(self, record: list[Any]) -> None:
        """Appends ``[op, module, line, arguments, generator, inputs, outputs]``, tensors as flat triples."""
        # Encoded at once: records that are kept as lists would have Python's garbage collector run over and over.
        self._encoder.encode_into(record, self._records, -1)
        self._count += 1
        if self._count >= BLOCK_RECORDS:
            self.flush()

    def flush(self) -> None:
        """Writes what is held."""
        if not self._records:
            return
        names, head = self._encoder.encode(self.names.fresh), _HEAD.pack(0xDC, self._count)
        self._file.write(_LENGTHS.pack(len(names), len(head) + len(self._records)) + names + head)
        self._file.write(self._records)
        self._file.flush()
        self.names.fresh.clear()
        self._records.clear()
        self._count = 0

    def close(self) -> None:
        """Writes the rest."""
        self.flush()
        self._file.close()


@dataclass(slots=True)
class Block:
    """A block as it lies in the file."""

    start: int
    """Sequence number of its first record; marks are counted, too."""
    names: bytes
    records: bytes

    @property
    def count(self) -> int:
        """How many records it holds."""
        return _count(self.records)


class TraceReader:
    """Reads a trace block by block. A block that was cut off, as by a kill, ends it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._names: list[str] = []
        self._compared = 0
        self._decode_names = msgspec.msgpack.Decoder(list[str])
        self._decode_records = msgspec.msgpack.Decoder(list[list[Any]])

    def blocks(self) -> Iterator[Block]:
        """The blocks in order; the names of each are known from then on.

        Raises:
            EvidenceError: It is no trace.
        """
        try:
            with self.path.open("rb") as file:
                if file.read(len(MAGIC)) != MAGIC:
                    raise EvidenceError(f"{self.path} is no trace. Trace the run again.")
                start = 0
                while len(head := file.read(_LENGTHS.size)) == _LENGTHS.size:
                    sizes = _LENGTHS.unpack(head)
                    names, records = file.read(sizes[0]), file.read(sizes[1])
                    if len(names) < sizes[0] or len(records) < sizes[1]:
                        return
                    self._names += self._decode_names.decode(names)
                    yield Block(start, names, records)
                    start += _count(records)
        except OSError as error:
            raise EvidenceError(f"{self.path} cannot be read: {error.strerror or error}") from error
        except msgspec.DecodeError as error:
            raise EvidenceError(f"{self.path} is damaged: {error}. Trace the run again.") from error

    def raw(self, block: Block) -> list[list[Any]]:
        """The records of a block, as `TraceWriter.add` took them."""
        return self._decode_records.decode(block.records)

    @property
    def known(self) -> int:
        """How many texts have been read so far."""
        return len(self._names)

    def name(self, number: int) -> str:
        """The text of a number."""
        return self._names[number]

    def same_names(self, other: "TraceReader") -> bool:
        """Whether numbers mean the same in both, up to here."""
        if len(self._names) != len(other._names):
            return False
        while self._compared < len(self._names):
            if self._names[self._compared] != other._names[self._compared]:
                return False
            self._compared += 1
        return True

    def decoded(self, sequence: int, record: list[Any]) -> OpRecord | Mark:
        """A record with its names."""
        if record[0] == MARK:
            return Mark(self._names[record[1]])
        op, module, line, arguments, generator, inputs, outputs = record
        return OpRecord(
            sequence=sequence,
            op=self._names[op],
            module=self._names[module],
            line=self._names[line],
            inputs=self._tensors(inputs),
            outputs=self._tensors(outputs),
            arguments=self._names[arguments],
            generator=generator,
        )

    def _tensors(self, flat: list[Any]) -> tuple[TensorSeen, ...]:
        return tuple(TensorSeen(self._names[flat[n]], flat[n + 1], flat[n + 2]) for n in range(0, len(flat), 3))

    def __iter__(self) -> Iterator[OpRecord | Mark]:
        for block in self.blocks():
            for number, record in enumerate(self.raw(block)):
                yield self.decoded(block.start + number, record)


def _count(records: bytes) -> int:
    """How many records an encoded list holds."""
    count: int = _HEAD.unpack_from(records)[1]
    return count
