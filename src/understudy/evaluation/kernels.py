"""Which kernel the discrepancies of draws use, and how wide it is."""

from jaxtyping import Array, ArrayLike, Float

from understudy.checks import one_of
from understudy.numerics import Elementwise, median_distance, radial_kernel

KERNELS = ("gaussian", "imq")


def chosen_kernel(kernel: str, bandwidth: ArrayLike | None, z: Float[Array, "n d"]) -> Elementwise:
    """The radial kernel; without a bandwidth, the median distance for "gaussian" and 1 for "imq"."""
    one_of("kernel", KERNELS, kernel)
    if bandwidth is None:
        bandwidth = median_distance(z) if kernel == "gaussian" else 1.0
    return radial_kernel(kernel, bandwidth)
