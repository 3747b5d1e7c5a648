package claims

import (
	"hash/crc32"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/troupe-dev/troupe/tests/check"
)

// kubelets is a file as a kubelet of v1.36 writes it.
const kubelets = `{"Data":"{\"kind\":\"DRACheckpoint\",\"apiVersion\":\"checkpoint.dra.kubelet.k8s.io/v1\",` +
	`\"ClaimInfoStateList\":[{\"ClaimUID\":\"c-1\",\"ClaimName\":\"gpu\",\"Namespace\":\"default\",` +
	`\"PodUIDs\":{\"p-1\":{},\"p-2\":{}},\"DriverState\":{\"gpu.example.com\":{\"Devices\":[{\"PoolName\":\"n1\",` +
	`\"DeviceName\":\"gpu-0\",\"ShareID\":null,\"RequestNames\":[\"one\"],\"CDIDeviceIDs\":[\"example.com/gpu=0\"]},` +
	`{\"PoolName\":\"n1\",\"DeviceName\":\"gpu-1\",\"ShareID\":\"s-1\",\"RequestNames\":null,\"CDIDeviceIDs\":null}]},` +
	`\"net.example.com\":{\"Devices\":null}}}]}","Checksum":`

func fileOf(data string) []byte {
	return marshal(file{Data: data, Checksum: crc32.ChecksumIEEE([]byte(data))})
}

// TestKubeletsFile: what a kubelet wrote is read, and written again byte by byte.
func TestKubeletsFile(t *testing.T) {
	text := kubelets + "1309996484}"
	got := check.Value(Parse([]byte(text)))(t)
	want := []Claim{{
		UID: "c-1", Namespace: "default", Name: "gpu", Pods: []types.UID{"p-1", "p-2"},
		Drivers: map[string][]Device{
			"gpu.example.com": {
				{Pool: "n1", Name: "gpu-0", Requests: []string{"one"}, CDI: []string{"example.com/gpu=0"}},
				{Pool: "n1", Name: "gpu-1", Share: "s-1"},
			},
			"net.example.com": nil,
		},
	}}
	check.Deep(t, got, want, "got")
	check.Equal(t, string(Format(got)), text, "written again it")
}

// TestEmpty: a kubelet without claims has a file too.
func TestEmpty(t *testing.T) {
	text := `{"Data":"{\"kind\":\"DRACheckpoint\",\"apiVersion\":\"checkpoint.dra.kubelet.k8s.io/v1\",` +
		`\"ClaimInfoStateList\":null}","Checksum":4010664294}`
	check.Equal(t, string(Format(nil)), text, "got")
	check.None(t, check.Value(Parse([]byte(text)))(t), "got")
}

func TestDamaged(t *testing.T) {
	data := func(claims string) string {
		return `{"kind":"DRACheckpoint","apiVersion":"checkpoint.dra.kubelet.k8s.io/v1","ClaimInfoStateList":[` + claims + `]}`
	}
	const a = `{"ClaimUID":"a","ClaimName":"n","Namespace":"ns"}`
	for name, c := range map[string]struct{ text, want string }{
		"nothing":      {"", "unexpected end"},
		"not JSON":     {"{", "unexpected end"},
		"checksum":     {kubelets + "1}", "its checksum is 1"},
		"data":         {string(fileOf("{")), "its Data: unexpected end"},
		"version":      {string(fileOf(`{"kind":"DRACheckpoint","apiVersion":"v2"}`)), `of "v2"`},
		"no UID":       {string(fileOf(data(`{"ClaimName":"n","Namespace":"ns"}`))), "without UID"},
		"one UID":      {string(fileOf(data(a + `,{"ClaimUID":"a","ClaimName":"m","Namespace":"ns"}`))), "ns/m (a) twice"},
		"one name":     {string(fileOf(data(a + `,{"ClaimUID":"b","ClaimName":"n","Namespace":"ns"}`))), "ns/n (b) twice"},
		"another type": {string(fileOf(`[]`)), "its Data"},
	} {
		if got, err := Parse([]byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, %v; want an error with %q", name, got, err, c.want)
		}
	}
}

// TestRoundTrip: what is written is read as it was.
func TestRoundTrip(t *testing.T) {
	names := rapid.SliceOfNDistinct(rapid.StringN(1, 5, 20), 0, 3, rapid.ID[string])
	rapid.Check(t, func(t *rapid.T) {
		var claims []Claim
		for _, name := range names.Draw(t, "claims") {
			c := Claim{UID: types.UID("uid " + name), Namespace: "ns", Name: name, Drivers: map[string][]Device{}}
			for _, uid := range names.Draw(t, "pods") {
				c.Pods = append(c.Pods, types.UID(uid))
			}
			for _, driver := range names.Draw(t, "drivers") {
				var devices []Device
				for _, d := range names.Draw(t, "devices") {
					one := Device{Pool: "pool", Name: d, Share: types.UID(rapid.SampledFrom([]string{"", "s"}).Draw(t, "share"))}
					one.Requests = append(one.Requests, names.Draw(t, "requests")...)
					one.CDI = append(one.CDI, names.Draw(t, "cdi")...)
					devices = append(devices, one)
				}
				c.Drivers[driver] = devices
			}
			claims = append(claims, c)
		}
		data := Format(claims)
		got := check.Value(Parse(data))(t)
		if again := Format(got); string(again) != string(data) || len(got) != len(claims) {
			t.Fatalf("%s was read as %+v", data, got)
		}
	})
}

// FuzzParse: nothing that a file may have makes it panic, and what it reads can be written.
func FuzzParse(f *testing.F) {
	f.Add([]byte(kubelets + "1309996484}"))
	f.Add(fileOf(`{"kind":"DRACheckpoint","apiVersion":"checkpoint.dra.kubelet.k8s.io/v1","ClaimInfoStateList":[null]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, text := range [][]byte{data, fileOf(string(data))} {
			claims, err := Parse(text)
			if err != nil {
				continue
			}
			if again, err := Parse(Format(claims)); err != nil || len(again) != len(claims) {
				t.Fatalf("%q was read as %+v, and then as %+v, %v", text, claims, again, err)
			}
		}
	})
}
