#!/bin/bash
# What no engine runs here: the Kubernetes Job by the schema of its version, Yocto's recipe by oelint, Buildroot's package by make and kconfiglib.
# Needs make, and kubernetes-validate, oelint-adv and kconfiglib in the Python environment at $VENV.
#     files.sh TARDY FOLDER
set -euo pipefail
folder=$(mkdir -p "$2" && cd "$2" && pwd)
deploy=$(cd "$(dirname "$0")/.." && pwd)
export PATH=$VENV/bin:$PATH
kubernetes-validate --strict "$deploy/kubernetes/boards.yaml"
# Every Pod is Guaranteed: requests are limits, and CPUs are whole, so that the kubelet's static CPU manager gives them away.
python3 - "$deploy/kubernetes/boards.yaml" <<'END'
import sys
import yaml
job = yaml.safe_load(open(sys.argv[1]))
for container in job["spec"]["template"]["spec"]["containers"]:
    resources = container["resources"]
    assert resources["requests"] == resources["limits"] and resources["limits"]["cpu"].isdigit(), resources
END
cp "$deploy/yocto/"* "$folder/"
# What concerns a place on the network that is yours to fill in is no error of the recipe.
(cd "$folder" && oelint-adv --quiet --suppress oelint.vars.homepageping --exit-zero tardy_*.bb 2>&1 | grep -E ':(error|warning):' && exit 1 || true)
grep -q "md5=$(md5sum "$deploy/../LICENSE-MIT" | cut -d' ' -f1)" "$folder"/tardy_*.bb
version=$("$1" --version | cut -d' ' -f2)
[ -e "$folder/tardy_$version.bb" ]
python3 -c "import kconfiglib, sys; kconfig = kconfiglib.Kconfig(sys.argv[1], warn_to_stderr=False); assert 'BR2_PACKAGE_TARDY' in kconfig.syms" "$deploy/buildroot/Config.in"
printf 'cargo-package = $(info $(TARDY_VERSION) $(TARDY_LICENSE_FILES))\ninclude %s\nall:;@:\n' "$deploy/buildroot/tardy.mk" > "$folder/Makefile"
[ "$(make -s -f "$folder/Makefile")" = "$version LICENSE-APACHE LICENSE-MIT" ]
