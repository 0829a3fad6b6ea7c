package bodies

import "bytes"

// Join puts bodies, or results, one behind the other: where each begins, counted from 1, its size,
// nil if there is none, and the bytes of all. Together they have less than 2 GiB.
func Join(all [][]byte) (begins []int32, sizes []*int32, joined []byte) {
	begins, sizes = make([]int32, len(all)), make([]*int32, len(all))
	end := int32(1)
	for i, body := range all {
		if begins[i] = end; body != nil {
			size := int32(len(body)) //nolint:gosec // it fits
			sizes[i], end = &size, end+size
		}
	}
	if len(all) == 1 {
		return begins, sizes, all[0]
	}
	return begins, sizes, bytes.Join(all, nil)
}
