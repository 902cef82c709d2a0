"""Two traces compared: the first op that was given the same and gave something else, and nothing that passes it on."""

import os

import pytest

from repro_audit.errors import EvidenceError
from repro_audit.trace_compare import OriginKind, compare_traces
from repro_audit.trace_file import (
    BLOCK_RECORDS,
    EXTERNAL,
    MARK,
    OVERLAPPING,
    UNDIGESTED,
    UNINITIALISED,
    OpRecord,
    TraceReader,
    TraceWriter,
)

SAME, LEFT, RIGHT = b"s" * 16, b"l" * 16, b"r" * 16


def tensor(digest=SAME, flags=0):
    return "float32[2]", digest, flags


def op(name, inputs=(), outputs=(), *, module="", line="train.py:1", arguments="", generator=b""):
    return name, module, line, arguments, generator, inputs, outputs


def write(path, ops):
    writer = TraceWriter(path)
    number = writer.names.number
    for one in ops:
        if isinstance(one, str):
            writer.add([MARK, number(one)])
            continue
        name, module, line, arguments, generator, inputs, outputs = one
        flat = [[part for kind, *rest in tensors for part in (number(kind), *rest)] for tensors in (inputs, outputs)]
        writer.add([number(name), number(module), number(line), number(arguments), generator, *flat])
    writer.close()
    return path


@pytest.fixture
def compare(tmp_path):
    return lambda first, second, **fields: compare_traces(
        write(tmp_path / "first", first), write(tmp_path / "second", second), **fields
    )


def start(count=10):
    return [op("aten.neg", [tensor()], [tensor()]) for _ in range(count)]


def test_equal_traces_are_equal(compare):
    comparison = compare(start(), start())
    assert comparison.equal
    assert comparison.ops == 10
    assert not comparison.origins


def test_the_op_with_equal_inputs_and_other_outputs_is_named_and_not_those_it_feeds(compare):
    def run(digest):
        return [
            *start(),
            op("aten.add", [tensor(), tensor()], [tensor(digest)], module="Net.encoder", line="train.py:7"),
            op("aten.mul", [tensor(digest)], [tensor(digest)]),
            op("aten.sum", [tensor(digest)], [tensor(digest)]),
        ]

    comparison = compare(run(LEFT), run(RIGHT))
    (origin,) = comparison.origins
    assert origin.kind is OriginKind.KERNEL
    assert (origin.first.op, origin.first.module, origin.first.line) == ("aten.add", "Net.encoder", "train.py:7")
    assert origin.first.sequence == origin.second.sequence == 10
    assert [record.op for record in origin.before] == ["aten.neg"] * 3
    assert [record.op for record in origin.after] == ["aten.mul", "aten.sum"]
    assert comparison.differing == 3


def test_a_second_independent_origin_is_found(compare):
    def run(digest):
        return [
            op("aten.add", [tensor()], [tensor(digest)]),
            op("aten.mul", [tensor(digest)], [tensor(digest)]),
            op("aten.index_put", [tensor()], [tensor(digest)], line="train.py:9"),
            op("aten.sum", [tensor(digest)], [tensor()]),
        ]

    comparison = compare(run(LEFT), run(RIGHT))
    assert [origin.first.op for origin in comparison.origins] == ["aten.add", "aten.index_put"]
    assert comparison.origin_count == 2


def test_the_same_op_at_the_same_line_is_one_origin_however_often_it_runs(compare):
    def run(digest):
        return [op("aten.add", [tensor()], [tensor(digest)]) for _ in range(50)]

    comparison = compare(run(LEFT), run(RIGHT))
    assert comparison.origin_count == 1
    assert comparison.differing == 50


