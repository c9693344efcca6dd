"""Situations where the definition, permissions, the cluster or another Stack hold up a Stack."""

from __future__ import annotations

from support.real.situations.situation import (
    WAITING,
    Object,
    Situation,
    config,
    deployment,
    nested,
    pods,
    quota,
    resource,
)

CLAIM: Object = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": ""},
}
STACK_SITUATIONS = (
    Situation(
        name="claim",
        resources={"disk": resource(CLAIM)},
        expected=[
            "disk (persistentvolumeclaim/claim-disk): progressing",
            "FailedBinding: no persistent volumes available",
        ],
    ),
    Situation(
        name="chain",
        resources={
            "web": resource(deployment(nodeSelector={"disk": "golden"})),
            "middle": resource(config(), dependsOn=["web"]),
            "last": resource(config(data={"of": "${middle.metadata.name}"})),
        },
        where="last",
        expected=[
            "└─ last (configmap): waiting: waits for middle",
            "   └─ middle (configmap): waiting: waits for web",
            "      └─ web (deployment/chain-web): progressing",
            "         └─ pod/chain-web-",
        ],
    ),
    Situation(
        name="roots",
        resources={
            "web": resource(deployment(nodeSelector={"disk": "golden"})),
            "middle": resource(config(), dependsOn=["web"]),
            "last": resource(config(), dependsOn=["middle"]),
        },
        expected=["└─ web (deployment/roots-web): progressing", "(last, middle wait for it)"],
    ),
    Situation(
        name="quota",
        resources={
            "job": resource(
                {
                    "apiVersion": "batch/v1",
                    "kind": "CronJob",
                    "spec": {
                        "schedule": "0 0 1 1 *",
                        "jobTemplate": {"spec": {"template": pods({}, restartPolicy="Never")}},
                    },
                }
            )
        },
        before=[quota("no-cron", hard={"count/cronjobs.batch": "0"})],
        expected=[
            "job (cronjob): failed: Unavailable: ",
            "exceeded quota: no-cron",
            "kubectl describe resourcequota no-cron -n NS",
        ],
    ),
    Situation(
        name="invalid",
        resources={"svc": resource({"apiVersion": "v1", "kind": "Service", "spec": {"ports": [{"port": 123456}]}})},
        expected=["svc (service): failed: Invalid: ", "spec.ports[0].port", "→ kubectl edit stack invalid -n NS"],
        edit="s/123456/80/",
    ),
    Situation(
        name="template",
        resources={"web": resource(config(data={"a": "${params.none}", "b": "${params.nothing}"}))},
        expected=[
            "the definition is rejected, and the running objects stay unchanged",
            "data.a",
            "data.b",
            "→ kubectl edit stack template -n NS",
        ],
        edit=r"s/\${params.no.*}/x/",
    ),
    Situation(
        name="source",
        resources={"web": resource(config())},
        spec={"parametersFrom": [{"secretRef": {"name": "absent"}}]},
        expected=["the definition cannot be read", "absent"],
    ),
    Situation(
        name="owned",
        resources={"web": resource(config(metadata={"name": "taken"}))},
        before=[config(metadata={"name": "taken"}, data={"a": "b"})],
        expected=[
            "web (configmap): failed: NotOwned: ",
            "→ kubectl patch stack owned -n NS --type=merge -p",
            '"adoptionPolicy":"Adopt"',
        ],
    ),
    Situation(
        name="outside",
        resources={"web": resource(config(metadata={"namespace": "kube-system"}))},
        expected=["web (configmap): failed: NamespaceNotAllowed: is in namespace kube-system"],
    ),
    Situation(
        name="kind",
        resources={"web": resource({"apiVersion": "example.org/v1", "kind": "Widget", "spec": {}})},
        expected=["web (widget): waiting: KindNotServed", "→ kubectl api-resources --api-group=example.org"],
    ),
    Situation(
        name="rights",
        resources={"web": resource(config())},
        before=[{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "weak"}}],
        spec={"serviceAccountName": "weak"},
        expected=[
            "web (configmap): failed: Forbidden: ",
            "system:serviceaccount:NS:weak",
            "→ kubectl create role weak-configmaps --verb=get,create,patch,delete --resource=configmaps --namespace=NS && ",
        ],
    ),
    Situation(
        name="no-account",
        resources={"web": resource(config())},
        spec={"serviceAccountName": "mistyped"},
        expected=[
            "stack/no-account: ServiceAccount mistyped does not exist in namespace NS: set another one, or create it",
            "→ kubectl create serviceaccount mistyped -n NS",
        ],
    ),
    Situation(
        name="webhook",
        resources={"web": resource(config(metadata={"labels": {"test.hearth.dev/hook": "NS"}}))},
        before=[
            {
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": "ValidatingWebhookConfiguration",
                "metadata": {"name": "NS"},
                "webhooks": [
                    {
                        "name": "hook.example.org",
                        "clientConfig": {"url": "https://127.0.0.1:1/"},
                        "rules": [
                            {
                                "apiGroups": [""],
                                "apiVersions": ["v1"],
                                "operations": ["CREATE"],
                                "resources": ["configmaps"],
                            }
                        ],
                        "objectSelector": {"matchLabels": {"test.hearth.dev/hook": "NS"}},
                        "sideEffects": "None",
                        "admissionReviewVersions": ["v1"],
                        "timeoutSeconds": 1,
                    }
                ],
            }
        ],
        expected=[
            "web (configmap): failed: Unavailable: ",
            'failed calling webhook "hook.example.org"',
            "→ kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations",
        ],
    ),
    Situation(
        name="break",
        resources={"web": resource(config()), "last": resource(config(), dependsOn=["web"])},
        spec={"environment": {"breakpoints": [{"resource": "web", "at": ["PreCreate"]}]}},
        expected=[
            "web: stopped at the breakpoint PreCreate, until a user continues it (last waits for it)",
            "→ kubectl stack continue break web/PreCreate -n NS",
        ],
    ),
    Situation(
        name="inner",
        resources={"cache": resource(nested(db=resource(config())))},
        spec={"environment": {"breakpoints": [{"resource": "cache/db", "at": ["PreCreate"]}]}},
        expected=[
            "cache (stack.hearth.dev/inner-cache): ",
            "db: stopped at the breakpoint PreCreate",
            "→ kubectl stack continue inner-cache db/PreCreate -n NS",
        ],
    ),
    Situation(
        name="nested",
        resources={"cache": resource(nested(db=resource(deployment(nodeSelector={"disk": "golden"}))))},
        where="cache/db",
        expected=["└─ db (deployment/nested-cache-db): progressing", "cannot be scheduled: Unschedulable"],
    ),
    Situation(
        name="paused",
        resources={"web": resource(config())},
        spec={"paused": True},
        expected=["stack/paused: spec.paused prevents: apply web", "→ kubectl stack unpause paused -n NS"],
    ),
    Situation(
        name="suspended",
        resources={"web": resource(config())},
        spec={"suspended": True},
        expected=["the Stack is suspended", "→ kubectl stack resume suspended -n NS"],
    ),
    Situation(
        name="field",
        resources={"web": resource(config()), "last": resource(config(data={"a": "${web.data.absent}"}))},
        expected=["last (configmap): waiting: FieldNotFound: ", "web.data.absent"],
        edit="s/web.data.absent/web.metadata.name/",
    ),
    Situation(
        name="rule",
        resources={"web": resource(config(data={"ready": "no"}), readyWhen=["web.data.ready == 'yes'"])},
        expected=["web (configmap/rule-web): ", "readyWhen"],
    ),
    Situation(
        name="time",
        resources={"web": resource(deployment(nodeSelector={"disk": "golden"}))},
        spec={"timeout": "1s"},
        expected=["not reached within 1s (spec.timeout)", "cannot be scheduled: Unschedulable"],
    ),
    Situation(
        name="denied",
        resources={"web": resource(config(data={"size": "${params.size}"}))},
        spec={"environment": {"restrictedActions": [{"resource": "web", "deny": ["Update"]}]}},
        then=[("Stack", "denied", {"spec": {"parameters": {"size": "m"}}})],
        expected=[
            "web (configmap/denied-web): failed: Restricted: ",
            "→ kubectl edit stack denied -n NS",
            "→ kubectl stack rollback denied -n NS",
        ],
        edit="s/- Update/- Delete/",
    ),
    Situation(
        name="rolled",
        resources={"web": resource(config(data={"size": "${params.size}"}))},
        spec={
            "rollback": {"onFailure": True},
            "environment": {"restrictedActions": [{"resource": "web", "deny": ["Update"]}]},
        },
        then=[("Stack", "rolled", {"spec": {"parameters": {"size": "m"}}})],
        expected=["the definition in the spec failed and was rolled back: ", "→ kubectl stack history rolled -n NS"],
    ),
    Situation(
        name="held",
        resources={"web": resource(config(), updatePolicy={"replace": "CreateFirst"})},
        then=[
            ("ConfigMap", "held-web", WAITING),
            ("ConfigMap", "held-web", None),
        ],
        expected=[
            "configmap/held-web",
            "is being deleted, held by the finalizers example.org/hold",
            """→ kubectl patch configmaps held-web -n NS --type=merge -p '{"metadata":{"finalizers":null}}'""",
        ],
    ),
    Situation(
        name="deleted",
        resources={"web": resource(config())},
        then=[("ConfigMap", "deleted-web", WAITING), ("Stack", "deleted", None)],
        expected=["configmap/deleted-web", "example.org/hold"],
    ),
    Situation(
        name="marked",
        resources={"web": resource(config(), updatePolicy={"replace": "Never"})},
        then=[("ConfigMap", "marked-web", {"metadata": {"annotations": {"hearth.dev/unhealthy": "answers 500"}}})],
        expected=["answers 500", "→ kubectl stack unmark marked web -n NS"],
    ),
    Situation(
        name="drift",
        resources={"web": resource(config(data={"a": "b"}), driftPolicy="Report")},
        then=[("ConfigMap", "drift-web", {"data": {"a": "c"}})],
        expected=["Drifted: web", "kubectl-stack-tests", "→ kubectl stack check drift -n NS --wait"],
    ),
    Situation(
        name="twice",
        resources={"a": resource(config(metadata={"name": "same"})), "b": resource(config(metadata={"name": "same"}))},
        expected=["names configmap/same, which the resource 'a' also names; rename one of them"],
        edit="0,/name: same/s/name: same/name: other/",
    ),
    Situation(
        name="class",
        resources={
            "disk": resource(CLAIM | {"spec": CLAIM["spec"] | {"storageClassName": "golden"}}, readyWhen=["true"]),
            "web": resource(
                deployment(volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "${disk.metadata.name}"}}])
            ),
        },
        expected=[
            "cannot be scheduled: Unschedulable",
            'persistentvolumeclaim/class-disk: ProvisioningFailed: storageclass.storage.k8s.io "golden" not found',
            "→ kubectl get storageclasses",
        ],
    ),
    Situation(
        name="deep",
        resources={
            "cache": resource(
                nested(db=resource({"apiVersion": "v1", "kind": "Service", "spec": {"ports": [{"port": 123456}]}}))
            )
        },
        expected=["db (service): failed: Invalid: ", "→ kubectl edit stack deep -n NS"],
        edit="s/123456/80/",
    ),
    Situation(
        name="value",
        resources={},
        spec={
            "template": {
                "parameters": {"count": {"type": "integer"}},
                "resources": {"web": resource(config(data={"count": "${string(params.count)}"}))},
            },
            "parametersFrom": [{"configMapRef": {"name": "values"}}],
        },
        before=[config(metadata={"name": "values"}, data={"count": "many"})],
        expected=["(configmap/values key count): ", "→ kubectl edit configmap values -n NS"],
        edit='s/many/"3"/',
    ),
    Situation(
        name="unless",
        resources={
            "web": resource({"apiVersion": "v1", "kind": "Service", "spec": {"ports": [{"port": 123456}]}}),
            "more": resource(config(), when="params.size == 'l'"),
        },
        expected=["└─ web (service): failed: Invalid: "],
        edit="s/123456/80/",
    ),
    Situation(
        name="unread",
        resources={
            "platform": {"externalRef": config(metadata={"name": "platform"})},
            "web": resource(config(data={"domain": "${platform.data.domain}"})),
        },
        expected=[
            "platform (configmap/platform): waiting: ObjectNotFound: configmap/platform in namespace NS does not exist",
            "(web waits for it)",
            "→ kubectl get configmap -n NS",
        ],
    ),
    Situation(
        name="reader",
        resources={
            "far": {
                "externalRef": {"apiVersion": "hearth.dev/v1alpha1", "kind": "Stack", "metadata": {"name": "read"}}
            },
            "web": resource(config(), dependsOn=["far"]),
        },
        before=[
            {
                "apiVersion": "hearth.dev/v1alpha1",
                "kind": "Stack",
                "metadata": {"name": "read"},
                "spec": {
                    "template": {
                        "resources": {"gone": {"externalRef": config(metadata={"name": "platform"})}},
                    }
                },
            }
        ],
        expected=[
            "far (stack/read): waiting: ObjectNotReady: ",
            "   └─ stack.hearth.dev/read: ",
            "→ kubectl stack why read -n NS",
        ],
    ),
    Situation(
        name="lender",
        resources={
            "web": {
                "externalRef": {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "lent"}},
            },
            "note": resource(config(), dependsOn=["web"]),
        },
        before=[{**deployment(nodeSelector={"disk": "golden"}), "metadata": {"name": "lent"}}],
        expected=[
            "└─ web (deployment/lent): waiting: ObjectNotReady: ",
            "   └─ pod/lent-",
            "cannot be scheduled: ",
        ],
    ),
    Situation(
        name="fine",
        resources={"web": resource(config())},
        expected=["stack/fine: nothing is wrong (CreateComplete 1/1)"],
    ),
)
