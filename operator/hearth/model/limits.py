"""How much anything that enters may hold: specs, templates, sources, schemas, answers of servers, annotations, revisions.

The one place for these figures, each with its reason; whoever reads input checks it against them. Must not know who sends
what, nor what happens to whoever exceeds a limit.
"""

from __future__ import annotations

JSON_DEPTH = 100
"""Levels of maps and lists in one value. The deepest real manifests have some 20, CRD schemas some 60; orjson and
protobuf give up at a few hundred."""
OBJECT_DEPTH = 250
"""Of an object as the API server sends it: orjson reads 1,024 levels, but writes 254."""
JSON_NODES = 100_000
"""Values in one definition or source, counted after expansion: 5,000 resources of 20 fields each."""
RULE_NODES = 20_000
"""Values in one text of health rules: a thousand rules of some cases each."""
IMPORT_NODES = 2_000_000
"""Values in one file that `hearth import` reads: all manifests of a large cluster."""
INTEGER_DIGITS = 20
"""Of a whole number as text: 64 bits have 19 and a sign. Python refuses to convert 4,300."""
SIGNATURE_LENGTH = 160
"""Characters of a child's signature: the longest that we write has 117."""
UNPROVEN_NAMED = 20
"""Objects without a signature that one Stack's Events name: whoever forges thousands gets no more attention."""
CHECK_DRY_RUNS = 100
"""Dry runs in one check: a minute of them at the slowest. Only objects whose values look changed need one."""
COUNT_DIGITS = 9
"""Of a number in an annotation or label of ours: a billion incarnations or revisions."""

NAME_LENGTH = 253
"""Characters of an object's name or namespace: what the API server takes."""
KEY_LENGTH = 317
"""Characters of a key in metadata: a DNS prefix, a slash, 63 more."""

BODY_BYTES = 64 * 1024 * 1024
"""Of one answer of a server, inflated. A page of 500 objects of 100 KiB fits."""
LINE_BYTES = 8 * 1024 * 1024
"""Of one event in a watch: etcd takes 1.5 MiB, an API server's JSON of it at most a few times as much."""
LINE_HEAD_BYTES = 2 * 1024 * 1024
"""Of the beginning of a longer event, in which its metadata are looked for: their annotations take 1.5 MiB at most."""
INLINE_BYTES = 64 * 1024
"""Of JSON with a mistake that is looked through in the event loop, which takes some 10 ms; more goes to a thread."""
HEADER_BYTES = 64 * 1024
"""Of the head of an answer."""
MESSAGE_LENGTH = 16 * 1024
"""Characters of a message in a server's answer that are kept: a status shows far less."""
SKIPPED_NAMES = 1_000
"""Objects per kind that the log has named as unreadable, so that it names each once."""
HTTP_CONNECTIONS = 100
"""At once to the pages of the operator: a kubelet and a handful of scrapers need ten. A health check is answered
however many others are open: the oldest is closed for the newest."""
PLUGIN_SECONDS = 60.0
"""That an exec plugin may take: kubectl waits for people, who are not here."""
PLUGIN_BYTES = 1024 * 1024
"""Of what an exec plugin writes: a token or certificate has some KiB."""
CHUNK_LINE_BYTES = 1024
"""Of the line before a chunk, which holds a number and perhaps an extension."""
OBJECT_BYTES = 2 * 1024 * 1024
"""Of one object that is sent: the API server refuses 3 MiB, etcd 1.5."""
WANTED_BYTES = 16 * 1024 * 1024
"""Of all manifests and outputs of one Stack: 5,000 of 3 KiB. They are kept in memory, and twice while they are made."""
OUTPUT_BYTES = 64 * 1024
"""Of one output in a status: a chain of certificates, a kubeconfig."""
OUTPUTS_BYTES = 256 * 1024
"""Of all outputs of one Stack: its status is read and written as a whole, beside a spec of up to 1.5 MiB."""
OUTPUT_DEPTH = 32
"""Levels of maps and lists in one output."""
HIDDEN_TEXTS = 500
"""Sensitive texts that are looked for in each message of a Stack; where there are more, no message is shown at all."""
REVISION_BYTES = 16 * 1024 * 1024
"""Of a definition inflated from its revision."""
REVISION_VALUES = 1_000_000
"""Commas and brackets in a definition inflated from its revision: ten times `JSON_NODES`, since texts hold commas too."""
REVISION_KINDS = 500
"""Kinds that one revision lists. The busiest clusters serve some 400."""
REVISION_HINTS = 20
"""Unverified revisions of one Stack whose kinds are looked at when children are searched."""
HINTED_REVISION = 1_000_000
"""The highest number of an unverified revision that the next number has to exceed."""
SOURCE_BYTES = 2 * 1024 * 1024
"""Of a template or value in a ConfigMap or Secret, which hold a MiB."""
PARAMETER_BYTES = 4 * 1024 * 1024
"""Of all values that sources give to the parameters of one definition."""
IMPORT_BYTES = 256 * 1024 * 1024
"""Of one file that `hearth import` reads."""
ANNOTATION_BYTES = 256 * 1024
"""Of one annotation that is parsed: the API server allows that for all of them together."""
RETRY_AFTER = 3600.0
"""Seconds, at most, that a server's wish to be asked later is obeyed."""

