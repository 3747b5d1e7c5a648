package config

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Stage is how mature a feature is.
type Stage string

// The stages of a feature gate.
const (
	alpha      Stage = "alpha"
	beta       Stage = "beta"
	stable     Stage = "stable"
	deprecated Stage = "deprecated"
)

// gate is one feature gate.
type gate struct {
	name      string
	stage     Stage
	byDefault bool
	// locked: it may be given, but only with its default.
	locked bool
	// needs are gates that must be on when this one is.
	needs []string
}

func findGate(name string) (gate, bool) {
	i, found := slices.BinarySearchFunc(knownGates, name, func(g gate, name string) int {
		return cmp.Compare(g.name, name)
	})
	if !found {
		return gate{}, false
	}
	return knownGates[i], true
}

// Two names that stand for all gates of a stage.
const (
	allAlpha = "AllAlpha"
	allBeta  = "AllBeta"
)

// Gates tells which features are on. The zero Gates has every default.
type Gates struct{ set map[string]bool }

// Enabled tells whether a feature is on. A gate that knownGates does not
// have, or that actsOnGate has not, is a mistake in the calling code: it panics.
func (g Gates) Enabled(name string) bool {
	if _, acts := actsOnGate[name]; !acts {
		panic(fmt.Sprintf("config: users are told that feature gate %s has no effect: name it in actsOnGate", name))
	}
	return g.on(name)
}

// on is Enabled also for gates that only defaults and checks of the configuration follow.
func (g Gates) on(name string) bool {
	known, ok := findGate(name)
	if !ok {
		panic(fmt.Sprintf("config: no feature gate %s in Kubernetes v1.37", name))
	}
	if value, given := g.set[name]; given {
		return value
	}
	if !known.locked {
		for all, stage := range map[string]Stage{allAlpha: alpha, allBeta: beta} {
			if value, given := g.set[all]; given && known.stage == stage {
				return value
			}
		}
	}
	return known.byDefault
}

// Given returns the gates that were given, by name.
func (g Gates) Given() map[string]bool { return maps.Clone(g.set) }

// validateGates checks the gates given: unknown names, locked ones that are
// set otherwise, and features that are on without one they need.
func validateGates(given map[string]bool, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if name == allAlpha || name == allBeta {
			continue
		}
		known, ok := findGate(name)
		switch {
		case !ok:
			message := "unknown feature gate: Kubernetes v1.37 has no gate with this name"
			if near := nearestGate(name); near != "" {
				message += ": did you mean " + near + "?"
			}
			errs = append(errs, field.Invalid(at.Key(name), given[name], message))
		case known.locked && given[name] != known.byDefault:
			errs = append(errs,
				field.Invalid(at.Key(name), given[name], fmt.Sprintf("locked to %v: leave it out", known.byDefault)))
		}
	}
	if len(errs) > 0 {
		return errs
	}
	gates := Gates{set: given}
	for _, g := range knownGates {
		if !gates.on(g.name) {
			continue
		}
		for _, need := range g.needs {
			if !gates.on(need) {
				errs = append(errs, field.Invalid(at.Key(g.name), true, "needs feature gate "+need+", which is off"))
			}
		}
	}
	return errs
}

// nearestGate is the known gate that differs from a mistyped name in case
// only, or "".
func nearestGate(name string) string {
	for _, g := range knownGates {
		if strings.EqualFold(g.name, name) {
			return g.name
		}
	}
	return ""
}
