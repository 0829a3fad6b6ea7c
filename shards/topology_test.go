package shards_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/shards"
)

func TestParseTopology_ReadsBothForms(t *testing.T) {
	t.Parallel()
	static, err := shards.ParseTopology(
		"static:1=postgres://a:5432,b:5433/x?target_session_attrs=read-write, eu-2=http://c/")
	wantErr(t, "ParseTopology", err, nil)
	if got := static.Names(); !slices.Equal(got, []string{"1", "eu-2"}) {
		t.Errorf("Names = %q", got)
	}
	pattern, err := shards.ParseTopology("pattern:postgres://{shard}.db/{shard}")
	wantErr(t, "ParseTopology", err, nil)
	for _, c := range []struct {
		topology    shards.Topology
		shard, want string
		err         error
	}{
		{static, "1", "postgres://a:5432,b:5433/x?target_session_attrs=read-write", nil},
		{static, "eu-2", "http://c/", nil},
		{static, "3", "", shards.ErrUnknownShard},
		{pattern, "us", "postgres://us.db/us", nil},
		{pattern, "a/b", "", stint.ErrInvalidArgument},
		{pattern, "", "", stint.ErrInvalidArgument},
		{pattern, "evil.example", "", stint.ErrInvalidArgument},
		{pattern, "10.0.0.5", "", stint.ErrInvalidArgument},
	} {
		if got, err := c.topology.URL(c.shard); got != c.want || !errors.Is(err, c.err) {
			t.Errorf("URL(%q) = %q, %v, want %q, %v", c.shard, got, err, c.want, c.err)
		}
	}
}

func TestParseTopology_ReadsFiles(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "shards")
	for text, want := range map[string]string{
		"# two\n\n  1 = postgres://u:p@a/x?a=b,c=d\r\n2=http://b": "postgres://u:p@a/x?a=b,c=d",
		"static:1=postgres://a,2=http://b\n":                      "postgres://a",
		"pattern:postgres://a/{shard}":                            "postgres://a/1",
	} {
		wantErr(t, "WriteFile", os.WriteFile(file, []byte(text), 0o600), nil)
		topology, err := shards.ParseTopology("file:" + file)
		wantErr(t, "ParseTopology", err, nil)
		if got, err := topology.URL("1"); err != nil || got != want {
			t.Errorf("%q: URL = %q, %v, want %q", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", "#", "secret", "1=", "1=a\n1=b", "static:secret", "pattern:secret", "file:" + file,
		"1=a\npattern:secret",
	} {
		wantErr(t, "WriteFile", os.WriteFile(file, []byte(text), 0o600), nil)
		_, err := shards.ParseTopology("file:" + file)
		if !errors.Is(err, stint.ErrInvalidArgument) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: ParseTopology = %v", text, err)
		}
	}
}

func TestParseTopology_RefusesWhatIsNone(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "static:", "static:postgres://a", "static:1=", "static:1=a,1=b", "pattern:postgres://a",
		"1=a", "static:x,1=a", "static:1=a,2=a", "file:", "file:/nowhere",
	} {
		if _, err := shards.ParseTopology(text); !errors.Is(err, stint.ErrInvalidArgument) {
			t.Errorf("ParseTopology(%q) = %v", text, err)
		}
	}
}

func TestID_IsReadAsItIsWritten(t *testing.T) {
	t.Parallel()
	id := shards.ID{Shard: "eu", Task: "mail/7"}
	if got, err := shards.ParseID(id.String()); err != nil || got != id {
		t.Errorf("ParseID(%q) = %v, %v", id, got, err)
	}
	for _, text := range []string{"", "eu", "eu/", "/a", "e u/a"} {
		if _, err := shards.ParseID(text); !errors.Is(err, stint.ErrInvalidArgument) {
			t.Errorf("ParseID(%q) = %v", text, err)
		}
	}
	for _, own := range []stint.TaskID{"mail/7", "stint.remote/eu", "stint.remote/x"} {
		if of, ok := shards.StandsFor(own); ok {
			t.Errorf("%q stands for %v", own, of)
		}
	}
}

// Callers of a service choose the names of shards, and must not choose hosts by them.
func TestParseTopology_OfAPatternLeadsToHostsOfTheOperatorOnly(t *testing.T) {
	t.Parallel()
	for pattern, fine := range map[string]bool{
		"https://{shard}.tasks.internal:7330":      true,
		"https://stint-{shard}:7330":               true,
		"https://{shard}-stint/":                   true,
		"https://{shard}-x.tasks.internal":         true,
		"postgres://u:p@db-{shard},spare-{shard}/": true,
		"postgres://{shard}:p@db/{shard}":          true,
		"host=db dbname={shard}":                   true,
		"postgres://db/{shard}?stint_schema=x":     true,
		"https://{shard}":                          false,
		"https://{shard}:7330":                     false,
		"https://{shard}.:7330":                    false,
		"https://db.{shard}/":                      false,
		"https://db-{shard}.{shard}":               false,
		"https://{shard}{shard}":                   false,
		"https://10.0.0.{shard}":                   false,
		"postgres://u:p@db,{shard}/x":              false,
		"postgres://u:p@{shard}:5432/x":            false,
		"postgres:///x?host={shard}":               false,
		"postgres:///x?a=b&HostAddr={shard}":       false,
		"dbname=x host = {shard}":                  false,
	} {
		_, err := shards.ParseTopology("pattern:" + pattern)
		if fine && err != nil || !fine && !errors.Is(err, stint.ErrInvalidArgument) {
			t.Errorf("ParseTopology of the pattern %q = %v", pattern, err)
		}
	}
}
