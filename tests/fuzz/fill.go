package fuzz

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Source makes choices of bytes, one of each. When there are no more it draws them, always the same for the same bytes: so
// a few bytes are enough for a whole value, and each of more bytes changes one choice.
type Source struct {
	data []byte
	more *rand.Rand
}

// New is a source of these bytes.
func New(data []byte) *Source {
	sum := fnv.New64a()
	_, _ = sum.Write(data) // it takes all
	return &Source{data: data, more: rand.New(rand.NewPCG(sum.Sum64(), 1))}
}

// IntN chooses a number from 0 to n-1.
func (s *Source) IntN(n int) int {
	if len(s.data) == 0 {
		return s.more.IntN(n)
	}
	b := s.data[0]
	s.data = s.data[1:]
	return int(b) % n
}

// one chooses one of some values.
func one[T any](s *Source, of []T) T { return of[s.IntN(len(of))] }

// Fill fills what a pointer points to: each exported field, element and value, with what is usual, at a border, or wrong.
func (s *Source) Fill(pointer any) { s.fill(reflect.ValueOf(pointer).Elem(), "", 0) }

// deepest is how deep a value is filled.
const deepest = 12

func (s *Source) fill(v reflect.Value, field string, depth int) {
	if !v.CanSet() || s.special(v) || depth > deepest {
		return
	}
	switch v.Kind() { //nolint:exhaustive // the others are left as they are
	case reflect.Pointer:
		if s.IntN(3) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			s.fill(v.Elem(), field, depth+1)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			name := v.Type().Field(i).Name
			// Most fields of most objects are not set.
			if name != "TypeMeta" && (depth == 0 || s.IntN(2) == 0 || v.NumField() < 4) {
				s.fill(v.Field(i), name, depth+1)
			}
		}
	case reflect.Slice:
		s.fillSlice(v, field, depth)
	case reflect.Map:
		n := s.length()
		v.Set(reflect.MakeMap(v.Type()))
		for range n {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			s.fill(key, "", depth+1)
			s.fill(value, field, depth+1)
			v.SetMapIndex(key, value)
		}
	default:
		s.fillPlain(v, field)
	}
}

func (s *Source) fillSlice(v reflect.Value, field string, depth int) {
	if v.Type().Elem().Kind() == reflect.Uint8 {
		v.SetBytes([]byte(s.text("", field)))
		return
	}
	n := s.length()
	v.Set(reflect.MakeSlice(v.Type(), n, n))
	for i := range n {
		s.fill(v.Index(i), field, depth+1)
	}
}

// length is that of a list: often none, seldom many.
func (s *Source) length() int { return one(s, []int{0, 0, 0, 1, 1, 1, 1, 2, 2, 3, 17}) }

func (s *Source) fillPlain(v reflect.Value, field string) {
	switch v.Kind() { //nolint:exhaustive // the others are left as they are
	case reflect.String:
		v.SetString(s.text(v.Type().Name(), field))
	case reflect.Bool:
		v.SetBool(s.IntN(2) == 0)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		if n := one(s, integers); !v.OverflowInt(n) {
			v.SetInt(n)
		}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		if n := uint64(one(s, integers)); !v.OverflowUint(n) {
			v.SetUint(n)
		}
	case reflect.Float32, reflect.Float64:
		v.SetFloat(one(s, []float64{0, 1, -1, 0.5, math.MaxFloat64, math.Inf(1), math.NaN()}))
	}
}

var integers = []int64{
	0, 0, 1, 1, 1, 2, 3, 5, 10, 30, 80, 1000, 3600, 65535, 65536, -1, -5, math.MinInt32, math.MaxInt32, math.MinInt64, math.MaxInt64,
}

// special fills what has a form of its own.
func (s *Source) special(v reflect.Value) bool {
	switch p := v.Addr().Interface().(type) {
	case *resource.Quantity:
		*p = resource.MustParse(one(s, quantities))
	case *metav1.Time:
		p.Time = s.time()
	case *metav1.MicroTime:
		p.Time = s.time()
	case *time.Time:
		*p = s.time()
	case *metav1.Duration:
		p.Duration = s.duration()
	case *time.Duration:
		*p = s.duration()
	case *intstr.IntOrString:
		*p = one(s, []intstr.IntOrString{ // one of another type has no JSON, so nobody can send it
			intstr.FromInt32(80), intstr.FromInt32(0), intstr.FromInt32(-1), intstr.FromInt32(70000), intstr.FromString("web"), intstr.FromString(""),
		})
	default:
		return false
	}
	return true
}

var quantities = []string{"0", "1", "10m", "100m", "1Mi", "64Mi", "1Gi", "1500m", "0.5", "-1", "9223372036854775807", "1e30", "1Ei", "1n"}

func (s *Source) time() time.Time {
	return one(s, []time.Time{{}, time.Unix(0, 0), time.Unix(1893456000, 0), time.Unix(1893456060, 5), time.Unix(253402300799, 0)})
}

func (s *Source) duration() time.Duration {
	return one(s, []time.Duration{0, 1, time.Millisecond, time.Second, 10 * time.Second, time.Minute, time.Hour, -time.Second, math.MaxInt64, math.MinInt64})
}

// text is a value of a type with few values, one that fits the field, or any.
func (s *Source) text(kind, field string) string {
	if s.IntN(16) > 0 {
		if known := values[kind]; known != nil {
			return one(s, known)
		}
		if known := fields[field]; known != nil {
			return one(s, known)
		}
	}
	return one(s, texts)
}

