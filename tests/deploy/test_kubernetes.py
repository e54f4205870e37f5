"""The manifests are Kubernetes', key by key, and hold what they promise."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from gatekeeper.policy.load import load_policy
from hosting.config import load_config
from sidegate.commands.serve import SERVICES, _imported

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "kubernetes"
VERSION = "1.36"
"""The oldest Kubernetes in which everything here is stable."""
CUSTOM = {"cert-manager.io/v1"}
"""Kinds that are not Kubernetes' own; their keys are checked by the table below."""
CERTIFICATE_KEYS = {
    "secretName", "issuerRef", "uris", "dnsNames", "usages", "privateKey", "duration",
    "renewBefore",
}  # fmt: skip
KUSTOMIZATION_KEYS = {
    "apiVersion", "kind", "namespace", "resources", "configMapGenerator", "images", "patches",
}  # fmt: skip
BUILT = ("base", "overlays/cert-manager", "overlays/spiffe", "app", "audit", "injection")


def documents() -> Iterator[tuple[str, dict[str, Any]]]:
    for path in sorted(FOLDER.rglob("*.yaml")):
        if "config" in path.relative_to(FOLDER).parts or path.name == "kustomization.yaml":
            continue
        for document in yaml.safe_load_all(path.read_text()):
            name = f"{path.relative_to(FOLDER)}:{document['kind']}/{document['metadata']['name']}"
            yield name, document


DOCUMENTS = dict(documents())


def pods() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every pod's spec, wherever it is in its document."""
    for name, document in DOCUMENTS.items():
        spec = document.get("spec", {})
        spec = spec.get("jobTemplate", {}).get("spec", spec)
        if "template" in spec:
            yield name, spec["template"]["spec"]


def containers(pod: dict[str, Any]) -> list[dict[str, Any]]:
    return [*pod.get("initContainers", []), *pod["containers"]]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_manifest_is_valid_and_has_no_key_that_kubernetes_does_not_know(name: str) -> None:
    document = DOCUMENTS[name]
    if document["apiVersion"] in CUSTOM:
        assert document["kind"] == "Certificate"
        assert document["spec"].keys() <= CERTIFICATE_KEYS
        return
    # Strict: the schemas as published let unknown keys pass.
    kubernetes_validate.validate(document, VERSION, strict=True)


def test_a_misspelt_key_is_found() -> None:
    document = {**DOCUMENTS["base/core.yaml:StatefulSet/core"]}
    document["spec"] = {**document["spec"], "replica": 1}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(document, VERSION, strict=True)


@pytest.mark.parametrize("folder", BUILT)
def test_a_kustomization_names_files_that_exist_and_keys_that_are_its_own(folder: str) -> None:
    path = FOLDER / folder
    document = yaml.safe_load((path / "kustomization.yaml").read_text())
    assert document.keys() <= KUSTOMIZATION_KEYS
    for resource in document["resources"]:
        assert (path / resource).exists(), resource
    for generator in document.get("configMapGenerator", []):
        assert all((path / file).is_file() for file in generator["files"])
    for patch in document.get("patches", []):
        kind, name = patch["target"]["kind"], patch["target"]["name"]
        target = next(one for key, one in DOCUMENTS.items() if key.endswith(f":{kind}/{name}"))
        for operation in yaml.safe_load(patch["patch"]):
            index = int(operation["path"].rpartition("/")[2])
            replaced = target["spec"]["template"]["spec"]["volumes"][index]["name"]
            assert replaced == operation["value"]["name"] == "tls"


