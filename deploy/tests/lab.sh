# Sourced by tests: makes the reference results of an experiment of the lab (eight guests of four kernels) on this machine, in $folder/../lab. All engines compare
# their results with them. Needs qemu-system-x86_64, and the distribution's kernels.
lab_words="--kernel debian:6.1 --kernel debian:6.1-rt --kernel debian:6.12 --kernel debian:5.10 --load fork --for 1s --replicas 2"
lab_reference=$(dirname "$folder")/lab
if [ ! -d "$lab_reference/table" ]; then
    rm -rf "$lab_reference"
    # shellcheck disable=SC2086 # they are words
    "$tardy" lab run $lab_words --out "$lab_reference/exp" > /dev/null
    mkdir "$lab_reference/table"
    "$tardy" show "$lab_reference/exp" > "$lab_reference/table/text" || [ $? -eq 4 ]
fi
digests() { (cd "$1" && find . -path '*/samples/*' -type f | sort | xargs sha256sum); }
# Checks that the folder has the same samples as the reference, byte for byte, and the same table.
is_that_of_one_machine() {
    [ "$(digests "$1" | wc -l)" -eq 8 ] || { echo "$1 does not have eight guests" >&2; return 1; }
    diff <(digests "$1") <(digests "$lab_reference/exp")
    { "$tardy" show "$1" || [ $? -eq 4 ]; } | diff - "$lab_reference/table/text"
}
