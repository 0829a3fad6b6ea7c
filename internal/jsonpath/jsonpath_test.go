package jsonpath_test

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/internal/jsonpath"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

func TestMain(m *testing.M) { testdb.Main(m) }

//go:embed matches.sql
var matches string

// pairs are random documents and paths.
type pairs struct {
	*rand.Rand
}

func (p pairs) one(of ...string) string { return of[p.IntN(len(of))] }

func (p pairs) scalar() string {
	return p.one("0", "1", "-1", "1.0", "10e-1", "0.1e1", "2", "-2.5", "100", "1e2", "1e400",
		"-1e400", "12345678901234567890.1", "12345678901234567890.2", "0.001", "-0", "true",
		"false", "null", `"a"`, `"ab"`, `"b"`, `""`, `"1"`, `"\u0061b"`, `"\ud83d\ude00"`,
		`"\uffff"`, `"ü"`, `"a\"b"`, `"\\"`)
}

func (p pairs) space() string { return p.one("", "", "", " ", "\t\n") }

func (p pairs) document(depth int) string {
	kind := p.IntN(3)
	if depth == 0 || kind == 0 {
		return p.scalar()
	}
	var parts []string
	for range p.IntN(4) {
		part := p.space() + p.document(depth-1) + p.space()
		if kind == 1 {
			part = p.space() + p.one(`"a"`, `"b"`, `"c d"`, `"\u0061"`, `""`) + p.space() + ":" +
				part
		}
		parts = append(parts, part)
	}
	if kind == 1 {
		return "{" + p.space() + strings.Join(parts, ",") + "}"
	}
	return "[" + p.space() + strings.Join(parts, ",") + "]"
}

func (p pairs) path(root string, depth int) string {
	for range p.IntN(4) {
		root += p.one(".a", ".b", `."c d"`, `.""`, " . a", ".ü", ".exists", "[*]", "[0]", "[1]",
			"[ 2 ]", ".a", "[*]", ".b")
		if depth > 0 && p.IntN(3) == 0 {
			root += p.space() + "?" + p.space() + "(" + p.condition("@", depth-1) + ")"
		}
	}
	return root
}

func (p pairs) condition(root string, depth int) string {
	kind := p.IntN(8)
	if depth <= 0 {
		kind = 7
	}
	switch kind {
	case 0:
		return p.condition(root, depth-1) + p.space() + "&&" + p.condition(root, depth-1)
	case 1:
		return p.condition(root, depth-1) + "||" + p.space() + p.condition(root, depth-1)
	case 2:
		return "(" + p.condition(root, depth-1) + ")"
	case 3:
		return "!" + p.space() + "(" + p.condition(root, depth-1) + ")"
	case 4:
		return p.one("", "!") + "exists (" + p.path(root, depth-1) + ")"
	case 5:
		return p.path(root, depth-1) + " starts with " + p.one(`"a"`, `""`, `"\u0061"`)
	}
	return p.path(root, depth-1) + p.space() + p.one("==", "!=", "<>", "<", "<=", ">", ">=") +
		p.space() + p.scalar()
}

// Whatever is searched for by whatever path, PostgreSQL finds the same.
// Proves G336.
func TestMatches_AsPostgreSQLDoes(t *testing.T) {
	t.Parallel()
	pool := testdb.NewEmpty(t)
	const atOnce = 1000
	random := pairs{rand.New(rand.NewPCG(1, 2))}
	found := 0
	for range testrun.Rounds(100) {
		var documents, paths []string
		var conditions, got []bool
		for len(documents) < atOnce {
			document, path, isCondition := random.document(3), "", random.IntN(4) > 0
			if isCondition {
				path = random.condition("$", 3)
			} else {
				path = random.path("$", 3)
			}
			if len(path) > jsonpath.BytesMax {
				continue
			}
			parsed, err := jsonpath.Parse(path)
			if err != nil {
				t.Fatalf("Parse(%q): %v", path, err)
			}
			documents, paths = append(documents, document), append(paths, path)
			conditions = append(conditions, isCondition)
			got = append(got, parsed.Matches([]byte(" "+document+"\n")))
		}
		rows, err := pool.Query(t.Context(), matches, documents, paths, conditions)
		if err != nil {
			t.Fatal(err)
		}
		want, err := pgx.CollectRows(rows, pgx.RowTo[bool])
		if err != nil || len(want) != len(got) {
			t.Fatalf("%d of %d: %v", len(want), len(got), err)
		}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("%s matches %q: %v, with PostgreSQL %v", documents[i], paths[i], got[i],
					want[i])
			}
			if want[i] {
				found++
			}
		}
	}
	t.Logf("%d pairs match", found)
}

