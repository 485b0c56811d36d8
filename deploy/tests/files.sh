#!/bin/bash
# Checks the Kubernetes Job against the schema of its version, without running it. Needs kubernetes-validate in the Python environment at $VENV.
#     files.sh TARDY FOLDER
set -euo pipefail
deploy=$(cd "$(dirname "$0")/.." && pwd)
export PATH=$VENV/bin:$PATH
kubernetes-validate --strict "$deploy/kubernetes/boards.yaml"
# Every Pod has the quality of service Guaranteed: requests equal limits. CPUs are whole, so that the kubelet's static CPU manager gives them to one Pod.
python3 - "$deploy/kubernetes/boards.yaml" <<'END'
import sys
import yaml
job = yaml.safe_load(open(sys.argv[1]))
for container in job["spec"]["template"]["spec"]["containers"]:
    resources = container["resources"]
    assert resources["requests"] == resources["limits"] and resources["limits"]["cpu"].isdigit(), resources
END
