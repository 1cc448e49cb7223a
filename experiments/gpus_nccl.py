"""One process of NCCL's all-reduce of 102 MB, one a GPU, started by torch.distributed.run."""

from __future__ import annotations

import json
import os
import statistics
import time

import torch
from torch import distributed

PARAMETERS = 25_557_032
"""Of ResNet-50, float32."""

WARM, MEASURED = 5, 20


def main() -> None:
    """Measure; the first process prints the seconds."""
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    distributed.init_process_group("nccl")
    update = torch.ones(PARAMETERS, device=device)
    seconds = []
    for operation in range(WARM + MEASURED):
        torch.cuda.synchronize()
        distributed.barrier()
        begun = time.perf_counter()
        distributed.all_reduce(update)
        torch.cuda.synchronize()
        if operation >= WARM:
            seconds.append(time.perf_counter() - begun)
        update.fill_(1.0)
    if distributed.get_rank() == 0:
        print(json.dumps({"bytes": 4 * PARAMETERS, "median": statistics.median(seconds)}))
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
