"""Limits of all input: specs, templates, sources, schemas, server responses, annotations and revisions.

This is the only module with these figures, and each has its reason. The code that reads an input checks its limit.
"""

from __future__ import annotations

JSON_DEPTH = 100
"""Levels of maps and lists in one value. The deepest real manifests have some 20, CRD schemas some 60. orjson and
protobuf fail at a few hundred."""
OBJECT_DEPTH = 250
"""Levels of an object that the API server sends. orjson reads 1,024 levels, but writes 254."""
JSON_NODES = 250_000
"""Values in one definition or source, counted after expansion: 10,000 resources of 25 fields each."""
RULE_NODES = 20_000
"""Values in one text of health rules: a thousand rules of some cases each."""
IMPORT_NODES = 2_000_000
"""Values in one file that `hearth import` reads: all manifests of a large cluster."""
INTEGER_DIGITS = 20
"""Digits of an integer as text: 64 bits have 19 and a sign. Python fails to convert 4,300."""
SIGNATURE_LENGTH = 200
"""Characters of a child's signature: the longest that Hearth writes has 159."""
APPROVAL_LENGTH = 4_096
"""Characters of the stamp of a StackPlan, and of a request for one: names of users have some hundred."""
APPROVAL_REASON = 500
"""Characters of the reason that a user gives for a decision about a StackPlan. The rest is cut."""
GATES = 4
"""Gates of one rollout, and so approvals of one wave."""
GATE_RESULTS = 68
"""Results of gates in a status: 4 gates after each of 17 waves."""
GATE_APPROVALS = 65_536
"""Characters of the annotation with the approvals of one rollout: 68 of usual names and reasons have half of that. The API
server accepts 256 KiB of annotations."""
AUTHORS = 20
"""Users who change the spec of one Stack before the change is approved. Beyond them, the authors count as unknown."""
AUTHORS_LENGTH = 24_576
"""Characters of the annotation with their names, each of at most 1,024."""
UNPROVEN_NAMED = 20
"""Unsigned objects that one Stack's Events name. Thousands of forged objects cause no more Events."""
CHECK_DRY_RUNS = 100
"""Dry runs in one check: at most about a minute. Only objects whose values look changed need one."""
COMPARED_ITEMS = 100
"""Items of a list that is compared with the applied one when the API server rejects an apply: at most 20 ms."""
FOREIGN_ITEMS = 4
"""List items of other clients that may contradict an apply. Each is tried by one dry run; with more, none is removed."""
COUNT_DIGITS = 9
"""Digits of a number in a label or annotation of Hearth: a billion incarnations or revisions."""

NAME_LENGTH = 253
"""Characters of an object's name or namespace: the limit of the API server."""

