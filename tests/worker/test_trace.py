"""A traced op: what it took and gave, whose it was, and what of its memory is known."""

import gc
import weakref
from pathlib import Path

import pytest
import torch

from repro_audit.trace_file import EXTERNAL, OVERLAPPING, UNDIGESTED, UNINITIALISED, Mark, OpRecord, TraceReader
from repro_audit.worker.trace import Tracer
from tests.scripting import line_of

HERE = Path(__file__)


def line(part: str) -> str:
    """The line of this file that ends with a comment."""
    return f"{HERE}:{line_of(HERE.read_text(), '  # ' + part)}"


@pytest.fixture
def trace(tmp_path):
    def traced(function, **fields) -> list[OpRecord]:
        path = tmp_path / "trace"
        tracer = Tracer(path, **fields)
        tracer.start()
        try:
            function()
        finally:
            tracer.close()
        return [record for record in TraceReader(path) if isinstance(record, OpRecord)]

    return traced


def named(records: list[OpRecord], op: str) -> list[OpRecord]:
    return [record for record in records if record.op.startswith(f"aten.{op}.")]


def one(records: list[OpRecord], op: str) -> OpRecord:
    (record,) = named(records, op)
    return record


def digest_of(tensor: torch.Tensor) -> bytes:
    import xxhash

    return xxhash.xxh3_128_digest(tensor.contiguous().numpy().tobytes())


def test_an_op_has_its_line_its_kinds_and_its_digests(trace):
    x, y = torch.ones(2, 3), torch.full((3, 4), 2.0)

    def run():
        return torch.mm(x, y)  # the product

    record = one(trace(run), "mm")
    assert record.op == "aten.mm.default"
    assert record.line == line("the product")
    assert [seen.kind for seen in record.inputs] == ["float32[2, 3]", "float32[3, 4]"]
    assert [seen.digest for seen in record.inputs] == [digest_of(x), digest_of(y)]
    assert [(seen.kind, seen.digest) for seen in record.outputs] == [("float32[2, 4]", digest_of(x @ y))]


def test_numbers_among_its_arguments_are_told_apart(trace):
    x = torch.ones(2)
    texts = [record.arguments for record in trace(lambda: [torch.add(x, y) for y in (0.0, -0.0, 1, 1.0, True)])]
    assert len(set(texts)) == 5


def test_an_op_that_writes_shows_what_was_there_before(trace):
    x = torch.ones(4)
    records = trace(lambda: (x.add_(1), x.add_(1)))
    first, second = named(records, "add_")
    assert first.inputs[0].digest == digest_of(torch.full((4,), 1.0))
    assert first.outputs[0].digest == second.inputs[0].digest == digest_of(torch.full((4,), 2.0))


def test_what_is_overwritten_is_no_input(trace):
    record = one(trace(lambda: torch.ones(4).fill_(2)), "fill_")
    assert record.inputs[0].digest == b""
    assert record.outputs[0].digest == digest_of(torch.full((4,), 2.0))


def test_a_backward_op_has_the_line_and_module_of_its_forward_op(trace):
    net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh())

    def run():
        y = net(torch.ones(2, 4))  # forward
        y.sum().backward()

    records = trace(run)
    backward = one(records, "tanh_backward")
    assert backward.line == line("forward")
    assert backward.module == "Sequential.1"


def test_a_recomputed_op_has_the_line_that_asked_for_it(trace):
    from torch.utils.checkpoint import checkpoint

    def block(x):
        return x.tanh()  # recomputed

    def run():
        checkpoint(block, torch.ones(2, requires_grad=True), use_reentrant=False).sum().backward()

    assert [record.line for record in named(trace(run), "tanh")] == [line("recomputed")] * 2


@pytest.mark.parametrize("options", [{"foreach": False}, {"foreach": True}, {"fused": True}], ids=str)
def test_what_an_optimizer_writes_are_its_outputs(trace, options):
    parameter = torch.ones(4, requires_grad=True)
    optimizer = torch.optim.Adam([parameter], **options)
    parameter.grad = torch.ones(4)
    records = trace(optimizer.step)
    assert digest_of(parameter.detach()) in {seen.digest for record in records for seen in record.outputs}


def test_the_running_statistics_of_a_batch_norm_are_outputs_in_training_alone(trace):
    norm = torch.nn.BatchNorm1d(4)
    x = torch.rand(8, 4)
    training = one(trace(lambda: norm(x)), "native_batch_norm")
    assert digest_of(norm.running_mean) in {seen.digest for seen in training.outputs}
    norm.eval()
    evaluation = one(trace(lambda: norm(x)), "native_batch_norm")
    assert digest_of(norm.running_mean) not in {seen.digest for seen in evaluation.outputs}


