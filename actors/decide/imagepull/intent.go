package imagepull

import "time"

// Intent is an image that is being pulled, or may have been, under one name. However many pods wait for the image, it
// is pulled once at a time, so an image has one intent; a pull that was given up and the next one share it.
//
//	(none)                                      an earlier agent left its file
//	  │ a pull is to begin                                    │
//	  ▼                                                       │
//	Noting: its file is written, and the runtime is asked     │
//	  │     what it has under the name; then the pull begins; │
//	  │     (none) if it does not say so                      │
//	  ▼                                                       ▼
//	Pulling ──failed, given up──────────────────────────► Settling: the runtime ◄──► Unclear: it did
//	  │                                                    is asked once more                not say it
//	  │ pulled                                                │
//	  ▼                                                       ├─has another image──► (none), with a record: nobody
//	(none), with a record of who pulled it                    │                      may use it without a pull
//	                                                          ├─has nothing new────► (none): what there was before
//	                                                          │                      stays as it was
//	                                                          └─the same, and it may still come──► Late
//	Late ──another image came, or LateFor is over──► as from Settling
//
// A new pull may begin in each of them. What the runtime had before the first pull counts until the intent is over.
type Intent struct {
	Stage IntentStage
	// had is the ID of what the runtime had under the name before the first pull, empty for nothing. known: it said so.
	had   string
	known bool
	// asked: the runtime was asked to pull. open: a pull has no answer, so it may still go on, unless its runtime ended.
	asked, open bool
	// ended is when the last pull ended or was given up.
	ended time.Time
}

// IntentStage is how far an intent is.
type IntentStage uint8

// The stages of an intent.
const (
	IntentNoting IntentStage = iota
	IntentPulling
	IntentSettling
	IntentUnclear
	IntentLate
)

func (s IntentStage) String() string {
	return [...]string{"Noting", "Pulling", "Settling", "Unclear", "Late"}[s]
}

// LateFor is how long after a pull without an answer its image may still come. ESTIMATE: no runtime goes on for that
// long when nobody waits; the agent gives up a pull that makes no progress far earlier.
const LateFor = time.Hour

// LeftIntent is the intent of an earlier agent, by the file that it left.
func LeftIntent(now time.Time) *Intent {
	return &Intent{Stage: IntentSettling, asked: true, open: true, ended: now}
}

// Begin notes that a pull is to begin, and says whether the runtime has to be asked before what it has.
func (in *Intent) Begin() (ask bool) {
	in.Stage = IntentNoting
	return !in.asked && !in.known
}

// Had notes what the runtime has before the first pull; an empty ID is nothing.
func (in *Intent) Had(id string) {
	if !in.asked {
		in.had, in.known = id, true
	}
}

// Forgotten notes that an earlier agent has pulled the image, too: what there was before is not known.
func (in *Intent) Forgotten(now time.Time) {
	in.had, in.known, in.asked, in.open, in.ended = "", false, true, true, now
}

// Ask notes that the runtime is asked to pull.
func (in *Intent) Ask() { in.Stage, in.asked = IntentPulling, true }

// Fail notes that a pull has failed, or was given up; open: it may still go on. over: it was never asked for, so the
// intent is over.
func (in *Intent) Fail(open bool, now time.Time) (over bool) {
	in.Stage, in.open, in.ended = IntentSettling, in.open || open, now
	return !in.asked
}

// IntentEnd is what becomes of an intent.
type IntentEnd uint8

// The ends of an intent.
const (
	IntentStays   IntentEnd = iota // the runtime may still be pulling
	IntentGoes                     // nothing was pulled
	IntentRecords                  // a pull has brought an image: nobody may use it without a pull
)

func (e IntentEnd) String() string { return [...]string{"Stays", "Goes", "Records"}[e] }

// Settle says what becomes of an intent whose pulls have ended, by the ID of what the runtime has now; empty for
// nothing.
func (in *Intent) Settle(id string, now time.Time) IntentEnd {
	switch {
	case id != "" && in.Brought(id):
		return IntentRecords
	case in.open && now.Sub(in.ended) < LateFor:
		in.Stage = IntentLate
		return IntentStays
	default:
		return IntentGoes
	}
}

// Brought says whether an image with that ID may have come by a pull of this intent.
func (in *Intent) Brought(id string) bool { return !in.known || in.had != id }
