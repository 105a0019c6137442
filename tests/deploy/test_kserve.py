"""What is for KServe fits its kinds, KEDA's and Prometheus', and what its runtime says starts the real server."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from tests import models
from tests.deploy import tools
from tests.deploy.queries import selectors, wrong_in
from tests.integration.clients import expected, infer, rows
from tests.integration.daemon import Daemon, eventually
from tests.metrics_reference_test import REPOSITORY

pytestmark = pytest.mark.slow

FOLDER = REPOSITORY / "deploy/kubernetes/kserve"
EXAMPLES = sorted((FOLDER / "examples").glob("*.yaml"))
# Kinds that Kubernetes has itself.
BUILT_IN = {"v1", "batch/v1"}
ROLLOUT_SECONDS = 600  # KServe's, fixed

Object = dict[str, Any]

# By the name of the runtime.
RUNTIMES = {"stoker": FOLDER / "runtime.yaml", "stoker-gpu": FOLDER / "runtime-gpu.yaml"}

each_example = pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)


def read(path: Path) -> list[Object]:
    return list(yaml.safe_load_all(path.read_text()))


def runtime(name: str = "stoker") -> Object:
    (found,) = read(RUNTIMES[name])
    assert found["metadata"]["name"] == name
    return found["spec"]


def container(name: str = "stoker") -> Object:
    (found,) = runtime(name)["containers"]
    return found


def service(example: Path) -> Object:
    (found,) = [each for each in read(example) if each["kind"] == "InferenceService"]
    return found


def predictor(example: Path) -> Object:
    return service(example)["spec"]["predictor"]


def runtime_of(example: Path) -> str:
    return predictor(example)["model"].get("runtime", "stoker")


def flag(arguments: list[str], name: str) -> str:
    (found,) = [a.removeprefix(f"{name}=") for a in arguments if a.startswith(f"{name}=")]
    return found


@pytest.mark.parametrize("path", [*FOLDER.glob("*.yaml"), *EXAMPLES], ids=lambda path: path.stem)
def test_the_objects_fit_their_kinds(path: Path, tmp_path: Path) -> None:
    custom = [each for each in read(path) if each["apiVersion"] not in BUILT_IN]
    assert not custom or not tools.misfits(custom, tmp_path)
    plain = [each for each in read(path) if each["apiVersion"] in BUILT_IN]
    if plain:
        (tmp_path / "plain.yaml").write_text(yaml.safe_dump_all(plain))
        command = [str(tools.python()), "-m", "kubernetes_validate", "--strict", "-k", "1.35.0"]
        done = subprocess.run([*command, str(tmp_path / "plain.yaml")], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr


def test_a_misspelt_field_is_seen(tmp_path: Path) -> None:
    (wrong,) = read(FOLDER / "runtime.yaml")
    wrong["spec"]["containers"][0]["startupProb"] = wrong["spec"]["containers"][0].pop("startupProbe")
    assert "startupProb" in tools.misfits([wrong], tmp_path)


def test_what_kserve_expects_of_a_runtime() -> None:
    """Most of it is looked for by name, and missed only when a service doesn't come up."""
    assert container()["name"] == "kserve-container"
    assert runtime()["protocolVersions"] == ["grpc-v2"]
    # Two runtimes that are chosen for one format are refused.
    for name, chosen in (("stoker", {"pt2", "torch_export"}), ("stoker-gpu", set())):
        formats = {each["name"]: each for each in runtime(name)["supportedModelFormats"]}
        assert {each for each in formats if formats[each].get("autoSelect")} == chosen
        assert formats.keys() == {"pt2", "torch_export", "pytorch"}
    first, *others = container()["ports"]
    assert first == {"name": "h2c", "containerPort": 8001, "protocol": "TCP"}
    assert [port["name"] for port in others] == ["http1", "metrics"]
    startup = container()["startupProbe"]
    budget = startup["periodSeconds"] * startup["failureThreshold"]
    assert float(flag(container()["args"], "--repository-wait-seconds")) < budget < ROLLOUT_SECONDS
    names = (REPOSITORY / "server/rpc/rpc_server.cc").read_text()
    for probe in ("startup", "readiness", "liveness"):
        assert container()[f"{probe}Probe"]["grpc"] == {"port": 8001, "service": probe}
        assert f'service == "{probe}"' in names
    mounts = {mount["name"]: mount["mountPath"] for mount in container()["volumeMounts"]}
    assert mounts.keys() == {volume["name"] for volume in runtime()["volumes"]}
    assert flag(container()["args"], "--cache").startswith(mounts["stoker-cache"] + "/")


