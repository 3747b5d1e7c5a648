package commands

import (
	"bytes"
	"context"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	runChild() // of a test that is a node
	goleak.VerifyTestMain(m)
}

// command runs troupe with arguments, and gives what it prints.
func command(ctx context.Context, args ...string) (string, error) {
	var out bytes.Buffer
	c := Root()
	c.SetArgs(args)
	c.SetOut(&out)
	c.SetErr(&out)
	err := c.ExecuteContext(ctx)
	return out.String(), err
}