// What means something else to PostgreSQL, or nothing, is refused, and the refusal says where.
func TestParse_RefusesOthers(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"":                                  "must not end without a path that begins with $",
		"customer.id":                       `begins with $ at "customer.id"`,
		"$.":                                "must not end without a name",
		"$.a b":                             `such as == 7 or starts with "a", at "b"`,
		"$.a = 1":                           `at "= 1"`,
		"$.a ==":                            "must not end without a string, a number",
		"$.a == b":                          "a string, a number, true, false or null at",
		"$.a == $.b":                        `null at "$.b"`,
		"$.a == 'x'":                        `null at "'x'"`,
		"$.a == 01":                         `at "1"`,
		"$.a == 1a":                         "&&, || or its end",
		`$.a == "x`:                         "a string of JSON",
		`$.a == "\u0000"`:                   "a string of JSON",
		`$.a == "\ud800"`:                   "a string of JSON",
		"$.a == 1 && $.b":                   "must not end without a comparison",
		"$.a == 1 &&":                       "must not end without a path",
		"$.a == 1 $.b == 1":                 "&&, || or its end",
		"($.a == 1":                         "must not end without )",
		"!$.a == 1":                         "must have (",
		"exists($.a == 1)":                  "must have )",
		"$.a[-1]":                           "* or a number",
		"$.a[last]":                         "* or a number",
		"$.a[1":                             "must not end without ]",
		"$.*":                               "a name, in quotes if it has other characters",
		"$.a-b == 1":                        `at "-b == 1"`,
		"$.size() > 1":                      `at "() > 1"`,
		"$name == 1":                        `at "name == 1"`,
		"@.a == 1":                          "begins with $",
		"$ ? ($.a == 1)":                    "begins with @",
		"$ ? (@.a)":                         "a comparison",
		"strict $.a":                        "begins with $",
		`$.a like_regex "x"`:                "a comparison",
		"$.a starts":                        "must not end without with",
		"$.a starts with 1":                 "a string of JSON",
		"$.\xff":                            "must be valid UTF-8",
		"$." + strings.Repeat("a", 511):     "513 bytes exceed the limit of 512",
		"$.a == 1 || \n" + `"x" == "` + "y": "a path",
	} {
		if _, err := jsonpath.Parse(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%q) = %v, want %q", path, err, want)
		}
	}
}

// Whatever bytes a body has, and whatever somebody searches for, the answer is yes or no, and no
// for what is not JSON.
// Proves G336.
func FuzzMatches(f *testing.F) {
	f.Add([]byte(`{"a": [1, {"b": "x"}]}`), `$.a[*] ? (@.b == "x").b starts with "x"`)
	f.Add([]byte("{\"a\": \"\xff\"}"), `exists($.a) || $.a != null`)
	f.Add([]byte(`{"a": 1e99999999999999999999, "a": -0.0e-99999999999999999999}`), "$.a <= -1.5e3")
	f.Add([]byte(strings.Repeat("[", 20_000)+strings.Repeat("]", 20_000)), "$[0][0]")
	f.Add([]byte(`"\ud800"`), `!($ == "\n")`)
	f.Fuzz(func(t *testing.T, body []byte, text string) {
		path, err := jsonpath.Parse(text)
		if err != nil {
			return
		}
		if path.Matches(body) && !json.Valid(body) {
			t.Errorf("%q matches %q, which is not JSON", text, body)
		}
	})
}

// A search takes no more time than its length allows, whatever a body has been made for.
func BenchmarkMatches(b *testing.B) {
	const size = 1 << 20
	for _, text := range []string{
		"$.customer.id == 7", strings.TrimSuffix(strings.Repeat("$[*].a==1&&", 46), "&&"),
		"$" + strings.Repeat("[*]", 170), "$" + strings.Repeat("?(@.a==1||exists(@", 20) +
			strings.Repeat("))", 20),
	} {
		path, err := jsonpath.Parse(text)
		if err != nil {
			b.Fatal(err)
		}
		for name, body := range map[string]string{
			"object":  `{"customer": {"id": 7}, "text": "` + strings.Repeat("x", size) + `"}`,
			"numbers": "[" + strings.Repeat("1,", size/2) + "1]",
			"objects": "[" + strings.Repeat(`{"a":1},`, size/8) + "1]",
		} {
			b.Run(fmt.Sprintf("%.20s/%s", text, name), func(b *testing.B) {
				b.SetBytes(int64(len(body)))
				for b.Loop() {
					path.Matches([]byte(body))
				}
			})
		}
	}
}