BODY_BYTES = 64 * 1024 * 1024
"""Size of one server response, decompressed. A page of 500 objects of 100 KiB fits."""
LINE_BYTES = 8 * 1024 * 1024
"""Size of one watch event: etcd accepts 1.5 MiB, and an API server's JSON of it is at most a few times as large."""
WIRE_VALUES = 250_000
"""Commas and brackets in one object, or in one server response, that are parsed at once in the event loop: at most
some 50 ms. 1.5 MiB can contain a million, the largest ordinary objects some 60,000."""
LINE_HEAD_BYTES = 2 * 1024 * 1024
"""Size of the beginning of a longer event that is searched for its metadata: annotations take at most 1.5 MiB."""
INLINE_BYTES = 64 * 1024
"""Size of invalid JSON that is examined in the event loop, which takes some 10 ms. Larger texts use a thread."""
HEADER_BYTES = 64 * 1024
"""Size of the header of a response of another cluster, with all interim responses before it."""
FRAMING_BYTES = 1024 * 1024
"""Size of the lines and extensions of chunks in a response of another cluster, in addition to the size of its body. aiohttp
takes up to this size out of the socket before it shows any of the body."""
MESSAGE_LENGTH = 16 * 1024
"""Characters of a message in a server response that are stored. A status shows far less."""
SKIPPED_NAMES = 1_000
"""Unreadable objects per kind that the log remembers, so that it names each only once."""
HTTP_CONNECTIONS = 100
"""Concurrent connections to the operator's HTTP server: a kubelet and a handful of scrapers need ten. A health check is
always answered: when the limit is reached, the oldest connection is closed for the newest."""
WEBHOOK_CONNECTIONS = 200
"""Concurrent connections to the admission webhook: each API server keeps about one per review in progress. One takes 300 KB
once it speaks TLS. Beyond them, the oldest one that has asked for no review is closed for the newest."""
PLUGIN_SECONDS = 60.0
"""Time limit of an exec plugin. kubectl waits for interactive users, which the operator does not have."""
PLUGIN_BYTES = 1024 * 1024
"""Size of an exec plugin's output: a token or certificate has some KiB."""
OBJECT_BYTES = 2 * 1024 * 1024
"""Size of one object that is sent: the API server rejects 3 MiB, etcd 1.5."""
WANTED_BYTES = 16 * 1024 * 1024
"""Size of all manifests and outputs of one Stack: 5,000 of 3 KiB. They stay in memory, twice while they are created."""
OUTPUT_BYTES = 64 * 1024
"""Size of one output in a status: a chain of certificates, a kubeconfig."""
OUTPUTS_BYTES = 256 * 1024
"""Size of all outputs of one Stack. Its status is read and written as a whole, with a spec of up to 1.5 MiB."""
OUTPUT_DEPTH = 32
"""Levels of maps and lists in one output."""
HIDDEN_TEXTS = 500
"""Sensitive texts that are searched in each message of a Stack. If there are more, no message is shown."""
REVISION_BYTES = 16 * 1024 * 1024
"""Size of a definition decompressed from its revision."""
REVISION_VALUES = 1_000_000
"""Commas and brackets outside of texts in a definition decompressed from its revision: more than `JSON_NODES` in its
template, as many in its parameters, and the rest between them.
"""
REVISION_KINDS = 500
"""Kinds that one revision lists. The busiest clusters serve some 400."""
REVISION_HINTS = 20
"""Unverified revisions of one Stack whose kinds are read when children are searched."""
HINTED_REVISION = 1_000_000
"""The highest number of an unverified revision that the next number must exceed."""
SOURCE_BYTES = 2 * 1024 * 1024
"""Size of a template or value in a ConfigMap or Secret, which contain at most a MiB."""
PARAMETER_BYTES = 4 * 1024 * 1024
"""Size of all values that sources give to the parameters of one definition."""
IMPORT_BYTES = 256 * 1024 * 1024
"""Size of one file that `hearth import` reads, or `lint`, decompressed."""
HELM_RELEASE_BYTES = 32 * 1024 * 1024
"""Size of a decompressed Helm release. Its Secret has 1 MiB at most, and gzip could expand it a thousandfold."""
ANNOTATION_BYTES = 256 * 1024
"""Size of one annotation that is parsed. The API server allows this for all annotations together."""
RETRY_AFTER = 3600.0
"""The longest delay in seconds that is accepted from a server's Retry-After."""

RESOURCES = 10_000
"""Resources of one template. Larger templates belong in nested Stacks."""
INLINE_RESOURCES = 5_000
"""Resources of a template within a Stack. An object in etcd (1.5 MiB) holds no more of the smallest useful manifests."""
TEMPLATE_SOURCES = 32
"""Objects that one template is merged from: 32 of the size that `kubectl apply` accepts hold 7 MiB compressed."""
REVISION_PARTS = 16
"""Objects after the first that store one definition: 16 MiB compressed, while one definition has 16 MiB at most."""
PART_BYTES = 1_000_000
"""Characters of a compressed definition in one object. etcd accepts 1.5 MiB."""
ENTRIES = 1_000
"""Parameters, conditions or outputs: far above any sensible template, low enough for the cost of the rules on names."""
GROUP_MEMBERS = 10_000
"""Members of one group, as many as one template has resources."""
INDEX_DIGITS = 5
"""Digits of a member's index: enough for the highest index in a group of the maximum size."""
REMOVED_MEMBERS = 1_000
"""Indices that one group never uses again. Its status and each of its revisions list them."""
REMOVAL_POLICIES = 10
"""Removal policies of one group."""
ROLLING_PAUSE = 3_600.0
"""Seconds between two batches of a rolling update: an hour is enough to watch each of them."""
DEPENDENCIES = 500
"""Entries of one `dependsOn`."""
STATUS_CONDITIONS = 20
"""Conditions that a template can define."""
CONDITION_TEXT = 1_024
"""Characters of the message of such a condition; the rest is cut."""
RULES = 32
"""Expressions in one `readyWhen` or `failedWhen`, fields in one `ignoreFields`, sources of parameters."""
MEMBER_EXPRESSIONS = 100_000
"""Expressions of all members of collections in one template, evaluated once for each member: ten for each of 10,000."""
MEMBER_READS = 100_000
"""Members that the expressions of one template read, counted for each resource that reads them: a collection of 5,000
that 20 resources read. All are passed to CEL at each evaluation, some microseconds for each."""
SHOWN_MEMBERS = 3
"""Members of one collection whose mistakes are listed. Other members most likely have the same mistakes."""
EXPRESSION_LENGTH = 4_096
"""Characters of one expression in any location."""
EXPRESSIONS = 50_000
"""Expressions of one definition: ten per resource at the maximum number of resources."""
EXPRESSIONS_IN_TEXT = 500
"""Expressions in one text."""
FIELD_LENGTH = 256
"""Maximum length of a field path, in characters."""
ENVIRONMENT_RULES = 100
"""Breakpoints or restricted actions. Each is checked for every action on a resource."""
GLOB_LENGTH = 256
"""Characters of the name, with wildcards, that a breakpoint or restricted action applies to."""

