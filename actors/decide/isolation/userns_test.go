package isolation

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/troupe-dev/troupe/tests/check"
)

func TestRange(t *testing.T) {
	whole, err := WholeIDRange(IDUnit)
	if err != nil || whole != (IDRange{First: IDUnit, PerPod: IDUnit, Blocks: 65534}) {
		t.Errorf("all IDs: %+v, %v", whole, err)
	}
	for _, perPod := range []uint32{IDUnit, 3 * IDUnit, 1 << 24, 1 << 30} {
		whole := check.Value(WholeIDRange(perPod))(t)
		last := uint64(whole.First) + uint64(whole.Blocks)*uint64(perPod) - 1
		check.AtMost(t, last, 1<<32-2, "the last of all IDs with %d for each pod", perPod)
		check.AtLeast(t, last+uint64(perPod), 1<<32-1, "what follows the last of all IDs with %d for each pod", perPod)
	}
	for _, c := range []struct {
		first, count, perPod uint32
		want                 string
	}{
		{2 * IDUnit, 10 * IDUnit, IDUnit, ""},
		{2 * IDUnit, 10 * IDUnit, 2 * IDUnit, ""},
		{2 * IDUnit, 10 * IDUnit, 100, "must be a multiple of 65536"},
		{2 * IDUnit, 10 * IDUnit, 0, "must be a multiple of 65536"},
		{0, 10 * IDUnit, IDUnit, "must not be below 65536"},
		{IDUnit + 1, 10 * IDUnit, IDUnit, "65537, is not a multiple"},
		{IDUnit, IDUnit + 1, IDUnit, "65537, is not a multiple"},
		{IDUnit, 0, IDUnit, "0, is not a multiple"},
		{1<<32 - 2*IDUnit, IDUnit, IDUnit, ""},
		{1<<32 - IDUnit, IDUnit, IDUnit, "user IDs 4294901760 to 4294967295: the highest possible ID is 4294967294"},
		{1<<32 - IDUnit, 2 * IDUnit, IDUnit, "the highest possible ID is 4294967294"},
	} {
		_, err := NewIDRange(c.first, c.count, c.perPod)
		if got := text(err); c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("NewRange(%d, %d, %d): %q, want %q", c.first, c.count, c.perPod, got, c.want)
		}
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestPick: pods that come and go never share an ID, and every block can be used.
func TestPick(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, err := NewIDRange(IDUnit*rapid.Uint32Range(1, 4).Draw(t, "first"), IDUnit*rapid.Uint32Range(1, 6).Draw(t, "blocks"), IDUnit)
		if err != nil {
			t.Fatal(err)
		}
		var taken []uint32
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			if len(taken) > 0 && rapid.Bool().Draw(t, "leave") {
				i := rapid.IntRange(0, len(taken)-1).Draw(t, "who")
				taken = slices.Delete(taken, i, i+1)
				continue
			}
			first, err := r.Pick(taken)
			if full := len(taken) == int(r.Blocks); full != (err != nil) {
				t.Fatalf("%d of %d are taken: %v", len(taken), r.Blocks, err)
			}
			if err != nil {
				continue
			}
			if slices.Contains(taken, first) || !r.Has(first) {
				t.Fatalf("%d of %+v, beside %v", first, r, taken)
			}
			taken = append(taken, first)
		}
	})
}

func TestDecode(t *testing.T) {
	m := IDMapping{First: 3 * IDUnit, Length: IDUnit}
	check.Equal(t, check.Value(DecodeIDMapping(EncodeIDMapping(m)))(t), m, "it")
	// What a kubelet writes.
	kubelet := `{"uidMappings":[{"hostId":196608,"containerId":0,"length":65536}],"gidMappings":[{"hostId":196608,"containerId":0,"length":65536}]}`
	check.Equal(t, string(EncodeIDMapping(m)), kubelet, "got")
	for _, bad := range []string{
		"", "{}", "null", kubelet[:40], strings.Replace(kubelet, "196608", "0", 1), strings.ReplaceAll(kubelet, "196608", "0"),
		strings.ReplaceAll(kubelet, `"containerId":0`, `"containerId":1`), strings.ReplaceAll(kubelet, "65536", "0"),
		strings.ReplaceAll(kubelet, "196608", "4294967295"),
	} {
		if got, err := DecodeIDMapping([]byte(bad)); err == nil {
			t.Errorf("%q was taken for %+v", bad, got)
		}
	}
}
