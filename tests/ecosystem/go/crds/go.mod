// The CustomResourceDefinitions of cert-manager, which the chart can use; nothing is built.
module hearth.dev/tests/ecosystem/crds

go 1.26.0

require github.com/cert-manager/cert-manager v1.21.2
