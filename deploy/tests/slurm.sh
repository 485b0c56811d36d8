#!/bin/bash
# Tests with two nodes of Slurm on this machine: a run on each node, and an experiment of the lab in shards, which gives the same results as one machine.
# Needs slurmctld, slurmd, slurm-client, munge, qemu-system-x86_64, and root.
#     slurm.sh TARDY FOLDER
set -euo pipefail
tardy=$(readlink -f "$1")
folder=$(mkdir -p "$2" && cd "$2" && pwd)
deploy=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$folder"/{bin,state,run,log,spool-board1,spool-board2}
ln -sf "$tardy" "$folder/bin/tardy"
host=$(hostname -s)
cpus=$(nproc)
cat > "$folder/slurm.conf" <<END
ClusterName=tardy
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=17000
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/run/munge.sock
ProctrackType=proctrack/linuxproc
TaskPlugin=task/affinity
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool-%n
SlurmctldPidFile=$folder/run/ctld.pid
SlurmdPidFile=$folder/run/slurmd-%n.pid
SlurmctldLogFile=$folder/log/ctld.log
SlurmdLogFile=$folder/log/slurmd-%n.log
ReturnToService=2
MpiDefault=none
NodeName=board1 NodeHostname=$host NodeAddr=127.0.0.1 Port=17001 CPUs=$cpus Boards=1 SocketsPerBoard=1 CoresPerSocket=$cpus ThreadsPerCore=1 RealMemory=500
NodeName=board2 NodeHostname=$host NodeAddr=127.0.0.1 Port=17002 CPUs=$cpus Boards=1 SocketsPerBoard=1 CoresPerSocket=$cpus ThreadsPerCore=1 RealMemory=500
PartitionName=lab Nodes=ALL Default=YES MaxTime=30 State=UP OverSubscribe=EXCLUSIVE
END
export SLURM_CONF=$folder/slurm.conf PATH=$folder/bin:$PATH
head -c 1024 /dev/urandom > "$folder/munge.key"
chmod 400 "$folder/munge.key"
started=
finish() { for process in $started; do kill "$process" 2>/dev/null || true; done; wait; }
trap finish EXIT
munged --foreground --force --key-file="$folder/munge.key" --socket="$folder/run/munge.sock" --pid-file="$folder/run/munged.pid" \
    --log-file="$folder/log/munged.log" --seed-file="$folder/run/munge.seed" 2>/dev/null & started="$started $!"
for _ in $(seq 50); do [ -S "$folder/run/munge.sock" ] && break; sleep 0.1; done
slurmctld -D -f "$SLURM_CONF" > /dev/null 2>&1 & started="$started $!"
for node in board1 board2; do slurmd -D -N $node -f "$SLURM_CONF" > /dev/null 2>&1 & started="$started $!"; done
for _ in $(seq 100); do [ "$(sinfo --noheader --Node --states=idle --format=%N 2>/dev/null | sort -u | wc -l)" = 2 ] && break; sleep 0.2; done

"$deploy/slurm/boards" "$folder/rack" --partition=lab -- --for 2s --load none || [ $? -eq 4 ]
for node in board1 board2; do
    tardy show "$folder/rack/$node" --json | grep "\"board\": \"$node\"" > /dev/null
done

# In virtual time, the shards of a job array give the same results as the whole experiment on one machine.
. "$deploy/tests/lab.sh"
# shellcheck disable=SC2086 # they are words
sbatch --quiet --wait --exclusive --array=1-4 --output="$folder/log/shard-%a" "$deploy/slurm/lab.sbatch" "$folder/exp" $lab_words
is_that_of_one_machine "$folder/exp"

# The same for the lab's other commands. The files that are left out contain times of the host.
results() {
    (cd "$1" && find . -type f ! -path '*/locks/*' ! -name '*.wall' ! -name '*.html' ! -name run.json ! -name lab.json ! -name result.json | sort | xargs sha256sum)
}
is_that_of_an_array() {
    local words=$1 out=$2 said
    shift 2
    # A deadline may be missed (exit code 1).
    # shellcheck disable=SC2086 # they are words
    "$tardy" $words --out "$folder/one/$out" "$@" > /dev/null || [ $? -eq 1 ]
    # shellcheck disable=SC2086
    sbatch --quiet --wait --exclusive --array=1-4 --output="$folder/log/$out-%a" "$deploy/slurm/lab.sbatch" "$folder/array/$out" ${words#lab } "$@" || true
    # The same command without a shard finds all guests, and shows the table.
    # shellcheck disable=SC2086
    said=$("$tardy" $words --out "$folder/array/$out" "$@" 2>&1 > /dev/null) || [ $? -eq 1 ]
    if grep -e ' replica ' -e '^round ' <<< "$said"; then echo "$words: the array left these guests out" >&2; return 1; fi
    [ "$(results "$folder/one/$out" | wc -l)" -ge 4 ]
    diff <(results "$folder/one/$out") <(results "$folder/array/$out")
    echo "$words: $(results "$folder/array/$out" | wc -l) files are those of one machine"
}
is_that_of_an_array 'lab app' app /usr/bin/perl --deadline 1ms --kernel debian:6.1 --preempt none,full --kernel debian:6.1-rt --load none --for 1s -- -e 'select(undef, undef, undef, 0.01) while 1'
is_that_of_an_array 'lab atlas' atlas --kernel debian:6.1 --preempt none,full --load fork --for 500ms --replicas 2
is_that_of_an_array 'lab hunt' hunt --kernel debian:6.1-rt --rounds 1 --guests 8 --programs 4 --findings 0
is_that_of_an_array reproduce reproduce mckenney2009 --on lab
cat "$lab_reference/table/text"
