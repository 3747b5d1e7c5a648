package sim_test

import (
	"fmt"
	"log"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/supervisor/sim"
	"github.com/troupe-dev/troupe/supervisor/sim/controlplane"
)

// A hundred nodes, and how long 3,000 pods took until all of them were Ready.
func Example() {
	w, err := sim.New(sim.Config{Seed: 1})
	check(err)
	_, err = w.AddNodes(100, sim.NodeSpec{})
	check(err)
	w.Advance(10 * time.Second) // the nodes register
	check(w.Deploy("web", 3000, "registry.example/web:1"))
	begin := w.Elapsed()
	w.RunUntil(time.Hour, func() bool { return w.Ready() == 3000 })
	fmt.Println(w.Ready(), "pods are Ready after", (w.Elapsed() - begin).Round(2*time.Second))
	// Output: 3000 pods are Ready after 2s
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// What happened to one pod, whose container crashes once after two seconds.
func ExampleWorld_Follow() {
	w, err := sim.New(sim.Config{Seed: 1})
	check(err)
	_, err = w.AddNode(sim.NodeSpec{Name: "n1"})
	check(err)
	w.Advance(5 * time.Second)
	web := w.Follow("default", "web")
	_, err = w.API().Create(&v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", Annotations: map[string]string{
			"sim.troupe.dev/crash-loop": "1", "sim.troupe.dev/run-for": "2s", "sim.troupe.dev/image-size": "10Mi",
		}},
		Spec: v1.PodSpec{NodeName: "n1", Containers: []v1.Container{{Name: "app", Image: "registry.example/web:1"}}},
	})
	check(err)
	w.Advance(time.Minute)
	for _, m := range web.Moments {
		if m.What == "Status" {
			fmt.Println(m.Text)
		}
	}
	// Output:
	// phase=Pending node=n1
	// phase=Pending node=n1 ready=False app=waiting(ContainerCreating)
	// phase=Running node=n1 ready=True app=running
	// phase=Running node=n1 ready=False app=terminated(1 Error)
	// phase=Running node=n1 ready=True app=running#1
}

// The loss of a machine: after a while its pods are made anew elsewhere.
func ExampleNode_PowerOff() {
	w, err := sim.New(sim.Config{Seed: 1})
	check(err)
	_, err = w.AddNodes(3, sim.NodeSpec{})
	check(err)
	w.Advance(5 * time.Second)
	seconds := int64(10)
	check(w.ControlPlane().Apply(controlplane.Workload{
		Name: "web", Replicas: 30,
		Template: v1.PodTemplateSpec{Spec: v1.PodSpec{
			Containers: []v1.Container{{Name: "web", Image: "registry.example/web:1"}},
			Tolerations: []v1.Toleration{{
				Key: v1.TaintNodeUnreachable, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute, TolerationSeconds: &seconds,
			}},
		}},
	}))
	w.Advance(time.Minute)
	w.Node("n00001").PowerOff()
	lost := w.Elapsed()
	w.RunUntil(time.Hour, func() bool { return w.Ready() < 30 })
	w.RunUntil(time.Hour, func() bool { return w.Ready() == 30 })
	fmt.Println("30 pods are Ready again after", (w.Elapsed() - lost).Round(10*time.Second))
	// Output: 30 pods are Ready again after 1m0s
}
