package damage_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	decide "github.com/troupe-dev/troupe/actors/decide/claims"
	"github.com/troupe-dev/troupe/actors/decide/cpus"
	"github.com/troupe-dev/troupe/actors/decide/devicestate"
	"github.com/troupe-dev/troupe/actors/decide/imagepull"
	decidememory "github.com/troupe-dev/troupe/actors/decide/memory"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/damage"
)

// TestCPUManagerState: a damaged cpu_manager_state never ends the agent without a reason.
func TestCPUManagerState(t *testing.T) {
	// Without a checksum, as of old kubelets: what is wrong must be told by its shape.
	const content = `{"policyName":"static","defaultCpuSet":"0,5-7","entries":{"a":{"x":"4"},"b":{"c1":"1-2","c2":"3"}}}`
	refused := damage.Parse(t, content, func(c []byte) []byte { return append([]byte(nil), c...) }, func(data []byte) error {
		_, err := cpus.Parse(data)
		return err
	})
	check.AtLeast(t, refused, damage.Readings/4, "only %d were refused", refused)
}

// TestMemoryManagerState: a damaged memory_manager_state never ends the agent without a reason.
func TestMemoryManagerState(t *testing.T) {
	const content = `{"policyName":"Static","machineState":{"0":{"numberOfAssignments":1,"memoryMap":{"memory":{"total":1000,` +
		`"systemReserved":100,"allocatable":900,"reserved":200,"free":700}},"cells":[0]}},"entries":{"a":{"x":[` +
		`{"numaAffinity":[0],"type":"memory","size":200}]}}}`
	refused := damage.Parse(t, content, func(c []byte) []byte { return append([]byte(nil), c...) }, func(data []byte) error {
		_, err := decidememory.Parse(data)
		return err
	})
	check.AtLeast(t, refused, damage.Readings/4, "only %d were refused", refused)
}

// TestDeviceCheckpoint: a damaged kubelet_internal_checkpoint never ends the agent.
func TestDeviceCheckpoint(t *testing.T) {
	content := check.Value(os.ReadFile("../../actors/decide/devicestate/testdata/kubelet-1.36.json"))(t)
	// seal writes the checksum that the parser wants, so that the shape is what is wrong.
	seal := func(content []byte) []byte {
		content = append([]byte(nil), content...)
		var f map[string]json.RawMessage
		if json.Unmarshal(content, &f) != nil || f == nil {
			return content
		}
		f["Checksum"] = json.RawMessage("0")
		data, err := json.Marshal(f)
		if err != nil {
			return content
		}
		var sum uint64
		if _, err := devicestate.Parse(data); err != nil {
			if n, _ := fmt.Sscanf(err.Error(), "the checksum of the content is %d", &sum); n == 1 {
				f["Checksum"] = fmt.Appendf(nil, "%d", sum)
			}
		}
		if data, err = json.Marshal(f); err != nil {
			return content
		}
		return data
	}
	refused := damage.Parse(t, string(content), seal, func(data []byte) error {
		_, err := devicestate.Parse(data)
		return err
	})
	check.AtLeast(t, refused, damage.Readings/4, "only %d were refused", refused)
}

// TestDRAManagerState: a damaged dra_manager_state never ends the agent.
func TestDRAManagerState(t *testing.T) {
	const content = `[{"ClaimUID":"c-1","ClaimName":"gpu","Namespace":"default","PodUIDs":{"p-1":{},"p-2":{}},"DriverState":{` +
		`"gpu.example.com":{"Devices":[{"PoolName":"n1","DeviceName":"gpu-0","ShareID":null,"RequestNames":["one"],` +
		`"CDIDeviceIDs":["example.com/gpu=0"]}]},"net.example.com":{"Devices":null}}},` +
		`{"ClaimUID":"c-2","ClaimName":"net","Namespace":"default","PodUIDs":{"p-2":{}},"DriverState":{}}]`
	refused := damage.Parse(t, content, damage.SealClaims, func(data []byte) error {
		claims, err := decide.Parse(data)
		if err == nil {
			_, err = decide.Parse(decide.Format(claims)) // it is written again
		}
		return err
	})
	check.AtLeast(t, refused, damage.Readings/4, "only %d were refused", refused)
}

// TestPullRecords: a damaged record of an image pull is told from a good one, and never read as that of another image.
func TestPullRecords(t *testing.T) {
	const content = `{"kind":"ImagePulledRecord","apiVersion":"kubelet.config.k8s.io/v1beta1","lastUpdatedTime":"2026-01-01T00:00:00Z",` +
		`"imageRef":"sha256:1","credentialMapping":{"reg.io/app":{"kubernetesSecrets":[{"uid":"u","namespace":"n","name":"s","credentialHash":"h"}]},` +
		`"reg.io/b":{"kubernetesServiceAccounts":[{"uid":"u","namespace":"n","name":"a"}]},"reg.io/c":{"nodePodsAccessible":true}}}`
	same := func(c []byte) []byte { return append([]byte(nil), c...) }
	refused := damage.Parse(t, content, same, func(data []byte) error {
		r, err := imagepull.ParseRecord(imagepull.RecordFileName("sha256:1"), data)
		if err != nil {
			return err
		}
		check.Equal(t, r.ImageRef, "sha256:1", "%.200q is of image", data)
		_, _ = imagepull.RecordAllows(r, "reg.io/app:1", []imagepull.Offer{{Source: imagepull.Source{Owner: imagepull.OfSecret}}})
		_, err = imagepull.ParseRecord(imagepull.RecordFileName("sha256:1"), imagepull.EncodeRecord(r)) // it is written again
		return err
	})
	check.AtLeast(t, refused, damage.Readings/4, "only %d were refused", refused)
	damage.Parse(t, string(imagepull.EncodeIntent("reg.io/app:1")), same, func(data []byte) error {
		image, err := imagepull.ParseIntent(imagepull.RecordFileName("reg.io/app:1"), data)
		if err == nil && image != "reg.io/app:1" {
			t.Errorf("%.200q is of image %q", data, image)
		}
		return err
	})
}

// TestPluginAnswers: a credential provider plugin that writes garbage is refused, in words without anything that it wrote.
func TestPluginAnswers(t *testing.T) {
	const version = "credentialprovider.kubelet.k8s.io/v1"
	const content = `{"kind":"CredentialProviderResponse","apiVersion":"` + version + `","cacheKeyType":"Registry","cacheDuration":"5m",` +
		`"auth":{"reg.io":{"username":"hush-user","password":"hush-password"},"*.reg.io":{"username":"hush","password":"hush"}}}`
	p := &imagepull.Provider{Name: "p", APIVersion: version}
	refused := damage.Parse(t, content, func(c []byte) []byte { return append([]byte(nil), c...) }, func(data []byte) error {
		_, err := p.Read(data, "")
		if err != nil && strings.Contains(err.Error(), "hush") {
			t.Errorf("%.200q: the error tells a secret: %v", data, err)
		}
		return err
	})
	check.AtLeast(t, refused, damage.Readings/4, "only %d were refused", refused)
}
