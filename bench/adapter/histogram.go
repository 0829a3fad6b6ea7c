package main

import (
	"math/bits"
	"time"
)

// A histogram counts latencies to three significant figures, in bounded memory: microseconds in
// 1,024 buckets for each power of two.
type histogram [buckets]uint32

const (
	bucketBits = 10
	most       = 1 << 32 // microseconds, more than an hour
	buckets    = (32 - bucketBits + 1) << bucketBits
)

// bucketOf is the place of a latency: below 2,048 us one of its own.
func bucketOf(latency time.Duration) int {
	us := uint64(min(max(0, latency.Microseconds()), most-1))
	shift := max(0, bits.Len64(us)-bucketBits-1)
	return shift<<bucketBits + int(us>>shift) //nolint:gosec // It is less than buckets.
}

// latencyOf is the middle of a bucket, in milliseconds.
func latencyOf(bucket int) float64 {
	shift := max(0, bucket>>bucketBits-1)
	least := uint64(bucket-shift<<bucketBits) << shift //nolint:gosec // It is not negative.
	return (float64(least) + float64(uint64(1)<<shift)/2) / 1000
}

// A window are the latencies of the last windowSeconds.
type window struct {
	parts [windowSeconds]histogram
	since [windowSeconds]int64 // which second each part is of
}

const windowSeconds = 30

func (w *window) add(at time.Time, latency time.Duration) {
	part := at.Unix() % windowSeconds
	if w.since[part] != at.Unix() {
		w.parts[part], w.since[part] = histogram{}, at.Unix()
	}
	w.parts[part][bucketOf(latency)]++
}

// percentiles are the latencies in milliseconds that these shares do not exceed; zeros if there
// were none.
func (w *window) percentiles(at time.Time, shares ...float64) []float64 {
	var all [buckets]uint64
	total := uint64(0)
	for i := range w.parts {
		if at.Unix()-w.since[i] >= windowSeconds {
			continue
		}
		for bucket, n := range w.parts[i] {
			all[bucket] += uint64(n)
			total += uint64(n)
		}
	}
	found := make([]float64, len(shares))
	for i, share := range shares {
		left := max(1, uint64(share*float64(total)+0.5))
		for bucket, n := range all {
			if n >= left {
				found[i] = latencyOf(bucket)
				break
			}
			left -= n
		}
	}
	return found
}
