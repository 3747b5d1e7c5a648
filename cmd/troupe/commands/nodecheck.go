//go:build linux && !nonode

package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe/supervisor/config"
	"github.com/troupe-dev/troupe/supervisor/node"
)

// exitWarned is the exit code of troupe node --check --strict for a node that would start with warnings.
const exitWarned = 2

// nodeCheck are the flags of troupe node --check.
type nodeCheck struct {
	on, strict bool
	output     string
}

func (k *nodeCheck) addTo(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.BoolVar(&k.on, "check", false,
		"look whether the agent would start, say what it would refuse and warn of, and end; nothing is changed")
	fs.BoolVar(&k.strict, "strict", false, "with --check: warnings are exit code 2")
	fs.StringVarP(&k.output, "output", "o", "", "with --check: output format, json or empty for text")
}

// validate says what is wrong with the flags.
func (k *nodeCheck) validate() error {
	switch {
	case !k.on && (k.strict || k.output != ""):
		return errors.New("--strict and --output need --check")
	case k.output != "" && k.output != "json":
		return fmt.Errorf("-o %s: unknown output format: must be json", k.output)
	}
	return nil
}

// run checks the configuration that these flags name, with this machine.
func (k *nodeCheck) run(ctx context.Context, out io.Writer, flags *config.Flags) error {
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	report := node.Report{Refused: []string{}, Warnings: []string{}, WithoutEffect: []string{}}
	c, err := config.Load(flags, os.DirFS("/"), filepath.Clean(dir))
	var wrong *config.Error
	switch {
	case err == nil:
		report = node.Check(ctx, node.Options{Config: c})
	case errors.As(err, &wrong):
		for _, p := range wrong.Problems {
			report.Refused = append(report.Refused, p.String())
		}
	default:
		return err
	}
	if err := k.print(out, report); err != nil {
		return err
	}
	switch {
	case len(report.Refused) > 0:
		return exitError{code: exitFailed, text: "the agent would not start", shown: true}
	case k.strict && len(report.Warnings)+len(report.WithoutEffect) > 0:
		return exitError{code: exitWarned, text: "the agent would start with warnings", shown: true}
	}
	return nil
}

func (k *nodeCheck) print(out io.Writer, r node.Report) error {
	if k.output == "json" {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(struct {
			Starts bool `json:"starts"`
			node.Report
		}{len(r.Refused) == 0, r})
	}
	for _, of := range []struct {
		kind  string
		texts []string
	}{{"refused", r.Refused}, {"warning", r.Warnings}, {"no effect", r.WithoutEffect}} {
		for _, text := range of.texts {
			if _, err := fmt.Fprintf(out, "%s: %s\n", of.kind, text); err != nil {
				return err
			}
		}
	}
	last := "the agent would start"
	if len(r.Refused) > 0 {
		last = "the agent would not start"
	}
	_, err := fmt.Fprintln(out, last)
	return err
}
