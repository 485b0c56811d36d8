#!/bin/bash
# Two nodes of Slurm on this machine: a run on each, and shards of each command of the lab that has them, whose results equal those of one machine.
# Needs slurmctld, slurmd, slurm-client, munge, qemu-system-x86_64; root.
#     slurm.sh TARDY FOLDER
set -euo pipefail
tardy=$(readlink -f "$1")
folder=$(mkdir -p "$2" && cd "$2" && pwd)
deploy=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$folder"/{bin,state,run,log,spool-board1,spool-board2}
# Each node has its own cache, with its own snapshots, as on two machines. The caches share the downloaded kernels.
user=${XDG_CACHE_HOME:-$HOME/.cache}/tardy
mkdir -p "$user"
for cache in board1 board2 one; do
    mkdir -p "$folder/cache-$cache/tardy"
    find "$user" -mindepth 1 -maxdepth 1 ! -name snapshots -exec ln -s {} "$folder/cache-$cache/tardy" \;
done
cat > "$folder/bin/tardy" <<END
#!/bin/sh
[ -z "\${SLURMD_NODENAME:-}" ] || export XDG_CACHE_HOME=$folder/cache-\$SLURMD_NODENAME
exec $tardy "\$@"
END
chmod +x "$folder/bin/tardy"
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

# In virtual time the shards of an array are one experiment.
. "$deploy/tests/lab.sh"
# shellcheck disable=SC2086 # they are words
sbatch --quiet --wait --exclusive --array=1-4 --output="$folder/log/shard-%a" "$deploy/slurm/lab.sbatch" "$folder/exp" $lab_words
is_that_of_one_machine "$folder/exp"
cat "$lab_reference/table/text"

# So are shards of an atlas, of a program on several kernels, and of a paper's experiments.
# in_shards NAME COMMAND WORD...: runs `tardy COMMAND` on the nodes and on one machine.
in_shards() {
    name=$1 words=$2
    shift 2
    # shellcheck disable=SC2086 # they are words
    sbatch --quiet --wait --exclusive --array=1-4 --output="$folder/log/$name-%a" "$deploy/slurm/lab.sbatch" "$folder/nodes/$name" ${words#lab } "$@"
    for place in one nodes; do
        # shellcheck disable=SC2086 # they are words
        XDG_CACHE_HOME=$folder/cache-one "$tardy" $words --out "$folder/$place/$name" "$@" > "$folder/log/$name-$place" 2> "$folder/log/$name-$place-messages" || [ $? -eq 1 ]
    done
    if grep -E ' cells in |^[1-9][0-9]* steps?,' "$folder/log/$name-nodes-messages"; then
        echo "$name: the shards left something to do" >&2
        return 1
    fi
    [ "$(digests "$folder/one/$name" | wc -l)" -ge 4 ] || { echo "$name has fewer than four guests" >&2; return 1; }
    diff <(digests "$folder/nodes/$name") <(digests "$folder/one/$name")
    diff <(sed "s|$folder/nodes/||g" "$folder/log/$name-nodes") <(sed "s|$folder/one/||g" "$folder/log/$name-one")
}
kernels=(--kernel debian:6.1-rt --kernel debian:6.1 --preempt full --replicas 2)
in_shards atlas "lab atlas" "${kernels[@]}" --load fork --for 500ms
in_shards app "lab app" perl --deadline 1ms "${kernels[@]}" --for 1s -- -e 'select(undef,undef,undef,0.005)while 1'
in_shards reproduce reproduce williams2002 --on lab --quick
diff "$folder/nodes/reproduce/reproduce.json" "$folder/one/reproduce/reproduce.json"
