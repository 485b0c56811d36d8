#!/bin/busybox sh
# Runs in a guest of `cargo xtask kernels`: writes one line per command to /run/out/cells, with its
# exit code and the first error or warning that it printed. The arguments are tardy's binary and the
# names of probes.
tardy=$1
shift
try() {
    name=$1
    shift
    "$@" >"/run/out/$name.txt" 2>&1
    code=$?
    said=$(grep '^tardy: \|^! ' "/run/out/$name.txt" | grep -v 'virtual time' | head -n 1)
    echo "$name $code $said" >>/run/out/cells
}
mkdir /bin/applets && /bin/busybox --install -s /bin/applets
export PATH=/bin/applets
try --version "$tardy" --version
try run "$tardy" run --for 500ms --load memory --quiet --out /run/run
try doctor "$tardy" doctor --watch 0s
for probe in "$@"; do
    try "probe:$probe" "$tardy" run --for 200ms --load none --probe "$probe" --quiet --out "/run/$probe"
done
try traced "$tardy" run --for 500ms --load memory --explain --quiet --out /run/explained
try explain "$tardy" explain /run/explained
"$tardy" run --for 1m --load none --quiet --out /run/attached >/dev/null 2>&1 &
sleep 0.5
try attach "$tardy" attach $! --for 1s
kill $!
wait
