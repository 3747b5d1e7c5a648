package podtable

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/podview"
)

// State, Kind and Life are words of podview.View.
const (
	waiting    = "waiting"
	running    = "running"
	terminated = "terminated"

	kindInit      = "init"
	kindSidecar   = "sidecar"
	kindMain      = "main"
	kindEphemeral = "ephemeral"

	lifeTerminating = "Terminating"
)

// summary is what the columns READY, STATUS and RESTARTS say.
type summary struct {
	ready, total int
	status       string
	restarts     int32
}

// summarize follows the rules by which kubectl get pods prints a pod
// (kubernetes pkg/printers/internalversion, printPod): a STATUS means what its
// readers know.
func summarize(p *podview.Pod) summary {
	s := summary{status: p.Phase}
	if p.Reason != "" {
		s.status = p.Reason
	}
	inits, mains := byKind(p)
	for _, c := range mains {
		if c.Kind == kindMain {
			s.total++
		}
	}
	initializing := s.throughInits(inits)
	if !initializing || begun(mains) {
		s.throughMains(inits, mains, p.Ready)
	}
	if p.Life == lifeTerminating && !terminal(p.Phase) {
		s.status = lifeTerminating
	}
	if s.status == "" {
		s.status = "Unknown"
	}
	return s
}

func terminal(phase string) bool {
	return podspec.Terminal(v1.PodPhase(phase))
}

func byKind(p *podview.Pod) (inits, mains []*podview.Container) {
	for i := range p.Containers {
		c := &p.Containers[i]
		switch c.Kind {
		case kindInit, kindSidecar:
			inits = append(inits, c)
		case kindEphemeral:
		default:
			mains = append(mains, c)
		}
	}
	return inits, mains
}

// begun: a main container was started, so that the pod is initialized, whatever
// its init containers do now.
func begun(mains []*podview.Container) bool {
	for _, c := range mains {
		if c.State != waiting || c.Restarts > 0 {
			return true
		}
	}
	return false
}

// throughInits looks at init containers and sidecars, up to the first that
// still keeps the pod from its main containers.
func (s *summary) throughInits(inits []*podview.Container) (initializing bool) {
	for _, c := range inits {
		if c.Kind == kindSidecar {
			s.total++
		}
	}
	for i, c := range inits {
		s.restarts += c.Restarts
		switch {
		case c.State == terminated && exitCode(c) == 0:
			continue
		case c.Kind == kindSidecar && c.State == running:
			if c.Ready {
				s.ready++
			}
			continue
		case c.State == terminated:
			s.status = "Init:" + ended(c)
		case c.State == waiting && c.Reason != "" && c.Reason != "PodInitializing":
			s.status = "Init:" + c.Reason
		default:
			s.status = fmt.Sprintf("Init:%d/%d", i, len(inits))
		}
		return true
	}
	return false
}

func (s *summary) throughMains(inits, mains []*podview.Container, podReady bool) {
	s.restarts = 0
	for _, c := range inits {
		if c.Kind == kindSidecar {
			s.restarts += c.Restarts
		}
	}
	hasRunning, failed := false, ""
	for i := len(mains) - 1; i >= 0; i-- {
		c := mains[i]
		s.restarts += c.Restarts
		switch {
		case c.State == waiting && c.Reason != "":
			s.status = c.Reason
		case c.State == terminated:
			s.status = ended(c)
			if exitCode(c) != 0 {
				failed = s.status
			}
		case c.State == running && c.Ready:
			hasRunning = true
			s.ready++
		}
	}
	if s.status != "Completed" {
		return
	}
	switch {
	case hasRunning && podReady:
		s.status = "Running"
	case failed != "":
		s.status = failed
	case hasRunning:
		s.status = "NotReady"
	}
}

// ended is why a container ended.
func ended(c *podview.Container) string {
	if c.Reason != "" {
		return c.Reason
	}
	return fmt.Sprintf("ExitCode:%d", exitCode(c))
}

func exitCode(c *podview.Container) int32 {
	if c.ExitCode == nil {
		return 0
	}
	return *c.ExitCode
}
