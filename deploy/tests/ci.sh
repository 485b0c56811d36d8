#!/bin/bash
# Checks GitHub's action and workflow and GitLab's job against their published schemas, runs their steps as a runner would, and checks the export for KCIDB with
# the library of KCIDB. Needs check-jsonschema and kcidb-io in the Python environment at $VENV.
#     ci.sh TARDY FOLDER
set -euo pipefail
tardy=$(readlink -f "$1")
folder=$(mkdir -p "$2" && cd "$2" && pwd)
deploy=$(cd "$(dirname "$0")/.." && pwd)
export PATH=$VENV/bin:$PATH
check-jsonschema --builtin-schema vendor.github-actions "$deploy/github/action.yml"
check-jsonschema --builtin-schema vendor.github-workflows "$deploy/github/workflow.yml"
check-jsonschema --builtin-schema vendor.gitlab-ci "$deploy/gitlab/tardy.yml"

# Runs the steps of the action, with its inputs in the environment as GitHub's runner sets them.
python3 - "$deploy/github/action.yml" > "$folder/action.sh" <<'END'
import sys
import yaml
(step,) = yaml.safe_load(open(sys.argv[1]))["runs"]["steps"]
print(step["run"])
END
export TARDY=$tardy OUT=run GOOD= MARGIN=5% INCONCLUSIVE=fail BUILD=c0ffee BOARD=board7 GITHUB_STEP_SUMMARY=$folder/summary GITHUB_OUTPUT=$folder/output
cd "$folder"
github() { : > output; code=0; ARGUMENTS=$1 bash --noprofile --norc -eo pipefail action.sh > said.out 2> said || code=$?; grep -q "^code=$2\$" output || { cat output said; exit 1; }; }
github "--for 1s --load none --deadline 10s" 0
[ "$code" -eq 0 ] && grep -q PASSED summary && [ -e run.xml ]
rm -r run run.xml summary
github "--for 1s --load none --deadline 1ns" 1
[ "$code" -eq 1 ] && grep -q FAILED summary && grep -q '<failure' run.xml
{ "$tardy" show run --json || [ $? -eq 1 ]; } | grep '"board": "board7"' > /dev/null
rm -r run
github "--for nothing" 2
[ "$code" -eq 2 ] && [ ! -e run ]
# Inconclusive, because ten samples cannot show a rate of one in a million.
few="--cycles 10 --load none --deadline 10s --misses 0.0001%"
: > summary; github "$few" 4
[ "$code" -eq 4 ] && grep -q "NOT PROVED" summary
rm -r run
INCONCLUSIVE=warn; github "$few" 4
[ "$code" -eq 0 ] && grep -q "::warning::tardy: NOT PROVED" said.out
INCONCLUSIVE=fail
rm -r run
printf '#!/bin/sh\nexit 3\n' > cannot && chmod 700 cannot
TARDY=./cannot; github "--for 1s" 3
[ "$code" -eq 3 ]
TARDY=$tardy
OUT=good1; github "--for 1s --load none --deadline 10s" 0
OUT=run GOOD=good1; : > summary; github "--for 1s --load none --deadline 10s" "[014]"
grep -Eq 'worse|better|equivalent|inconclusive' summary

python3 - "$deploy/gitlab/tardy.yml" > gitlab.sh <<'END'
import sys
import yaml
job = yaml.safe_load(open(sys.argv[1]))[".tardy"]
assert job["allow_failure"] == {"exit_codes": [104]}, job
print("\n".join(job["script"]))
END
export CI_COMMIT_SHA=c0ffee CI_RUNNER_DESCRIPTION=board7 TARDY_ARGUMENTS TARDY_INCONCLUSIVE=fail
gitlab() { code=0; TARDY_ARGUMENTS=$1; rm -rf tardy-run; bash -eo pipefail gitlab.sh > said.out 2> said || code=$?; [ "$code" -eq "$2" ] || { cat said; exit 1; }; }
gitlab "$few" 4
grep -q "NOT PROVED" said.out
TARDY_INCONCLUSIVE=warn; gitlab "$few" 104
TARDY=./cannot; gitlab "--for 1s" 3
TARDY=$tardy; gitlab "--for 1s --load none --deadline 10s" 0
gitlab "--for 1s --load none --deadline 1ns" 1
[ "$code" -eq 1 ] && grep -q '<failure' tardy-run.xml && grep -q '^# EOF' tardy-run.metrics && [ -s tardy-run.html ] || { cat said; exit 1; }

"$tardy" export tardy-run --format kcidb --origin board7 --build-id maestro:42 > kcidb.json
python3 -c 'import json, kcidb_io; kcidb_io.schema.LATEST.validate_exactly(json.load(open("kcidb.json")))'
