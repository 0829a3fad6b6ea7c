package wire_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stint-tasks/stint/internal/wire"
)

// The page about HTTP names each kind of error that a service answers with.
func TestPages_NameEveryKindOfError(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/guides/http.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "| code | HTTP | kind |")
	table, _, _ = strings.Cut(table, "\n\n")
	all := append(wire.KindNames(), wire.Limited, "refused")
	for _, kind := range all {
		if !strings.Contains(table, "`"+kind+"`") {
			t.Errorf("docs/guides/http.md has no %s in its table of errors", kind)
		}
	}
	const atLeast = 15
	if len(all) < atLeast {
		t.Errorf("there are %d kinds, fewer than %d", len(all), atLeast)
	}
}