// values are those of types of the API that have few.
var values = map[string][]string{
	"RestartPolicy":                 {"Always", "Never", "OnFailure"},
	"ContainerRestartPolicy":        {"Always", "Never", "OnFailure"},
	"ContainerRestartRuleAction":    {"Restart", "RestartAllContainers"},
	"PullPolicy":                    {"Always", "Never", "IfNotPresent"},
	"DNSPolicy":                     {"ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"},
	"URIScheme":                     {"HTTP", "HTTPS"},
	"TerminationMessagePolicy":      {"File", "FallbackToLogsOnError"},
	"StorageMedium":                 {"", "Memory", "HugePages", "HugePages-2Mi"},
	"HostPathType":                  {"", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket", "CharDevice", "BlockDevice"},
	"MountPropagationMode":          {"None", "HostToContainer", "Bidirectional"},
	"RecursiveReadOnlyMode":         {"Disabled", "IfPossible", "Enabled"},
	"ResourceName":                  {"cpu", "memory", "ephemeral-storage", "hugepages-2Mi", "hugepages-x", "example.com/gpu", "pods", ""},
	"ResourceResizeRestartPolicy":   {"NotRequired", "RestartContainer"},
	"TaintEffect":                   {"NoSchedule", "PreferNoSchedule", "NoExecute"},
	"TolerationOperator":            {"Exists", "Equal", "Lt", "Gt"},
	"NodeSelectorOperator":          {"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"},
	"SeccompProfileType":            {"Unconfined", "RuntimeDefault", "Localhost"},
	"AppArmorProfileType":           {"Unconfined", "RuntimeDefault", "Localhost"},
	"ProcMountType":                 {"Default", "Unmasked"},
	"PodFSGroupChangePolicy":        {"OnRootMismatch", "Always"},
	"SupplementalGroupsPolicy":      {"Merge", "Strict"},
	"Signal":                        {"SIGTERM", "SIGUSR1", "SIGKILL"},
	"Protocol":                      {"TCP", "UDP", "SCTP"},
	"PersistentVolumeMode":          {"Filesystem", "Block"},
	"PersistentVolumeAccessMode":    {"ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"},
	"PersistentVolumeClaimPhase":    {"Pending", "Bound", "Lost"},
	"PodPhase":                      {"Pending", "Running", "Succeeded", "Failed", "Unknown"},
	"ConditionStatus":               {"True", "False", "Unknown"},
	"PodConditionType":              {"Ready", "Initialized", "ContainersReady", "PodScheduled", "DisruptionTarget", "example.com/gate"},
	"Capability":                    {"ALL", "NET_ADMIN", "CAP_SYS_ADMIN", "CHOWN"},
	"PreemptionPolicy":              {"Never", "PreemptLowerPriority"},
	"UnsatisfiableConstraintAction": {"DoNotSchedule", "ScheduleAnyway"},
	"SecretType":                    {"Opaque", "kubernetes.io/dockerconfigjson", "kubernetes.io/dockercfg"},
}

// names are those of objects, so that what is named is often there.
var names = []string{"a", "b", "c", "m", "s"}

// fields are what strings are by the name of their field.
var fields = map[string][]string{
	"Image": {"registry.test/app:1", "registry.test/app:2", "", "UPPER/case", "a@sha256:0", ":::"},
	"Name":  names, "SecretName": names, "ClaimName": names, "ConfigMapName": names, "VolumeName": names, "Key": {"a", "b", "key"},
	"TargetContainerName": names, "ContainerName": names,
	"MountPath": {"/a", "/b", "/a/b", "/", "relative", "/a:b", "/../x"}, "DevicePath": {"/dev/a", "/dev/b"},
	"Path": {"a", "b/c", "/healthz", "../x", "/"}, "SubPath": {"", "a", "a/b", "..", "/x"}, "SubPathExpr": {"", "$(A)", "$(", "a/$(A)"},
	"FieldPath": {
		"metadata.name", "metadata.annotations", "metadata.labels['a']", "metadata.annotations['']", "spec.nodeName", "status.podIPs", "status.hostIP", "x",
	},
	"Resource": {"limits.cpu", "requests.memory", "limits.ephemeral-storage", "requests.hugepages-2Mi", "x"},
	"Prefix":   {"", "P_", "=", "1"}, "Value": {"", "v", "$(A)", "$(B)$(B)", "$$(A)"}, "Command": {"/a", "$(A)", "", "sh"}, "Args": {"a", "$(A)", ""},
	"Host": {"", "127.0.0.1", "::1", "host"}, "IP": {"10.0.0.1", "::1", "x"}, "IPs": {"10.0.0.1", "fd00::1", "x"},
	"Nameservers": {"10.0.0.10", "x"}, "Hostname": {"", "a", "A_B", strings.Repeat("h", 63)}, "Subdomain": {"", "sub"},
	"Driver": {"csi.test", ""}, "FSType": {"", "ext4", "xfs"}, "StorageClassName": {"", "fast"},
	"RuntimeClassName": {"", "none"}, "PriorityClassName": {"", "system-node-critical"}, "ServiceAccountName": {"default", ""},
	"LocalhostProfile": {"a.json", "../a", ""}, "User": {"", "0", "1000", "name"},
}

// texts are any.
var texts = []string{
	"", "a", "b", "A", "x y", "-1", "0", "a/b", "..", "/", "\x00", "\n", "é", "true", "null", "{}", "[]", "$(", "%s", "2030-01-01T00:00:00Z",
	`{"a":1}`, strings.Repeat("n", 300), strings.Repeat("long ", 4000), "example.com/a", "registry.test/app:1", "default",
}
