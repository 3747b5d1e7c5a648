package node

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	registry "github.com/google/go-containerregistry/pkg/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// TestImageGarbageCollection: a disk is fuller than the high threshold, and a hundred images that nobody uses go,
// least recently used first. The image of a pod and that of sandboxes stay.
//
//tier:real
func TestImageGarbageCollection(t *testing.T) {
	onNewest(t, func(t *testing.T, release lab.Release) {
		const many = 100
		b := newBed(t, release, func(c *Config) {
			c.Settings = "imageGCHighThresholdPercent: 1\nimageGCLowThresholdPercent: 0\nimageMinimumGCAge: 1s\n"
		})
		b.start(t)
		b.apply(t, "user.yaml", asking("user", "{}"))
		user := b.awaitRunning(t, "user")
		for i := range many {
			image, err := lab.NewImage(registry.Config{}, lab.File{Path: "number", Mode: 0o644, Data: fmt.Append(nil, i)})
			if err != nil {
				t.Fatal(err)
			}
			name := fmt.Sprintf("troupe.local/demo/many%d:v1", i)
			if err := b.lab.Registry().Push(t.Context(), name, image); err != nil {
				t.Fatal(err)
			}
			spec := &runtimeapi.ImageSpec{Image: name}
			if _, err := b.lab.Images().PullImage(t.Context(), &runtimeapi.PullImageRequest{Image: spec}); err != nil {
				t.Fatal(err)
			}
		}
		// The agent looks at the disk once a minute.
		var began, ended time.Time
		err := lab.Eventually(t.Context(), 2*time.Minute+patience, "only images in use are left", func() error {
			left := b.images(t)
			unused := slices.DeleteFunc(slices.Clone(left), func(n string) bool { return !strings.Contains(n, "/many") })
			if len(unused) < many && began.IsZero() {
				began = time.Now()
			}
			if len(unused) > 0 {
				return fmt.Errorf("%d images that nobody uses are still there", len(unused))
			}
			ended = time.Now()
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%d images were removed within %v", many, ended.Sub(began).Round(time.Millisecond))
		left := strings.Join(b.images(t), " ")
		for _, name := range []string{lab.WorkImage, "pause"} {
			if !strings.Contains(left, name) {
				t.Errorf("the image %s is gone: %s", name, left)
			}
		}
		if now := b.awaitRunning(t, "user"); now.UID != user.UID {
			t.Error("the pod was disturbed")
		}
	})
}

// images are the names of the images that the runtime has.
func (b *bed) images(t *testing.T) (names []string) {
	t.Helper()
	list, err := b.lab.Images().ListImages(t.Context(), &runtimeapi.ListImagesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, image := range list.Images {
		names = append(names, image.RepoTags...)
	}
	slices.Sort(names)
	return names
}
