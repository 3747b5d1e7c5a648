package config

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/troupe-dev/troupe/tests/fuzz"
)

// FuzzLoad: whatever a file and a drop-in say, there is a configuration, of which each part can be asked for, or problems,
// each of which says where it is and what is wrong.
func FuzzLoad(f *testing.F) {
	f.Add(head+documentedDefaults, head+"evictionHard: {memory.available: 5%}\n")
	f.Add(head+"authentication: {x509: {clientCAFile: a}}\nresolvConf: b\n", head+"tlsCertFile: c\nfeatureGates: {A: true}\n")
	f.Add("", "- a")
	f.Add(head+"shutdownGracePeriod: 1h\nreservedSystemCPUs: 0-3\n", head+"cpuManagerPolicyOptions: {x: y}\n")
	f.Fuzz(func(t *testing.T, file, dropin string) { ask(t, file, dropin) })
}

// FuzzSettings is the same with a file that has the right form.
func FuzzSettings(f *testing.F) {
	for i := range byte(24) {
		f.Add([]byte{i})
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s := fuzz.New(data)
		var k kubelet.KubeletConfiguration
		if s.IntN(4) > 0 { // else all of it is drawn, which is hardly ever valid
			setDefaults(&k)
			v := reflect.ValueOf(&k).Elem()
			for range 1 + s.IntN(3) {
				s.Fill(v.Field(1 + s.IntN(v.NumField()-1)).Addr().Interface())
			}
		} else {
			s.Fill(&k)
		}
		k.Kind, k.APIVersion = configKind, configVersion
		text, err := json.Marshal(&k)
		if err != nil { // a number that JSON has not
			t.Skip(err)
		}
		ask(t, string(text), head)
	})
}

// ask loads a file and a drop-in and asks for each part of the configuration.
func ask(t *testing.T, file, dropin string) {
	t.Helper()
	c, err := load(t, map[string]string{"etc/k.yaml": "!" + file, "etc/d/10.conf": "!" + dropin},
		"--config=/etc/k.yaml", "--config-dir=/etc/d")
	if err != nil {
		problems := err.(*Error).Problems //nolint:errorlint // Load gives nothing else
		if len(problems) == 0 {
			t.Error("there is an error, and no problem")
		}
		for _, p := range problems {
			if p.Origin == "" && p.Field == "" || p.Message == "" { // a default has no origin
				t.Errorf("%+v does not say where or what", p)
			}
		}
		return
	}
	v := reflect.ValueOf(c)
	for i := range v.NumMethod() {
		if m := v.Method(i); m.Type().NumIn() == 0 {
			for _, got := range m.Call(nil) {
				if d, is := got.Interface().(time.Duration); is && d < 0 {
					t.Errorf("%s is %v", v.Type().Method(i).Name, d)
				}
			}
		}
	}
}
