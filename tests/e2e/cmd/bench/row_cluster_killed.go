package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/troupe-dev/troupe/tests/check"
)

// restarts are what was measured of an agent that was killed and started again: how long after the
// start of the process its lease was renewed, a pod that was created meanwhile was Ready, and one
// that was created when the lease had been renewed was Ready (counted from its creation).
type restarts struct{ lease, waiting, created samples }

func (r restarts) String() string {
	return fmt.Sprintf("lease renewed %s; a pod created meanwhile %s; a pod created then %s", r.lease.quantiles(), r.waiting.quantiles(), r.created.quantiles())
}

// clusterKilled measures how much longer a new pod takes on a node whose agent was killed and started
// again with many pods than on one with none, in turns.
func (b *bench) clusterKilled(ctx context.Context) (_ []result, err error) {
	defer check.Return(&err)
	c := check.Must(b.clusterBed(ctx))
	empty, full := map[string]*restarts{}, map[string]*restarts{}
	for _, a := range c.agents {
		empty[a.Name], full[a.Name] = &restarts{}, &restarts{}
	}
	for range b.rounds {
		for _, a := range c.agents {
			check.OK(c.killedOf(ctx, a.Name, empty[a.Name], full[a.Name]))
			c.say("  %s without pods: %s", a.Name, empty[a.Name])
			c.say("  %s with %d: %s", a.Name, b.idle, full[a.Name])
		}
	}
	line := func(what string, of func(*restarts) samples) result {
		const bar = 500 * time.Millisecond
		more := func(agent string) time.Duration { return of(full[agent]).median() - of(empty[agent]).median() }
		var details []string
		for _, a := range c.agents {
			details = append(details, a.Name+" without pods: "+of(empty[a.Name]).quantiles(), fmt.Sprintf("%s with %d: %s", a.Name, b.idle, of(full[a.Name]).quantiles()))
		}
		return result{
			section: cluster, what: fmt.Sprintf("%d pods, agent killed and started again: %s", b.idle, what), bar: "without pods + 500 ms",
			floor:    fmt.Sprintf("without pods %s; kubelet %s, %s more than without pods", ms(of(empty[troupeName]).median()), ms(of(full[kubeletName]).median()), ms(more(kubeletName))),
			measured: ms(of(full[troupeName]).median()), ratio: plus(more(troupeName)), verdict: verdict(more(troupeName) <= bar), details: details,
		}
	}
	return []result{
		line("the lease is renewed", func(r *restarts) samples { return r.lease }),
		line("a pod created meanwhile seen Ready", func(r *restarts) samples { return r.waiting }),
		line("a pod created when the lease was renewed seen Ready", func(r *restarts) samples { return r.created }),
	}, nil
}

// killsEach is how often an agent is killed in a round with each number of pods.
const killsEach = 3

func (c *bed) killedOf(ctx context.Context, agent string, empty, full *restarts) (err error) {
	defer check.Return(&err)
	r := check.Must(c.join(ctx, c.agent(agent)))
	defer r.leave(&err)
	check.OK(r.killed(ctx, nil, empty))
	pods := names("many", c.idle)
	check.Must(r.start(ctx, nil, pods...))
	check.OK(r.killed(ctx, pods, full))
	_, err = r.remove(ctx, pods...)
	return err
}

func (r *joined) killed(ctx context.Context, pods []string, of *restarts) (err error) {
	defer check.Return(&err)
	for range killsEach {
		check.OK(sleep(ctx, 2*settle))
		check.OK(r.killedOnce(ctx, pods, of))
	}
	return nil
}

// killedOnce kills the agent and starts it again, once. What it says of the pods that are there must
// not change.
func (r *joined) killedOnce(ctx context.Context, pods []string, of *restarts) (err error) {
	defer check.Return(&err)
	const waiting, created = "waiting", "created"
	killed := time.Now()
	check.OK(r.Kill(ctx))
	check.Must(r.create(ctx, nil, waiting))
	leases, err := r.client.CoordinationV1().Leases(v1.NamespaceNodeLease).Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + r.Node()})
	if err != nil {
		return err
	}
	defer leases.Stop()
	begin := time.Now()
	check.OK(r.Start())
	check.OK(awaitRenewal(ctx, leases, begin))
	of.lease = append(of.lease, time.Since(begin))
	at := check.Must(r.create(ctx, nil, created))
	ready := check.Must(r.seen.await(ctx, "is Ready", (*history).readyAt, waiting, created))
	of.waiting, of.created = append(of.waiting, ready[0].Sub(begin)), append(of.created, ready[1].Sub(at))
	check.OK(sleep(ctx, settle))
	for _, pod := range pods {
		if slices.ContainsFunc(r.seen.since(killed, pod), func(p *v1.Pod) bool { return !podReady(p) || p.Status.ContainerStatuses[0].RestartCount > 0 }) {
			r.fault("agent killed: pod %s was shown restarted or not Ready", pod)
		}
	}
	_, err = r.remove(ctx, waiting, created)
	return err
}

// awaitRenewal waits until a lease is seen that was renewed after a time.
func awaitRenewal(ctx context.Context, leases watch.Interface, begin time.Time) error {
	limit := time.NewTimer(podPatience)
	defer limit.Stop()
	for {
		select {
		case e, open := <-leases.ResultChan():
			if !open {
				return errors.New("the watch of the lease ended")
			}
			if l, is := e.Object.(*coordinationv1.Lease); is && l.Spec.RenewTime.After(begin) {
				return nil
			}
		case <-limit.C:
			return fmt.Errorf("the lease was not renewed within %s", podPatience)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
