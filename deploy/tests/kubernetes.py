"""Tests the Job of deploy/kubernetes on an API server: the server accepts it, each node gets one Pod, and the containers' commands succeed.

    kubernetes.py TOKEN JOB TARDY RESULTS
"""

import json
import os
import shutil
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request

import yaml

SERVER = "https://127.0.0.1:17443"
PATIENCE = 60
token, job_file, tardy, results = sys.argv[1:]
# The server's certificate was made for this test, so no authority has signed it.
unknown = ssl._create_unverified_context()


def ask(method, path, body=None, kind="application/json"):
    """Returns the server's answer to a request."""
    request = urllib.request.Request(SERVER + path, method=method, data=body and json.dumps(body).encode())
    request.add_header("Authorization", f"Bearer {token}")
    request.add_header("Content-Type", kind)
    try:
        with urllib.request.urlopen(request, context=unknown, timeout=10) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        raise RuntimeError(f"{method} {path}: {error.read().decode()}") from None


def until(what, is_there):
    """Waits until a condition returns a true value, and returns this value."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            if found := is_there():
                return found
        except (RuntimeError, urllib.error.URLError, OSError) as error:
            last = error
        else:
            last = "not yet"
        if time.monotonic() > end:
            raise SystemExit(f"{what} did not appear: {last}")
        time.sleep(0.2)


def add_node(name):
    """Adds a node, and reports it as ready, as its kubelet would."""
    labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}
    ask("POST", "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}})
    sizes = {"cpu": "4", "memory": "8Gi", "pods": "10"}
    status = {"capacity": sizes, "allocatable": sizes, "conditions": [{"type": "Ready", "status": "True"}]}
    ask("PATCH", f"/api/v1/nodes/{name}/status", {"status": status}, "application/merge-patch+json")
    ask("PATCH", f"/api/v1/nodes/{name}", {"spec": {"taints": None}}, "application/merge-patch+json")


def pods():
    return ask("GET", "/api/v1/namespaces/default/pods")["items"]


def node_of(pod):
    return pod["spec"].get("nodeName")


def is_refused(pod):
    """Returns whether the scheduler has found no node for the Pod."""
    conditions = pod["status"].get("conditions", [])
    return any(each["type"] == "PodScheduled" and each.get("reason") == "Unschedulable" for each in conditions)


def value(pod, variable):
    """Returns the value of an environment variable, which may refer to a field of the Pod."""
    if "value" in variable:
        return variable["value"]
    field = variable["valueFrom"]["fieldRef"]["fieldPath"]
    if field == "spec.nodeName":
        return node_of(pod)
    label = field.removeprefix("metadata.labels['").removesuffix("']")
    return pod["metadata"]["labels"][label]


def run(pod):
    """Does what a kubelet would do: runs the container's command with its environment and volumes, and reports the Pod's end."""
    (container,) = pod["spec"]["containers"]
    environment = {variable["name"]: value(pod, variable) for variable in container["env"]}
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert set(mounts) == {"results", "scratch"}, mounts
    # The image consists of this machine's programs and tardy's binary, in a separate mount namespace.
    image = os.path.abspath(os.path.join(results, "..", "image"))
    os.makedirs(image, exist_ok=True)
    shutil.copy(tardy, os.path.join(image, "tardy"))
    is_new = not os.path.exists(mounts["results"])
    script = f'mkdir -p {mounts["results"]} && mount --bind "$1" /usr/local/bin && mount --bind "$2" {mounts["results"]} && ' \
        f'mount -t tmpfs scratch {mounts["scratch"]} && shift 2 && exec "$@"'
    environment["PATH"] = "/usr/local/bin:/usr/bin:/bin"
    command = ["unshare", "--mount", "sh", "-c", script, "sh", image, os.path.abspath(results), *container["command"], *container["args"]]
    code = subprocess.run(command, env=environment, timeout=PATIENCE).returncode
    if is_new:
        os.rmdir(mounts["results"])
    status = {"phase": "Failed" if code else "Succeeded"}
    name = pod["metadata"]["name"]
    ask("PATCH", f"/api/v1/namespaces/default/pods/{name}/status", {"status": status}, "application/merge-patch+json")


until("the server", lambda: ask("GET", "/api/v1/namespaces/default"))
until("the account of the Pods", lambda: ask("GET", "/api/v1/namespaces/default/serviceaccounts/default"))
for name in ("board1", "board2"):
    add_node(name)
size = {"storage": "1Gi"}
modes = ["ReadWriteMany"]
claim = {"namespace": "default", "name": "tardy-results"}
volume = {"capacity": size, "accessModes": modes, "storageClassName": "", "hostPath": {"path": results}, "claimRef": claim}
ask("POST", "/api/v1/persistentvolumes", {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "results"}, "spec": volume})
wish = {"accessModes": modes, "resources": {"requests": size}, "storageClassName": "", "volumeName": "results"}
claims = "/api/v1/namespaces/default/persistentvolumeclaims"
ask("POST", claims, {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": claim["name"]}, "spec": wish})
until("the storage", lambda: ask("GET", f"{claims}/tardy-results")["status"].get("phase") == "Bound")

job = yaml.safe_load(open(job_file))
assert job["spec"]["completions"] == 3
(container,) = job["spec"]["template"]["spec"]["containers"]
container["args"] = [line.replace("--for 10m", "--for 2s --load none") for line in container["args"]]
# With fieldValidation=Strict, a field that the server does not know is an error.
ask("POST", "/apis/batch/v1/namespaces/default/jobs?fieldValidation=Strict", job)

# Two of the Pods get a node each, and the third waits, because no node may get two.
two = until("two Pods on two nodes", lambda: (all_ := pods()) and len(all_) == 3 and sum(map(is_refused, all_)) == 1 and all_)
assert {node_of(pod) for pod in two} == {"board1", "board2", None}, [node_of(pod) for pod in two]
add_node("board3")
three = until("three Pods on three nodes", lambda: (all_ := pods()) and len({node_of(pod) for pod in all_} - {None}) == 3 and all_)
for pod in three:
    assert pod["status"]["qosClass"] == "Guaranteed", pod["status"]
    run(pod)
done = until("the Job's end", lambda: (status := ask("GET", "/apis/batch/v1/namespaces/default/jobs/tardy")["status"]).get("completionTime") and status)
assert done["succeeded"] == 3 and done["completedIndexes"] == "0-2", done
for name in ("board1", "board2", "board3"):
    shown = subprocess.run([tardy, "show", os.path.join(results, "tardy", name), "--json"], stdout=subprocess.PIPE, text=True)
    assert json.loads(shown.stdout)["labels"]["board"] == name, shown.stdout
print("\n".join(f'{pod["metadata"]["name"]} on {node_of(pod)}: {pod["status"]["qosClass"]}' for pod in three))
