"""Launch files of Ray clusters, as Ray's own schema, launcher, autoscaler and commands read them.

No package carries KubeRay's schemas. Of its manifests, what Ray's autoscaler reads is checked that way, and pods by the
models of Kubernetes' client; other keys, and what is a cloud's own, are held against what this file says.
"""

from __future__ import annotations

import re
import shlex
import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
import jsonschema
import pytest
import typer
import yaml
from headway.pipeline.cli import app
from kubernetes.client import models
from ray.autoscaler._private.kuberay.autoscaling_config import _derive_autoscaling_config_from_ray_cr
from ray.autoscaler._private.util import prepare_config, validate_config
from ray.scripts.scripts import start

ROOT = Path(__file__).parents[1]
LAUNCH = ROOT / "cluster" / "launch"
VMS = ("ray-aws.yaml", "ray-gcp.yaml")
PAGE = (ROOT / "docs" / "cloud.md").read_text()


def read(name: str) -> dict[str, Any]:
    return yaml.safe_load((LAUNCH / name).read_text())


def derived(cluster: dict[str, Any]) -> dict[str, Any]:
    """The autoscaler's configuration of a RayCluster."""
    config = _derive_autoscaling_config_from_ray_cr(
        cluster | {"metadata": {"namespace": "default"} | cluster["metadata"]}
    )
    validate_config(config)
    return config


@pytest.mark.parametrize("name", VMS)
def test_launcher_takes_it(name: str) -> None:
    config = read(name)
    validate_config(prepare_config(config))
    kinds = config["available_node_types"]
    assert kinds["head"]["resources"] == {"CPU": 0}
    assert kinds["gpu"]["resources"]["GPU"] == 1
    assert (kinds["gpu"]["min_workers"], kinds["gpu"]["max_workers"]) == (0, config["max_workers"])
    # Where nothing is said, Ray's defaults put a nightly Ray in the place of the image's.
    merged = prepare_config(config)
    for key in ("setup_commands", "head_setup_commands", "worker_setup_commands"):
        assert merged[key] == []


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"max_wokers": 2}, jsonschema.ValidationError),
        ({"docker": {"img": "x"}}, jsonschema.ValidationError),
        ({"head_node_type": "gone"}, ValueError),
    ],
)
def test_a_wrong_key_is_found(change: dict, error: type[Exception]) -> None:
    with pytest.raises(error):
        validate_config(prepare_config(read("ray-aws.yaml") | change))


@pytest.mark.parametrize("name", VMS)
def test_ray_is_started_by_options_that_it_has(name: str) -> None:
    config = read(name)
    for key in ("head_start_ray_commands", "worker_start_ray_commands"):
        (line,) = config[key]
        (words,) = re.findall(r"ray start (.*)$", line)
        given = start.make_context("start", shlex.split(words.replace("$RAY_HEAD_IP", "10.0.0.5"))).params
        assert given["head"] == (key == "head_start_ray_commands")
        assert "RAY_AUTH_MODE=token" in line
        assert "PATH=/opt/headway/bin:" in line
    with pytest.raises(click.NoSuchOption):
        start.make_context("start", ["--hed"])


