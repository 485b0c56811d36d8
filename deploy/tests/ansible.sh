#!/bin/bash
# Tests the role on two hosts, which are both this machine: one locally, one over ssh. Needs openssh-server, ansible-core in the Python environment at $VENV, and root.
#     ansible.sh TARDY FOLDER
set -euo pipefail
tardy=$(readlink -f "$1")
folder=$(mkdir -p "$2" && cd "$2" && pwd)
deploy=$(cd "$(dirname "$0")/.." && pwd)
export PATH=$VENV/bin:$PATH ANSIBLE_HOME=$folder/ansible ANSIBLE_LOCALHOST_WARNING=False
. "$deploy/tests/sshd.sh"
trap 'end_sshd; wait' EXIT
cat > "$folder/hosts" <<END
board1 ansible_connection=local
board2 ansible_host=127.0.0.1 ansible_port=$port ansible_user=root ansible_ssh_common_args='-F $ssh_config'
END
ansible-playbook -i "$folder/hosts" "$deploy/ansible/measure.yml" -e ansible_python_interpreter="$VENV/bin/python3" -e tardy_binary="$tardy" \
    -e tardy_results="$folder/rack" -e '{"tardy_arguments": ["--for", "2s", "--load", "none"]}' > "$folder/log" || { cat "$folder/log"; exit 1; }
"$tardy" show "$folder/rack" || [ $? -eq 4 ]
for board in board1 board2; do
    "$tardy" show "$folder/rack/$board" --json | grep "\"board\": \"$board\"" > /dev/null
done
if ls -d "$folder"/*.tardy 2>/dev/null; then exit 1; fi
