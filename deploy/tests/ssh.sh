#!/bin/bash
# Tests an experiment of the lab over ssh on two hosts, which are both this machine: it gives the same results as one machine. tests/integration/on.rs tests runs over ssh.
# Needs openssh-server, qemu-system-x86_64, and root.
#     ssh.sh TARDY FOLDER
set -euo pipefail
tardy=$(readlink -f "$1")
folder=$(mkdir -p "$2" && cd "$2" && pwd)
deploy=$(cd "$(dirname "$0")/.." && pwd)
. "$deploy/tests/sshd.sh"
trap 'end_sshd; wait' EXIT
. "$deploy/tests/lab.sh"
printf 'build%s ssh://root@127.0.0.1:%s\n' 1 "$port" 2 "$port" > "$folder/builders"
# shellcheck disable=SC2086 # they are words
"$tardy" lab run $lab_words --on "$folder/builders" --ssh-config "$ssh_config" --out "$folder/exp" > "$folder/said"
is_that_of_one_machine "$folder/exp"
# The command prints the table, and nothing is left.
{ "$tardy" show "$folder/exp" || [ $? -eq 4 ]; } | diff - "$folder/said"
if ls -d "$folder"/tardy-on.* 2>/dev/null; then exit 1; fi
