"""Each wrong variant of an operator, on a graph of one operator: what it gives, and where it makes no sense."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch.fx.experimental.proxy_tensor import make_fx

from pytest_kbench.audit.changes import applied, variants
from pytest_kbench.audit.decompose import table
from pytest_kbench.audit.graph import is_place
from pytest_kbench.audit.kernel import NotHere

X = torch.randn(3, 70, generator=torch.Generator().manual_seed(0))
SQUARE = torch.randn(5, 5, generator=torch.Generator().manual_seed(1))
IMAGES = torch.randn(2, 3, 6, 7, generator=torch.Generator().manual_seed(2))
FILTERS = torch.randn(4, 3, 3, 3, generator=torch.Generator().manual_seed(3))
BIAS = torch.randn(4, generator=torch.Generator().manual_seed(4))


class Place:
    """The only operator of a function that computes something, and its wrong variants."""

    def __init__(self, function, *args, nan=False):
        graph = make_fx(function)(*args).graph
        (self.node,) = (each for each in graph.nodes if each.op == "call_function" and is_place(each.target))
        self.found = {each.name: each for each in variants(self.node, nan=nan)}
        inputs = dict(zip((each for each in graph.nodes if each.op == "placeholder"), args, strict=True))
        self.args = tuple(inputs.get(each, each) if not isinstance(each, list) else each for each in self.node.args)
        self.result = self.node.target(*self.args, **self.node.kwargs)

    def gives(self, name):
        found = applied(self.found[name], self.result, self.node.target, self.args, dict(self.node.kwargs))
        return found[0] if isinstance(found, tuple) else found


def near(actual, expected):
    return torch.allclose(actual, expected, atol=1e-5)


def test_a_sum_loses_its_tail_its_last_term_and_its_precision():
    place = Place(lambda x: x.sum(-1, keepdim=True), X)
    assert near(place.gives("tail ignored"), X[:, :64].sum(-1, keepdim=True))
    assert near(place.gives("last term ignored"), X[:, :-1].sum(-1, keepdim=True))
    halved = place.gives("accumulated in float16") - place.result
    assert 1e-5 < halved.abs().max() < 0.1
    assert near(place.gives("mean for sum"), X.mean(-1, keepdim=True))
    assert place.gives("rounded to bfloat16").dtype == torch.float32
    assert (place.gives("rounded to bfloat16") == place.result.bfloat16().float()).all()


def test_a_reduction_that_is_dropped_leaves_its_first_term():
    assert near(Place(lambda x: x.sum(0), X).gives("reduction dropped"), X[0])
    assert near(Place(lambda a, b: torch.mm(a, b), X, X.T.contiguous()).gives("reduction dropped"), X[:, :1] @ X.T[:1])


def test_the_gradient_of_a_convolution_drops_its_sums_over_images():
    def gradients(g, x, w):
        return torch.ops.aten.convolution_backward(
            g, x, w, [4], [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [True, True, True]
        )

    gradient = torch.randn(2, 4, 4, 5, generator=torch.Generator().manual_seed(5))
    place = Place(gradients, gradient, IMAGES, FILTERS)
    change = (place.result, place.node.target, place.args, {})
    bias = applied(place.found["bias's reduction dropped"], *change)[2]
    assert near(bias, gradient[:1].sum((0, 2, 3)))
    weight = applied(place.found["weight's reduction dropped"], *change)[1]
    assert weight.shape == FILTERS.shape
    assert not near(weight, place.result[1])
    assert not near(applied(place.found["kernel not flipped"], *change)[0], place.result[0])


def test_a_mean_without_its_tail_is_still_divided_by_all():
    place = Place(lambda x: x.mean(-1), X)
    assert near(place.gives("tail ignored"), X[:, :64].sum(-1) / 70)


def test_a_short_row_has_no_tail():
    place = Place(lambda x: x.sum(-1), X[:, :32])
    assert (place.gives("tail ignored") == place.result).all()


def test_a_reduction_goes_over_another_axis_and_over_one_less():
    square = Place(lambda x: x.amax(1), SQUARE)
    assert near(square.gives("another axis"), SQUARE.amax(0))
    both = Place(lambda x: x.sum((1, 2, 3), keepdim=True), IMAGES)
    found = both.gives("one axis less")
    assert found.shape == both.result.shape
    assert not near(found, both.result)


def test_a_softmax_as_a_whole_goes_over_another_axis():
    assert near(Place(lambda x: torch.softmax(x, -1), SQUARE).gives("another axis"), torch.softmax(SQUARE, 0))


def test_a_pointwise_operator_is_dropped_or_swapped_for_a_near_one():
    relu = Place(lambda x: F.relu(x), X, nan=True)
    assert (relu.gives("dropped") == X).all()
    assert near(relu.gives("leaky_relu for relu"), F.leaky_relu(X))
    assert near(relu.gives("relu6 for relu"), F.relu6(X))
    product = Place(lambda x, w: x * w, X, X[0])
    assert (product.gives(f"{product.node.args[0].name} alone") == X).all()
    assert (product.gives(f"{product.node.args[1].name} alone") == X[0].expand(3, 70)).all()
    assert near(product.gives("div for mul"), X / X[0])


def test_a_maximum_that_drops_nan_is_made_only_where_nan_may_occur():
    values = torch.tensor([[1.0, torch.nan, 3.0]])
    assert Place(lambda x: x.amax(-1), values, nan=True).gives("NaN dropped").item() == 3.0
    assert "NaN dropped" not in Place(lambda x: x.amax(-1), values).found


def test_a_constant_is_left_out_doubled_and_off_by_one():
    place = Place(lambda x: x + 0.25, X)
    assert near(place.gives("constant 0"), X)
    assert near(place.gives("constant doubled"), X + 0.5)
    assert near(place.gives("constant plus 1"), X + 1.25)
    assert "+ 0" not in place.found["constant 0"].after
    assert place.found["constant doubled"].after.endswith("0.5)")


def test_the_two_forms_of_gelu_are_exchanged():
    assert near(Place(lambda x: F.gelu(x), X).gives("approximate=tanh"), F.gelu(X, approximate="tanh"))


def test_a_product_loses_terms_is_transposed_and_is_coarse():
    place = Place(lambda a, b: torch.mm(a, b), X, X.T.contiguous())
    assert near(place.gives("tail ignored"), X[:, :64] @ X.T[:64])
    assert near(place.gives("last term ignored"), X[:, :-1] @ X.T[:-1])
    assert 1e-4 < (place.gives("accumulated in float16") - place.result).abs().max() < 1.0
    assert near(place.gives("operands in bfloat16"), X.bfloat16().float() @ X.T.bfloat16().float())
    square = Place(lambda a, b: torch.mm(a, b), SQUARE, SQUARE)
    assert near(square.gives("second operand transposed"), SQUARE @ SQUARE.T)
    assert (place.gives("second operand transposed") == place.result).all()


def test_half_precision_makes_no_sense_in_half_precision():
    half = Place(lambda a, b: torch.mm(a, b), X.half(), X.T.contiguous().half())
    for name in ("accumulated in float16", "operands in bfloat16", "rounded to bfloat16"):
        with pytest.raises(NotHere):
            half.gives(name)


def test_a_convolution_gets_bias_kernel_border_and_channels_wrong():
    place = Place(lambda x, w, b: F.conv2d(x, w, b, padding=1), IMAGES, FILTERS, BIAS)
    assert near(place.gives("bias skipped"), F.conv2d(IMAGES, FILTERS, padding=1))
    assert near(place.gives("kernel flipped"), F.conv2d(IMAGES, FILTERS.flip(2, 3), BIAS, padding=1))
    assert near(place.gives("kernel transposed"), F.conv2d(IMAGES, FILTERS.mT, BIAS, padding=1))
    bordered = F.pad(IMAGES, (1, 1, 1, 1), mode="replicate")
    assert near(place.gives("border repeated"), F.conv2d(bordered, FILTERS, BIAS))
    assert near(place.gives("last channel ignored"), F.conv2d(IMAGES[:, :2], FILTERS[:, :2], BIAS, padding=1))
    assert 1e-4 < (place.gives("accumulated in float16") - place.result).abs().max() < 0.1
    for name in ("shifted by one column", "last kernel column ignored"):
        assert not near(place.gives(name), place.result)
    with pytest.raises(NotHere):
        place.gives("stride of 1")


def test_a_stride_is_ignored_where_there_is_one():
    place = Place(lambda x, w: F.conv2d(x, w, stride=2), IMAGES, FILTERS)
    assert near(place.gives("stride of 1"), F.conv2d(IMAGES, FILTERS)[:, :, :2, :3])
    with pytest.raises(NotHere):
        place.gives("border repeated")
    assert "bias skipped" not in place.found


def test_a_pool_averages_begins_at_zero_narrows_and_is_misaligned():
    place = Place(lambda x: F.max_pool2d(x, 2), IMAGES - 3.0)
    images = IMAGES - 3.0
    assert near(place.gives("average for maximum"), F.avg_pool2d(images, 2))
    assert near(place.gives("minimum for maximum"), -F.max_pool2d(-images, 2))
    assert (place.gives("begins at zero") >= 0).all()
    assert near(place.gives("last row and column of windows ignored"), images[:, :, ::2, ::2][..., :3])
    assert near(place.gives("windows aligned to the end"), F.max_pool2d(images[..., 1:], 2))


def test_a_look_up_is_off_by_one_and_its_index_has_eight_bits():
    table_of = torch.arange(300.0).reshape(300, 1)
    index = torch.tensor([0, 255, 257, 299])
    place = Place(lambda t, i: torch.index_select(t, 0, i), table_of, index)
    assert place.gives("index off by one").flatten().tolist() == [1.0, 256.0, 258.0, 0.0]
    assert place.gives("index in 8 bits").flatten().tolist() == [0.0, 255.0, 1.0, 43.0]


def test_a_choice_is_not_made_or_made_the_wrong_way_round():
    place = Place(lambda c, a, b: torch.where(c, a, b), X > 0, X, -X)
    assert (place.gives("always the first") == X).all()
    assert (place.gives("always the second") == -X).all()
    assert (place.gives("branches exchanged") == -X.abs()).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: F.layer_norm(x, (70,), x[0], x[1], 1e-5),
        lambda x: F.linear(x, x, x[:, 0]),
        lambda x: x.var(-1, correction=1),
        lambda x: torch.var_mean(x, -1, keepdim=True)[0],
        lambda x: F.batch_norm(x, x[0], x[1].abs() + 1.0, x[1], x[2]),
        lambda x: F.nll_loss(x, torch.tensor([0, -100, 69])),
    ],
    ids=["layer_norm", "addmm", "var", "var_mean", "batch_norm", "nll_loss"],
)
def test_what_is_taken_apart_is_what_it_was(function, dtype):
    apart = make_fx(function, decomposition_table=dict(table()))(X.to(dtype))
    called = {str(each.target) for each in apart.graph.nodes}
    assert not called & {str(each) for each in table()}
    tolerance = 1e-5 if dtype == torch.float32 else 5e-2
    assert torch.allclose(apart(X.to(dtype)).float(), function(X.to(dtype)).float(), atol=tolerance, rtol=tolerance)