def test_the_runtime_for_gpus_is_the_other_one_beside_the_gpus() -> None:
    expected, found = runtime(), runtime("stoker-gpu")
    assert found.pop("tolerations") == [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    (server,) = found["containers"]
    assert server["image"] == f"{container()['image']}-cuda"
    assert server["args"] == [*container()["args"], "--default-device=cuda:auto"]
    assert server["resources"]["limits"].pop("nvidia.com/gpu") == "1"
    server |= {name: container()[name] for name in ("image", "args")}
    assert server.pop("resources").keys() == expected["containers"][0].pop("resources").keys()
    del expected["supportedModelFormats"], found["supportedModelFormats"]
    assert found == expected


def test_the_monitor_finds_the_pods() -> None:
    (monitor,) = read(FOLDER / "podmonitor.yaml")
    wanted = monitor["spec"]["selector"]["matchLabels"]
    # KServe labels predictors so.
    assert wanted == runtime()["labels"] | {"component": "predictor"}
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    assert endpoint["port"] in {port["name"] for port in container()["ports"]}


@each_example
def test_an_example_goes_with_the_runtime(example: Path) -> None:
    spec = predictor(example)
    model = spec["model"]
    assert model["protocolVersion"] == "grpc-v2"
    formats = {each["name"]: each for each in runtime(runtime_of(example))["supportedModelFormats"]}
    chosen = formats[model["modelFormat"]["name"]]
    assert chosen.get("autoSelect") or model["runtime"] in RUNTIMES
    drain = float(flag(container()["args"], "--drain-seconds"))
    stop = container()["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert spec["terminationGracePeriodSeconds"] == stop + drain + 10
    mounted = {mount["name"]: mount for mount in model.get("volumeMounts", [])}
    assert mounted.keys() == {volume["name"] for volume in spec.get("volumes", [])}
    assert all(mount["readOnly"] for mount in mounted.values())
    arguments = model.get("args", [])
    if "--require-cache" in arguments:
        mount = mounted["kernels"]
        layer = flag(arguments, "--cache-layer")
        assert layer == mount["mountPath"] or layer.startswith(mount["mountPath"] + "/")
    if "trust" in mounted:
        assert flag(arguments, "--trust") == mounted["trust"]["mountPath"] + "/trusted.pem"


@each_example
def test_every_flag_is_one_of_stokerds(example: Path) -> None:
    known = set(re.findall(r'(--[a-z][a-z-]+)[",]', (REPOSITORY / "server/main/options.cc").read_text()))
    (job,) = read(FOLDER / "warm.yaml")
    (warm,) = job["spec"]["template"]["spec"]["containers"]
    own = container(runtime_of(example))["args"]
    for arguments in (own + predictor(example)["model"].get("args", []), warm["args"]):
        flags = [argument.split("=")[0] for argument in arguments]
        assert set(flags) <= known and len(set(flags)) == len(flags), flags


def test_the_job_fills_what_the_service_reads() -> None:
    path = FOLDER / "examples/pvc.yaml"
    job = read(FOLDER / "warm.yaml")[0]["spec"]["template"]["spec"]
    (warm,) = job["containers"]
    model = predictor(path)["model"]
    assert flag(warm["args"], "--cache") == flag(model["args"], "--cache-layer")
    assert flag(warm["args"], "--model-name") == service(path)["metadata"]["name"]
    # The number of cores is part of the keys.
    assert warm["resources"]["limits"]["cpu"] == container()["resources"]["limits"]["cpu"]
    claims = {v["name"]: v["persistentVolumeClaim"] for v in job["volumes"] if "persistentVolumeClaim" in v}
    assert predictor(path)["volumes"][0]["persistentVolumeClaim"]["claimName"] == claims["kernels"]["claimName"]
    (mount,) = [m for m in warm["volumeMounts"] if m["name"] == "models"]
    assert model["storageUri"] == f"pvc://{claims['models']['claimName']}/{mount['subPath']}"


def test_the_query_that_scales(tmp_path: Path) -> None:
    (metric,) = predictor(FOLDER / "examples/scaled.yaml")["autoScaling"]["metrics"]
    query = metric["external"]["metric"]["query"]
    assert {each.name for each in selectors(query)} == {"stoker_queue_seconds_sum", "stoker_queue_seconds_count"}
    assert not list(wrong_in(query))
    # Two pods that answer eight requests a second, which wait 125 and 62.5 ms; one of another service.
    series = [
        {"series": f'stoker_queue_seconds_{part}{{namespace="default", pod="{pod}", model="minilm"}}', "values": values}
        for pod, part, values in (
            ("minilm-predictor-1", "sum", "0+15x20"), ("minilm-predictor-1", "count", "0+120x20"),
            ("minilm-predictor-2", "sum", "0+7.5x20"), ("minilm-predictor-2", "count", "0+120x20"),
            ("other-predictor-1", "sum", "0+99x20"), ("other-predictor-1", "count", "0+99x20"),
        )
    ]  # fmt: skip
    value = [{"expr": query, "eval_time": "5m", "exp_samples": [{"labels": "{}", "value": 0.1875}]}]
    case = {"tests": [{"interval": "15s", "input_series": series, "promql_expr_test": value}]}
    (tmp_path / "case.yaml").write_text(yaml.safe_dump(case))
    command = [tools.of_package("promtool", "prometheus"), "test", "rules", str(tmp_path / "case.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("late", [False, True], ids=["volume", "link"])
def test_the_runtime_serves_what_kserve_mounts(tmp_path: Path, late: bool) -> None:
    """The runtime's arguments, but for places and ports, with model.pt2 itself in the folder: there at once
    (a volume, the storage initializer), or behind a link that another container makes."""
    content = models.write("mlp", tmp_path / "storage").parent
    shutil.copy(content.parent / "model.yaml", content)
    mount = tmp_path / "mnt/models"
    mount.parent.mkdir()
    if not late:
        shutil.copytree(content, mount)
    arguments = [argument.replace("{{.Name}}", "greeter") for argument in container()["args"]]
    given = [a for a in arguments if not a.startswith(("--model-repository=", "--cache="))]
    with Daemon(mount, tmp_path / "cache/kernels", tmp_path / "log", *given) as daemon:
        if late:
            eventually(lambda: "waiting for it" in daemon.log(), "it waits", 10)
            mount.symlink_to(content)
        daemon.wait_ready(60)
        # The kubelet's own questions.
        for probe in ("startup", "readiness", "liveness"):
            asked = container()[f"{probe}Probe"]
            command = [tools.built("probe"), str(daemon.port), asked["grpc"]["service"], f"{asked['timeoutSeconds']}s"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=30)
            assert done.returncode == 0 and done.stdout.startswith("success"), done.stdout + done.stderr
        with daemon.client() as client:
            x = rows(2)
            assert np.abs(infer(client, x, "greeter") - expected(x)).max() < 1e-5
        assert daemon.stop() == 0
