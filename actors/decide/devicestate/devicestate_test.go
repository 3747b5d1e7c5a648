package devicestate

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/tests/check"
)

const podUID = "c7c4a1a0-1f2e-4b52-8f6a-6a6f2b1d1b11"

func testdata(t testing.TB, name string) []byte {
	t.Helper()
	return check.Value(os.ReadFile(filepath.Join("testdata", name)))(t)
}

// TestParse reads what kubelets have written: that of 1.36 with its own code, that of 1.19 with a list of devices.
func TestParse(t *testing.T) {
	with136 := "example.com/fpga example.com/nic example.com/none nvidia.com/gpu"
	for name, c := range map[string]struct {
		data      []byte
		resources string
		train     string
		net       string
	}{
		"1.36": {testdata(t, "kubelet-1.36.json"), with136, "GPU-1a@0 GPU-1b@0 GPU-2a@1", "nic \"0\"\n@-1"},
		"1.37, which adds the boot ID": {
			bytes.Replace(testdata(t, "kubelet-1.36.json"), []byte(`"Checksum"`), []byte(`"BootID":"b","Checksum"`), 1),
			with136, "GPU-1a@0 GPU-1b@0 GPU-2a@1", "nic \"0\"\n@-1",
		},
		"1.19":         {testdata(t, "kubelet-1.19.json"), "nvidia.com/gpu", "", ""},
		"without pods": {[]byte(`{"Data":{"PodDeviceEntries":null,"RegisteredDevices":{}},"Checksum":3467439661}`), "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := check.Value(Parse(c.data))(t)
			check.Equal(t, words(s.Resources()), c.resources, "resources")
			check.Equal(t, devices(s.Of(podUID, "train")), c.train, "of train")
			check.Equal(t, devices(s.Of(podUID, "net")), c.net, "of net")
			if s.Lost() != "" || len(s.Of("other", "train"))+len(s.Of(podUID, "other")) > 0 {
				t.Error("it knows too much")
			}
		})
	}
	s, err := Parse(testdata(t, "kubelet-1.19.json"))
	if err != nil || devices(s.Of("p1", "app")) != "GPU-1@-1 GPU-2@-1" {
		t.Errorf("%v %v", s, err)
	}
}

func words(names []v1.ResourceName) string { return strings.Trim(fmt.Sprint(names), "[]") }

func devices(list []Device) string {
	var out []string
	for _, d := range list {
		out = append(out, fmt.Sprintf("%s@%d", d.ID, d.NUMA))
	}
	return strings.Join(out, " ")
}

func TestParseDamaged(t *testing.T) {
	whole := string(testdata(t, "kubelet-1.36.json"))
	sealed := func(names ...string) string { // with a right checksum
		c := content{RegisteredDevices: map[string][]string{}}
		for _, n := range names {
			c.RegisteredDevices[n] = []string{}
		}
		text := `{"Data":{"PodDeviceEntries":null,"RegisteredDevices":{`
		for i, n := range names {
			if i > 0 {
				text += ","
			}
			text += fmt.Sprintf("%q:[]", n)
		}
		return fmt.Sprintf(`%s}},"Checksum":%d}`, text, c.checksum())
	}
	check.Value(Parse([]byte(sealed("example.com/a", "example.com/b"))))(t)
	for name, c := range map[string]struct{ data, want string }{
		"empty":                          {"", "unexpected end of JSON input"},
		"cut off":                        {whole[:len(whole)/2], "unexpected end of JSON input"},
		"another device":                 {strings.Replace(whole, "GPU-2a", "GPU-2c", 1), "checksum"},
		"a pod less":                     {`{"Data":{"PodDeviceEntries":null,"RegisteredDevices":{}},"Checksum":1}`, "the checksum of the content is 3467439661, not 1"},
		"no object":                      {`[]`, "cannot unmarshal"},
		"devices of another form":        {`{"Data":{"PodDeviceEntries":[{"DeviceIDs":"x"}]}}`, "cannot unmarshal"},
		"a resource of Kubernetes":       {sealed("cpu"), `"cpu" is not the name of an extended resource`},
		"a name that no apiserver takes": {sealed("example.com/gpu", "example.com/ä"), `"example.com/ä" is not the name`},
	} {
		t.Run(name, func(t *testing.T) {
			check.Says(t, check.Err(Parse([]byte(c.data))), c.want, "the error")
		})
	}
}

