package lab

import (
	"testing"

	"github.com/troupe-dev/troupe/tests/check"
)

//tier:unit
func TestSuiteModule(t *testing.T) {
	kubernetes := "module k8s.io/kubernetes\n\ngo 1.26.0\n\nrequire (\n\tk8s.io/api v0.0.0\n\tk8s.io/utils v0.1.0\n)\n\n" +
		"replace k8s.io/api => ./staging/src/k8s.io/api\n"
	want := "module node-suite.invalid\n\ngo 1.26.0\n\nrequire (\n\tk8s.io/api v0.0.0\n\tk8s.io/utils v0.1.0\n" +
		"\tk8s.io/kubernetes v1.37.2\n)\n\nreplace k8s.io/api => k8s.io/api v0.37.2\n"
	got := check.Value(suiteModule([]byte(kubernetes), "1.37.2"))(t)
	check.Equal(t, string(got), want, "the module of the suite")
	check.Fails(t, check.Err(suiteModule([]byte(kubernetes), "v2")), "a release without a minor version")
}

//tier:unit
func TestSuiteImages(t *testing.T) {
	source := "\tinitRegistry = RegistryList{\n\t\tGcRegistry:               \"registry.k8s.io\",\n" +
		"\t\tPrivateRegistry:          \"private.example\",\n\t}\n" +
		"\tconfigs[Pause] = Config{list.GcRegistry, \"pause\", \"3.10.2\"}\n" +
		"\tconfigs[AgnhostPrivate] = Config{list.PrivateRegistry, \"agnhost\", \"2.6\"}\n\t\tconfigs[i] = config\n"
	check.Deep(t, suiteImages([]byte(source)), map[string]string{
		"Pause": "registry.k8s.io/pause:3.10.2", "AgnhostPrivate": "private.example/agnhost:2.6",
	}, "the images of the suite")
}
