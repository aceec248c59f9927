"""The options of a connection."""

from __future__ import annotations

import os
from typing import Optional, TypedDict, Union


class Options(TypedDict, total=False):
    """Each option is left to the library if it is not given."""

    connect_timeout: float
    operation_timeout: Optional[float]
    expect_durability: str
    spin: float
    publishing: bool
    remembered_places: int
    keys: Union[str, "os.PathLike[str]"]
    rdma_device: str
    gid_index: int
