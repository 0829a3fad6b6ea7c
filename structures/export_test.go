package structures

// BuildWith is Build where at most fanIn tasks signal one, at least 6.
func BuildWith(fanIn int, prefix string, s Structure) (Plan, error) {
	return build(prefix, s, fanIn)
}

// FanInMax is the limit that Build uses.
const FanInMax = fanInMax