@pytest.mark.skipif(shutil.which("kustomize") is None, reason="needs kustomize")
@pytest.mark.parametrize("folder", BUILT)
def test_what_kustomize_builds_is_valid_too(folder: str) -> None:
    done = subprocess.run(
        ["kustomize", "build", folder], cwd=FOLDER, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    for document in yaml.safe_load_all(done.stdout):
        if document["apiVersion"] not in CUSTOM:
            kubernetes_validate.validate(document, VERSION, strict=True)


@pytest.mark.parametrize(("name", "pod"), list(pods()), ids=[name for name, _ in pods()])
def test_a_pod_of_ours_is_locked_down(name: str, pod: dict[str, Any]) -> None:
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in containers(pod):
        context = container["securityContext"]
        assert context["allowPrivilegeEscalation"] is False
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert "memory" in container["resources"]["limits"]
        if container["image"].startswith("sidegate-"):
            assert context["readOnlyRootFilesystem"] is True


def test_every_long_running_container_of_ours_has_probes() -> None:
    for name, pod in pods():
        for container in containers(pod):
            if container["image"].startswith("sidegate-") and "audit" not in name:
                assert container["readinessProbe"]["httpGet"]["path"] == "/readyz", name
                assert container["livenessProbe"]["httpGet"]["path"] == "/healthz", name


def test_the_sidecar_starts_before_its_app_and_sends_everything_before_it_stops() -> None:
    pod = dict(pods())["app/shop.yaml:Deployment/shop"]
    (sidecar,) = pod["initContainers"]
    assert sidecar["restartPolicy"] == "Always"
    command = sidecar["lifecycle"]["preStop"]["exec"]["command"]
    assert command[:2] == ["sidegate", "drain"]
    assert float(command[-1]) < pod["terminationGracePeriodSeconds"]


def test_only_gatekeepers_reach_the_core() -> None:
    policy = DOCUMENTS["base/network.yaml:NetworkPolicy/core"]["spec"]
    reach = {port["port"]: rule["from"] for rule in policy["ingress"] for port in rule["ports"]}
    assert reach[7443] == [{"podSelector": {"matchLabels": {"sidegate": "gatekeeper"}}}]
    assert policy["egress"] == []
    labelled = [
        name
        for name, document in DOCUMENTS.items()
        if document.get("spec", {})
        .get("template", {})
        .get("metadata", {})
        .get("labels", {})
        .get("sidegate")
        == "gatekeeper"
    ]
    assert labelled == [
        "base/gatekeeper.yaml:Deployment/gatekeeper", "base/witness.yaml:StatefulSet/witness",
    ]  # fmt: skip
    assert DOCUMENTS["base/network.yaml:NetworkPolicy/nobody"]["spec"] == {
        "podSelector": {},
        "policyTypes": ["Ingress"],
    }


@pytest.mark.parametrize(
    ("service", "file"),
    [
        ("core", "base/config/core.yaml"),
        ("gatekeeper", "base/config/gatekeeper.yaml"),
        ("sidecar", "app/config/sidecar.yaml"),
    ],
)
def test_a_configuration_is_sound_and_names_folders_that_are_mounted(
    service: str, file: str
) -> None:
    path = FOLDER / file
    load_config(_imported(SERVICES[service][0]), service=service, path=path, environ={})
    mounted = {
        mount["mountPath"]
        for _, pod in pods()
        for container in containers(pod)
        if container["image"] == f"sidegate-{service}"
        for mount in container["volumeMounts"]
    }
    for named in re.findall(r"(/(?:etc|var)/[\w./-]+)", path.read_text()):
        assert any(named == folder or named.startswith(f"{folder}/") for folder in mounted), named


def test_the_policy_may_take_effect_and_passes_its_own_tests() -> None:
    folder = FOLDER / "base" / "config"
    data = (folder / "policy.yaml").read_bytes()
    assert load_policy(data, file="policy.yaml", folder=folder, environment="production")


def test_injection_gives_the_same_sidecar_as_the_example() -> None:
    text = DOCUMENTS["injection/policy.yaml:MutatingAdmissionPolicy/sidegate-injection"]
    expression = text["spec"]["mutations"][0]["applyConfiguration"]["expression"]
    pod = dict(pods())["app/shop.yaml:Deployment/shop"]
    for mount in pod["initContainers"][0]["volumeMounts"]:
        assert f'name: "{mount["name"]}", mountPath: "{mount["mountPath"]}"' in expression
    for volume in pod["volumes"]:
        assert f'name: "{volume["name"]}"' in expression
    assert expression.count("{") == expression.count("}")
    assert '"sidegate", "drain"' in expression
