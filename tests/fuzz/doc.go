// Package fuzz fills values of any type from bytes, for fuzz targets whose input is more than text, and has the targets
// that need a whole node: go tool task fuzz runs all there are.
package fuzz