def test_same_cluster_everywhere() -> None:
    """What both clouds' files say of nodes, image, token and commands; the image is where KubeRay looks, too."""
    aws, gcp = map(read, VMS)
    for key in aws.keys() - {"provider", "available_node_types"}:
        assert aws[key] == gcp[key], key
    image = aws["docker"]["image"]
    assert image == f"REGISTRY/headway:{version('headway')}"
    spec = read("raycluster.yaml")["spec"]
    pods = [group["template"]["spec"] for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"])]
    assert {container["image"] for pod in pods for container in pod["containers"]} == {image}
    assert "ENV PATH=/opt/headway/bin:" in (LAUNCH / "Dockerfile").read_text()


def test_autoscaler_reads_the_kubernetes_cluster() -> None:
    config = derived(read("raycluster.yaml"))
    kinds = config["available_node_types"]
    assert kinds["headgroup"]["resources"]["CPU"] == 0
    assert kinds["gpu"]["resources"].items() >= {"CPU": 16, "GPU": 1}.items()
    assert (kinds["gpu"]["min_workers"], kinds["gpu"]["max_workers"]) == (0, 4)
    assert config["idle_timeout_minutes"] == 5


def unknown(value: Any, kind: str, where: str = "") -> list[str]:
    """What a manifest says that a type of the Kubernetes API does not know, or says otherwise."""
    if nested := re.fullmatch(r"(list\[|dict\(str, )(.+)[\])]", kind):
        if not isinstance(value, list if nested[1] == "list[" else dict):
            return [where]
        pairs = enumerate(value) if isinstance(value, list) else value.items()
        return [bad for key, entry in pairs for bad in unknown(entry, nested[2], f"{where}.{key}")]
    if kind in (plain := {"str": str, "int": int, "bool": bool}):
        return [] if type(value) is plain[kind] else [where]
    model = getattr(models, kind)
    types = {model.attribute_map[name]: kind for name, kind in model.openapi_types.items()}
    if not isinstance(value, dict):
        return [where]
    found = [f"{where}.{key}" for key in value.keys() - types.keys()]
    return found + [bad for key in value.keys() & types for bad in unknown(value[key], types[key], f"{where}.{key}")]


def test_pods_are_what_kubernetes_knows() -> None:
    spec = read("raycluster.yaml")["spec"]
    for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"]):
        template = group["template"]
        assert unknown(template, "V1PodTemplateSpec") == []
        container = template["spec"]["containers"][0]
        template["spec"]["tolerations"] = {"key": "x"}
        container["image"] = 7
        container["volumeMount"] = container.pop("volumeMounts")
        wrong = {".spec.tolerations", ".spec.containers.0.image", ".spec.containers.0.volumeMount"}
        assert set(unknown(template, "V1PodTemplateSpec")) == wrong


def test_pods() -> None:
    """Volumes that are mounted are there, limits are requests (Ray counts on them), and the cache is on one."""
    cluster = read("raycluster.yaml")
    assert (cluster["apiVersion"], cluster["kind"]) == ("ray.io/v1", "RayCluster")
    spec = cluster["spec"]
    pinned = re.search(r"^ray==(.+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert pinned is not None
    assert spec["rayVersion"] == pinned[1]
    assert spec["authOptions"] == {"mode": "token"}
    assert spec["enableInTreeAutoscaling"] is True
    for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"]):
        pod = group["template"]["spec"]
        (container,) = pod["containers"]
        assert container["resources"]["limits"] == container["resources"]["requests"]
        assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}
        (cache,) = [entry["value"] for entry in container["env"] if entry["name"] == "XDG_CACHE_HOME"]
        assert cache in [mount["mountPath"] for mount in container["volumeMounts"]]


def test_job_of_the_kubernetes_cluster() -> None:
    job, cluster = read("rayjob.yaml"), read("raycluster.yaml")
    assert (job["apiVersion"], job["kind"]) == ("ray.io/v1", "RayJob")
    assert job["spec"]["clusterSelector"] == {"ray.io/cluster": cluster["metadata"]["name"]}
    given = parsed(shlex.split(job["spec"]["entrypoint"]))
    most = cluster["spec"]["workerGroupSpecs"][0]["maxReplicas"]
    assert given["overrides"] == ["query.workers=auto", f"query.count={most}"]
    assert given["resume"] is True
    assert given["device"] == "cuda"


def parsed(words: list[str]) -> dict[str, Any]:
    """What `headway` makes of a command; it raises for what it does not know."""
    assert words[0] == "headway"
    command: Any = typer.main.get_command(app)
    return command.commands[words[1]].make_context(words[1], words[2:]).params


def test_commands_of_the_page() -> None:
    blocks = re.findall(r"```\n(.*?)```", PAGE, re.DOTALL)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    found = [shlex.split(line, comments=True) for line in lines if line.startswith("headway ")]
    assert {words[1] for words in found} >= {"build", "query", "submit"}
    for words in found:
        given = parsed(words)
        if words[1] == "submit":
            assert given["words"][0] == "query"
            assert parsed(["headway", *given["words"]])["output"].startswith("s3://")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for names in re.findall(r"'\.\[([\w,]+)\]'", PAGE):
        assert set(names.split(",")) <= extras.keys()
    files = re.findall(r"cluster/launch/([\w.-]+)", PAGE)
    assert {"Dockerfile", "raycluster.yaml", "rayjob.yaml", *VMS} <= set(files)
    assert all((LAUNCH / name).exists() for name in files)
