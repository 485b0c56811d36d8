#!/bin/bash
# Tests with labgrid's coordinator and exporter and two places. Both boards are this machine, reached through an sshd on loopback.
# Needs openssh-server, qemu-system-x86_64, labgrid in the Python environment at $VENV, and root.
#     labgrid.sh TARDY FOLDER
set -euo pipefail
tardy=$(readlink -f "$1")
folder=$(mkdir -p "$2" && cd "$2" && pwd)
deploy=$(cd "$(dirname "$0")/.." && pwd)
export PATH=$VENV/bin:$PATH LG_COORDINATOR=127.0.0.1:17408 PYTHONDONTWRITEBYTECODE=1
started=
finish() { end_sshd; for process in $started; do kill "$process" 2>/dev/null || true; done; wait; }
. "$deploy/tests/sshd.sh"
trap finish EXIT
for board in board1 board2; do
    printf '%s:\n  NetworkService:\n    address: 127.0.0.1\n    username: root\n    port: %s\n' $board "$port"
done > "$folder/exporter.yaml"
(cd "$folder" && exec labgrid-coordinator -l $LG_COORDINATOR) > "$folder/coordinator.log" 2>&1 & started="$started $!"
for _ in $(seq 50); do labgrid-client places > /dev/null 2>&1 && break; sleep 0.2; done
(cd "$folder" && exec labgrid-exporter -c $LG_COORDINATOR --hostname localhost -n here exporter.yaml) > "$folder/exporter.log" 2>&1 & started="$started $!"
for board in board1 board2; do
    labgrid-client -p $board create
    labgrid-client -p $board add-match "here/$board/NetworkService"
done
for _ in $(seq 50); do [ "$(labgrid-client resources | wc -l)" -ge 2 ] && break; sleep 0.2; done
"$deploy/labgrid/boards.py" board1 board2 -- "$tardy" run --for 2s --load none --ssh-config "$ssh_config" --out "$folder/rack" || [ $? -eq 4 ]
for board in board1 board2; do
    "$tardy" show "$folder/rack/$board" --json | grep "\"board\": \"$board\"" > /dev/null
done
. "$deploy/tests/lab.sh"
# shellcheck disable=SC2086 # they are words
"$deploy/labgrid/boards.py" board1 board2 -- "$tardy" lab run $lab_words --ssh-config "$ssh_config" --out "$folder/exp" > /dev/null
is_that_of_one_machine "$folder/exp"
# Afterwards, the places are free again, and nothing is left on the boards.
if labgrid-client who | grep board > /dev/null; then echo "a place is still acquired" >&2; exit 1; fi
if ls -d "$folder"/tardy-on.* 2>/dev/null; then exit 1; fi
# labgrid accepts the environment and its strategy, and the strategy powers on a board and logs in.
cd "$deploy/labgrid"
python3 - <<'END'
from labgrid import Environment
from labgrid.util.yaml import load
environment = Environment("environment.yaml")
import strategy
assert list(environment.config.get_targets()) == ["board7"]
assert set(strategy.TardyStrategy.bindings.values()) == {"PowerProtocol", "ShellDriver"}

class Driver:
    def __init__(self, calls, name): self.calls, self.name = calls, name
    def __getattr__(self, verb): return lambda *_: self.calls.append(f"{self.name}.{verb}")

calls = []
board = strategy.TardyStrategy.__new__(strategy.TardyStrategy)
board.status = strategy.Status.unknown
board.power, board.shell = Driver(calls, "power"), Driver(calls, "shell")
board.target = Driver(calls, "target")
strategy.TardyStrategy.transition.__wrapped__(board, "shell")
assert calls == ["target.activate", "power.cycle", "target.activate"] and board.status is strategy.Status.shell, calls
END
