"""The boundary of a Stack, and the objects inside it."""

import pytest

from hearth.model.kinds import Kind, ObjectRef
from hearth.model.tenancy import Mode, Tenancy
from hearth.settings import Settings

OWN = ObjectRef(group="", kind="ConfigMap", namespace="shop", name="a")
OTHER = ObjectRef(group="", kind="ConfigMap", namespace="other", name="a")
GLOBAL = ObjectRef(group="rbac.authorization.k8s.io", kind="ClusterRole", namespace="", name="a")
CLOSED = ObjectRef(group="", kind="ConfigMap", namespace="hearth-system", name="a")
CLOSED_NAMESPACE = ObjectRef(group="", kind="Namespace", namespace="", name="hearth-system")


@pytest.mark.parametrize(
    ("mode", "inside"),
    [
        pytest.param(Mode.ISOLATED, {OWN}, id="isolated: the namespace of the Stack"),
        pytest.param(Mode.TRUSTED, {OWN, OTHER, GLOBAL}, id="trusted: all but what is the operator's"),
    ],
)
def test_a_mode_decides_which_objects_are_inside(mode: Mode, inside: set[ObjectRef]) -> None:
    boundary = Tenancy(mode=mode, closed="hearth-system").find_boundary("shop")
    refs = (OWN, OTHER, GLOBAL, CLOSED, CLOSED_NAMESPACE)
    assert {ref for ref in refs if not boundary.find_denial(ref)} == inside


def test_a_denial_names_where_the_object_is_and_a_way_out() -> None:
    boundary = Tenancy().find_boundary("shop")
    assert boundary.find_denial(OTHER) == (
        "is in namespace other, but a Stack can only manage objects in its own namespace, shop; set "
        "spec.serviceAccountName to a ServiceAccount with rights in namespace other, remove metadata.namespace, or create "
        "the Stack in namespace other, or ask an administrator to start the operator with --tenancy=trusted"
    )
    assert boundary.find_denial(GLOBAL).startswith("is cluster-scoped, but")


@pytest.mark.parametrize(
    ("served", "closed"),
    [
        pytest.param(None, "hearth-system", id="all namespaces"),
        pytest.param("shop", "hearth-system", id="another one"),
        pytest.param("hearth-system", "", id="its own one alone"),
    ],
)
def test_the_operators_namespace_is_closed_unless_it_serves_that_alone(served: str | None, closed: str) -> None:
    assert Settings(namespace=served).make_tenancy() == Tenancy(mode=Mode.ISOLATED, closed=closed)


def test_a_stack_in_a_closed_namespace_is_denied_as_a_whole() -> None:
    tenancy = Tenancy(mode=Mode.TRUSTED, closed="hearth-system")
    assert "closed to every Stack" in tenancy.find_boundary("hearth-system").stack_denial
    assert tenancy.find_boundary("shop").stack_denial == ""


@pytest.mark.parametrize("mode", list(Mode))
def test_an_account_opens_every_namespace_but_the_operators(mode: Mode) -> None:
    boundary = Tenancy(mode=mode, closed="hearth-system").find_boundary("shop", "deployer")
    refs = (OWN, OTHER, GLOBAL, CLOSED, CLOSED_NAMESPACE)
    assert {ref for ref in refs if not boundary.find_denial(ref)} == {OWN, OTHER, GLOBAL}
    assert boundary.user == "system:serviceaccount:shop:deployer"


def test_a_strict_stack_needs_an_account() -> None:
    strict = Tenancy(mode=Mode.STRICT)
    assert strict.find_boundary("shop").denial_reason == "ServiceAccountRequired"
    assert strict.find_boundary("shop").find_denial(OWN)
    assert not strict.find_boundary("shop", "deployer").find_denial(OWN)
    given = Tenancy(mode=Mode.STRICT, default_account="usual")
    assert given.find_boundary("shop").account == "usual"
    assert given.find_boundary("shop", "deployer").account == "deployer"


@pytest.mark.parametrize("name", ["a b", "x\r\nImpersonate-Group: system:masters", "a:b", "../a", "A"])
def test_what_is_no_name_of_an_account_is_denied(name: str) -> None:
    assert Tenancy(mode=Mode.TRUSTED).find_boundary("shop", name).find_denial(OWN)


def test_a_grant_names_role_and_binding_for_the_account() -> None:
    boundary = Tenancy().find_boundary("shop", "deployer")
    kind = Kind(group="apps", version="v1", name="Deployment", plural="deployments", namespaced=True)
    assert boundary.explain_grant(kind, "other") == (
        "kubectl create role deployer-deployments --verb=get,create,patch,delete --resource=deployments.apps "
        "--namespace=other && kubectl create rolebinding deployer-deployments --role=deployer-deployments "
        "--serviceaccount=shop:deployer --namespace=other"
    )
    assert boundary.explain_grant(kind, "").startswith("kubectl create clusterrole deployer-deployments --verb=")
