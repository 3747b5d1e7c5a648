package node

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/credentials"
	"github.com/troupe-dev/troupe/actors/decide/imagecache"
	"github.com/troupe-dev/troupe/actors/decide/imagepull"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/images"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/podset"
	"github.com/troupe-dev/troupe/actors/podview"
	"github.com/troupe-dev/troupe/actors/prepull"
)

// spawnImages spawns the actor of images, and that of what they are pulled with.
func (b *nodeActors) spawnImages(ctx *kernel.Context[Message], c *Config) {
	d := &images.Deps{
		Runtime: c.Ports.Runtime, Events: c.Ports.Events,
		Restarted: func() {
			b.podset.Tell(podset.AskAgain{})
			b.prepull.Tell(prepull.ImagesRestarted{})
		},
		Backoff:  imagepull.DefaultBackoff(),
		FreshFor: 5 * time.Second, LookEvery: 20 * time.Second, CheckDeadline: callDeadline, PullDeadline: c.PullDeadline,
		Collect: c.imageCollection(ctx.Self()), Bucket: c.PullRate, Counts: c.Observer,
	}
	if c.PullPolicy != nil && c.Ports.PullRecords != nil {
		d.Records = &images.Records{Files: c.Ports.PullRecords, Policy: *c.PullPolicy}
	}
	if len(c.PullAhead) > 0 {
		b.prepulls(c, d.Collect)
	}
	if c.Ports.CredentialPlugins != nil {
		of := &credentials.Deps{Providers: c.Providers, Plugins: c.Ports.CredentialPlugins,
			Restarted: func() { b.images.Tell(images.CredentialsRestarted{}) }}
		if c.Ports.API != nil {
			of.API = c.Ports.API
		}
		b.credentials = spawn(ctx, c.Around, "credentials", credentials.New(of))
		d.Lookup = func(image string, p *v1.Pod, left func() bool, reply func(credentials.Found)) {
			b.credentials.Tell(credentials.Lookup{Image: image, Pod: p, Reply: reply, Left: left})
		}
	}
	b.images = spawn(ctx, c.Around, "images", images.New(d))
	if len(c.PullAhead) > 0 {
		b.spawnPrepull(ctx, c, d.Collect)
	}
}

// prepulls tells the actor of pulls ahead which images there are, and which were removed.
func (b *nodeActors) prepulls(c *Config, of *images.Collect) {
	for _, i := range c.PullAhead {
		of.Ahead = append(of.Ahead, i.Name)
	}
	of.Listed = func(list []observed.Image, at time.Time) { b.prepull.Tell(prepull.Listed{List: list, At: at}) }
	of.Removed = func(id string) { b.prepull.Tell(prepull.Removed{ID: id}) }
}

func (b *nodeActors) spawnPrepull(ctx *kernel.Context[Message], c *Config, of *images.Collect) {
	b.prepull = spawn(ctx, c.Around, "prepull", prepull.New(&prepull.Deps{
		Images: c.PullAhead, Runtime: c.Ports.Runtime,
		Load: func(reply func(imagecache.Load)) { b.images.Tell(images.AskLoad{Reply: reply}) },
		Pull: func(image string, reply func(imagecache.End)) {
			b.images.Tell(images.Prepull{Image: image, Reply: reply})
		},
		Stop: func(image string) { b.images.Tell(images.StopPrepull{Image: image}) },
		Left: of.Left, Low: of.Policy.Low, Checkpoints: of.Checkpoints, Deadline: callDeadline, Counts: c.Observer,
	}))
}

// imageCollection is how images that nobody uses are removed.
func (c *Config) imageCollection(self kernel.Ref[Message]) *images.Collect {
	of := &images.Collect{
		Policy: c.ImageGC, Runtime: c.Ports.Runtime, Node: c.Name, Checkpoints: c.Ports.Checkpoints,
		Period: imageLookPeriod, ListPeriod: imageListPeriod, Deadline: callDeadline,
		Mounted: func(reply func([]string, bool)) { self.Tell(PodView{podview.VolumeImages{Reply: reply}}) },
	}
	if c.Ports.Pressure != nil {
		of.Left = c.Ports.Pressure.Left
	}
	return of
}
