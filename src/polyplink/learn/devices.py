"""Training on several devices: processes, gathered embeddings, and statistics of batches.

Lightning Fabric keeps the copies of a model equal (DistributedDataParallel). Every process embeds
its share of the views of a batch, and the embeddings of all processes are gathered before the loss
is computed. Therefore the members of a bag may be in different processes, no negative is lost, and
the gradient averaged over processes equals that of a single process.
"""

import importlib
import logging
import socket
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, wait
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import distributed, nn

from polyplink.core.errors import PolyplinkError, extras_installed
from polyplink.core.workers import HEAVY, worker_pool

_PATIENCE = 20.0  # seconds until a lost connection is explained by the process that broke it


class Devices:
    """One process on one device: the part of Lightning's `Fabric` that the training loop needs."""

    global_rank, world_size = 0, 1

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def setup_module(self, module: nn.Module, *, move_to_device: bool) -> nn.Module:
        """Wrap a module so that its gradients are averaged over processes."""
        return module

    def backward(self, tensor: torch.Tensor) -> None:
        """Compute the gradients of a loss."""
        tensor.backward()  # type: ignore[no-untyped-call]

    def no_backward_sync(self, module: nn.Module, *, enabled: bool) -> AbstractContextManager[None]:
        """Skip averaging gradients over processes, for all but the last batch of a step."""
        return nullcontext()


def check_devices(count: int, device: torch.device) -> None:
    """Refuse more devices than the machine has.

    Raises:
        PolyplinkError: If several devices are requested and Lightning Fabric is not installed,
            `device` names a single GPU, or there are fewer GPUs.
    """
    if count == 1:
        return
    with extras_installed(f"--devices {count}"):
        importlib.import_module("lightning_fabric")
    if device.type == "cuda":
        available = torch.cuda.device_count()
        if str(device) != "cuda" or count > available:
            raise PolyplinkError(
                f"--devices {count} of {device}, and there are {available} GPUs",
                "give --device cuda and at most as many --devices, or --device cpu",
            )


@contextmanager
def processes(
    count: int,
    device: torch.device,
    task: Callable[..., object],
    arguments: Sequence[Any],
    *,
    has_unused: bool = False,
) -> Iterator[Devices]:
    """Make this process the first of `count`; the others run `task(fabric, *arguments)` meanwhile.

    Args:
        count: Number of processes, each with a separate GPU, or all on the CPU (gloo); 1 for this
            process only.
        device: CPU or GPU.
        task: A module-level function that takes part in everything the block computes.
        arguments: Arguments of the task; they are pickled.
        has_unused: Whether the loss may not depend on some of the model's trainable parameters.

    Yields:
        A Fabric, or its replacement `Devices` with a single process.

    Raises:
        PolyplinkError: As `check_devices`, or if another process fails.
    """
    check_devices(count, device)
    if count == 1:
        yield Devices(device)
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    fabric_of = partial(_join, count, device.type, port, has_unused)
    with worker_pool(count - 1, HEAVY) as pool:
        futures = [
            pool.submit(_follow, fabric_of, rank, count, task, arguments)
            for rank in range(1, count)
        ]
        try:
            with fabric_of(0) as fabric:
                yield fabric
            for future in futures:
                future.result()
        except BaseException as error:
            if isinstance(error, RuntimeError):  # lost connection: another process may have failed
                wait(futures, _PATIENCE, return_when=FIRST_EXCEPTION)
            failed = [future.exception() for future in futures if future.done()]
            for process in list(pool._processes.values()):  # they may be waiting for this process
                process.kill()
            for cause in failed:
                if isinstance(cause, PolyplinkError):
                    raise cause from None
            raise


@contextmanager
def _join(count: int, kind: str, port: int, has_unused: bool, rank: int) -> Iterator[Any]:
    """A Fabric of process `rank` of `count` on this machine, connected with the others.

    Args:
        count: Number of processes.
        kind: Type of their devices, "cpu" or "cuda".
        port: Port on which the first process listens.
        has_unused: See `processes`.
        rank: Number of this process.
    """
    # Imported when used: an optional extra.
    from lightning_fabric import Fabric  # noqa: PLC0415
    from lightning_fabric.plugins.environments.lightning import LightningEnvironment  # noqa: PLC0415
    from lightning_fabric.strategies.ddp import DDPStrategy  # noqa: PLC0415

    class Here(LightningEnvironment):
        main_address, main_port = "127.0.0.1", port
        creates_processes_externally = True

        def local_rank(self) -> int:
            return rank

        def node_rank(self) -> int:
            return 0

    class Started(DDPStrategy):
        def _configure_launcher(self) -> None:
            """Launch nothing: the processes already run."""

    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)
    strategy = Started(find_unused_parameters=has_unused)
    try:
        with warnings.catch_warnings():
            # Weights of 1 x 1 convolutions have two layouts at once.
            warnings.filterwarnings("ignore", "Grad strides do not match bucket view strides")
            fabric = Fabric(accelerator=kind, strategy=strategy, devices=count, plugins=[Here()])
            fabric.launch()
            yield fabric
    finally:
        if distributed.is_initialized():
            distributed.destroy_process_group()