def test_a_draw_shows_the_state_of_its_generator_and_others_none(trace):
    def run():
        torch.manual_seed(0)
        torch.rand(2)
        torch.rand(2, generator=own)
        torch.rand(2)
        torch.ones(2)

    own = torch.Generator().manual_seed(0)
    records = trace(run)
    first, second, third = [record.generator for record in named(records, "rand")]
    assert first == second != third
    assert first
    assert not one(records, "ones").generator


def test_dropout_draws(trace):
    x = torch.ones(64)
    records = trace(lambda: torch.nn.functional.dropout(x, training=True))
    assert any(record.generator for record in records)
    assert not any(record.generator for record in trace(lambda: torch.nn.functional.dropout(x, training=False)))


def test_a_view_takes_and_gives_no_content(trace):
    x = torch.ones(2, 3)
    record = one(trace(lambda: x.t()), "t")
    assert [seen.digest for seen in (*record.inputs, *record.outputs)] == [b"", b""]


def test_a_view_that_was_written_through_another_is_read_anew(trace):
    x = torch.ones(4, 40_000)

    def run():
        torch.neg(x)
        x.view(-1)[3] = 7.0
        torch.neg(x)

    first, second = named(trace(run), "neg")
    assert first.inputs[0].digest != second.inputs[0].digest == digest_of(x)


@pytest.mark.parametrize("size", [16, 1_000_000])
def test_a_write_through_data_is_seen(trace, size):
    x = torch.ones(size)

    def run():
        torch.neg(x)
        x.data.mul_(3)
        torch.neg(x)

    first, second = named(trace(run), "neg")
    assert second.inputs[0].digest == digest_of(x) != first.inputs[0].digest


def test_a_write_by_another_library_comes_from_outside(trace):
    x = torch.ones(16)

    def run():
        torch.neg(x)
        x.numpy()[:] = 5
        torch.neg(x)

    first, second = named(trace(run), "neg")
    assert second.inputs[0].digest == digest_of(x) != first.inputs[0].digest
    assert second.inputs[0].flags & EXTERNAL


def test_large_memory_that_another_library_wrote_is_seen_after_a_mark_or_by_a_thorough_trace(tmp_path):
    def run(tracer, x):
        tracer.start()
        torch.neg(x)
        x.numpy()[:] = 5
        tracer.mark("between")
        torch.neg(x)
        tracer.close()

    x = torch.ones(1_000_000)
    run(Tracer(tmp_path / "trace"), x)
    records = list(TraceReader(tmp_path / "trace"))
    assert Mark("between") in records
    last = [record for record in records if isinstance(record, OpRecord)][-1]
    assert last.inputs[0].digest == digest_of(x)


def test_a_thorough_trace_reads_everything_at_every_use(trace):
    x = torch.ones(1_000_000)

    def run():
        torch.neg(x)
        x.numpy()[:] = 5
        torch.neg(x)

    assert named(trace(run, thorough=True), "neg")[-1].inputs[0].digest == digest_of(x)


def test_what_ops_made_is_not_from_outside(trace):
    records = trace(lambda: torch.neg(torch.ones(4)))
    assert not one(records, "neg").inputs[0].flags
    x = torch.ones(4)
    assert one(trace(lambda: torch.neg(x)), "neg").inputs[0].flags == EXTERNAL


# ---------------------------------------------------------------------------------------------- never written


def padded(rows: int = 1) -> torch.Tensor:
    buffer = torch.empty(4, 8)
    buffer[:rows] = 1.0
    return buffer


UNWRITTEN = {
    "read": lambda: torch.neg(torch.empty(4)),
    "added to": lambda: torch.empty(4).add_(1),
    "a part": lambda: torch.neg(padded(3)),
    "the part that is not": lambda: torch.neg(padded(1)[2:]),
    "a column": lambda: torch.neg(padded(0).t().index_select(0, torch.tensor([0]))),
    "strided": lambda: torch.neg(_columns()[:, 1::2]),
    "new_empty": lambda: torch.neg(torch.ones(2).new_empty(3)),
    "empty_like": lambda: torch.neg(torch.empty_like(torch.ones(2))),
}

