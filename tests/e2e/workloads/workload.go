package workloads

import (
	"embed"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/troupe-dev/troupe/tests/check"
)

//go:embed charts static
var files embed.FS

// Workload is one chart, or one set of static pods.
type Workload struct {
	// Name is that of its file.
	Name string `json:"-"`
	// Source is where it is published: repository@commit and files.
	Source string `json:"source"`
	// Brings are the features for the sake of which it is here.
	Brings string `json:"brings"`
	// Breaks is what happens to a container of it: "kills NAME" or "fails NAME", that is its probes.
	Breaks string `json:"breaks"`
	// Claim is the PersistentVolumeClaim that it needs, if any.
	Claim string `json:"claim"`
	// User is the one of its images, if any.
	User string `json:"user"`
	// Host are directories, with a slash at the end, and files that are on the node before.
	Host []string `json:"host"`

	text string // its objects, with variables
}

// Charts are what controllers make pods of.
func Charts() ([]Workload, error) { return read("charts") }

// StaticPods are what an agent finds in its directory of manifests.
func StaticPods() ([]Workload, error) { return read("static") }

func read(dir string) (out []Workload, err error) {
	defer check.Return(&err)
	for _, entry := range check.Must(files.ReadDir(dir)) {
		text := string(check.Must(files.ReadFile(path.Join(dir, entry.Name()))))
		head, objects, found := strings.Cut(text, "\n---\n")
		w := Workload{Name: strings.TrimSuffix(entry.Name(), ".yaml"), text: objects}
		if err := yaml.UnmarshalStrict([]byte(head), &w); err != nil || !found {
			return nil, fmt.Errorf("read workload %s: %w", w.Name, errors.Join(err, check.That(found, "it has no objects")))
		}
		out = append(out, w)
	}
	return out, nil
}

var variable = regexp.MustCompile(`\$\{(\w+)\}`)

// Objects are the workload's objects. value gives what stands for a variable: DIR for the root of the node's files,
// ROOT for the agent's directory, NODE, REVISION, and a number for a port of the host.
func (w Workload) Objects(value func(name string) string) (out []*unstructured.Unstructured, err error) {
	text := variable.ReplaceAllStringFunc(w.text, func(v string) string { return value(v[2 : len(v)-1]) })
	decoder := utilyaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 1<<12)
	for {
		u := &unstructured.Unstructured{}
		if err := decoder.Decode(&u.Object); errors.Is(err, io.EOF) {
			return out, nil
		} else if err != nil {
			return nil, fmt.Errorf("read workload %s: %w", w.Name, err)
		}
		out = append(out, u)
	}
}