// TestParseFuzzed damages files in a thousand ways: whatever still passes says the same as before.
func TestParseFuzzed(t *testing.T) {
	for _, name := range []string{"kubelet-1.36.json", "kubelet-1.19.json"} {
		whole := testdata(t, name)
		want := check.Value(Parse(whole))(t)
		r := rand.New(rand.NewPCG(1, 2))
		for range 1000 {
			data := bytes.Clone(whole)
			for range 1 + r.IntN(4) {
				switch at := r.IntN(len(data) + 1); r.IntN(4) {
				case 0:
					data = data[:at]
				case 1:
					data = append(data[:at:at], append([]byte{byte(r.Uint32())}, data[at:]...)...)
				case 2:
					data[min(at, len(data)-1)] ^= 1 << r.IntN(8)
				default:
					data = append(data[:at:at], data[min(len(data), at+1+r.IntN(8)):]...)
				}
				if len(data) == 0 {
					break
				}
			}
			if got, err := Parse(data); err == nil && (words(got.Resources()) != words(want.Resources()) ||
				devices(got.Of(podUID, "train")) != devices(want.Of(podUID, "train"))) {
				t.Fatalf("%q is taken for whole", data)
			}
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(testdata(f, "kubelet-1.36.json"))
	f.Add(testdata(f, "kubelet-1.19.json"))
	f.Add([]byte(`{"Data":{"PodDeviceEntries":[{"DeviceIDs":null},{"DeviceIDs":[]}],"RegisteredDevices":null}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if s, err := Parse(data); (s == nil) == (err == nil) {
			t.Errorf("%v %v", s, err)
		}
	})
}

func TestNothingKnown(t *testing.T) {
	var s *State
	if s.Lost() != "" || s.Plugin("nvidia.com/gpu") || s.Resources() != nil || s.Of("u", "c") != nil {
		t.Error("nil knows something")
	}
	if s = Unknown("gone"); s.Lost() != "gone" || s.Plugin("nvidia.com/gpu") || len(s.Resources()) > 0 {
		t.Error("what is lost is known")
	}
}

func pod() *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "u"}, Spec: v1.PodSpec{
		InitContainers: []v1.Container{{Name: "init"}}, Containers: []v1.Container{{Name: "app"}},
	}}
}

func limit(c *v1.Container, name v1.ResourceName, q string) {
	c.Resources.Limits = v1.ResourceList{name: resource.MustParse(q), v1.ResourceCPU: resource.MustParse("1")}
}

func TestMissing(t *testing.T) {
	s := check.Value(Parse(testdata(t, "kubelet-1.36.json")))(t)
	const dra = "resource claims can't be prepared on this node (it has no apiserver, or no drivers)"
	const plugin = "no device plugin serves it on this node"
	use := func(c *v1.Container, claim string) { c.Resources.Claims = []v1.ResourceClaim{{Name: claim}} }
	for name, c := range map[string]struct {
		change func(*v1.Pod)
		// pod and app are what is missing in the pod and in its container app.
		pod, app string
	}{
		"nothing asked":               {func(*v1.Pod) {}, "", ""},
		"an operator's resource":      {func(p *v1.Pod) { limit(&p.Spec.Containers[0], "example.com/dongle", "1") }, "", ""},
		"none of a plugin's resource": {func(p *v1.Pod) { limit(&p.Spec.Containers[0], "nvidia.com/gpu", "0") }, "", ""},
		"a plugin's resource": {
			func(p *v1.Pod) { limit(&p.Spec.Containers[0], "nvidia.com/gpu", "2") },
			`container "app": resources.limits[nvidia.com/gpu]: 2 requested, but ` + plugin,
			`container "app": resources.limits[nvidia.com/gpu]: 2 requested, but ` + plugin,
		},
		"one that only a pod had": {
			func(p *v1.Pod) { limit(&p.Spec.InitContainers[0], "example.com/nic", "1") },
			`container "init": resources.limits[example.com/nic]: 1 requested, but ` + plugin, "",
		},
		"a claim that nobody uses": {
			func(p *v1.Pod) {
				p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu", ResourceClaimName: new("shared")}}
			},
			`spec.resourceClaims[0]: claim "gpu" (ResourceClaim "shared"): ` + dra, "",
		},
		"claims of a template": {
			func(p *v1.Pod) {
				p.Spec.ResourceClaims = []v1.PodResourceClaim{
					{Name: "a", ResourceClaimTemplateName: new("t")}, {Name: "b", ResourceClaimName: new("own")},
				}
				p.Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: "a", ResourceClaimName: new("p-a-x7")}}
				use(&p.Spec.InitContainers[0], "a")
				use(&p.Spec.Containers[0], "b")
			},
			`spec.resourceClaims[0]: claim "a" (ResourceClaimTemplate "t", ResourceClaim "p-a-x7"): ` + dra,
			`spec.resourceClaims[1]: claim "b" (ResourceClaim "own"): ` + dra,
		},
		"an extended resource that a claim stands for": {
			func(p *v1.Pod) {
				limit(&p.Spec.Containers[0], "example.com/dongle", "1")
				p.Status.ExtendedResourceClaimStatus = &v1.PodExtendedResourceClaimStatus{
					ResourceClaimName: "p-ext",
					RequestMappings:   []v1.ContainerExtendedResourceRequest{{ContainerName: "app", ResourceName: "example.com/dongle"}},
				}
			},
			`container "app": resources.limits[example.com/dongle] is backed by ResourceClaim "p-ext" (status.extendedResourceClaimStatus): ` + dra,
			`container "app": resources.limits[example.com/dongle] is backed by ResourceClaim "p-ext" (status.extendedResourceClaimStatus): ` + dra,
		},
		"a claim for extended resources that maps none": {
			func(p *v1.Pod) {
				p.Status.ExtendedResourceClaimStatus = &v1.PodExtendedResourceClaimStatus{ResourceClaimName: "p-ext"}
			},
			`status.extendedResourceClaimStatus: ResourceClaim "p-ext": ` + dra, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := pod()
			c.change(p)
			check.Equal(t, cmp.Or(Unclaimed(p), s.Missing(p)), c.pod, "in the pod")
			a := &p.Spec.Containers[0]
			check.Equal(t, cmp.Or(UnclaimedIn(p, a), s.MissingIn(a)), c.app, "in app")
		})
	}
	p := pod()
	limit(&p.Spec.Containers[0], "nvidia.com/gpu", "1")
	var none *State
	check.Equal(t, none.Missing(p), "", "it")
	p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu", ResourceClaimName: new("shared")}}
	check.Equal(t, none.Missing(p), "", "claims are not of device plugins")
}

// TestFormat: what is written is read again, and a kubelet's file stays the same.
func TestFormat(t *testing.T) {
	whole := testdata(t, "kubelet-1.36.json")
	s := check.Value(Parse(whole))(t)
	healthy := map[v1.ResourceName][]string{"example.com/none": {}}
	for _, name := range s.Resources() {
		healthy[name] = []string{"x", "y"}
	}
	data := Format(healthy, s.Grants())
	again := check.Value(Parse(data))(t)
	if !reflect.DeepEqual(again.Grants(), s.Grants()) || len(s.Grants()) == 0 {
		t.Errorf("%v\nwant\n%v", again.Grants(), s.Grants())
	}
	if !again.Plugin("example.com/none") || string(Format(healthy, again.Grants())) != string(data) {
		t.Errorf("%s", data)
	}
	if _, err := Parse(Format(nil, nil)); err != nil {
		t.Error(err)
	}
}
