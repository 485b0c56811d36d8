# Sourced by tests: starts an sshd on loopback, through which this machine acts as a board. Sets $port, $identity and $ssh_config; `end_sshd` ends it.
# With SSHD_ADDRESS, it only writes the files for an sshd at that address, which the test starts itself.
ssh-keygen -q -t ed25519 -N '' -f "$folder/host-key"
ssh-keygen -q -t ed25519 -N '' -f "$folder/user-key"
port=${SSHD_PORT:-17022}
identity=$folder/user-key
ssh_config=$folder/ssh_config
cat > "$folder/sshd_config" <<END
Port $port
ListenAddress ${SSHD_ADDRESS:-127.0.0.1}
HostKey $folder/host-key
AuthorizedKeysFile $folder/user-key.pub
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin prohibit-password
SetEnv TMPDIR=$folder TARDY_STATE_DIR=$folder/state
Subsystem sftp internal-sftp
END
cat > "$ssh_config" <<END
Host *
  IdentityFile $identity
  IdentitiesOnly yes
  StrictHostKeyChecking no
  UserKnownHostsFile /dev/null
  LogLevel ERROR
END
[ -z "${SSHD_ADDRESS:-}" ] || return 0
mkdir -p /run/sshd
/usr/sbin/sshd -D -f "$folder/sshd_config" 2>/dev/null &
sshd=$!
end_sshd() { kill "$sshd" 2>/dev/null || true; }
for _ in $(seq 50); do
    ssh -F "$ssh_config" -p "$port" root@127.0.0.1 true 2>/dev/null && break
    sleep 0.2
done