SHAPE_FIELDS = 1_000
"""Fields of one map whose types are checked. The largest of Kubernetes have some 40; protobuf accepts a few thousand.
"""
SHAPE_LENGTH = 128 * 1024
"""Characters of the rules of all parameters up to which expressions are checked for fields within a parameter."""

HINTED_MISTAKES = 10
"""Mistakes per definition that get a suggestion of a similar name. Each search compares all candidates."""
HINTED_LENGTH = 64
"""Characters of a name that others are compared with."""
HINTED_CANDIDATES = 1_000
"""Names that one name is compared with: the maximum number of parameters of a template."""
MISTAKES = 100
"""Mistakes that one message lists. The rest are counted."""

INTERNAL_ERRORS = 256
"""Kinds of internal errors that the log distinguishes: each is one location in the code and one type."""
LOGGED_FRAMES = 40
"""Stack frames of one exception: enough for every path through the operator. An endless recursion has a thousand."""
LOGGED_CAUSES = 4
"""Exceptions in one chain of causes that are logged."""
CAUSE_WATCHES = 200
"""Watches for events that rejected writes wait for. Further writes are retried only on a timer. Each watch uses a
connection.
"""
SOURCE_CHANGES = 10
"""Changes of the sources of one Stack that take effect at once. Each may be a revision, and an apply of every object."""
SOURCE_CHANGES_EVERY = 10.0
"""Seconds until one more of these changes is allowed.

A Stack whose own object is its source would otherwise reconcile endlessly.
"""
SOURCE_WATCHES_PER_NAMESPACE = 8
"""ConfigMaps and Secrets that have their own watch and connection. The others share one. Most namespaces have fewer."""
SOURCE_WATCHES = 32
"""The same limit in all namespaces: with other API requests, far below the usual limit of 1,024 open files."""
SOURCE_KEPT_BYTES = 64 * 1024
"""Size of a ConfigMap's data that is cached. Larger data is read again each time. Ordinary templates have a few KiB."""
SOURCE_POLL = 30.0
"""Seconds between two polls of a source if the operator is not allowed to watch the kind as a whole."""
SELECTOR_REQUIREMENTS = 16
"""Labels in one selector of external objects. Selectors of real controllers have one to four."""
EXTERNAL_WATCHES_PER_NAMESPACE = 16
"""Kinds and namespaces that the Stacks of one namespace watch for external objects, each with a connection."""
EXTERNAL_WATCHES = 64
"""The same limit for all namespaces together, for the same reason as `SOURCE_WATCHES`."""
EXTERNAL_OBJECTS = 10_000
"""External objects that one watch keeps: as many as a Stack has resources."""
EXTERNAL_BURST = 2.0
"""Seconds after a change of an external object during which further changes count together."""
NESTED_DEPTH = 8
"""Levels of nested Stacks, without the outermost. Templates of templates have two or three."""
NESTED_STACKS = 1000
"""Stacks nested in one outermost Stack, at any level: as many as a large cluster has in all."""
CLUSTERS_PER_NAMESPACE = 20
"""Other clusters that the Stacks of one namespace use at once, by distinct credentials."""
CLUSTERS = 200
"""The same in all namespaces. Each has a pool of connections, one watch per kind, and its own kinds and schemas."""
CLUSTERS_MEMORY = 640
"""Default MiB of memory that the process for other clusters may use: 100 clusters take 510."""
CLUSTERS_MEMORY_SLACK = 2
"""Factor of that memory that the process may map. Mapped memory that is not used costs nothing."""
CLUSTER_WRITES = 8
"""Writes in flight in one other cluster. A home cluster with as many Stacks has 32."""
KUBECONFIG_BYTES = 128 * 1024
"""Characters of a kubeconfig: one context with a certificate, a key and an authority takes 6 KiB."""
KUBECONFIG_DEPTH = 10
"""Levels of a kubeconfig: extensions have the deepest, some six."""
KUBECONFIG_NODES = 1_000
"""Values in a kubeconfig: some 20 per cluster."""
KUBECONFIG_SERVER_LENGTH = 1_024
"""Characters of the URL of a server."""
CLUSTER_OBJECTS = 100_000
"""Objects of one other cluster in the caches. Its server may send any number of them, with any labels."""
CLUSTER_KINDS = 5_000
"""Kinds of a cluster that are known. The busiest clusters serve some 400."""
CLUSTER_SCHEMA_BYTES = 8 * 1024 * 1024
"""Size of one OpenAPI document of another cluster, which is parsed at once. The largest of Kubernetes has 1.2 MiB."""
CLUSTER_BODY_BYTES = 8 * 1024 * 1024
"""Size of one decompressed response of another cluster.

If a page of 500 objects is larger, smaller pages are requested.
"""
CLUSTER_LINE_BYTES = 2 * 1024 * 1024
"""Size of one event of another cluster: the largest object of a real one, with its managed fields."""
CLUSTER_LINE_SECONDS = 30.0
"""Time that one line of a watch may take to arrive."""
CLUSTER_PAGES = 1_000
"""Pages of one list of another cluster. With the usual pages, `CLUSTER_OBJECTS` take 200."""
CLUSTER_LOOKUPS = 32
"""Names of other clusters that are looked up at the same time: each takes a thread for ten seconds at most."""
CLUSTER_LOOKUPS_PER_NAMESPACE = 4
CLUSTER_KEY_BITS = 4_096
"""Bits of an RSA key in a kubeconfig. A signature takes 5 milliseconds with so many, and grows with their cube."""
CLUSTER_PEM_BYTES = 8 * 1024
"""Bytes of a private key or of one certificate in a kubeconfig: an RSA key of 4,096 bits takes 3.3 KB."""
CLUSTER_CERTIFICATES = 32
"""Certificates of one chain, or authorities, in a kubeconfig."""
TENANT_REQUESTS = 16
"""Requests in flight to the other clusters of one namespace."""
TENANT_STREAMS = 400
"""Watches of the other clusters of one namespace: twenty kinds in each of twenty clusters."""
TENANT_CPU_SHARE = 0.25
"""Average share of one core for processing the responses to one namespace; less while several namespaces exceed their
share.
"""
TENANTS_CPU_SHARE = 0.6
"""Share of one core that all namespaces above their own share may take together."""
TENANT_CPU_BURST = 5.0
"""Seconds of CPU that a namespace may take at once: a first list of some 50,000 objects."""
TENANT_PAUSE = 5.0
"""Maximum seconds between two checks whether a share is free again."""
CLUSTERS_KEPT_FRACTION = 4
"""Divisor for the share of memory that Stacks may use in the process for other clusters; connections and code take the
rest."""
CLUSTER_ERROR_LENGTH = 500
"""Characters of another cluster's answer that are shown."""
HEALTH_MARKS_PER_NAMESPACE = 1000
"""Unresolved HealthMarks. A client that marks more objects at once is defective."""
HEALTH_MARKS = 10_000
"""The same limit in all namespaces: ten such clients."""
REVISION_HISTORY = 100
"""Earlier revisions of one Stack that are kept for rollbacks: each may take 0.7 MB of etcd."""
SNAPSHOTS_PER_STACK = 100
"""StackSnapshots of one Stack. Each pins a revision, so there are no more revisions than this plus the history."""
SNAPSHOT_VOLUMES = 500
"""PersistentVolumeClaims in one StackSnapshot. Each takes 300 bytes of its status."""
SNAPSHOT_CONTENT_BYTES = 196_608
"""Bytes of the record of a StackSnapshot's content: 300 for each volume, and some more. A longer one is not written or read."""
PLAN_STEPS = 500
"""Steps of one StackPlan. A person cannot read more, and a plan takes some 300 bytes of etcd for each."""
PLAN_FIELDS = 100
"""Changed fields of one step of a StackPlan: a step of more replaces most of an object."""
PLAN_RISKS = 8
"""Reasons why one step of a StackPlan is risky: one for each rule."""
PLAN_UNKNOWN = 100
"""Values of one StackPlan that are unknown until run time, which its message lists."""
PLAN_NOTES = 50
"""Notes of one StackPlan: a preview has a few, and one for each resource that is not ready."""
PLAN_TEXT = 512
"""Characters of one text in a StackPlan: a field's path, a reason, a name."""
PLAN_BYTES = 768 * 1024
"""Bytes of one StackPlan: half of what etcd accepts, because `managedFields` and an approval are added."""
PLAN_READS = 24 * 2**20
"""Bytes, as JSON, of all lists that the operator reads for one StackPlan; they take about five times as much memory. 500
large objects of 16 KiB take 8 MiB."""
CLAIMS_BEYOND_REPLICAS = 1_000
"""Replicas of one StatefulSet whose claims are looked for: with several templates, more than `SNAPSHOT_VOLUMES`."""
CLAIMS_MISSING = 1_000
"""Claims of all StatefulSets of one Stack that may be missing before the search ends. Each costs a read, so it takes seconds.
"""
CLAIM_GAP = 4
"""Claims of earlier replicas that may be missing in a row before the search for further ones ends. Each costs a read."""
MISTAKE_LENGTH = 1_000
"""Characters of one mistake that are shown."""

