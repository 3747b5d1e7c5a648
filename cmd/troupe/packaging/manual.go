package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/troupe-dev/troupe/cmd/troupe/commands"
)

// section is that of the manual for programs of the system's administration.
const section = "8"

// manual writes one man page for each command, and what shells need to complete them.
func manual(_ context.Context, r release) error {
	pages, completions := r.file("man"), r.file("completion")
	for _, dir := range []string{pages, completions} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	if err := writePages(commands.Root(), r, pages); err != nil {
		return err
	}
	root := commands.Root()
	for name, write := range map[string]func(string) error{
		"troupe.bash": func(p string) error { return root.GenBashCompletionFileV2(p, true) },
		"_troupe":     root.GenZshCompletionFile,
		"troupe.fish": func(p string) error { return root.GenFishCompletionFile(p, true) },
	} {
		if err := write(filepath.Join(completions, name)); err != nil {
			return err
		}
	}
	return nil
}

func writePages(c *cobra.Command, r release, dir string) error {
	for _, below := range c.Commands() {
		if !below.IsAvailableCommand() || below.Name() == "completion" || below.Name() == "help" {
			continue
		}
		if err := writePages(below, r, dir); err != nil {
			return err
		}
	}
	var page, packed bytes.Buffer
	c.DisableAutoGenTag = true
	header := &doc.GenManHeader{
		Section: section, Date: &r.date, Source: program + " " + r.version, Manual: "Kubernetes node agent",
	}
	if err := doc.GenMan(c, header, &page); err != nil {
		return err
	}
	w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression) // Debian's policy
	if err != nil {
		return err
	}
	if _, err := page.WriteTo(w); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, dashed(c.CommandPath())+"."+section+".gz"), packed.Bytes(), 0o644)
}

func dashed(path string) string { return strings.ReplaceAll(path, " ", "-") }