def _follow(
    fabric_of: Callable[[int], AbstractContextManager[Any]],
    rank: int,
    count: int,
    task: Callable[..., object],
    arguments: Sequence[Any],
) -> None:
    """Run a task in another process, with its share of the threads."""
    torch.set_num_threads(max(1, torch.get_num_threads() // count))
    with fabric_of(rank) as fabric:
        task(fabric, *arguments)


def share(n: int, rank: int, world: int) -> np.ndarray:
    """Indices of the n views that a process embeds; the shares in order of rank are the batch.

    If there are fewer views than processes, some are embedded twice; `gather` drops the copies.
    """
    return np.array_split(np.resize(np.arange(n), max(n, world)), world)[rank]


class _Gather(torch.autograd.Function):
    """Rows of all processes by rank; gradients flow back to the rows of this process.

    Fabric's `all_gather` takes equally many rows of each process, and calls a function with
    gradients that torch deprecates.
    """

    @staticmethod
    def forward(ctx: Any, counts: list[int], *values: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Gather values (m * k, ...), k rows per view; `counts` are the views of each process."""
        ctx.counts, gathered = counts, []
        for value in values:
            rows_per_view = len(value) // counts[distributed.get_rank()]
            padded = value.new_zeros(max(counts) * rows_per_view, *value.shape[1:])
            padded[: len(value)] = value
            all_padded = [torch.empty_like(padded) for _ in counts]
            distributed.all_gather(all_padded, padded)
            rows = zip(all_padded, counts, strict=True)
            gathered.append(torch.cat([part[: count * rows_per_view] for part, count in rows]))
        return tuple(gathered)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: torch.Tensor) -> tuple[Any, ...]:
        # Every process computes the same loss from the same rows, so the gradient of the rows that
        # a process embedded is complete: no sum over processes is needed. Averaging over processes
        # then divides by their number, although only one process has the gradient of each row:
        # hence the factor `world`. Outputs that the loss does not use have gradient 0, so that all
        # processes agree on which parameters receive gradients.
        rank, world = distributed.get_rank(), len(ctx.counts)
        gradients = []
        for gradient in grad_outputs:
            rows_per_view = len(gradient) // sum(ctx.counts)
            first = sum(ctx.counts[:rank]) * rows_per_view
            gradients.append(gradient[first : first + ctx.counts[rank] * rows_per_view] * world)
        return None, *gradients


def gather(
    tracklets: torch.Tensor, frames: torch.Tensor, n: int, world: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Embeddings of all n views of a batch, in every process, with gradients.

    Args:
        tracklets: (m, d), one embedding per view of this process's `share`.
        frames: (m s, d), s embeddings per view.
        n: Views of the batch.
        world: Number of processes; if 1, the embeddings are returned unchanged.

    Returns:
        Tracklet (n, d) and frame (n s, d) embeddings.
    """
    if world == 1:
        return tracklets, frames
    s = len(frames) // len(tracklets)
    counts = [len(share(n, rank, world)) for rank in range(world)]
    gathered = _Gather.apply(counts, tracklets, frames)  # type: ignore[no-untyped-call]
    return gathered[0][:n], gathered[1][: n * s]


class _Sum(torch.autograd.Function):
    """Sum of a tensor over processes, with gradients."""

    @staticmethod
    def forward(ctx: Any, value: torch.Tensor) -> torch.Tensor:
        total = value.clone()
        distributed.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, *slopes: torch.Tensor) -> torch.Tensor:
        total = slopes[0].clone()
        distributed.all_reduce(total)
        return total


class _BatchNorm(nn.BatchNorm2d):
    """Batch statistics over the frames of all processes; torch's SyncBatchNorm needs a GPU."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Normalise this process's activations (n, c, h, w)."""
        if not (self.training and distributed.is_initialized()):
            return super().forward(input)
        c, x = input.shape[1], input.double()
        n = x.new_tensor([x.numel() / c])
        sums = torch.cat([x.sum(dim=(0, 2, 3)), x.square().sum(dim=(0, 2, 3)), n])
        sums = _Sum.apply(sums)  # type: ignore[no-untyped-call]
        n, mean = sums[-1], sums[:c] / sums[-1]
        if n == 1:
            raise ValueError(f"one value per channel in training: {tuple(input.shape)}")
        variance = sums[c:-1] / n - mean.square()
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        with torch.no_grad():
            self.num_batches_tracked += 1
            momentum = self.momentum
            if momentum is None:  # torch: the mean over all batches
                momentum = 1 / int(self.num_batches_tracked)
            unbiased = variance * n / (n - 1)
            for running, new in ((self.running_mean, mean), (self.running_var, unbiased)):
                running.lerp_(new.to(running.dtype), momentum)
        scale = (self.weight.double() * (variance + self.eps).rsqrt())[:, None, None]
        shift = self.bias.double()[:, None, None] - mean[:, None, None] * scale
        out: torch.Tensor = x * scale + shift
        return out.to(input.dtype)


def share_statistics(network: nn.Module, kind: str) -> None:
    """Make trainable BatchNorm layers use the statistics of all processes; in place.

    Raises:
        PolyplinkError: On a CPU, if a layer is a subclass of torch's BatchNorm2d.
    """
    if kind == "cuda":
        importlib.import_module("timm.layers").convert_sync_batchnorm(network)
        return
    for module in network.modules():
        learns = any(p.requires_grad for p in module.parameters(recurse=False))
        if type(module) is nn.BatchNorm2d:
            module.__class__ = _BatchNorm
        if (learns and isinstance(module, nn.modules.batchnorm._BatchNorm)) and not isinstance(
            module, _BatchNorm
        ):
            raise PolyplinkError(
                f"{type(module).__name__} cannot share statistics of batches between CPU processes",
                "set finetune.how=frozen, or train on one device",
            )