RESOURCES = 5_000
"""Of one template. An object in etcd (1.5 MiB) holds no more of the smallest manifests that make sense."""
ENTRIES = 1_000
"""Parameters, conditions or outputs: far above any sensible template, low enough for the cost of the rules on names."""
DEPENDENCIES = 500
"""Entries of one `dependsOn`."""
RULES = 32
"""Expressions in one `readyWhen` or `failedWhen`, fields in one `ignoreFields`, sources of parameters."""
EXPRESSION_LENGTH = 4_096
"""Characters of one expression, wherever it stands."""
EXPRESSIONS = 50_000
"""Of one definition: ten for each of as many resources as there may be."""
EXPRESSIONS_IN_TEXT = 500
"""Expressions in one text."""
FIELD_LENGTH = 256
"""Characters of the path of one field."""
ENVIRONMENT_RULES = 100
"""Breakpoints or restricted actions; each is looked at for every resource that something happens to."""
GLOB_LENGTH = 256
"""Characters of the name, with wildcards, that a breakpoint or restricted action is for."""

SHAPE_FIELDS = 1_000
"""Fields of one map whose types are checked; the largest of Kubernetes have some 40, and protobuf takes a few thousand."""
SHAPE_LENGTH = 128 * 1024
"""Characters of the rules of all parameters up to which expressions are checked for what lies within a parameter."""

HINTED_MISTAKES = 10
"""Mistakes in one definition for which a similar name is looked up: each look costs a comparison with every candidate."""
HINTED_LENGTH = 64
"""Characters of a name that others are compared with."""
HINTED_CANDIDATES = 1_000
"""Names that one is compared with: as many as a template may have parameters."""
MISTAKES = 100
"""Mistakes that one message lists; the rest are counted."""

INTERNAL_ERRORS = 256
"""Kinds of internal errors that are told apart in the log: each is one place in the code and one type."""
LOGGED_FRAMES = 40
"""Of the stack of one exception: enough for every path through the operator; an endless recursion has a thousand."""
LOGGED_CAUSES = 4
"""Exceptions in one chain of causes that are logged."""
CAUSE_WATCHES = 200
"""Watches over what refused writes wait for; beyond that they are tried again by time alone. Each holds a connection."""
SOURCE_WATCHES_PER_NAMESPACE = 8
"""ConfigMaps and Secrets that have a watch, hence a connection, of their own; the others share one. Most namespaces have fewer."""
SOURCE_WATCHES = 32
"""The same in all namespaces: with what is sent to the API server besides, far from the 1,024 files that a process often has."""
SOURCE_KEPT_BYTES = 64 * 1024
"""Of a ConfigMap's data that is kept in memory; a larger one is read again each time. Ordinary templates have a few KiB."""
SOURCE_POLL = 30.0
"""Seconds between two polls of a source where the operator may not watch the kind as a whole."""
NESTED_DEPTH = 8
"""Stacks in one another, the outermost not counted. Templates of templates have two or three."""
NESTED_STACKS = 1000
"""Stacks nested in one outermost Stack, directly or in one another: as many as a large cluster has in all."""
HEALTH_MARKS_PER_NAMESPACE = 1000
"""HealthMarks that are not resolved: whoever marks more objects at once has a broken program."""
HEALTH_MARKS = 10_000
"""The same in all namespaces: ten such programs."""
MISTAKE_LENGTH = 1_000
"""Characters of one mistake that are shown."""

