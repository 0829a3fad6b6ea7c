package doctor

import "testing"

// Proves G91.
func TestSecurityFindings_TellFromWhomRowsAreHidden(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		tables []secured
		want   []string
	}{
		"none": {nil, nil},
		"this role": {
			[]secured{{"ready", true, true}, {"tasks", true, false}},
			[]string{`error: ready, tasks, and applies to this role: stores fail`},
		},
		"all kinds": {
			[]secured{{"leased", false, true}, {"ready", true, false}, {"tasks", false, false}},
			[]string{
				`error: ALTER TABLE "mine"."ready" DISABLE ROW LEVEL SECURITY, or if`,
				`warning: leased, and applies to all roles but superusers`,
				`note: tasks, and applies to all roles but the owner`,
			},
		},
	} {
		wantFindings(t, name, securityFindings("mine", test.tables), test.want...)
	}
}