WRITTEN = {
    "filled": lambda: torch.neg(torch.empty(4).fill_(1)),
    "zeroed": lambda: torch.neg(torch.empty(4).zero_()),
    "drawn": lambda: torch.neg(torch.empty(4).normal_()),
    "copied to": lambda: torch.neg(torch.empty(4).copy_(torch.ones(4))),
    "given as out": lambda: torch.neg(torch.add(torch.ones(4), 1, out=torch.empty(4))),
    "all parts": lambda: torch.neg(padded(4)),
    "row by row": lambda: torch.neg(_row_by_row()),
    "the part that is": lambda: torch.neg(padded(2)[:2]),
    "strided": lambda: torch.neg(_columns()[:, ::2]),
    "no elements": lambda: torch.neg(torch.empty(0)),
    "ignored": lambda: torch.addmm(torch.empty(2, 2), torch.ones(2, 2), torch.ones(2, 2), beta=0),
    "viewed": lambda: torch.empty(4, 4).t(),
    "scattered into": lambda: torch.empty(4).index_put_((torch.tensor([0, 1, 2, 3]),), torch.ones(4)),
    "in inference mode": lambda: torch.neg(_in_inference_mode()),
    "made by an op": lambda: torch.neg(torch.mm(torch.ones(2, 2), torch.ones(2, 2))),
}


def _columns() -> torch.Tensor:
    buffer = torch.empty(4, 8)
    buffer[:, ::2] = 1.0
    return buffer


def _row_by_row() -> torch.Tensor:
    buffer = torch.empty(4, 8, dtype=torch.complex128)
    for row in buffer:
        row.fill_(1.0)
    return buffer


@torch.inference_mode()
def _in_inference_mode() -> torch.Tensor:
    buffer = torch.empty(2, 8)
    buffer[0] = 1.0
    buffer[1] = 1.0
    return buffer


@pytest.mark.parametrize("name", UNWRITTEN)
def test_memory_that_was_never_written_is_told_where_it_is_read(trace, name):
    records = trace(UNWRITTEN[name])
    assert records[-1].inputs[0].flags & UNINITIALISED or any(
        record.inputs[0].flags & UNINITIALISED for record in records if record.op.startswith("aten.index_select")
    )


@pytest.mark.parametrize("name", WRITTEN)
def test_memory_that_was_written_or_is_not_read_is_not(trace, name):
    records = trace(WRITTEN[name])
    assert not [record.op for record in records for seen in record.inputs if seen.flags & UNINITIALISED]


def test_what_empty_gives_has_no_digest(trace):
    record = one(trace(lambda: torch.empty(4)), "empty")
    assert record.outputs[0].digest == b""
    assert record.outputs[0].flags & UNDIGESTED


# ---------------------------------------------------------------------------------------------- overlap


def test_a_write_to_elements_that_share_memory_is_told(trace):
    base = torch.zeros(7)
    record = one(trace(lambda: base.as_strided((4, 4), (1, 1)).add_(1)), "add_")
    assert record.inputs[0].flags & OVERLAPPING


@pytest.mark.parametrize(
    "function",
    [
        lambda base: base.as_strided((4, 4), (4, 1)).add_(1),
        lambda base: base.as_strided((4, 4), (1, 4)).add_(1),
        lambda base: base[::2].add_(1),
        lambda base: torch.neg(base.as_strided((4, 4), (1, 1))),
        lambda base: torch.neg(base[:1].expand(4)),
    ],
)
def test_other_views_and_reads_of_them_are_not(trace, function):
    records = trace(lambda: function(torch.zeros(16)))
    assert not [record.op for record in records for seen in record.inputs if seen.flags & OVERLAPPING]


# ---------------------------------------------------------------------------------------------- kinds of tensors


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (lambda: torch.eye(2).to_sparse(), "float32 sparse_coo"),
        (lambda: torch.ones(2, 3).t(), "float32[3, 2] strides [1, 3]"),
        (lambda: torch.ones(2, dtype=torch.complex64).conj(), "complex64[2]"),
        (lambda: torch.ones(3, dtype=torch.bfloat16), "bfloat16[3]"),
        (lambda: torch.tensor(1.0), "float32[]"),
    ],
)
def test_every_kind_of_tensor_has_a_name_and_a_digest(trace, make, kind):
    x = make()
    record = next(record for record in trace(lambda: torch.neg(x)) if "neg" in record.op)
    assert record.inputs[0].kind == kind
    assert len(record.inputs[0].digest) == 16


