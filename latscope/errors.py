"""Every error latscope raises on purpose, with the exit code the command line gives it.

    LatscopeError
    ├── UsageError         the command or call was asked for something that makes no sense     2
    │   ├── MissingExtra   the feature needs an optional dependency; the message names it      2
    │   └── InstrumentError  a client whose transport cannot be wrapped                        2
    ├── InputError         a file that cannot be used: what, where, what to do                 3
    └── EndpointError      an endpoint that cannot be used: what, where, what to do            3

Capture never lets one of these reach the caller's request; see `Recording.broken`.
"""


class LatscopeError(Exception):
    """The base of all errors latscope raises; one clear line says what, where and what to do."""

    exit_code = 3


class UsageError(LatscopeError):
    exit_code = 2


class MissingExtra(UsageError):
    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs an extra: pip install 'latscope[{extra}]'")
        self.extra = extra


class InstrumentError(UsageError):
    pass


class InputError(LatscopeError):
    pass


class EndpointError(LatscopeError):
    pass
