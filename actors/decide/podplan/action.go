package podplan

import "time"

// Action is one thing to do now: an Effect or a Request.
type Action interface {
	Lane() Lane
	isAction()
}

// Effect is a call that the pod's actor makes itself. It runs outside of the actor, and its result
// comes back as a message. Each effect is one file here: what it is, its lane, and what its begin,
// its success and its failure change in the facts. The file of the same name in actors/pod says how
// the call is made.
//
//	planned ─► begun, its lane is busy ─► ended ─┬─► succeeded
//	                                             └─► failed ─► planned again after the backoff
//
//sumtype:decl
type Effect interface {
	Action
	isEffect()
	// About is the container that the effect is about, and its ID in the runtime. Both are empty if
	// it is about the pod or its sandbox, and the ID is empty as long as there is none.
	About() (container, id string)
	// Changes says whether the effect may change what a list of the runtime shows.
	Changes() bool
	// begun is called before the call is made.
	begun(f *Facts, now time.Time)
	// succeeded takes in the result. outdated says that the object of an inspection changed after
	// the call was made, so the answer may be older than what is known.
	succeeded(f *Facts, s Situation, r Result, outdated bool)
	// failed takes in a failure, and gives the reason that users are shown while the effect waits to
	// be tried again. An effect that is not tried again gives no reason.
	failed(f *Facts, p Problem) (reason string)
}

// Request is something that another actor is asked for. Its answers come as messages, and come again
// whenever they change.
//
//sumtype:decl
type Request interface {
	Action
	isRequest()
	// asked is called when the other actor is asked.
	asked(f *Facts)
}
