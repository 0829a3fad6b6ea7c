package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// repository is where the files of a release are read.
const repository = "https://github.com/stint-tasks/stint"

// notes writes the notes of the release: what is new in the version, pictures of the pages, the
// record of faults, and when to use something else. The pages of the commit have all of it.
func (r *release) notes(_ context.Context) error {
	text := fmt.Sprintf("# Stint %s\n", r.version)
	for _, part := range []struct{ title, page, heading string }{
		{"What is new", "CHANGELOG.md", "## " + r.version + " - "}, // its date
		{"The web interface", "docs/guides/web.md", "## A tour"},
		{"The track record", "docs/track-record.md", "# Track record"},
		{"When to use something else", "docs/reference/comparison.md", "## Which to choose"},
	} {
		page, err := os.ReadFile(filepath.Join(r.source, part.page))
		if err != nil {
			return err
		}
		content, err := section(string(page), part.heading)
		if err != nil {
			return fmt.Errorf("%s: %w", part.page, err)
		}
		text += "\n## " + part.title + "\n\n" + absolute(content, part.page, "v"+r.version) + "\n"
	}
	return os.WriteFile(filepath.Join(r.out, "notes.md"), []byte(text), 0o644)
}

// section is what a page has behind the first heading that begins like this, up to the next one
// of any level but a lower.
func section(page, heading string) (string, error) {
	level := strings.Count(strings.SplitN(heading, " ", 2)[0], "#")
	var kept []string
	inside := false
	for line := range strings.Lines(page) {
		marks := len(line) - len(strings.TrimLeft(line, "#"))
		isHeading := marks > 0 && strings.HasPrefix(line[marks:], " ")
		switch {
		case !inside:
			inside = strings.HasPrefix(line, heading)
			level = max(level, marks)
		case isHeading && marks <= max(level, 2):
			return strings.TrimSpace(strings.Join(kept, "")), nil
		default:
			kept = append(kept, line)
		}
	}
	if !inside {
		return "", fmt.Errorf("there is no heading %q", heading)
	}
	return strings.TrimSpace(strings.Join(kept, "")), nil
}

// relative are the links of a page that lead to others of the repository: the mark before, the
// path, and the anchor.
var relative = regexp.MustCompile(`(\]\(|(?:src|srcset)=")([^):"#]*)(#[^)"]*)?`)

// absolute makes links of a page lead to the repository as it is at a tag.
func absolute(text, page, tag string) string {
	return relative.ReplaceAllStringFunc(text, func(link string) string {
		parts := relative.FindStringSubmatch(link)
		mark, path, anchor := parts[1], parts[2], parts[3]
		if strings.HasPrefix(path, "http") || path == "" && anchor == "" {
			return link
		}
		kind := "blob"
		if mark != "](" {
			kind = "raw"
		}
		to := page
		if path != "" {
			to = filepath.Join(filepath.Dir(page), path)
		}
		return fmt.Sprintf("%s%s/%s/%s/%s%s", mark, repository, kind, tag, to, anchor)
	})
}
