"""The language server with the kinds of a real API server."""

from __future__ import annotations

from pathlib import Path

from support.real.language_client import LanguageClient
from support.real.real_user import RealUser

URI = "file:///work/shop.yaml"
STACK = """apiVersion: hearth.dev/v1alpha1
kind: Stack
metadata: {name: shop}
spec:
  template:
    resources:
      inner:
        manifest:
          apiVersion: hearth.dev/v1alpha1
          kind: Stack
          spec: {template: {resources: {}}}
      config:
        manifest: {apiVersion: v1, kind: ConfigMap, data: {a: "${inner.status.ph‸}"}}
"""


async def test_fields_and_mistakes_are_those_of_the_cluster(kubeconfig: Path, user: RealUser, tmp_path: Path) -> None:
    with LanguageClient("--cluster", "--kubeconfig", str(kubeconfig), folder=tmp_path) as editor:
        assert editor.complete(URI, STACK) == ["phase"]
        (found,) = editor.wait_diagnostics(URI)
        assert "there is no field 'ph' in Stack.status" in found["message"]
        assert editor.end() == 0
