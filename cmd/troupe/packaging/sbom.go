package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
)

// sboms lists, in CycloneDX, the modules that each program was built from, as the program itself says, and writes down
// their licenses.
func sboms(ctx context.Context, r release) error {
	for _, t := range r.targets {
		info, err := buildinfo.ReadFile(r.program(t))
		if err != nil {
			return err
		}
		if err := writeSBOM(r, r.program(t)+".cdx.json", info); err != nil {
			return err
		}
		if err := licenses(ctx, r, t); err != nil {
			return err
		}
	}
	return nil
}

func writeSBOM(r release, name string, info *debug.BuildInfo) error {
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{Component: &cyclonedx.Component{
		BOMRef: purl(module, "v"+r.version), Type: cyclonedx.ComponentTypeApplication, Name: module, Version: "v" + r.version,
		PackageURL: purl(module, "v"+r.version),
	}}
	components := []cyclonedx.Component{component("std", strings.Replace(info.GoVersion, "go", "v", 1))}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		components = append(components, component(m.Path, m.Version))
	}
	bom.Components = &components
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // closed below, if it was written
	if err := cyclonedx.NewBOMEncoder(file, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(bom); err != nil {
		return err
	}
	return file.Close()
}

func component(path, version string) cyclonedx.Component {
	return cyclonedx.Component{
		BOMRef: purl(path, version), Type: cyclonedx.ComponentTypeLibrary, Name: path, Version: version,
		PackageURL: purl(path, version),
	}
}

func purl(path, version string) string { return "pkg:golang/" + path + "@" + version }

// checksums are those of all files, for sha256sum -c.
func checksums(_ context.Context, r release) error {
	const name = "SHA256SUMS"
	file, err := os.Create(r.file(name))
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // closed below, if it was written
	w := bufio.NewWriter(file)
	err = filepath.WalkDir(r.out, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || d.Name() == name {
			return err
		}
		sum, err := sha256Of(path)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(r.out, path)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(w, "%s  %s\n", sum, filepath.ToSlash(relative))
		return err
	})
	if err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return file.Close()
}

func sha256Of(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close() //nolint:errcheck // it was read
	h := sha256.New()
	if _, err := io.Copy(h, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
