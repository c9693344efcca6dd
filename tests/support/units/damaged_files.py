"""Files of all kinds that commands read, and random damage to them."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

import yaml
from hypothesis import strategies as st

STACK: Final = """
apiVersion: v1
kind: ConfigMap
metadata: {name: values}
data: {greeting: a}
---
apiVersion: v1
kind: Secret
metadata: {name: foo}
stringData: {greeting: a}
data: {x: YQ==}
---
apiVersion: hearth.dev/v1alpha1
kind: Stack
metadata: {name: shop, namespace: prod, labels: {a: b}}
spec:
  parameters: {greeting: hello}
  parametersFrom: [{configMapRef: {name: values}}]
  rollback: {onFailure: true}
  timeout: 5m
  environment: {breakpoints: [{resource: config, at: [PreUpdate]}]}
  template:
    parameters:
      greeting: {type: string, maxLength: 40, enum: [hello]}
      list: {type: array, items: {type: string}, default: [a]}
      map: {type: object, properties: {a: {type: string}}, default: {}}
    conditions: {big: params.greeting == "x"}
    resources:
      config: {manifest: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {greeting: "${params.greeting}"}}}
      read: {externalRef: {apiVersion: v1, kind: Secret, metadata: {name: foo}}}
      web:
        when: conditions.big
        forEach: params.list
        key: item
        dependsOn: [config]
        readyWhen: ["true"]
        failedWhen: ["false"]
        updatePolicy: {replace: CreateFirst, replaceOn: ["params.greeting"]}
        deletionPolicy: Retain
        ignoreFields: [spec.replicas]
        manifest: {apiVersion: apps/v1, kind: Deployment, spec: {replicas: 1, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: b, env: [{name: a}]}]}}}}
      inner: {manifest: {apiVersion: hearth.dev/v1alpha1, kind: Stack, metadata: {name: x}, spec: {parameters: {a: "${params.greeting}"}, template: {parameters: {a: {type: string}}, resources: {a: {manifest: {apiVersion: v1, kind: ConfigMap}}}}}}}
    outputs: {name: {value: "${config.metadata.name}", when: conditions.big}}
"""
REFERENCES: Final = """
apiVersion: hearth.dev/v1alpha1
kind: StackTemplate
metadata: {name: t}
spec:
  template:
    parameters: {a: {type: string}}
    resources: {a: {manifest: {apiVersion: v1, kind: ConfigMap, data: {a: "${params.a}"}}}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: c}
data: {template: "resources: {b: {manifest: {apiVersion: v1, kind: ConfigMap}}}"}
---
apiVersion: hearth.dev/v1alpha1
kind: Stack
metadata: {name: s}
spec: {parameters: {a: x}, templateRefs: [{kind: StackTemplate, name: t}, {kind: ConfigMap, name: c, key: template}]}
---
apiVersion: hearth.dev/v1alpha1
kind: ResourceGroup
metadata: {name: g}
spec:
  replicas: 2
  removalPolicies: [{resources: ["1"]}]
  rollingUpdate: {maxBatchSize: 1, minInService: 1}
  template: {manifest: {apiVersion: v1, kind: ConfigMap, data: {a: "${key}"}}, readyWhen: ["true"]}
"""
DEFINITION: Final = """
apiVersion: hearth.dev/v1alpha1
kind: StackDefinition
metadata: {name: webs.platform.example}
spec:
  group: platform.example
  names: {kind: Web, plural: webs, singular: web, shortNames: [wb], categories: [all]}
  versions: [{name: v1alpha1}]
  account: {namespace: platform, name: writer}
  boundary: Cluster
  rollout: {strategy: Progressive, maxFailed: 1, window: {from: "10:00", to: "16:00", days: [Mon]}, maxUnavailable: 10%}
  columns: [{name: Size, parameter: size, priority: 1}, {name: O, output: o}]
  scale: {parameter: size}
  options: [deletionPolicy, protected]
  final: [protected]
  defaults: {timeout: 5m}
  roles: Aggregate
  deletionPolicy: Orphan
  template:
    parameters: {size: {type: integer, default: 1, minimum: 1}, m: {type: object, properties: {a: {type: array, items: {type: string}, uniqueItems: true, maxItems: 3}}, required: [a], default: {a: []}}, l: {type: string, default: a}}
    resources: {a: {manifest: {apiVersion: v1, kind: ConfigMap, metadata: {namespace: "${params.l}"}, data: {a: "${string(params.size)}"}}}}
    outputs: {o: {value: "${params.size}"}}
