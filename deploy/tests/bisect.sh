#!/bin/bash
# Tests `git bisect run deploy/bisect.sh` on a board: an sshd in separate namespaces. Its kernels are scripts from a repository of twelve commits:
# the sixth does not boot and is skipped, and from the ninth on, a process of higher priority takes the CPU for 20 ms at a time.
# Needs openssh-server, openssh-client, git, make, iproute2, util-linux, root, and overlayfs.
#     bisect.sh TARDY FOLDER
set -euo pipefail
# The test runs in namespaces, so all mounts and processes disappear when the first process ends.
if [ $$ -ne 1 ]; then
    unshare --mount --net --pid --fork --kill-child --mount-proc "$0" "$@" &
    trap 'kill -9 $! 2> /dev/null || true' EXIT
    trap 'exit 1' INT TERM
    wait $!
    exit
fi
tardy=$(readlink -f "$1")
folder=$(mkdir -p "$2" && cd "$2" && pwd)
deploy=$(cd "$(dirname "$0")/.." && pwd)
mount -t tmpfs tmpfs /run
mkdir -p "$folder"/{bin,disk,linux}
ip link set lo up
ip netns add board
ip link add board type veth peer name eth0 netns board
ip address add 192.0.2.1/30 dev board
ip link set board up
ip -n board address add 192.0.2.2/30 dev eth0
export SSHD_ADDRESS=192.0.2.2
. "$deploy/tests/sshd.sh"
board=ssh://root@$SSHD_ADDRESS:$port
ln -s "$tardy" "$folder/bin/tardy"
printf '#!/bin/sh\nexec /usr/bin/ssh -F "%s" "$@"\n' "$ssh_config" > "$folder/bin/ssh"

