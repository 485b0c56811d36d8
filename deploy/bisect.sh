#!/bin/bash
# Tests the checked-out kernel on a board: git bisect run bisect.sh ssh://root@BOARD GOOD [OPTIONS OF TARDY RUN], in the kernel's tree.
# Exit codes: 0 not worse than the runs in folder GOOD, 1 worse, 125 (skip) no build, no boot or inconclusive, 128 (stop) anything else.
set -uo pipefail
[ -d "${2:-}" ] || exit 128
board=$1 good=$(realpath "$2") commit=$(git rev-parse --short=12 HEAD)
new=$PWD-bisect/$commit root=$PWD-bisect/root
shift 2
kernel() { make -j"$(nproc)" LOCALVERSION="-bisect-$commit" "$@"; }
on_board() { ssh -o BatchMode=yes -o ConnectTimeout=5 -o ServerAliveInterval=5 "$board" "$@"; }
answers() { end=$((SECONDS + ${BOOT_SECONDS:-300})); until [[ $(on_board uname -r < /dev/null) == $1 ]]; do [ $SECONDS -lt $end ] && sleep 2 || return; done; }
skip() { ${POWER_CYCLE:-true}; exit 125; }

rm -rf "$new" "$root" && mkdir -p "$new" "$root/boot" || exit 128
kernel olddefconfig && kernel && kernel INSTALL_MOD_PATH="$root" INSTALL_MOD_STRIP=1 modules_install || exit 125
release=$(kernel -s kernelrelease) && cp "$(kernel -s image_name)" "$root/boot/vmlinuz-$release" || exit 128
answers '?*' && tar -C "$root" -c "boot/vmlinuz-$release" "lib/modules/$release" | on_board "rm -rf /boot/*-bisect-* /lib/modules/*-bisect-* &&
    tar -xC / && mkinitramfs -o /boot/initrd.img-$release $release &&
    kexec --load /boot/vmlinuz-$release --initrd=/boot/initrd.img-$release --reuse-cmdline" || exit 128
on_board systemctl kexec
answers "$release" || skip
for run in 1 2 3 4; do tardy run --on "$board" --label build="$commit" --quiet --out "$new/$run" "$@" > "$new/said"; case $? in 0|1|4) ;; 3) skip ;; *) exit 128 ;; esac; done
tardy compare "$good" "$new" --margin "${MARGIN:-5%}"
code=$?; case $code in 0|1) exit $code ;; 4) exit 125 ;; *) exit 128 ;; esac
