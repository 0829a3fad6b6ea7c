package doctor

import "testing"

// Proves G296.
func TestEncodingFindings_TellWhoReadsOtherTexts(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		found    encodings
		reported string
		want     []string
	}{
		"none":            {encodings{"UTF8", "UTF8", nil}, "UTF8", nil},
		"behind a pooler": {encodings{"UTF8", "UTF8", nil}, "", nil},
		"the database": {
			encodings{"LATIN1", "UTF8", nil}, "UTF8", []string{"error: the database is in LATIN1"},
		},
		"this role": {
			encodings{"UTF8", "WIN1251", []string{"me has client_encoding=WIN1251"}},
			"UTF8",
			[]string{
				"warning: client_encoding of a connection like this one is WIN1251",
				"warning: me has client_encoding=WIN1251, by a setting",
			},
		},
		"this connection": {
			encodings{"UTF8", "UTF8", nil},
			"LATIN1",
			[]string{"warning: client_encoding of a connection like this one is LATIN1"},
		},
	} {
		wantFindings(t, name, encodingFindings(test.found, test.reported), test.want...)
	}
}
