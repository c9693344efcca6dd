// Reports what kstatus, the library by which Flux and Helm wait, finds in objects: a JSON list of objects in, a JSON list
// of results out.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

type result struct {
	Status  string `json:"status"`
	Message string `json:"message"`
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	var objects []map[string]any
	if err := json.NewDecoder(os.Stdin).Decode(&objects); err != nil {
		return fmt.Errorf("standard input is no JSON list of objects: %w", err)
	}
	results := make([]result, 0, len(objects))
	for _, object := range objects {
		found, err := status.Compute(&unstructured.Unstructured{Object: normalize(object)})
		if err != nil {
			return err
		}
		results = append(results, result{Status: string(found.Status), Message: found.Message})
	}
	return json.NewEncoder(os.Stdout).Encode(results)
}

// normalize returns whole numbers as integers, as the client of Kubernetes does.
func normalize(object map[string]any) map[string]any {
	for key, value := range object {
		object[key] = normalizeValue(value)
	}
	return object
}

func normalizeValue(value any) any {
	switch typed := value.(type) {
	case map[string]any:
		return normalize(typed)
	case []any:
		for index, inner := range typed {
			typed[index] = normalizeValue(inner)
		}
		return typed
	case float64:
		if typed == float64(int64(typed)) {
			return int64(typed)
		}
	}
	return value
}
