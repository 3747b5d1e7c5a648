package port

import "context"

// PullRecords are the files of decide/imagepull. The calling convention is Runtime's.
type PullRecords interface {
	// Load gives all of them, for the start of the agent.
	Load(ctx context.Context, done func(PullFiles, error))
	// SaveIntent writes the file of an intent.
	SaveIntent(ctx context.Context, name string, data []byte, done func(error))
	// SavePulled writes the file of a record, unless its name is empty, and after that removes that of an intent, and what
	// was set aside under that name, unless its name is empty. A file that is not there is removed.
	SavePulled(ctx context.Context, name string, data []byte, intent string, done func(error))
	// RemovePulled removes the file of a record, and what was set aside under that name.
	RemovePulled(ctx context.Context, name string, done func(error))
	// SetAside keeps a file that is damaged for people to look at. where tells them where it is.
	SetAside(ctx context.Context, f PullFile, done func(where string, err error))
}

// PullFiles are all files of records.
type PullFiles struct {
	Intents, Records []PullFile
	// Aside are the names of records that were set aside, AsideIntents those of intents.
	Aside, AsideIntents []string
}

// PullFile is one of them, or why it can't be read.
type PullFile struct {
	Intent bool
	Name   string
	Data   []byte
	Err    error
}
