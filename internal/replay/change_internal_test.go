package replay

import (
	"reflect"
	"testing"
)

func TestParseChange(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]change{
		"BEGIN": {kind: "BEGIN"},
		"COMMIT (at 2026-11-29 04:00:00.5+00)": {
			kind: "COMMIT", stamp: "2026-11-29 04:00:00.5+00",
		},
		`table stint.ready: INSERT: lo[bigint]:1 "position"[bigint]:-2 ` +
			`status[text]:'it''s [x]: new-tuple: y' actor[text]:null`: {
			kind: "INSERT", table: "ready",
			new: values{"lo": "1", "position": "-2", "status": "it's [x]: new-tuple: y"},
		},
		`table stint.leases: UPDATE: old-key: claim[bigint]:1 part[integer]:0 ` +
			`new-tuple: claim[bigint]:1 part[integer]:1 spans[bigint[]]:'{1,2}'`: {
			kind: "UPDATE", table: "leases", old: values{"claim": "1", "part": "0"},
			new: values{"claim": "1", "part": "1", "spans": "{1,2}"},
		},
		`table stint.finished: UPDATE: lo[bigint]:1 result[bytea]:unchanged-toast-datum`: {
			kind: "UPDATE", table: "finished", new: values{"lo": "1", "result": unknown},
		},
		"table stint.edges: DELETE: (no-tuple-data)":           {kind: "DELETE", table: "edges"},
		"table stint.tasks: TRUNCATE: (no-flags)":              {kind: "TRUNCATE", table: "tasks"},
		`table "other.schema".ready: INSERT: lo[bigint]:1`:     {},
		`table public.orders: INSERT: note[text]:'open quote`:  {},
		"message: transactional: 1 prefix: x, sz: 1 content:y": {},
	} {
		got, err := parseChange(line, "stint")
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("parseChange(%q) = %+v, %v, want %+v", line, got, err, want)
		}
	}
	for _, line := range []string{
		"table stint.ready: INSERT: lo", "table stint.ready: INSERT: lo[bigint]",
		"table stint.ready: INSERT: status[text]:'open", "table stint", `table "stint`,
	} {
		if got, err := parseChange(line, "stint"); err == nil {
			t.Errorf("parseChange(%q) = %+v, want an error", line, got)
		}
	}
}
