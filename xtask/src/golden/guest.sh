#!/bin/busybox sh
# Runs in a guest of `cargo xtask golden`: leaves a trace of `run --explain` and one of `attach` in
# /run/out.
mkdir /bin/applets && /bin/busybox --install -s /bin/applets
export PATH=/bin/applets
/init run --for 300ms --load fork --load ttcp --load timers --explain --quiet --out /run/explained
cp /run/explained/trace/worst.dat /run/out/run.dat
/init run --for 1m --load none --period 10ms --probe cyclic --probe timerfd --probe posix-timer \
    --probe itimer --quiet --out /run/followed >/dev/null 2>&1 &
sleep 1
/init attach $! --for 300ms --deadline 1us --on-threshold continue --out /run/attached
cp /run/attached/trace/worst*.dat /run/out/attach.dat
kill $!
wait
