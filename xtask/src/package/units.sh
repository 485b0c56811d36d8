#!/bin/bash
# Runs as a service in the guest of `cargo xtask package --check`, under the guest's systemd: it
# starts and stops the units of the package. It prints one line per step on the second serial port.
# The port stays open, because each close can lose what was written.
exec 2>&1 </dev/null 4>/dev/ttyS1
LC_ALL=C.UTF-8 NO_COLOR=1
export LC_ALL NO_COLOR
cd /var/lib || exit
watch=/var/lib/tardy/watch-$(uname -r)
lacking='no-real-time-policy|memory-not-locked|not-bound|cpu-latency-not-set|load-absent|load-problem|not-explained|problem'

step() {
    if said=$("${@:2}" 2>&1); then
        echo "good: $1"
    else
        echo "bad: $1: ${said//$'\n'/ | }"
    fi >&4
}
# Tries a command every second, for at most so many seconds.
within() {
    for ((second = 0; second < $1; second++)); do
        if "${@:2}" >/tmp/last; then return 0; fi
        sleep 1
    done
    echo "not within $1 s: ${*:2}: $(tail -n 5 /tmp/last)"
    false
}
is() { [ "$2" = "$3" ] || { echo "$1 is '$2' instead of '$3'"; false; }; }
# property UNIT NAME VALUE
property() { is "$2" "$(systemctl show --property "$2" --value "$1")" "$3"; }
settings() { printf '%s\n' "$@" >/etc/default/tardy-watch; }
newest() { find /var/lib/tardy -mindepth 1 -maxdepth 1 -type d -printf '%T@ %p\n' | sort -n | tail -n 1 | cut -d ' ' -f 2-; }
# Exit code 1: a verdict failed. 4: the run is in progress, or inconclusive. 130: it was interrupted.
show() { tardy show --json "$1" || [[ $? =~ ^(1|4|130)$ ]]; }
recorded() { show "$1" | grep -m 1 -o '"recorded": [0-9]*' | grep -o '[0-9]*$'; }
has_samples() { [ "$(recorded "$1")" -gt "${2:-0}" ]; }
another_has_samples() { [ "$(newest)" != "$1" ] && has_samples "$(newest)" "${2:-0}"; }
# whole RUN STATE: the folder opens, the run has this state and samples, and no warning names a
# right that the unit lacks.
whole() {
    json=$(show "$1") && is state "$(sed -n 's/^  "state": "\(.*\)",/\1/p' <<<"$json")" "$2" && has_samples "$1" || return
    if grep -A 4 -E "\"warning\": \"($lacking)\"" <<<"$json"; then return 1; fi
}

