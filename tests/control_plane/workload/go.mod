// The program in the Pods of the tests' node: the standard library alone.
module hearth.dev/tests/cluster/workload

go 1.26.0
