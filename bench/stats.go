package main

import (
	"math"
	"slices"
)

// median is the middle one of the values, or the mean of the two in the middle.
func median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 0 {
		return (sorted[middle-1] + sorted[middle]) / 2
	}
	return sorted[middle]
}

// spread is how far the values lie apart, as a share of their median.
func spread(values []float64) float64 {
	if len(values) == 0 || median(values) == 0 {
		return 0
	}
	return (slices.Max(values) - slices.Min(values)) / median(values)
}
