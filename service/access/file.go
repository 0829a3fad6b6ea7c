package access

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v4"
)

// everybody is the name under which a file grants something to all principals.
const everybody = "*"

// Grants are the grants of principals by their names.
type Grants map[string][]Grant

// Parse reads grants in YAML, which may be JSON:
//
//	mailer:
//	  - verbs: [own]
//	    actions: ["mail/*"]
//	    actors: ["mailer-*"]
//	shop:
//	  - verbs: [insert, read, control]
//	    actions: ["mail/*", "bill"]
//	    ids: ["shop/*"]
//	"*":
//	  - verbs: [metrics]
//
// What stands under "*" is granted to every principal, also to those that are not named.
func Parse(text []byte) (Grants, error) {
	var grants Grants
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	err := decoder.Decode(&grants)
	if err == nil {
		var more any
		if err = decoder.Decode(&more); err == nil {
			err = errors.New("there is more than one document in the file")
		}
	}
	if !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("grants: %w", err)
	}
	for name, list := range grants {
		for i := range list {
			if err := list[i].Check(); err != nil {
				return nil, fmt.Errorf("grant %d of %q: %w", i+1, name, err)
			}
		}
	}
	return grants, nil
}

// Principal returns the principal of a name. One without grants may do nothing.
func (g Grants) Principal(name string) *Principal {
	p := &Principal{Name: name}
	p.Grants = append(p.Grants, g[everybody]...)
	if name != everybody {
		p.Grants = append(p.Grants, g[name]...)
	}
	return p
}
