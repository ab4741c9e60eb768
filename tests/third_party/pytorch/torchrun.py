#!/usr/bin/env python3
"""torchrun, for builds of torch 2.x without libuv, as Debian's: there neither the launcher's own store nor a rank that shares it asks USE_LIBUV."""
import os

import torch.distributed
from torch.distributed import TCPStore

os.environ.update(USE_LIBUV="0", TORCH_DISABLE_SHARE_RDZV_TCP_STORE="1")


def store(*arguments, **keywords):
    return TCPStore(*arguments, **{**keywords, "use_libuv": False})


torch.distributed.TCPStore = store

from torch.distributed.run import main  # noqa: E402

if __name__ == "__main__":
    main()
