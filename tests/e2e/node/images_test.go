package node

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	registry "github.com/google/go-containerregistry/pkg/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/troupe-dev/troupe/actors/checkpoint"
	"github.com/troupe-dev/troupe/actors/decide/imagecache"
	"github.com/troupe-dev/troupe/supervisor/chaos/live/criproxy"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// TestImageGarbageCollection: a disk is fuller than the high threshold, and a hundred images that nobody uses go,
// least recently used first, each within moments of the one before. The image of a pod and that of sandboxes stay.
//
//tier:real
func TestImageGarbageCollection(t *testing.T) {
	onNewest(t, func(t *testing.T, release lab.Release) {
		const (
			many = 100
			// bar is for all of them, on a busy machine. They take about a second.
			bar = 30 * time.Second
			// atOnce is how many the agent removes at a time.
			atOnce = 4
		)
		b, proxy := behindProxy(t, release, func(c *Config) {
			c.Settings += "imageGCHighThresholdPercent: 1\nimageGCLowThresholdPercent: 0\nimageMinimumGCAge: 1s\n"
		})
		b.apply(t, "user.yaml", asking("user", "{}"))
		user := b.awaitRunning(t, "user")
		// The agent finds in its checkpoint when they were used: the later they are pulled, the longer ago that was.
		check.Fatal(t, b.Stop(t.Context()))
		ages, order := imagecache.Ages{}, make([]string, many)
		for i := range many {
			image := check.Value(lab.NewImage(registry.Config{}, lab.File{Path: "number", Mode: 0o644, Data: fmt.Append(nil, i)}))(t)
			name := fmt.Sprintf("troupe.local/demo/many%d:v1", i)
			check.Fatal(t, b.lab.Registry().Push(t.Context(), name, image))
			spec := &runtimeapi.ImageSpec{Image: name}
			pulled := check.Value(b.lab.Images().PullImage(t.Context(), &runtimeapi.PullImageRequest{Image: spec}))(t)
			used := time.Now().Add(-time.Duration(i+1) * time.Hour)
			ages[pulled.ImageRef] = imagecache.Age{Seen: used.Add(-time.Hour), Used: used}
			order[many-1-i] = pulled.ImageRef
		}
		b.remember(t, ages)
		removed := removals(t, proxy)
		b.start(t)
		// The agent looks at the disk once a minute.
		var began, ended time.Time
		check.Fatal(t, lab.Eventually(t.Context(), 2*time.Minute+patience, "only images in use are left", func() error {
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
		}))
		took := ended.Sub(began)
		t.Logf("%d images were removed within %v", many, took.Round(time.Millisecond))
		check.AtMost(t, took, bar, "%d images were removed within", many)
		// A removal begins when all before it have begun and all but atOnce-1 of them have ended. When the
		// runtime is told of those that are under way at the same time is chance.
		calls := removed()
		for i, id := range order {
			if at := slices.Index(calls, id); at < 0 || at < i-(atOnce-1) {
				t.Errorf("the image that was used as number %d was removed as number %d", i, at)
			}
		}
		left := strings.Join(b.images(t), " ")
		for _, name := range []string{lab.WorkImage, "pause"} {
			check.Has(t, left, name, "the image %s is gone: %s", name, left)
		}
		check.Equal(t, b.awaitRunning(t, "user").UID, user.UID, "the pod was disturbed")
	})
}

// remember puts into the checkpoint of an agent that does not run when images were used, by ID.
func (b *bed) remember(t *testing.T, ages imagecache.Ages) {
	t.Helper()
	content := check.Value(json.Marshal(ages))(t)
	write(t, filepath.Join(b.Root(), "checkpoints", "images.json"), checkpoint.Seal(content))
}

// removals returns the images that the runtime is told to remove from now on, in that order.
func removals(t *testing.T, proxy *criproxy.Proxy) func() []string {
	t.Helper()
	var mu sync.Mutex
	var calls []string
	inject(t, proxy, criproxy.Fault{Method: "RemoveImage", Do: criproxy.Refuse, Match: func(c criproxy.Call) bool {
		mu.Lock()
		defer mu.Unlock()
		calls = append(calls, c.Image)
		return false // none goes wrong
	}})
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(calls)
	}
}

// images are the names of the images that the runtime has.
func (b *bed) images(t *testing.T) (names []string) {
	t.Helper()
	list := check.Value(b.lab.Images().ListImages(t.Context(), &runtimeapi.ListImagesRequest{}))(t)
	for _, image := range list.Images {
		names = append(names, image.RepoTags...)
	}
	slices.Sort(names)
	return names
}