PATTERN_LENGTH = 4_096
"""Characters of a regular expression."""
PATTERN_MEMORY = 256 * 1024
"""Bytes that RE2 may take for one of them: some 10,000 instructions, and it keeps the last 128."""
PATTERN_WORK = 10_000_000
"""Characters of a text times instructions of its pattern: 50 milliseconds at worst, which is 5 nanoseconds each."""
PATTERN_WORK_PER_MICROSECOND = 200
"""The same in a microsecond."""
RULE_STEPS = 2_000_000
"""Of the comparison of all values of one definition with their rules: some two seconds, in pieces."""

PARSED_BYTES = 48 * 1024 * 1024
"""Of all expressions that are kept parsed: some 6,000 ordinary ones of 7 KiB; the largest take 3 MiB."""
JUDGED_BYTES = 16 * 1024 * 1024
"""Of what is known of their types, reckoned by their texts and mistakes."""
CHECKED_NAMES = 20_000
"""Names in all environments that are kept for checking types: each takes a KiB."""
SMALL_INPUT_BYTES = 4 * 1024
"""Of an object as JSON, below which it is small without a closer look."""
SMALL_INPUT_NODES = 500
"""Values in an object, below which an expression takes it as it is: converting them takes 50 microseconds."""
SMALL_INPUT_TEXT = 16 * 1024
"""Bytes of text in it, likewise."""
WEIGHED_NODES = 20_000
"""Values that are counted to bound the cost of an expression, which takes a millisecond; what is larger is not evaluated
in the operator's process."""
EVALUATION_MICROSECONDS = 5_000.0
"""Of one expression in the operator's process, by its upper bound; nobody else is served meanwhile."""
EVALUATION_BYTES = 8 * 1024 * 1024
"""The same of memory."""
USUAL_INPUT_NODES, USUAL_INPUT_TEXT, USUAL_INPUT_ELEMENTS = 50, 500, 8
"""Values, bytes of text, and elements of each list in what a rule about health or readiness is judged by beforehand."""
USUAL_MICROSECONDS = 100_000.0
"""What such a rule may take of them by its upper bound, which is many times what it takes."""
TURN_MICROSECONDS = 50_000.0
"""Of all expressions of one Stack that need a bound, in one turn of the event loop."""
TURN_PACKED_BYTES = 8 * 1024 * 1024
"""Of inputs that one Stack hands to evaluator processes in one turn."""
EVALUATOR_CPU = 1.0
"""Seconds of CPU for one expression in an evaluator process: a thousand times what ordinary ones take."""
EVALUATOR_WALL = 10.0
"""Seconds until a process that does not answer is replaced, on however busy a machine."""
EVALUATOR_MEMORY = 128 * 1024 * 1024
"""Bytes that one expression may take there: some fifty times the largest object."""
EVALUATOR_INPUT_BYTES = 16 * 1024 * 1024
"""Of the inputs of one expression: eight of the largest objects."""
EVALUATORS = 2
"""Processes, so that one expression that uses up its time does not hold up all others; each takes 30 MiB, at most 160."""
EVALUATIONS_QUEUED = 1_000
"""Expressions of one Stack that wait for an evaluator process."""
EVALUATIONS_QUEUED_BYTES = 8 * 1024 * 1024
"""Of their inputs."""
ALL_EVALUATIONS_QUEUED_BYTES = 32 * 1024 * 1024
"""The same of all Stacks together."""
EVALUATION_RESULTS_PER_STACK = 8 * 1024 * 1024
"""Bytes of results of one Stack that are kept: several times what its objects can hold of them."""
EVALUATION_RESULTS = 32 * 1024 * 1024
"""The same of all Stacks together; who has the most gives way first."""
EVALUATION_REST = 4.0
"""How many times as long as its last expression took a Stack waits for the next one, where that took a tenth of a second
or more: no Stack has more than a fifth of one process."""
EVALUATION_TRIES = 3
"""Of an expression whose process ended or did not answer, which may be the machine's fault."""
OBJECT_KEPT_BYTES = 64 * 1024
"""Of one child that the cache keeps as JSON: metadata, and what expressions and health rules read. Mostly it is 2 KiB."""
STACK_KEPT_BYTES = 32 * 1024 * 1024
"""The same of all children of one Stack: 5,000 of 6 KiB."""
UNPROVEN_KEPT_BYTES = 16 * 1024 * 1024
"""The same of all objects that carry our label without our signature: those of a version before, until they are signed."""
ANNOTATION_KEPT_BYTES = 4 * 1024
"""Of one annotation of ours where all of them are too many."""
HASH_KEPT = 128
"""Characters of a hash: ours have 42, and an annotation may hold anything."""
FINALIZERS_KEPT = 16
"""Of an object that is too large: messages name them."""
