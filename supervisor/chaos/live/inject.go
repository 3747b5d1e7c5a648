package live

import (
	"net/http"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/supervisor/chaos"
	"github.com/troupe-dev/troupe/supervisor/chaos/live/criproxy"
	"github.com/troupe-dev/troupe/supervisor/chaos/plan"
)

// aim is a fault that waits for its point.
type aim struct {
	plan.Fault
	seen    int
	reached bool
}

// injector finds the faults that strike.
type injector struct{ aims []*aim }

func newInjector(c *plan.Case) *injector {
	j := &injector{}
	for _, f := range c.Faults {
		j.aims = append(j.aims, &aim{Fault: f})
	}
	return j
}

// at counts a point, and gives the effect that strikes there.
func (j *injector) at(s plan.Stream, subject string, role plan.Role) (e plan.Effect) {
	for _, a := range j.aims {
		if a.reached || a.Stream != s || a.Subject != subject || a.Role != role {
			continue
		}
		if a.seen++; a.seen == a.N {
			a.reached, e = true, a.Effect
		}
	}
	return e
}

// reached and unreached are the faults that struck, and those that did not.
func (j *injector) reached() (out []plan.Fault) {
	for _, a := range j.aims {
		if a.reached {
			out = append(out, a.Fault)
		}
	}
	return out
}

func (j *injector) unreached() (out []string) {
	for _, a := range j.aims {
		if !a.reached {
			out = append(out, a.String())
		}
	}
	return out
}

// aboutTheNode says whether a fault counts calls that are about no pod: from the start of an agent.
func (j *injector) aboutTheNode() bool {
	for _, a := range j.aims {
		if a.Role.Pod == "" {
			return true
		}
	}
	return false
}

// methods are the calls of the CRI by the names that cases have for them, where these differ.
var methods = map[string]string{
	"UpdateContainerResources": "UpdateContainer", "UpdatePodSandboxResources": "UpdateSandbox",
	"ListPodSandbox": "List", "StreamPodSandboxes": "List", "GetContainerEvents": "Events",
}

// methodOf is the method that a call is for the rules; known is false for those that the simulated
// runtime does not have.
func methodOf(name string) (m simcri.Method, known bool) {
	if of := methods[name]; of != "" {
		name = of
	}
	for _, m := range simcri.Methods() {
		if m.String() == name {
			return m, true
		}
	}
	return 0, false
}

// pullLimit is when a runtime gives up a pull that makes no progress. An agent has no limit of its
// own while the runtime answers otherwise.
const pullLimit = 3 * time.Minute

// onCall is an effect on a call of the runtime. The agent is killed by the caller.
func onCall(method string, e plan.Effect) *criproxy.Fault {
	f := &criproxy.Fault{Message: chaos.Planted, Delay: e.For}
	if method == "PullImage" && (e.Do == plan.Hang || e.Do == plan.Lose) {
		f.Delay = pullLimit
	}
	switch e.Do {
	case plan.Fail:
		f.Do, f.Code = criproxy.Refuse, codes.Unknown
	case plan.KillRuntime: // as the connection to a runtime that is killed
		f.Do, f.Code = criproxy.Refuse, codes.Unavailable
	case plan.Hang, plan.KillAgent: // who is killed gets no answer
		f.Do = criproxy.Hang
	case plan.Lose, plan.AnswerLate:
		f.Do = criproxy.Withhold
	case plan.Slow:
		f.Do = criproxy.Slow
	case plan.WorkLate:
		f.Do = criproxy.Delay
	default:
		return nil
	}
	return f
}

// kinds are the resources of the API that agents use, by the names that cases have for them.
var kinds = map[string]port.APIKind{
	"pods": port.PodKind, "nodes": port.NodeKind, "leases": port.LeaseKind, "events": port.EventKind,
	"configmaps": port.ConfigMapKind, "secrets": port.SecretKind, "services": port.ServiceKind,
	"serviceaccounts": port.ServiceAccountKind, "runtimeclasses": port.RuntimeClassKind, "csinodes": port.CSINodeKind,
	"persistentvolumeclaims": port.PersistentVolumeClaimKind, "persistentvolumes": port.PersistentVolumeKind,
	"volumeattachments": port.VolumeAttachmentKind, "csidrivers": port.CSIDriverKind,
	"resourceclaims": port.ResourceClaimKind, "clustertrustbundles": port.ClusterTrustBundleKind,
	"podcertificaterequests": port.PodCertificateRequestKind,
}

// request is a call of the apiserver, as cases name it.
type request struct {
	subject         string
	kind            port.APIKind
	namespace, name string
}

// requestOf reads a request; known is false for those that are about no object.
func requestOf(r *http.Request) (q request, known bool) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case len(parts) > 2 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		parts = parts[3:]
	default:
		return q, false
	}
	if parts[0] == "namespaces" && len(parts) > 2 {
		q.namespace, parts = parts[1], parts[2:]
	}
	if q.kind, known = kinds[parts[0]]; !known {
		return q, false
	}
	if len(parts) > 1 {
		q.name = parts[1]
	}
	q.subject = verbOf(r, q.name) + "-" + q.kind.String()
	if len(parts) > 2 {
		q.subject += "-" + parts[2]
	}
	return q, true
}

func verbOf(r *http.Request, name string) string {
	query := r.URL.Query()
	switch {
	case r.Method == http.MethodPost:
		return "Create"
	case r.Method == http.MethodPut:
		return "Update"
	case r.Method == http.MethodPatch:
		return "Patch"
	case r.Method == http.MethodDelete:
		return "Delete"
	case name != "":
		return "Get"
	case query.Get("watch") != "" && query.Get("sendInitialEvents") == "":
		return "Watch"
	default:
		return "List" // also as the beginning of a watch
	}
}

// onRequest passes a request on as an effect says. What has no answer has none until the client
// gives up, or over ends.
func onRequest(e plan.Effect, over <-chan struct{}, w http.ResponseWriter, r *http.Request, next http.Handler) {
	wait := func(d time.Duration) bool {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
			return true
		case <-over:
			return true
		case <-r.Context().Done():
			return false
		}
	}
	never := func() {
		select {
		case <-over:
		case <-r.Context().Done():
		}
		panic(http.ErrAbortHandler)
	}
	switch e.Do {
	case plan.Fail:
		unavailable(w, r)
	case plan.Hang, plan.KillAgent: // who is killed gets no answer
		never()
	case plan.Lose:
		begin(r, next)
		never()
	case plan.Slow:
		if wait(e.For) {
			next.ServeHTTP(w, r)
		}
	case plan.AnswerLate:
		answer := begin(r, next)
		if wait(e.For) {
			answer.send(w)
		}
	case plan.WorkLate:
		late := make(chan *answer, 1)
		detached := detach(r)
		go func() {
			select {
			case <-time.After(e.For):
			case <-over:
			}
			late <- begin(detached, next)
		}()
		select {
		case a := <-late:
			a.send(w)
		case <-r.Context().Done():
		}
	default:
		next.ServeHTTP(w, r)
	}
}