"""
KRO: Final = """
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: rooms.kro.run}
spec:
  schema:
    apiVersion: v1alpha1
    kind: Room
    group: kro.run
    types: {T: {a: string, b: "[]string"}}
    spec: {owner: string | default="x" minLength=1, n: integer | required=true, t: T, m: "map[string]T", inner: {a: string | required=true, b: 'string | enum="a,b"'}, a: "[]string"}
    status: {x: "${settings.metadata.name}"}
    additionalPrinterColumns: [{name: A, jsonPath: .spec.owner, type: string, priority: 1}]
    shortNames: [r]
  resources:
    - id: settings
      includeWhen: ["${schema.spec.n > 1}"]
      readyWhen: ["${settings.data.x == 'a'}"]
      lifecycle: ${policy().withRetain()}
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-settings", namespace: x}, data: {owner: "${schema.spec.owner}", h: '${"%x".format([hash.sha256(schema.spec.owner)])}', m: "${{'a': 1}.merge({'b': 2})}"}}
    - id: each
      forEach: [{i: "${schema.spec.a}"}]
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${i}"}}
    - id: ext
      externalRef: {apiVersion: v1, kind: Secret, metadata: {name: a, namespace: b}}
---
apiVersion: kro.run/v1alpha1
kind: Room
metadata: {name: h, labels: {kro.run/x: a, b: c}}
spec: {owner: blue}
"""
MANIFESTS: Final = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: a, labels: {a: b}, annotations: {helm.sh/resource-policy: keep, argocd.argoproj.io/sync-wave: "1"}, ownerReferences: [{kind: X, name: y, uid: z, apiVersion: v1, controller: true}], managedFields: [{manager: a}]}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: {serviceAccountName: sa, containers: [{name: a, image: b, env: [{name: x, valueFrom: {secretKeyRef: {name: s, key: k}}}], envFrom: [{configMapRef: {name: c}}]}], volumes: [{name: v, secret: {secretName: s}}, {name: w, persistentVolumeClaim: {claimName: p}}]}}
status: {replicas: 1}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {clusterIP: 10.0.0.1, selector: {app: web}, ports: [{port: 80, nodePort: 3000}]}
---
apiVersion: v1
kind: Secret
metadata: {name: s}
type: Opaque
data: {k: YQ==}
stringData: {z: y}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: sa}
secrets: [{name: sa-token}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: rb}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: r}
subjects: [{kind: ServiceAccount, name: sa, namespace: a}]
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: xs.x.io}
spec: {group: x.io, names: {kind: X, plural: xs}, scope: Namespaced, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]}
---
apiVersion: x.io/v1
kind: X
metadata: {name: a}
spec: {ref: {name: s}}
---
apiVersion: v1
kind: List
items: [{apiVersion: v1, kind: ConfigMap, metadata: {name: c, creationTimestamp: x}, data: {a: b}}]
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.y.io}
spec: {group: y.io, version: v1, service: {name: web, namespace: a}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: w}
webhooks: [{name: a.b.c, clientConfig: {service: {name: web, namespace: a}, caBundle: YQ==}}]
"""
HEAT: Final = """
heat_template_version: wallaby
description: x
parameter_groups: [{label: a, description: b, parameters: [image]}]
parameters:
  image: {type: string, label: a, default: x, hidden: true, constraints: [{length: {min: 1}}, {allowed_pattern: a}, {custom_constraint: glance.image}]}
  size: {type: number, default: 1, constraints: [{range: {min: 1, max: 3}}, {modulo: {step: 1, offset: 0}}, {allowed_values: [1, 2]}]}
  list: {type: comma_delimited_list, default: "a,b"}
  map: {type: json, default: {a: [1]}}
conditions: {big: {and: [{equals: [{get_param: size}, 2]}, {not: {contains: [a, {get_param: list}]}}]}}
resources:
  net: {type: OS::Neutron::Net, condition: big, deletion_policy: Retain, metadata: {a: b}, properties: {name: {get_param: image}, tags: [a], shared: true}}
  subnet: {type: OS::Neutron::Subnet, depends_on: [net], properties: {network: {get_resource: net}, cidr: 10.0.0.0/24, gateway_ip: "", allocation_pools: [{start: a, end: b}]}}
  port: {type: OS::Neutron::Port, properties: {network: {if: [big, {get_resource: net}, other]}, fixed_ips: [{subnet: {get_resource: subnet}}], security_groups: [a]}}
  router: {type: OS::Neutron::Router, properties: {external_gateway_info: {network: a}}}
  group: {type: OS::Neutron::SecurityGroup, properties: {rules: [{protocol: tcp, port_range_min: 1, port_range_max: 2}]}}
  config: {type: OS::Heat::SoftwareConfig, properties: {group: script, inputs: [{name: a, default: b}], config: "#!/bin/sh\nx"}}
  mime: {type: OS::Heat::MultipartMime, properties: {parts: [{config: {get_resource: config}, subtype: a, filename: b}]}}
  server: {type: OS::Nova::Server, properties: {image: {get_param: image}, flavor: a, networks: [{port: {get_resource: port}}, {network: b, fixed_ip: c}], user_data: {get_resource: mime}, metadata: {a: {get_param: size}}, scheduler_hints: {group: a}, block_device_mapping_v2: [{boot_index: 0, image: a, volume_size: 1}]}}
  deployment: {type: OS::Heat::SoftwareDeployment, properties: {config: {get_resource: config}, server: {get_resource: server}, input_values: {a: {get_param: list}}, actions: [CREATE]}}
  disk: {type: OS::Cinder::Volume, properties: {size: {get_param: size}, metadata: {a: b}}}
  attached: {type: OS::Cinder::VolumeAttachment, properties: {instance_uuid: {get_resource: server}, volume_id: {get_resource: disk}}}
  members: {type: OS::Heat::ResourceGroup, update_policy: {rolling_update: {max_batch_size: 1}}, properties: {count: {get_param: size}, index_var: "%i%", removal_policies: [{resource_list: ["1"]}], resource_def: {type: OS::Heat::TestResource, properties: {value: "%i%"}}}}
  scaled: {type: OS::Heat::AutoScalingGroup, properties: {min_size: 1, max_size: 2, resource: {type: OS::Neutron::Net}}}
  inner: {type: OS::Heat::Stack, properties: {context: {region_name: a}, timeout: 3, parameters: {a: b}, template: "heat_template_version: wallaby\nresources: {}"}}
  random: {type: OS::Heat::RandomString, properties: {length: 9, salt: a}}
  user: {type: OS::Keystone::User, properties: {password: {get_attr: [random, value]}, roles: [{role: a, project: b}]}}
  waiting: {type: OS::Heat::WaitCondition, properties: {count: 2, timeout: 3}}
  value: {type: OS::Heat::Value, properties: {type: number, value: {yaql: {expression: "$.data.a.sum()", data: {get_param: map}}}}}
  old: {type: OS::Nova::Server, external_id: a}
  lost: {type: OS::Octavia::Pool, properties: {a: b}}
outputs:
  a: {description: x, condition: big, value: {str_replace: {template: a, params: {a: {get_attr: [server, networks, b, 0]}}}}}
  b: {value: {repeat: {template: {a: "%x%"}, for_each: {"%x%": {get_param: list}}}}}
  c: {value: {list_join: [",", {get_attr: [members, output]}, {str_split: [a, {get_param: image}, 0]}]}}
  d: {value: {map_merge: [{get_param: map}, {map_replace: [{a: b}, {keys: {a: c}, values: {b: d}}]}]}}
  e: {value: {make_url: {host: a, port: {get_param: size}, query: {a: b}}}}
  f: {value: {filter: [[a], {list_concat_unique: [{get_param: list}, [b]]}]}}
  g: {value: {digest: [sha256, {get_file: a}]}}
"""
TESTS: Final = """
apiVersion: hearth.dev/v1alpha1
kind: StackTest
metadata: {name: shop}
files: [other.yaml]
stack: {name: shop}
tests:
  - name: it completes
    parameters: {greeting: hello}
    expect: {phase: CreateComplete, objects: {config: {data: {greeting: hello}}}, order: [config, web], outputs: {name: shop-config}}
  - name: it fails
    steps:
      - fail: {resource: web, write: create, times: 2, code: 422, message: x}
        play: {web: {status: {replicas: 1}}}
        expect: {ready: false, reason: Failed, message: x}
"""
KUBECONFIG: Final = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "a",
    "clusters": [{"name": "a", "cluster": {"server": "http://127.0.0.1:1"}}],
    "users": [{"name": "a", "user": {}}],
    "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
}
"""An address without a server: a command fails after it has read its files."""
COMMANDS: Final[list[tuple[str, tuple[str, ...]]]] = [
    *((each, command) for each in (STACK, REFERENCES) for command in (("stack", "lint"), ("stack", "render", "-f"))),
    (DEFINITION, ("stack", "lint")),
    (KRO, ("import", "--from-kro", "--group", "platform.example")),
    (HEAT, ("import", "--from-heat")),
    (MANIFESTS, ("import",)),
    (MANIFESTS, ("import", "--adopt", "-n", "prod")),
    (MANIFESTS, ("import", "--secret-parameters")),
    *((each, ("stack", "lint")) for each in (KRO, MANIFESTS, HEAT)),
    *((each, ("stack", "render", "-f")) for each in (DEFINITION, MANIFESTS)),
    *((each, ("import", "--from-kro")) for each in (KRO, MANIFESTS, HEAT)),
    *((each, ("import",)) for each in (STACK, DEFINITION, KRO)),
    (MANIFESTS, ("import", "--from-heat")),
    *((each, ("schema", "-f")) for each in (DEFINITION, STACK)),
    *((each, ("stack", "backstage", "--directory", "FOLDER", "-f")) for each in (DEFINITION, STACK)),
    *((each, ("stack", "--kubeconfig", "KUBECONFIG", "diff", "-f")) for each in (STACK, DEFINITION, REFERENCES, KRO)),
    *((each, ("demo", "--kubeconfig", "FOLDER/none", "--example")) for each in (STACK, DEFINITION, REFERENCES)),
    *((each, ("stack", "test")) for each in (TESTS, STACK)),
]
"""Each file, and the commands that read it, or get it by mistake."""
DAMAGE: Final = [
    *(None, True, 0, -1, 1.5, 2**62, 10**400, "", "x", "${", "${a.b}", "${1}", "y" * 5_000, "\x00", "é\n"),
    *([], {}, [None], ["x", 1], {"": None}, {"x": {"y": 1}}, [[{"a": 1}]], json.loads("[" * 90 + "]" * 90)),
]
ANCHORS: Final = "a: &a [x, x, x, x]\nb: &b [*a, *a, *a, *a]\nc: &c [*b, *b, *b, *b]\nd: [*c, *c, *c, *c]\n"


