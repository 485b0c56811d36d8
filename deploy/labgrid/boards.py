#!/usr/bin/env python3
"""Boards of labgrid for `tardy run --on`: acquires places, brings them to a shell, runs a command with their addresses, releases them.

    boards.py PLACE... -- tardy run --for 10m --deadline 200us --out rack

The command gets `--on FILE` with a line for each place. A place needs a NetworkService; LG_COORDINATOR names the coordinator, as for labgrid-client.
With LG_ENV, the target of that environment that is called as the place is brought to the state `shell` by its strategy first (environment.yaml).
"""

import os
import subprocess
import sys
import tempfile

from labgrid import Environment, Target
from labgrid.resource import NetworkService
from labgrid.resource.remote import RemotePlace
from labgrid.strategy import Strategy


def client(*words):
    """Runs labgrid-client, which prints its own errors."""
    subprocess.run(["labgrid-client", *words], check=True, stdout=subprocess.DEVNULL)


def target_of(place):
    """Returns the target of the place: from the environment if it has one, otherwise a new one."""
    if os.environ.get("LG_ENV"):
        target = Environment(os.environ["LG_ENV"]).get_target(place)
        if target is not None:
            target.get_driver(Strategy).transition("shell")
            return target
    target = Target(place)
    RemotePlace(target, name=place)
    return target


def address_of(place):
    """Returns the address of the place, in the form that tardy expects."""
    target = target_of(place)
    service = target.get_resource(NetworkService)
    target.await_resources([service])
    host = f"[{service.address}]" if ":" in service.address else service.address
    return f"ssh://{service.username}@{host}:{service.port or 22}"


def main():
    words = sys.argv[1:]
    at = words.index("--") if "--" in words else 0
    places, command = words[:at], words[at + 1 :]
    if not places or not command:
        sys.exit(__doc__)
    held = []
    try:
        for place in places:
            client("-p", place, "acquire")
            held.append(place)
        with tempfile.NamedTemporaryFile("w", suffix=".boards") as boards:
            for place in held:
                print(place, address_of(place), file=boards)
            boards.flush()
            return subprocess.run([*command, "--on", boards.name], check=False).returncode
    finally:
        for place in held:
            client("-p", place, "release")


if __name__ == "__main__":
    sys.exit(main())
