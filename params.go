package stint

import "time"

// moment returns a time as the parameter of a statement: null for the zero time.
func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// texts returns IDs as the parameter of a statement.
func texts(ids []TaskID) []string {
	strings := make([]string, len(ids))
	for i, id := range ids {
		strings[i] = string(id)
	}
	return strings
}

// interval returns a lease as the parameter of a statement: null for NoExpiry.
func interval(lease time.Duration) *time.Duration {
	if lease == NoExpiry {
		return nil
	}
	return &lease
}

// age returns a retention as the parameter of a statement: null for KeepForever.
func age(keep time.Duration) *time.Duration {
	switch keep {
	case KeepForever:
		return nil
	case KeepNone:
		return new(time.Duration)
	default:
		return &keep
	}
}

// keysAndClaims returns performances as the parameters of a statement.
func keysAndClaims(performances []performance) (keys, claims []int64) {
	keys, claims = make([]int64, len(performances)), make([]int64, len(performances))
	for i, p := range performances {
		keys[i], claims[i] = p.key, int64(p.claim)
	}
	return keys, claims
}

func nonEmpty(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

func positive(age time.Duration) *time.Duration {
	if age == 0 {
		return nil
	}
	return &age
}
