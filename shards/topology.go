package shards

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/views"
)

// ErrUnknownShard reports that the topology has no shard of a name.
var ErrUnknownShard = views.ErrUnknown

// A Topology says where shards are.
type Topology struct {
	urls    map[string]string
	pattern string
}

const placeOfName = "{shard}"

// A URL may hold commas, between several hosts. What begins an item is a name.
var itemPattern = regexp.MustCompile(`(?:^|,)\s*([A-Za-z0-9][A-Za-z0-9._-]*)=`)

// ParseTopology reads a topology of one of the forms
//
//	static:eu=postgres://…/a,us=postgres://…/b
//	pattern:postgres://…/{shard}
//	file:/etc/stint/shards
//
// A static one names all shards. A pattern has any shard, at the URL in which its name takes the
// place of {shard}. Callers of a service choose such names, so they have no dots, and {shard} is
// neither all of a host nor its end behind a dot: https://{shard}.tasks.internal or
// postgres://db-{shard} may be, https://{shard} may not. A file keeps passwords out of the list of
// processes. It has one of the other forms, or a shard a line:
//
//	# who pays where
//	eu = postgres://…/a
//	us = postgres://…/b
//
// The file is read once.
func ParseTopology(text string) (Topology, error) {
	kind, rest, _ := strings.Cut(text, ":")
	switch kind {
	case "static":
		return parseStatic(rest)
	case "pattern":
		if err := checkPattern(rest); err != nil {
			return Topology{}, err
		}
		return Topology{pattern: rest}, nil
	case "file":
		return readTopology(rest)
	default: // which may hold a password
		return Topology{}, badTopology("it begins neither with static:, pattern: nor file:")
	}
}

// hostsPattern finds the hosts of a URL, and those in parameters of PostgreSQL.
var hostsPattern = regexp.MustCompile(
	`(?i)(?:://(?:[^/?#]*@)?|(?:^|[\s?&])host(?:addr)?\s*=\s*)([^/?#&\s]*)`)

// checkPattern refuses a pattern that leads to any host that the name of a shard may be.
func checkPattern(pattern string) error {
	if !strings.Contains(pattern, placeOfName) {
		return badTopology("the pattern lacks %s", placeOfName)
	}
	for _, found := range hostsPattern.FindAllStringSubmatch(pattern, -1) {
		for host := range strings.SplitSeq(found[1], ",") {
			at := strings.LastIndex(host, placeOfName)
			if at < 0 {
				continue
			}
			before, after := host[:at], host[at+len(placeOfName):]
			after, _, _ = strings.Cut(after, ":")
			behind := before != "" && !strings.HasSuffix(before, ".") &&
				!strings.HasSuffix(before, "}")
			if !behind && strings.Trim(after, ".") == "" {
				return badTopology("in a host, a fixed domain must follow %[1]s, or a fixed "+
					"beginning must precede it, such as %[1]s.tasks.internal or db-%[1]s: callers "+
					"of a service choose names", placeOfName)
			}
		}
	}
	return nil
}

// readTopology reads a topology from a file.
func readTopology(path string) (Topology, error) {
	text, err := os.ReadFile(path) //nolint:gosec // the operator names it
	if err != nil {
		return Topology{}, badTopology("%v", err)
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			lines = append(lines, line)
		}
	}
	if len(lines) == 1 && (strings.HasPrefix(lines[0], "static:") ||
		strings.HasPrefix(lines[0], "pattern:")) {
		return ParseTopology(lines[0])
	}
	urls := make(map[string]string, len(lines))
	for _, line := range lines {
		name, url, ok := strings.Cut(line, "=")
		if name = strings.TrimSpace(name); !ok || checkName(name) != nil {
			return Topology{}, badTopology("a line of %s does not begin with the name of a shard "+
				"and an equals sign", path)
		}
		if _, ok := urls[name]; ok {
			return Topology{}, badTopology("shard %q is there twice", name)
		}
		urls[name] = strings.TrimSpace(url)
	}
	return Static(urls)
}

func parseStatic(list string) (Topology, error) {
	items := itemPattern.FindAllStringSubmatchIndex(list, -1)
	if len(items) == 0 || items[0][0] > 0 {
		return Topology{}, badTopology("it must be a list like static:1=URL,2=URL")
	}
	urls := make(map[string]string, len(items))
	for i, item := range items {
		name, end := list[item[2]:item[3]], len(list)
		if i+1 < len(items) {
			end = items[i+1][0]
		}
		if _, ok := urls[name]; ok {
			return Topology{}, badTopology("shard %q is there twice", name)
		}
		urls[name] = strings.TrimSpace(list[item[1]:end])
	}
	return Static(urls)
}

// Static is a topology of these shards, by their names.
func Static(urls map[string]string) (Topology, error) {
	if len(urls) == 0 {
		return Topology{}, badTopology("there is no shard in it")
	}
	names := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(urls)) {
		url := urls[name]
		if err := checkName(name); err != nil {
			return Topology{}, err
		}
		if other, ok := names[url]; ok && url != "" {
			return Topology{}, badTopology("shards %q and %q have the same URL", other, name)
		}
		names[url] = name
		if url == "" {
			return Topology{}, badTopology("shard %q has no URL", name)
		}
	}
	return Topology{urls: maps.Clone(urls)}, nil
}

// URL returns where a shard is. If there is none of the name, the error is [ErrUnknownShard].
func (t Topology) URL(shard string) (string, error) {
	if t.pattern != "" {
		if err := checkName(shard); err != nil {
			return "", err
		}
		if strings.Contains(shard, ".") {
			return "", badName(shard, "must not have a dot, since the topology is a pattern")
		}
		return strings.ReplaceAll(t.pattern, placeOfName, shard), nil
	}
	url, ok := t.urls[shard]
	if !ok {
		return "", fmt.Errorf("%w: %.80q; the topology has %s", ErrUnknownShard, shard,
			strings.Join(t.Names(), ", "))
	}
	return url, nil
}

// Names returns the names of all shards in order, or none if the topology is a pattern.
func (t Topology) Names() []string { return slices.Sorted(maps.Keys(t.urls)) }

// checkName refuses what is no name of a shard: 1 to 63 letters, digits, dots, dashes and
// underscores, with a letter or digit first.
func checkName(name string) error {
	if !views.IsName(name) {
		return badName(name, fmt.Sprintf("must be 1 to %d letters, digits, dots, dashes and "+
			"underscores, with a letter or digit first", views.NameBytesMax))
	}
	return nil
}

func badName(name, problem string) error {
	return &stint.ArgumentError{
		Argument: "shard", Index: -1, Err: stint.ErrInvalidArgument,
		Problem: fmt.Sprintf("%.80q %s", name, problem),
	}
}

func badTopology(format string, args ...any) error {
	return &stint.ArgumentError{
		Argument: "topology", Index: -1, Err: stint.ErrInvalidArgument,
		Problem: fmt.Sprintf(format, args...),
	}
}
