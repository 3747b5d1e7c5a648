package lab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
)

var rootModule = regexp.MustCompile(`(?m)^module github\.com/troupe-dev/troupe$`)

// Repository is the directory of the root module's go.mod, looked for from the working directory
// upwards.
func Repository() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; ; dir = filepath.Dir(dir) {
		text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && rootModule.Match(text) {
			return dir, nil
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return "", err
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("find the repository: no go.mod of troupe at or above the working directory")
		}
	}
}
