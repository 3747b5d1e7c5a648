package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/imagecache"
	"github.com/troupe-dev/troupe/actors/decide/imagepull"
)

const (
	aheadImagesFlag = "--pull-ahead-images"
	aheadListsFlag  = "--pull-ahead-lists"
	// aheadEvery begins the second word of a line.
	aheadEvery = "every="
	// minAheadEvery is how often an image may be pulled again at most.
	minAheadEvery = time.Minute
	// maxAhead bounds how many images are pre-pulled.
	maxAhead = 1000
)

// PullAhead are the images that are pulled before a pod wants them, in their order: those of --pull-ahead-images, and
// then those of the files of --pull-ahead-lists.
func (c Config) PullAhead() []imagecache.Image { return slices.Clone(c.ahead) }

// readAhead reads the images of both flags.
func (l *loader) readAhead(o Options) (of []imagecache.Image, problems []Problem) {
	for _, name := range o.PullAheadImages {
		i, why := aheadImage(strings.TrimSpace(name))
		if why != "" {
			problems = append(problems, Problem{Origin: aheadImagesFlag, Value: name, Message: why})
			continue
		}
		of = append(of, i)
	}
	if o.PullAheadLists != "" {
		files, err := l.filesOf(o.PullAheadLists, ".list")
		if err != nil {
			return nil, append(problems, Problem{Origin: aheadListsFlag, Value: o.PullAheadLists, Message: err.Error()})
		}
		for _, name := range files {
			more, found := l.readAheadList(name)
			of, problems = append(of, more...), append(problems, found...)
		}
	}
	if len(of) > maxAhead {
		problems = append(problems, Problem{
			Origin: aheadListsFlag, Value: o.PullAheadLists, Message: fmt.Sprintf("%d images: at most %d", len(of), maxAhead),
		})
	}
	if problems != nil {
		return nil, problems
	}
	return of, nil
}

// readAheadList reads a file: one image in a line, which may be followed by every=24h. Empty lines, and what follows #
// at the beginning of a word, do not count.
func (l *loader) readAheadList(name string) (of []imagecache.Image, problems []Problem) {
	data, problems := readFile(l.root, name)
	if problems != nil {
		return nil, problems
	}
	for n, line := range strings.Split(string(data), "\n") {
		words := strings.Fields(line)
		if comment := slices.IndexFunc(words, func(w string) bool { return w[0] == '#' }); comment >= 0 {
			words = words[:comment]
		}
		if len(words) == 0 {
			continue
		}
		i, why := aheadImage(words...)
		if why != "" {
			problems = append(problems,
				Problem{Origin: name, Field: fmt.Sprintf("line %d", n+1), Value: strings.Join(words, " "), Message: why})
			continue
		}
		of = append(of, i)
	}
	return of, problems
}

// aheadImage reads one image. why is for people.
func aheadImage(words ...string) (i imagecache.Image, why string) {
	if _, err := imagepull.ParseReference(words[0]); err != nil {
		return i, err.Error()
	}
	i.Name = words[0]
	switch len(words) {
	case 1:
		return i, ""
	case 2:
		if text, ok := strings.CutPrefix(words[1], aheadEvery); ok {
			every, err := time.ParseDuration(text)
			if err != nil || every < minAheadEvery {
				return i, "must be an image and " + aheadEvery + "a duration of a minute or more, such as " + aheadEvery + "24h"
			}
			i.Every = every
			return i, ""
		}
	}
	return i, "must be an image, which " + aheadEvery + "24h may follow"
}
