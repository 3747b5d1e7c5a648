package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
)

// moduleDir is where the files of a module are, in the version of the go.mod in a directory. It is downloaded if need be:
// go list says nothing of where a module is that is not there.
func moduleDir(ctx context.Context, at, module string) (dir string, err error) {
	out, err := output(ctx, at, nil, "go", "mod", "download", "-json", module)
	var m struct{ Dir, Error string }
	if said := json.Unmarshal([]byte(out), &m); err == nil {
		err = said
	}
	if m.Error != "" {
		err = errors.New(m.Error)
	}
	if err == nil && m.Dir == "" {
		err = errors.New("go mod download names no directory")
	}
	if err != nil {
		return "", fmt.Errorf("find the files of module %s (go tool task modules downloads it): %w", module, err)
	}
	return m.Dir, nil
}
