TYPES: list[tuple[str, str]]
__version__: str

class Forward:
    def __new__(
        cls,
        device: int,
        types: int,
        rows: int,
        columns: int,
        eps: float,
        rms: bool,
        x: int,
        x_stride: int,
        w: int,
        b: int,
        y: int,
        stats: int,
    ) -> Forward: ...
    @property
    def scratch(self) -> int: ...
    def launch(self, stream: int, scratch: int) -> None: ...

class Backward:
    def __new__(
        cls,
        device: int,
        types: int,
        rows: int,
        columns: int,
        eps: float,
        rms: bool,
        x: int,
        x_stride: int,
        w: int,
        stats: int,
        dy: int,
        dy_stride: int,
        dx: int,
        dw: int,
        db: int,
    ) -> Backward: ...
    @property
    def scratch(self) -> int: ...
    def launch(self, stream: int, scratch: int) -> None: ...
