#!/bin/bash
# Checks the job and the test definition against LAVA's own schemas, and runs the definition's steps as LAVA's runner would. Needs lava-common, and root.
#     lava.sh TARDY FOLDER
set -euo pipefail
tardy=$(readlink -f "$1")
folder=$(mkdir -p "$2" && cd "$2" && pwd)
deploy=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$folder/bin"
ln -sf "$tardy" "$folder/bin/tardy"
/usr/bin/python3 - "$deploy/lava" > "$folder/steps" <<'END'
import sys
import yaml
from lava_common import schemas
from lava_common.schemas.test import testdef

read = lambda name: yaml.safe_load(open(f"{sys.argv[1]}/{name}"))
schemas.validate(read("job.yaml"), strict=True)
definition = read("tardy.yaml")
testdef.validate(definition)
for name, value in {**definition["params"], "TARDY_FOR": "2s"}.items():
    print(f"{name}='{value}'")
print("\n".join(definition["run"]["steps"]))
END
# LAVA's own lava-test-case prints the same signal.
printf '#!/bin/sh\necho "<LAVA_SIGNAL_TESTCASE TEST_CASE_ID=$1 RESULT=$3>"\n' > "$folder/bin/lava-test-case"
chmod +x "$folder/bin/lava-test-case"
mkdir -p "$folder/tmp"
PATH=$folder/bin:$PATH sh -e -c "$(sed "s|/tmp|$folder/tmp|g" "$folder/steps")" > "$folder/said" 2>"$folder/warned" || { cat "$folder/warned"; exit 1; }
grep -q 'TEST_CASE_ID=tardy-ran RESULT=pass' "$folder/said"
grep -Eq 'TEST_CASE_ID=tardy-proved RESULT=(pass|fail)' "$folder/said"
cp "$folder/said" "$folder/first"
# Runs all steps for each exit code of `tardy run`, with TARDY_INCONCLUSIVE as `fail` and as `warn`. With exit code 3 there is no run, and the steps fail.
mv "$folder/tmp/tardy-run" "$folder/made"
rm "$folder/bin/tardy"
cat > "$folder/bin/tardy" <<END
#!/bin/sh
[ "\$1" = run ] || exec "$tardy" "\$@"
[ "\$CODE" -eq 3 ] || cp -r "$folder/made" "$folder/tmp/tardy-run"
exit "\$CODE"
END
chmod +x "$folder/bin/tardy"
while read -r CODE inconclusive ran proved steps; do
    sed "s|/tmp|$folder/tmp|g; s|^TARDY_INCONCLUSIVE=.*|TARDY_INCONCLUSIVE=$inconclusive|" "$folder/steps" > "$folder/again"
    ended=0
    CODE=$CODE PATH=$folder/bin:$PATH sh -e "$folder/again" > "$folder/said" 2> "$folder/warned" < /dev/null || ended=$?
    grep -q "TEST_CASE_ID=tardy-ran RESULT=$ran>" "$folder/said" && grep -q "TEST_CASE_ID=tardy-proved RESULT=$proved>" "$folder/said" &&
        [ $((ended == 0)) -eq "$steps" ] || { echo "exit code $CODE, $inconclusive: $ended"; cat "$folder/said" "$folder/warned"; exit 1; }
done <<< $'0 fail pass pass 1\n1 fail pass fail 1\n3 fail fail fail 0\n4 fail pass fail 1\n0 warn pass pass 1\n1 warn pass fail 1\n3 warn fail fail 0\n4 warn pass skip 1'
mv "$folder/first" "$folder/said"
grep -Eq 'TEST_CASE_ID=deadline RESULT=(pass|fail)' "$folder/said"
grep -Eq 'TEST_CASE_ID=[a-z-]+-cpu0-max .*MEASUREMENT=[0-9.]+ UNITS=us' "$folder/said"
grep LAVA_SIGNAL "$folder/said" | sed -n 1,4p
