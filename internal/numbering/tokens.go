package numbering

import "encoding/binary"

// The last 64 bits of a token are the variant of the UUID, four hints, and the key.
const (
	keyBits    = 58
	limitedBit = 1 << keyBits
	sharesBit  = 2 << keyBits
	postsBit   = 4 << keyBits
	signalsBit = 8 << keyBits
	variant    = 0b10 << 62
	// variantBits are those that say which variant of a UUID it is.
	variantBits = 0b11 << 62
)

// versionBits are those of the first half of a UUID that say which version it is, versionBit the
// one that says 8.
const (
	versionBits = 0xf000
	versionBit  = 0x8000
)

// Hints save the return work: whether other tasks wait for this one, as far as was known at the
// fetch, whether it posts its result, whether it shares its row of leased with others, and
// whether its action had limits.
type Hints struct{ Signals, Posts, Shares, Limited bool }

// Claim gives random bits the form of the first half of a UUID of version 8. It is never zero.
func Claim(random uint64) int64 {
	return int64(random&^versionBits | versionBit) //nolint:gosec // the bits are what counts
}

// New returns the token of a task that was fetched under a claim.
func New(claim, key int64, id string, h Hints) (token [16]byte) {
	high, low := mixed(uint64(claim), id), variant|uint64(key) //nolint:gosec // bits
	for _, hint := range []struct {
		is  bool
		bit uint64
	}{
		{h.Signals, signalsBit},
		{h.Posts, postsBit},
		{h.Shares, sharesBit},
		{h.Limited, limitedBit},
	} {
		if hint.is {
			low |= hint.bit
		}
	}
	binary.BigEndian.PutUint64(token[:8], high)
	binary.BigEndian.PutUint64(token[8:], low)
	return token
}

// Of takes the token of a task apart. One that New did not make, or that it made for another task,
// gives a claim that never existed.
func Of(token [16]byte, id string) (key, claim int64) {
	high, low := binary.BigEndian.Uint64(token[:8]), binary.BigEndian.Uint64(token[8:])
	if low&variantBits != variant {
		return 0, 0 // no claim is zero
	}
	//nolint:gosec // the bits are what counts
	return int64(low & (limitedBit - 1)), int64(mixed(high, id))
}

// HintsOf returns the hints of a token.
func HintsOf(token [16]byte) Hints {
	low := binary.BigEndian.Uint64(token[8:])
	return Hints{
		Signals: low&signalsBit != 0, Posts: low&postsBit != 0, Shares: low&sharesBit != 0,
		Limited: low&limitedBit != 0,
	}
}

// mixed mixes the random bits of a claim with an ID, by the hash FNV-1a, or takes the ID out again.
func mixed(bits uint64, id string) uint64 {
	const offset, prime = 0xcbf29ce484222325, 0x100000001b3
	hash := uint64(offset)
	for i := range len(id) {
		hash = (hash ^ uint64(id[i])) * prime
	}
	return bits ^ hash&^versionBits
}
