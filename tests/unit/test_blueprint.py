"""Networks as plain data: the published sizes, and parameters where PyTorch's modules want them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from workloads.images.blueprint import bottleneck, small

# CIFAR ResNet-20 with projections, three channels: 272,474; -32 and -56 by the paper's widths, six
# layers more a time. ResNet-50, -101 and -152 as every model zoo has them.
SIZES = [
    (small(20, 3, 10), 272_474),
    (small(32, 3, 10), 466_906),
    (small(56, 3, 10), 855_770),
    (bottleneck(50, 3, 1000), 25_557_032),
    (bottleneck(101, 3, 1000), 44_549_160),
    (bottleneck(152, 3, 1000), 60_192_808),
]


@pytest.mark.parametrize(("blueprint", "size"), SIZES, ids=[str(size) for _, size in SIZES])
def test_networks_have_the_published_number_of_parameters(blueprint, size: int) -> None:
    assert blueprint.size == size
    assert sum(map(math.prod, blueprint.shapes())) == size


def test_initial_parameters_are_he_s_and_depend_on_the_seed_alone() -> None:
    blueprint = small(8, 1, 10)
    model = blueprint.initial(3)
    assert model.dtype == np.float32
    assert model.size == blueprint.size
    assert np.array_equal(model, blueprint.initial(3))
    assert not np.array_equal(model, blueprint.initial(4))
    begin = 0
    for shape in blueprint.shapes():
        part = model[begin : begin + math.prod(shape)]
        begin += part.size
        if len(shape) == 4 and part.size > 1000:
            fan_out = shape[0] * shape[1] * shape[2]
            assert part.std() == pytest.approx(math.sqrt(2 / fan_out), rel=0.05)
            assert abs(part.mean()) < 4 * part.std() / math.sqrt(part.size)
        if len(shape) == 2:
            assert np.abs(part).max() <= 1 / 8
            assert part.std() == pytest.approx(1 / 8 / math.sqrt(3), rel=0.1)


def test_a_kernel_lies_as_outputs_height_width_inputs() -> None:
    torch = pytest.importorskip("torch")
    from workloads.images.torch_network import FlatNetwork

    blueprint = small(8, 3, 10)
    network = FlatNetwork(blueprint, torch.device("cpu"))
    network.parameters.copy_(torch.arange(blueprint.size))
    stem = next(network.module.parameters())
    assert stem.shape == (16, 3, 3, 3)
    # Output 2, input 1, row 0, column 2: ((2 * 3 + 0) * 3 + 2) * 3 + 1.
    assert stem[2, 1, 0, 2] == 61
    linear = list(network.module.parameters())[-2]
    assert linear[0, 1] - linear[0, 0] == 1