# The board's disk is that of this machine, with writes kept in memory. Replaced programs boot a script instead of a kernel.
mount -t tmpfs tmpfs "$folder/disk"
mkdir "$folder"/disk/{upper,work,root}
root=$folder/disk/root
mount -t overlay -o "lowerdir=/,upperdir=$folder/disk/upper,workdir=$folder/disk/work" overlay "$root"
# Root has no profile on the board, because it would slow down each ssh.
mount -t tmpfs tmpfs "$root/root"
for shared in /dev /sys "$folder"; do mkdir -p "$root$shared" && mount --bind "$shared" "$root$shared"; done
mkdir -p "$root"/{proc,run/sshd,usr/local/bin}
printf '#!/bin/sh\n[ "$*" = -r ] && exec cat /run/release\nexec /usr/bin/uname "$@"\n' > "$root/usr/local/bin/uname"
printf '#!/bin/sh\n[ "$1" = -o ] && [ -d "/lib/modules/$3" ] && : > "$2"\n' > "$root/usr/local/bin/mkinitramfs"
printf '#!/bin/sh\n[ "$1 $4" = "--load --reuse-cmdline" ] && [ -e "${3#--initrd=}" ] && echo "$2" > /next\n' > "$root/usr/local/bin/kexec"
printf '#!/bin/sh\n[ "$*" = kexec ] && [ ! -e /stays ] && kill 1\n' > "$root/usr/local/bin/systemctl"
printf '#!/bin/sh\nkill -9 "$(cat "%s/on")"\n' "$folder" > "$folder/bin/power-cycle"
chmod +x "$root"/usr/local/bin/* "$folder"/bin/*
export PATH=$folder/bin:$PATH TARDY_STATE_DIR=$folder/state

# Boots a loaded kernel once, and then the usual kernel again.
boots() {
    while :; do
        ip -n board link set eth0 down
        image=$(cat "$root/next" 2>/dev/null || echo /boot/usual)
        rm -f "$root/next"
        ip netns exec board unshare --mount --pid --fork --kill-child chroot "$root" "$image" &
        echo $! > "$folder/on"
        wait $! || true
    done
}

cd "$folder/linux"
export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=test GIT_AUTHOR_EMAIL=test@localhost GIT_COMMITTER_NAME=test GIT_COMMITTER_EMAIL=test@localhost
git init -q
cat > Makefile <<'MAKE'
release = 6.12.0$(LOCALVERSION)
.PHONY: all olddefconfig modules_install kernelrelease image_name
all:
	sed 's/RELEASE/$(release)/' kernel > image && chmod +x image
olddefconfig:
modules_install:
	mkdir -p $(INSTALL_MOD_PATH)/lib/modules/$(release)
kernelrelease:
	@echo $(release)
image_name:
	@echo image
MAKE
starts="/usr/sbin/sshd -D -f $folder/sshd_config & wait \$!"
kernel() { printf '%s\n' '#!/bin/bash' "trap 'exit 0' TERM" 'mount -t proc proc /proc' 'echo RELEASE > /run/release' "$@" > kernel; }
hog='while :; do end=$((${EPOCHREALTIME/[.,]/} + 20000)); while ((${EPOCHREALTIME/[.,]/} < end)); do :; done; read -rt 0.01 -u 3 || true; done'
for commit in $(seq 12); do
    lines=("# $commit" 'ip link set eth0 up')
    [ "$commit" -ne 6 ] || lines+=('sleep infinity')
    [ "$commit" -lt 9 ] || lines+=("chrt -f 99 taskset -c 0 bash -c '$hog' 3<> <(:) &")
    kernel "${lines[@]}" "$starts"
    git add Makefile kernel && git commit -qm "commit $commit" && git tag "v$commit"
done

git checkout -q v1
make -s && cp image "$root/boot/usual"
boots 2> /dev/null & trap 'kill $!' EXIT
options="--for 2s --period 2ms --load none --cpus 0"
for _ in $(seq 50); do ssh "$board" true 2>/dev/null && break; sleep 0.2; done
for run in 1 2 3 4; do
    # shellcheck disable=SC2086 # they are words
    tardy run --on "$board" --quiet --out "$folder/good/$run" $options > "$folder/said" || [ $? -eq 4 ]
done

# Checks the exit code of deploy/bisect.sh.
ends_with() { code=0; timeout 120 "$deploy/bisect.sh" "${@:2}" > "$folder/said" 2>&1 || code=$?; [ "$code" -eq "$1" ] || { cat "$folder/said"; echo "$code, not $1"; exit 1; }; }
export BOOT_SECONDS=15 POWER_CYCLE=power-cycle MARGIN=5ms
ends_with 128 "$board" nowhere
BOOT_SECONDS=1 ends_with 128 ssh://root@192.0.2.2:1 "$folder/good"
# The board answers, but still runs the previous kernel.
git checkout -q v2; touch "$root/stays"; BOOT_SECONDS=3 POWER_CYCLE=true ends_with 125 "$board" "$folder/good"; rm "$root/stays"
mv kernel away; ends_with 125 "$board" "$folder/good"; mv away kernel
mkdir "$folder/stand-in"
printf '#!/bin/sh\n[ "$1" = run ] && exit $RUN_CODE\nexit $COMPARE_CODE\n' > "$folder/stand-in/tardy"
chmod +x "$folder/stand-in/tardy"
while read -r RUN_CODE COMPARE_CODE expected; do
    PATH=$folder/stand-in:$PATH RUN_CODE=$RUN_CODE COMPARE_CODE=$COMPARE_CODE POWER_CYCLE=true ends_with "$expected" "$board" "$folder/good" < /dev/null
done <<< $'1 0 0\n0 4 125\n0 2 128\n3 0 125\n2 0 128'

git bisect start v12 v1 > "$folder/said"
# shellcheck disable=SC2086
timeout 900 git bisect run "$deploy/bisect.sh" "$board" "$folder/good" $options > "$folder/log" 2>&1 || { cat "$folder/log"; exit 1; }
git bisect log | grep '^#' > "$folder/said"
grep -q "^# skip: .* commit 6$" "$folder/said" && grep -q "^# first bad commit: .* commit 9$" "$folder/said" || { cat "$folder/log" "$folder/said"; exit 1; }
cat "$folder/said"
if ls -d "$folder"/tardy-on.* "$folder"/state/* 2>/dev/null; then exit 1; fi
