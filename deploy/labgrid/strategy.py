"""Powers on a board and logs in, before boards.py runs tardy on it over ssh."""

import enum

import attr

from labgrid import step, target_factory
from labgrid.strategy import Strategy, StrategyError


class Status(enum.Enum):
    unknown = 0
    off = 1
    shell = 2


@target_factory.reg_driver
@attr.s(eq=False)
class TardyStrategy(Strategy):
    """Switches a board off, or powers it on and logs in. Does nothing if it is already in that state."""

    bindings = {"power": "PowerProtocol", "shell": "ShellDriver"}
    status = attr.ib(default=Status.unknown)

    @step(args=["status"])
    def transition(self, status):
        status = Status[status] if isinstance(status, str) else status
        if status == self.status:
            return
        if status == Status.off:
            self.target.deactivate(self.shell)
            self.target.activate(self.power)
            self.power.off()
        elif status == Status.shell:
            self.target.activate(self.power)
            self.power.cycle()
            self.target.activate(self.shell)
        else:
            raise StrategyError(f"cannot change from {self.status} to {status}")
        self.status = status