starts() {
    # The command succeeds only after READY=1, because the unit has Type=notify.
    systemctl start tardy-watch && property tardy-watch ActiveState active &&
        property tardy-watch StatusText "Measuring into $1"
}
stops() {
    systemctl stop tardy-watch && property tardy-watch ActiveState inactive &&
        property tardy-watch Result success
}
is_confined() {
    pid=$(systemctl show --property MainPID --value tardy-watch)
    # CAP_IPC_LOCK (14) and CAP_SYS_NICE (23) in linux/capability.h; a filter is mode 2.
    for line in CapBnd:0000000000804000 CapEff:0000000000804000 NoNewPrivs:1 Seccomp:2; do
        is "${line%:*}" "$(sed -n "s/^${line%:*}:[[:space:]]*//p" "/proc/$pid/status")" "${line#*:}" || return
    done
    for folder in / /sys/fs/cgroup /proc/sys; do
        nsenter --target "$pid" --mount findmnt --noheadings --output OPTIONS "$folder" | head -n 1 | grep -q '^ro' ||
            { echo "$folder can be written"; return 1; }
    done
}
is_real_time() {
    pid=$(systemctl show --property MainPID --value tardy-watch)
    # SCHED_FIFO is policy 1 (linux/sched.h), the 41st field of proc_pid_stat(5).
    cat /proc/"$pid"/task/*/stat | sed 's/.*) //' | cut -d ' ' -f 39 | grep -qx 1
}
serves_metrics() {
    exec 3<>/dev/tcp/127.0.0.1/9877 && printf 'GET /metrics HTTP/1.0\r\n\r\n' >&3 || return
    answer=$(timeout 60 cat <&3 && echo .)
    exec 3>&-
    body=${answer#*$'\r\n\r\n'}
    body=${body%.}
    head -n 1 <<<"$answer" | grep -q ' 200 ' && [[ $body == *$'\n# EOF\n' ]] &&
        grep -q "^Content-Length: ${#body}"$'\r' <<<"$answer" && grep -q '^tardy_latency_seconds_bucket' <<<"$body" || { echo "$answer"; false; }
}
resumes_after_kill() {
    systemctl kill --kill-whom=main --signal=KILL tardy-watch &&
        within 120 property tardy-watch NRestarts 1 && within 300 property tardy-watch ActiveState active &&
        is 'number of runs' "$(find /var/lib/tardy -mindepth 1 -maxdepth 1 | wc -l)" 1
}
explains() {
    run=$(newest)
    tardy explain "$run" | tee /tmp/explained | grep 'A trace recorded during the run explains' || { cat /tmp/explained; false; }
}
no_trace_left() { is instances "$(ls /sys/kernel/tracing/instances)" ''; }
refuses_wrong_words() {
    if systemctl start tardy-watch; then return 1; fi
    sleep 15
    property tardy-watch ExecMainStatus 2 && property tardy-watch NRestarts 0 && property tardy-watch ActiveState failed
}
has_ended() { [[ $(systemctl show --property ActiveState --value "$1") =~ ^(inactive|failed)$ ]]; }
# runs UNIT: starts it and waits for its end.
runs() {
    systemctl start "$1" && within 600 has_ended "$1" && property "$1" Result success ||
        { journalctl --unit "$1" --output cat --lines 4; false; }
}
# Succeeds even if `tardy show` would take longer than the scenario.
has_begun() { [ "$(newest)" != "$1" ] && [ -s "$(newest)/state.jsonl" ]; }
starts_scenario() {
    before=$(newest)
    systemctl start "tardy@$1" && within 300 has_begun "$before"
}
# may_write UNIT FILE: the unit's mounts let it write to this file of the kernel.
may_write() {
    pid=$(systemctl show --property MainPID --value "$1")
    nsenter --target "$pid" --mount findmnt --noheadings --output OPTIONS "$2" | grep '^rw' || { echo "$2 is read-only"; false; }
}
stops_scenario() {
    sleep 3
    systemctl stop "tardy@$1" && property "tardy@$1" ActiveState inactive && property "tardy@$1" Result success
}

settings 'TARDY_WATCH="--metrics 9877"'
step 'tardy-watch starts' starts "watch-$(uname -r)"
step 'tardy-watch is confined' is_confined
step 'its probes are real-time' is_real_time
step 'its run has samples while it measures' within 120 has_samples "$watch"
step 'it serves metrics' serves_metrics
step 'it stops' stops
step 'its run is finished' whole "$watch" finished
step 'it resumes' starts "watch-$(uname -r)"
step 'killed, it starts again and resumes' resumes_after_kill
step 'it stops again' stops
step 'the resumed run is finished' whole "$watch" finished
step 'the resumed run reports both gaps' is gaps "$(show "$watch" | grep -c '"warning": "resumed"')" 2

settings 'TARDY_WATCH_RUN=' 'TARDY_WATCH="--cpus 0 --explain"'
step 'with --explain it starts' systemctl start tardy-watch
step 'with --explain it has samples' within 300 another_has_samples "$watch" 2000
step 'with --explain it stops' stops
step 'the traced run is finished' whole "$(newest)" finished
step 'the traced run is explained' explains
step 'no trace is left' no_trace_left

settings 'TARDY_WATCH_RUN=' 'TARDY_WATCH="--cpus 0 --stop-above 1us --tracing-off"'
step 'with --stop-above it ends' runs tardy-watch
step 'the run is stopped' whole "$(newest)" stopped
step 'the trace is stopped' is tracing_on "$(cat /sys/kernel/tracing/tracing_on)" 0

settings 'TARDY_WATCH=--no-such-option'
step 'wrong words are not tried again' refuses_wrong_words

step 'tardy@default starts' starts_scenario default
step 'it may compact memory for reclaim' may_write tardy@default /proc/sys/vm/compact_memory
step 'tardy@default stops' stops_scenario default
step 'the stopped run is whole' whole "$(newest)" interrupted
step 'tardy@default runs' runs tardy@default
step 'the run of default is finished' whole "$(newest)" finished
# The period of abeni2002, 100 us, is refused if a wake-up costs more than 25 us, as in an emulated
# machine.
mkdir /etc/systemd/system/tardy@abeni2002.service.d
printf '[Service]\nExecStart=\nExecStart=/usr/bin/tardy run --quiet --scenario %%i --period 1ms\n' >/etc/systemd/system/tardy@abeni2002.service.d/period.conf
systemctl daemon-reload
step 'tardy@abeni2002 runs' runs tardy@abeni2002
# Three loads of abeni2002 need --allow, which the unit does not give.
lacking=${lacking/load-absent|/}
step 'the run of abeni2002 is finished' whole "$(newest)" finished
journalctl --no-pager --boot --unit 'tardy*'
echo end >&4
systemctl --no-block start poweroff.target