PATTERN_LENGTH = 4_096
"""Characters of a regular expression."""
PATTERN_MEMORY = 256 * 1024
"""Bytes that RE2 may take for one pattern: some 10,000 instructions. RE2 caches the last 128 patterns."""
PATTERN_WORK = 10_000_000
"""Characters of a text times instructions of its pattern: at most 50 milliseconds, at 5 nanoseconds each."""
PATTERN_WORK_PER_MICROSECOND = 200
"""The same work in a microsecond."""
RULE_STEPS = 2_000_000
"""Steps to compare all values of one definition with their rules: some two seconds, in pieces."""

PARSED_BYTES = 48 * 1024 * 1024
"""Size of all cached parsed expressions: some 6,000 ordinary ones of 7 KiB. The largest take 3 MiB."""
JUDGED_BYTES = 16 * 1024 * 1024
"""Size of all cached type check results, estimated from their texts and mistakes."""
CHECKED_NAMES = 20_000
"""Names in all environments that are cached for type checks. Each takes a KiB."""
SMALL_INPUT_BYTES = 4 * 1024
"""Size of an object as JSON below which it counts as small without further examination."""
SMALL_INPUT_NODES = 500
"""Values in an object below which an expression takes it as is. Converting them takes 50 microseconds."""
SMALL_INPUT_TEXT = 16 * 1024
"""Bytes of text in an object below which an expression takes it as is."""
WEIGHED_NODES = 20_000
"""Values that are counted to bound the cost of an expression, which takes a millisecond. A larger input is not
evaluated in the operator's process."""
EVALUATION_MICROSECONDS = 5_000.0
"""Time of one expression in the operator's process, by its upper bound. The process does no other work in the meantime."""
EVALUATION_BYTES = 8 * 1024 * 1024
"""Memory of one expression in the operator's process, by its upper bound."""
USUAL_INPUT_NODES, USUAL_INPUT_TEXT, USUAL_INPUT_ELEMENTS = 50, 500, 8
"""Values, bytes of text, and list elements of the assumed input when the cost of a health or readiness rule is
estimated.
"""
USUAL_MICROSECONDS = 100_000.0
"""The upper bound of such a rule for this input, which is many times the real cost."""
TURN_MICROSECONDS = 50_000.0
"""Time of all expressions and health rules of one Stack in one iteration of the event loop: the bounds of expressions that
need one, and the measured time of all others."""
ASSESSMENTS_IN_A_TURN = 12
"""Assessments of the objects of one resource that belong to one turn: four objects, each assessed three times."""
ORDINARY_MICROSECONDS = 15.0
"""Time of an expression or a health rule that does not count: most take 6 to 10. Other work for a resource takes longer."""
TURN_PACKED_BYTES = 8 * 1024 * 1024
"""Size of inputs that one Stack sends to evaluator processes in one iteration."""
REQUEST_BYTES = 4 * 1024
"""Bytes that each such request counts in addition to its inputs: 2,000 requests take some 60 ms."""
EVALUATOR_CPU = 1.0
"""Seconds of CPU for one expression in an evaluator process: a thousand times what ordinary ones take."""
EVALUATOR_WALL = 10.0
"""Seconds until a process that does not answer is replaced, on a machine under any load."""
EVALUATOR_MEMORY = 128 * 1024 * 1024
"""Bytes that one expression may take there: some fifty times the largest object."""
EVALUATOR_INPUT_BYTES = 16 * 1024 * 1024
"""Size of the inputs of one expression: eight of the largest objects."""
EVALUATORS = 2
"""Processes, so that one slow expression does not delay all others. Each takes 30 MiB, at most 160."""
EVALUATIONS_QUEUED = 1_000
"""Expressions of one Stack that wait for an evaluator process."""
EVALUATIONS_QUEUED_BYTES = 8 * 1024 * 1024
"""Size of the inputs of these expressions."""
ALL_EVALUATIONS_QUEUED_BYTES = 32 * 1024 * 1024
"""The same size for all Stacks together."""
NAMESPACE_EVALUATIONS_QUEUED_BYTES = ALL_EVALUATIONS_QUEUED_BYTES // 4
"""The same size for all Stacks of one namespace, less while others take much."""
EVALUATION_RESULTS_PER_STACK = 8 * 1024 * 1024
"""Cached result bytes of one Stack: several times the size of its objects."""
EVALUATION_RESULTS = 32 * 1024 * 1024
"""The same size for all Stacks together. The Stack with the most loses entries first."""
EVALUATION_REST = 4.0
"""Factor of the delay of a Stack's next expression: this many times the duration of the last one, if that took a tenth
of a second or more. No Stack has more than a fifth of one process."""
EVALUATION_TRIES = 3
"""Attempts for an expression whose process ended or did not answer, possibly because of the machine."""
LIST_UNPACKED_BYTES = 1024 * 1024
"""Bytes of the packed objects of a list up to which a rule that never waits unpacks them: 10 to 20 milliseconds."""
LIST_READ_BYTES = 4 * 1024 * 1024
"""The same for an evaluator process: 5,000 Nodes with all of their labels and annotations."""
EXTERNAL_OBJECT_BYTES = 512 * 1024
"""Size of one external object that is read by its name: a bundle of all public certificate authorities has 220 KiB."""
OBJECT_KEPT_BYTES = 64 * 1024
"""Size of one child in the cache as JSON: metadata, and what expressions and health rules read. Most take 2 KiB."""
OBJECT_SURELY_KEPT_BYTES = 4 * 1024
"""Size up to which a child is always cached, regardless of the memory share of its namespace.

Nearly all are smaller.
"""
KEPT_BYTES = 256 * 1024 * 1024
"""Bytes that the Stacks of all namespaces keep in memory: fields of children and external objects, compiled
definitions, evaluated manifests. Each namespace may use half of the bytes that the others leave free.
"""
SPECS_LEAVE_FRACTION = 8
"""Divisor for the part of these bytes that cached specs leave free. A spec without room is read again when it is needed; a
definition without room is refused."""
SPEC_VALUE_KEPT_BYTES = 64
"""Size of a value in an instance's spec that is cached even if the spec has no room: a replica count."""
KEPT_AGAIN = 30.0
"""Seconds until a Stack retries after its namespace has used up its share."""
UNPROVEN_KEPT_BYTES = 16 * 1024 * 1024
"""The same size for all objects with Hearth's label but without its signature: objects of an earlier version, until
they are signed.
"""
ANNOTATION_KEPT_BYTES = 4 * 1024
"""Size of one annotation of Hearth if all of them together are too large."""
HIDDEN_OUTPUTS_LENGTH = 4 * 1024
"""Characters of the names of a Stack's sensitive outputs that its parents know: some 200 names.

Beyond this, its parents treat all of its outputs as sensitive.
"""
HASH_KEPT = 128
"""Characters of a hash: Hearth's have 42, and an annotation may contain anything."""
STACK_FINALIZERS_KEPT = 64
"""Finalizers of a Stack that are cached. If there are more, they are read before they are changed."""
FINALIZERS_KEPT = 16
"""Finalizers of an object that is too large: messages name them."""
HEALTH_WORD_CHARACTERS = 200
"""Characters of a reason or phase whose words are read. The longest of 429 condition types and of the phases of 250 kinds
have less than 100."""
HEALTH_WORDS = 32
"""Words of a reason or phase that are read. A name of a reason has up to 10; 200 characters of prose have some 30."""
HEALTH_MESSAGE_CHARACTERS = 1_000
"""Characters of a condition's message that are searched for phrases.

The failure comes last: each of up to five controllers that wrap an error adds some 50 characters before it.
"""
REASON_SHOWN = 200
"""Characters of a reason in a status. The API server rejects a status with one of more than 1,024."""
PROBLEM_SHOWN = 4_096
"""Characters of the message of one problem in a status, which lists forty. A condition of an object may have 32,768."""
HEALTH_PARTS = 2_000
"""Fields, conditions and parts of one status that are evaluated for health.

Each takes some 30 µs: the parts of several objects take turns, see `TURN_MICROSECONDS`.
"""
HEALTH_WORDS_KEPT = 2_048
"""Texts of statuses whose meaning is cached: some thousand differ in a large cluster, and each takes 0.3 KiB."""
SILENCE = 30.0
"""Seconds after which a status that no controller writes is explained. Most controllers answer within a second; one that
starts, and takes over a lease, within some twenty."""
SCRIPT_STEPS = 100_000
"""Instructions of the Lua machine for one verdict of a health script: none of Argo CD's 241 needs more than 433."""
SCRIPT_MEMORY = 16 * 1024 * 1024
"""Bytes of a Lua runtime: an object of 64 KiB takes less than 1 MiB as tables."""
SCRIPTS_COMPILED = 128
"""Compiled health scripts that an evaluator process keeps: most clusters have a dozen."""
SCRIPT_VERDICTS_KEPT = 4_096
"""Cached verdicts of one health script that remain valid while it runs again.

Without a verdict, the object is progressing in the meantime.
"""
ADMISSION_SECONDS = 4.0
"""Time of one admission review; the API server waits 5 s. Beyond it the write is allowed, and the engine decides."""
ADMISSION_REVIEWS = 8
"""Concurrent reviews. They compile their definitions in turns, so a higher limit would only slow down each review."""
ADMISSION_REVIEWS_PER_NAMESPACE = 2
"""The same limit for one namespace, so that no tenant takes all places."""
ADMISSION_PENDING = 200
"""Reviews in progress or waiting for a place. Beyond them a write is allowed at once, unreviewed."""
ADMISSION_BYTES = 8 * 1024 * 1024
"""Size of one request: the old and the new object, each at most 3 MiB in the API server."""
ADMISSION_WARNING_LENGTH = 256
"""Characters of one warning: the API server cuts longer ones off."""
ADMISSION_WARNINGS = 15
"""Warnings of one review: the API server passes on 4,096 characters in all."""
REPAIR_EVENTS = 20
"""Events about repairs of one Stack within `REPAIR_EVENT_SECONDS`, each with one read of the object. A person changes a few
objects; a script that changes thousands must not cost thousands of requests more."""
REPAIR_EVENT_SECONDS = 600.0
"""See above."""
READ_RIGHTS = 10_000
"""Answers about one Stack's account that are kept: as many as it has resources, if each is asked about by its name."""
PAGE_STREAMS = 20
"""Browser tabs that one `kubectl stack ui` keeps up to date. Each reads its Stack about once a second."""
PAGE_TOKEN_BYTES = 2_800
"""Size of a token that the page of a team seals in a cookie: browsers keep cookies of 4,096 bytes."""
PAGE_HEADER_TOKEN_BYTES = 8_000
"""Size of a token in a header, which is the size of headers that the server reads."""
PAGE_SESSIONS, PAGE_USER_SESSIONS = 200, 4
"""Sessions of one server of the page for a team, and of one user: one per token."""
PAGE_SESSION_REQUESTS = PAGE_STREAMS + 10
"""Requests of one session at the same time, streams included."""
PAGE_REQUESTS, PAGE_USER_REQUESTS = 1_000, 2 * PAGE_SESSION_REQUESTS
"""Requests of all sessions at the same time, and of all sessions of one user, streams included."""
PAGE_READ_BYTES, PAGE_USER_READ_BYTES, PAGE_READS_BYTES = 32 * 2**20, 48 * 2**20, 96 * 2**20
"""Size of the lists, as JSON, that one page is made from, that one user reads at the same time, and that all users read at
the same time. The objects take five times as much memory, and the limit of the Deployment is 1 GiB.
"""
PAGE_SESSION_IDLE, PAGE_SESSION_AGE = 600.0, 3_600.0
"""Seconds without a request, and seconds since its start, after which a session ends. The next request opens a new one."""
PAGE_CONNECTIONS, PAGE_USER_CONNECTIONS = 1_000, 100
"""Connections of browsers and proxies. Those without a signed-in user, or with one who has more than these, are closed first. With TLS and a form in progress,
each takes 430 KiB, so all of them fit in the memory limit of the Deployment.
"""
PAGE_FAILED_SIGN_INS, PAGE_FAILED_SIGN_IN_SECONDS = 10, 60.0
"""Failed sign-ins of one address within this time before the next ones are refused without asking the API server."""
PAGE_ADDRESSES = 10_000
"""Addresses with failed sign-ins that the page remembers; the oldest are forgotten first."""
PAGE_REVIEWS = 8
"""Tokens that the page checks at the same time."""
PAGE_SESSION_IN_FLIGHT = 8
"""Requests that one session sends to the API server at the same time."""
PAGE_BODY_BYTES = 8 * 2**20
"""Size of one response of the API server to a user of the page for a team. Longer lists are requested in smaller pages."""
PAGE_LISTS = 4
"""Pages of lists of Stacks, and lists of plans and definitions, that are read at the same time, for all users of a page."""
PAGE_LIST_BYTES = 256 * 2**20
"""Size of one list of Stacks, as JSON. Only one page of it is in memory at a time."""
PAGE_ROWS = 5_000
"""Rows of one kind in one list of Stacks."""
PAGE_USER_ROW_BYTES, PAGE_ALL_ROW_BYTES = 24 * 2**20, 256 * 2**20
"""Memory of the rows of all lists of one user, and of all users: a row takes about 1.3 KiB."""
PAGE_FEEDS = 4
"""Lists of Stacks that one session keeps up to date: one per namespace, or of all namespaces."""
PAGE_WATCHES = 8
"""Kinds of Stacks that one list watches. Those of further StackDefinitions are listed every ten seconds."""
PAGE_PREVIEWS = 2
"""Previews that run at the same time, for all users of the page of a team."""
PAGE_PREVIEW_WAIT = 20.0
"""Seconds that a preview waits for the previews of others."""
PAGE_FORM_BYTES = 64 * 1024
"""Size of one request to the page: the longest field of a form is a reason of 1,024 characters."""
PAGE_REVISIONS = 10
"""Revisions of a Stack that the page shows: the newest. Each costs a request."""
PAGE_PODS = 50
"""Pods of a workload, and containers of a pod, that the page shows: the newest."""
PAGE_LOG_LINES, PAGE_LOG_BYTES = 500, 256 * 1024
"""The end of a log that the page shows."""
PAGE_EVENTS = 500
"""Events on one page, the latest ones. The API server keeps them for an hour: some thousand of a large Stack."""
GRAPH_LAYER_NODES = 10
"""Single nodes in one layer of a graph: as many as fit on a screen."""
GRAPH_EXPANDED_NODES = 400
"""Single nodes in a layer that the user expands. Browsers draw some thousand without a delay."""
GRAPH_COLUMNS = 24
"""Columns of a graph. Beyond them, runs of neighboring layers become one column."""
FINISHED_BYTES = 65_536
"""Bytes of a status for finished work: some 500 resources. Beyond that, a finalizer keeps each finished object."""
FINISHED_RECORD_BYTES = 2 * FINISHED_BYTES
"""Bytes of the record of finished work on a revision: after a restore, each entry also has a UID. A longer one is not read."""
