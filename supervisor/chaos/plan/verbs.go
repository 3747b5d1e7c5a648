package plan

// Verb is what an operation does.
type Verb string

// The operations.
const (
	Create      Verb = "create"       // a pod, see Shape
	Delete      Verb = "delete"       // a pod, with its grace or grace=SECONDS
	Force       Verb = "force"        // delete a pod by force
	Image       Verb = "image"        // give a container another image
	Write       Verb = "write"        // the manifest of a static pod, see Shape
	Remove      Verb = "remove"       // the manifest of a static pod
	Exit        Verb = "exit"         // a running container ends: code=N
	OOM         Verb = "oom"          // a running container is killed for want of memory
	EndSandbox  Verb = "end-sandbox"  // the ready sandbox of a pod dies
	Restart     Verb = "kill-agent"   // the agent is killed, and started again: for=DUR later
	DownRuntime Verb = "kill-runtime" // the runtime is killed, and restarted: for=DUR later
	Power       Verb = "power-cycle"  // the machine loses power: for=DUR
	CutOff      Verb = "cut-off"      // the apiserver can't be reached: for=DUR
	LoseTask    Verb = "lose-task"    // a running container ends unseen, and is in no known state
	Vanish      Verb = "vanish"       // a container is gone from the runtime, and nothing tells
	StepClock   Verb = "step-clock"   // the machine's wall clock is set: by=DUR, back if negative
	Pause       Verb = "pause-agent"  // the agent's process is stopped: for=DUR
	Suspend     Verb = "suspend"      // the whole machine sleeps: for=DUR
	Expire      Verb = "expire"       // the apiserver forgets old versions, and closes all watches
)

// form is what an operation needs.
type form struct {
	// role: 0 none, 1 a pod, 2 a container.
	role int
	// args are the keys it may have; shape: those of a pod's shape too.
	args  []string
	shape bool
	// api: there must be an apiserver; static: a manifest.
	api bool
}

var forms = map[Verb]form{
	Create: {role: 1, shape: true, api: true}, Write: {role: 1, shape: true},
	Delete: {role: 1, args: []string{"grace"}, api: true}, Force: {role: 1, api: true},
	Image: {role: 2, args: []string{"to"}, api: true}, Remove: {role: 1},
	Exit: {role: 2, args: []string{"code"}}, OOM: {role: 2}, EndSandbox: {role: 1},
	Restart: {args: []string{"for"}}, DownRuntime: {args: []string{"for"}}, Power: {args: []string{"for"}},
	LoseTask: {role: 2}, Vanish: {role: 2}, StepClock: {args: []string{"by"}}, Pause: {args: []string{"for"}},
	Suspend: {args: []string{"for"}},
	CutOff:  {args: []string{"for"}, api: true}, Expire: {api: true},
}
