//go:build race

package linear

func init() { bar = 11 }
