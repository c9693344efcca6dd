// The program of manifests/examples/three-tier.yaml on a node, with a driver of PostgreSQL that needs nothing else.
module hearth.dev/tests/cluster/store

go 1.26.0

require github.com/lib/pq v1.12.3
