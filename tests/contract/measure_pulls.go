package contract

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// SizedImage is an image that a registry near the runtime has.
type SizedImage struct {
	Name string
	// Bytes is how much has to be downloaded; it should not be compressible.
	Bytes uint64
}

// Pulls is how long images of several sizes took to be pulled.
type Pulls struct {
	// Base is what a pull takes besides its bytes.
	Base Measured
	// Bandwidth is in bytes of image per second, unpacking included.
	Bandwidth uint64
	// Sizes has the pulls of each image as they were.
	Sizes []Measured
}

// MeasurePulls pulls each image n times, one after another, each time anew, and
// takes apart what grows with the size (the medians of the smallest and the largest
// say how fast) and what does not. images are at least two, in order of size.
func MeasurePulls(t *testing.T, subject Subject, images []SizedImage, n int) Pulls {
	s := &suite{T: t, Subject: subject}
	var p Pulls
	for _, image := range images {
		m := Measured{Method: fmt.Sprintf("PullImage of %.1f MiB", float64(image.Bytes)/(1<<20))}
		for range n {
			s.removeImage(image.Name).noError() // one that is not there, too
			timed(s, func(_ string, d time.Duration) { m.Took = append(m.Took, d) }, func() *pending[string] { return s.pull(image.Name) })
		}
		s.removeImage(image.Name).noError()
		slices.Sort(m.Took)
		p.Sizes = append(p.Sizes, m)
	}
	first, last := p.Sizes[0], p.Sizes[len(p.Sizes)-1]
	bytes, longer := images[len(images)-1].Bytes-images[0].Bytes, last.Median()-first.Median()
	if longer <= 0 {
		t.Fatalf("%s took no longer than %s: %v and %v", last.Method, first.Method, last.Median(), first.Median())
	}
	p.Bandwidth = uint64(float64(bytes) / longer.Seconds())
	p.Base.Method = "PullImage"
	download := time.Duration(float64(images[0].Bytes) / float64(p.Bandwidth) * float64(time.Second))
	for _, d := range first.Took {
		p.Base.Took = append(p.Base.Took, max(d-download, 0))
	}
	return p
}

// String writes what was measured as entries for cri/simcri.
func (p Pulls) String() string {
	var b strings.Builder
	b.WriteString(Table([]Measured{p.Base}))
	fmt.Fprintf(&b, "const DefaultBandwidth = %d << 20\n", (p.Bandwidth+1<<19)>>20)
	for _, m := range p.Sizes {
		fmt.Fprintf(&b, "// %s: median %v, 99th percentile %v, of %d\n", m.Method, m.Median(), m.P99(), len(m.Took))
	}
	return b.String()
}