def test_lists_of_tensors_are_inputs_each(trace):
    record = one(trace(lambda: torch.cat([torch.ones(2), torch.zeros(3)])), "cat")
    assert [seen.kind for seen in record.inputs] == ["float32[2]", "float32[3]"]


def test_a_tensor_that_looks_at_other_memory_shows_what_is_there(trace):
    x, y = torch.ones(4), torch.full((4,), 3.0)

    def run():
        x.set_(y)
        torch.neg(x)

    records = trace(run)
    assert not [seen.digest for seen in one(records, "set_").outputs if seen.digest]
    assert one(records, "neg").inputs[0].digest == digest_of(y)
    assert one(records, "neg").inputs[0].flags & EXTERNAL


# ---------------------------------------------------------------------------------------------- the tracer itself


def test_nothing_keeps_memory_alive(tmp_path):
    tracer = Tracer(tmp_path / "trace")
    tracer.start()
    x = torch.ones(1000)
    y = x.neg()
    gone = weakref.ref(x.untyped_storage()), weakref.ref(y), weakref.ref(x)
    del x, y
    gc.collect()
    assert [ref() for ref in gone] == [None, None, None]
    assert not tracer._memory._storages
    tracer.close()


def test_memory_at_the_address_of_what_is_gone_is_other_memory(trace):
    def run():
        for value in range(50):
            torch.neg(torch.full((100_000,), float(value)))

    records = named(trace(run), "neg")
    assert len({record.inputs[0].digest for record in records}) == 50


def test_only_the_ops_of_the_modules_asked_for_are_recorded(trace):
    net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    records = trace(lambda: net(torch.ones(2, 4)).sum().backward(), module="2*")
    assert {record.module for record in records} == {"Sequential.2"}
    assert any(record.op.startswith("aten.mm") for record in records)  # of backward


def test_between_stop_and_start_nothing_is_recorded_or_believed(tmp_path):
    x = torch.ones(100_000)
    tracer = Tracer(tmp_path / "trace")
    tracer.start()
    torch.neg(x)
    tracer.stop()
    x.fill_(3)
    tracer.start()
    torch.neg(x)
    tracer.close()
    records = [record for record in TraceReader(tmp_path / "trace") if isinstance(record, OpRecord)]
    assert [record.op for record in records] == ["aten.neg.default"] * 2
    assert records[0].inputs[0].digest != records[1].inputs[0].digest
    assert torch._C._len_torch_dispatch_stack() == 0


def test_a_mode_of_the_script_above_it_stays(tmp_path):
    from torch.utils._python_dispatch import TorchDispatchMode

    class Other(TorchDispatchMode):
        count = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.count += 1
            return func(*args, **(kwargs or {}))

    tracer = Tracer(tmp_path / "trace")
    tracer.start()
    with Other() as other:
        torch.ones(2)
        tracer.stop()
        torch.zeros(2)
    tracer.close()
    records = [record for record in TraceReader(tmp_path / "trace") if isinstance(record, OpRecord)]
    assert [record.op for record in records] == ["aten.ones.default"]
    assert other.count == 2


def test_the_bits_are_those_of_the_untraced_run(trace):
    def run():
        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(), torch.nn.Linear(8, 1))
        optimizer = torch.optim.Adam(net.parameters())
        for _ in range(3):
            optimizer.zero_grad()
            net(torch.rand(4, 8)).square().mean().backward()
            optimizer.step()
        found.append([digest_of(value.detach()) for value in net.parameters()])

    found: list[list[bytes]] = []
    run()
    trace(run)
    assert found[0] == found[1]


def test_an_op_that_raises_raises_and_the_next_is_recorded(trace):
    def run():
        with pytest.raises(RuntimeError, match="size"):
            torch.ones(2).dot(torch.ones(3))
        torch.neg(torch.ones(2))

    assert named(trace(run), "neg")


def test_the_value_of_one_op_is_stored_on_request(tmp_path, trace):
    x = torch.arange(4.0)
    (record,) = named(trace(lambda: torch.neg(x)), "neg")
    trace(lambda: torch.neg(x), fetch=(record.sequence, tmp_path / "value.pt"))
    assert torch.equal(torch.load(tmp_path / "value.pt"), -x)


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="without it, the CPU convolution is another op")
def test_a_convolution_and_its_gradients_are_recorded(trace):
    conv = torch.nn.Conv2d(2, 3, 3)
    records = trace(lambda: conv(torch.ones(1, 2, 5, 5, requires_grad=True)).sum().backward())
    assert len(one(records, "convolution_backward").outputs) == 3