KINDS = {
    OriginKind.EXTERNAL_INPUT: lambda digest: op("aten.mul", [tensor(digest, EXTERNAL)], [tensor(digest)]),
    OriginKind.UNINITIALISED: lambda digest: op("aten.mul", [tensor(digest, UNINITIALISED)], [tensor(digest)]),
    OriginKind.OTHER_TENSOR: lambda digest: op("aten.mul", [tensor(digest)], [tensor(digest)]),
    OriginKind.GENERATOR: lambda digest: op("aten.rand", [], [tensor(digest)], generator=digest),
    OriginKind.ARGUMENTS: lambda digest: op("aten.mul", [tensor()], [tensor(digest)], arguments=str(digest)),
    OriginKind.KERNEL: lambda digest: op("aten.mul", [tensor()], [tensor(digest)]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_how_a_difference_came_in_is_told(compare, kind):
    comparison = compare([*start(), KINDS[kind](LEFT)], [*start(), KINDS[kind](RIGHT)])
    assert [origin.kind for origin in comparison.origins] == [kind]


def test_every_kind_of_origin_has_its_test():
    assert {*KINDS, OriginKind.CONTROL_FLOW} == set(OriginKind)


def test_a_kernel_that_read_memory_nobody_wrote_is_said_to_have(compare):
    def run(digest):
        return [op("aten.sum", [tensor(SAME, UNINITIALISED)], [tensor(digest)])]

    assert compare(run(LEFT), run(RIGHT)).origins[0].kind is OriginKind.UNINITIALISED


def test_an_overlapping_write_is_told(compare):
    def run(digest, flags):
        return [op("aten.add_", [tensor(SAME, flags)], [tensor(digest)])]

    assert compare(run(LEFT, OVERLAPPING), run(RIGHT, OVERLAPPING)).origins[0].overlapping
    assert not compare(run(LEFT, 0), run(RIGHT, 0)).origins[0].overlapping


def test_outputs_without_a_digest_are_no_difference(compare):
    def run(digest):
        return [op("aten.empty", [], [tensor(digest, UNDIGESTED)])]

    assert compare(run(b""), run(LEFT)).equal


def test_an_op_with_an_input_that_nobody_could_read_is_not_blamed(compare):
    def run(digest):
        return [op("aten.sum", [tensor(b"", UNDIGESTED)], [tensor(digest)])]

    comparison = compare(run(LEFT), run(RIGHT))
    assert not comparison.origins
    assert comparison.differing


def test_other_ops_are_control_flow_and_later_origins_are_found_behind(compare):
    common = [op(f"aten.op{n}", [tensor()], [tensor()]) for n in range(6)]

    def run(extra, digest):
        return [*start(), *extra, *common, op("aten.scatter", [tensor()], [tensor(digest)])]

    extra = [op("aten.exp", [tensor()], [tensor()], line="train.py:3"), op("aten.log", [tensor()], [tensor()])]
    comparison = compare(run(extra, LEFT), run([], RIGHT))
    assert [origin.kind for origin in comparison.origins] == [OriginKind.CONTROL_FLOW, OriginKind.KERNEL]
    assert comparison.origins[0].first.op == "aten.exp"
    assert comparison.origins[0].second.op == "aten.op0"
    assert comparison.origins[1].first.op == "aten.scatter"
    assert comparison.origins[1].first.sequence != comparison.origins[1].second.sequence


def test_a_trace_that_goes_on_alone_is_control_flow(compare):
    comparison = compare(start(), [*start(), op("aten.exp", [tensor()], [tensor()])])
    (origin,) = comparison.origins
    assert origin.kind is OriginKind.CONTROL_FLOW
    assert origin.first is None
    assert origin.second.op == "aten.exp"


def test_traces_that_have_nothing_in_common_end_there(compare):
    comparison = compare(start(), [op(f"aten.op{n}") for n in range(20)])
    assert [origin.kind for origin in comparison.origins] == [OriginKind.CONTROL_FLOW]


def test_the_same_op_at_another_line_is_another_op(compare):
    comparison = compare(
        [*start(), op("aten.exp", line="a.py:1"), *start()], [*start(), op("aten.exp", line="a.py:2"), *start()]
    )
    assert [origin.kind for origin in comparison.origins] == [OriginKind.CONTROL_FLOW]


@pytest.mark.parametrize("position", [0, BLOCK_RECORDS - 1, BLOCK_RECORDS, 3 * BLOCK_RECORDS])
def test_wherever_in_a_block_it_lies_it_is_found_with_what_came_before(compare, position):
    def run(digest):
        ops = [op(f"aten.op{n}", [tensor()], [tensor()]) for n in range(4 * BLOCK_RECORDS)]
        ops[position] = op("aten.bad", [tensor()], [tensor(digest)])
        return ops

    (origin,) = compare(run(LEFT), run(RIGHT)).origins
    assert (origin.first.op, origin.first.sequence) == ("aten.bad", position)
    assert [record.sequence for record in origin.before] == list(range(max(0, position - 3), position))


def test_the_last_mark_before_it_is_told(compare):
    def run(digest):
        return ["step 1", *start(), "step 2", op("aten.bad", [tensor()], [tensor(digest)]), "step 3"]

    assert compare(run(LEFT), run(RIGHT)).origins[0].mark == "step 2"


def test_no_more_origins_are_shown_than_asked_for_and_all_are_counted(compare):
    def run(digest):
        return [op("aten.bad", [tensor()], [tensor(digest)], line=f"train.py:{n}") for n in range(20)]

    comparison = compare(run(LEFT), run(RIGHT), limit=3)
    assert len(comparison.origins) == 3
    assert comparison.origin_count == 20


# ---------------------------------------------------------------------------------------------- files


def test_a_trace_that_was_cut_off_is_read_up_to_the_last_whole_block(tmp_path):
    path = write(tmp_path / "trace", start(3 * BLOCK_RECORDS))
    os.truncate(path, path.stat().st_size - 10)
    assert sum(isinstance(record, OpRecord) for record in TraceReader(path)) == 2 * BLOCK_RECORDS


@pytest.mark.parametrize(
    "content", [b"", b"something else", b"repro-audit trace 1\n\x08\0\0\0\x02\0\0\0" + b"\xc1" * 10]
)
def test_what_is_no_trace_is_refused_by_name(tmp_path, content):
    path = tmp_path / "trace"
    path.write_bytes(content)
    with pytest.raises(EvidenceError, match="Trace the run again"):
        list(TraceReader(path))


def test_a_missing_trace_is_refused_by_name(tmp_path):
    with pytest.raises(EvidenceError, match="cannot be read"):
        list(TraceReader(tmp_path / "nothing"))


def test_a_record_comes_back_as_it_was_written(tmp_path):
    one = op(
        "aten.x",
        [tensor(LEFT, 3)],
        [tensor(), tensor(b"", 4)],
        module="A.b",
        line="t.py:9",
        arguments="1",
        generator=SAME,
    )
    (record,) = TraceReader(write(tmp_path / "trace", [one]))
    assert record.identity == ("A.b", "aten.x", "t.py:9")
    assert [(seen.kind, seen.digest, seen.flags) for seen in record.inputs] == [("float32[2]", LEFT, 3)]
    assert [seen.flags for seen in record.outputs] == [0, 4]
    assert (record.arguments, record.generator) == ("1", SAME)
