#!/bin/bash
# The job and the test definition by LAVA's own schemas, and the definition's steps as LAVA's runner would run them. Needs lava-common; root.
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
# LAVA's own program of this name prints such a signal.
printf '#!/bin/sh\necho "<LAVA_SIGNAL_TESTCASE TEST_CASE_ID=$1 RESULT=$3>"\n' > "$folder/bin/lava-test-case"
chmod +x "$folder/bin/lava-test-case"
mkdir -p "$folder/tmp"
PATH=$folder/bin:$PATH sh -e -c "$(sed "s|/tmp|$folder/tmp|g" "$folder/steps")" > "$folder/said" 2>"$folder/warned" || { cat "$folder/warned"; exit 1; }
grep -q 'TEST_CASE_ID=tardy-ran RESULT=pass' "$folder/said"
grep -Eq 'TEST_CASE_ID=tardy-proved RESULT=(pass|fail)' "$folder/said"
# Its result for each exit code of `tardy run`, and for what the job sets.
proved() { code=$1 TARDY_INCONCLUSIVE=$2 PATH=$folder/bin:$PATH sh -e -c "$(grep tardy-proved "$folder/steps")" | grep -q "RESULT=$3>" || { echo "tardy-proved: exit code $1, $2"; exit 1; }; }
proved 0 fail pass; proved 1 fail fail; proved 3 fail fail; proved 4 fail fail; proved 4 warn skip; proved 1 warn fail
grep -Eq 'TEST_CASE_ID=deadline RESULT=(pass|fail)' "$folder/said"
grep -Eq 'TEST_CASE_ID=[a-z-]+-cpu0-max .*MEASUREMENT=[0-9.]+ UNITS=us' "$folder/said"
grep LAVA_SIGNAL "$folder/said" | sed -n 1,4p