def list_places(value: Any, place: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield the place of each value within."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield (*place, key)
        yield from list_places(each, (*place, key))


def find_parent(value: Any, way: Sequence[str | int], last: str | int) -> Any:
    """Return the map or list that has the value of a place; None if other damage removed it."""
    holder: Any = None
    for step in (*way, last):
        holder = value
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return None
    return holder if isinstance(holder, dict | list) else None


@st.composite
def damaged_files(draw: st.DrawFn, text: str) -> bytes:
    """Draw a file with replaced or removed values, or damaged text."""
    documents = copy.deepcopy([*yaml.safe_load_all(text)])
    places = list(list_places(documents))
    for _ in range(draw(st.integers(min_value=1, max_value=2))):
        *way, last = draw(st.sampled_from(places))
        holder = find_parent(documents, way, last)
        if holder is not None and draw(st.booleans()):
            holder[last] = copy.deepcopy(draw(st.sampled_from(DAMAGE)))
        elif holder is not None:
            del holder[last]
    return damage_text(draw, "---\n".join(f"{json.dumps(each)}\n" for each in documents))


def damage_text(draw: st.DrawFn, text: str) -> bytes:
    """Return the bytes of a file, which may be unreadable."""
    match draw(st.sampled_from(["whole", "whole", "whole", "cut", "anchors", "empty", "list", "twice", "encoding"])):
        case "cut":
            text = text[: draw(st.integers(min_value=0, max_value=len(text)))]
        case "anchors":
            text += f"---\n{ANCHORS}"
        case "empty":
            text = f"---\n---\n{text}---\nnull\n"
        case "list":
            text = json.dumps({"apiVersion": "v1", "kind": "List", "items": [*yaml.safe_load_all(text)]})
        case "twice":
            text += "---\nkind: Stack\nkind: Stack\n"
        case "encoding":
            return text.encode("utf-16")
    return text.encode()
