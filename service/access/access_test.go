package access_test

import (
	"strings"
	"testing"

	"github.com/stint-tasks/stint/service/access"
)

const grants = `
mailer:
  - verbs: [own]
    actions: ["mail/*", bill]
    actors: ["mailer-*"]
  - verbs: [own]
    actions: [post]
    actors: ["mailer-1"]
shop:
  - verbs: [insert, read, control]
    actions: ["mail/*", "bill"]
    ids: ["shop/*"]
auditor:
  - verbs: [read-bodies]
    actions: [bill, "ship"]
  - verbs: [read]
    actions: [mail/send]
operator:
  - verbs: [read-bodies]
    actions: ["mail/a*", bill]
    ids: [shop/1, "shop/2*"]
  - verbs: [control]
    actions: ["mail/*"]
  - verbs: [control]
    actions: [bill]
    ids: ["shop/*"]
root:
  - verbs: ["*"]
    actions: ["*"]
"*":
  - verbs: [metrics]
`

func parse(t *testing.T, text string) access.Grants {
	t.Helper()
	parsed, err := access.Parse([]byte(text))
	if err != nil {
		t.Fatalf("Parse = %v", err)
	}
	return parsed
}

func TestPrincipal_MayWhatIsGranted(t *testing.T) {
	t.Parallel()
	const read = access.Read
	all := parse(t, grants)
	mailer, shop := all.Principal("mailer"), all.Principal("shop")
	auditor, root, nobody := all.Principal("auditor"), all.Principal("root"), all.Principal("x")
	operator := all.Principal("operator")
	var anyone *access.Principal
	for _, c := range []struct {
		name      string
		got, want bool
	}{
		{"own for its actor", mailer.MayOwn("mailer-1", []string{"mail/send", "bill"}), true},
		{"own for another actor", mailer.MayOwn("other", []string{"mail/send"}), false},
		{"own another action", mailer.MayOwn("mailer-1", []string{"bill", "ship"}), false},
		{"own the beginning of an action", mailer.MayOwn("mailer-1", []string{"mail"}), false},
		{"own actions of two grants", mailer.MayOwn("mailer-1", []string{"post", "bill"}), true},
		{"own as another actor", mailer.MayOwn("mailer-2", []string{"post", "bill"}), false},
		{"own as its actor", mailer.MayOwn("mailer-1", nil), true},
		{"insert by the owner", mailer.May(access.Insert, "mail/send", "shop/1"), false},
		{"insert", shop.May(access.Insert, "mail/send", "shop/1"), true},
		{"insert another ID", shop.May(access.Insert, "mail/send", "other/1"), false},
		{"insert another action", shop.May(access.Insert, "bills", "shop/1"), false},
		{"control by ID alone", shop.MayByID(access.Control, "shop/1"), false},
		{"read bodies without the verb", shop.May(access.ReadBodies, "bill", "shop/1"), false},
		{"read with read-bodies", auditor.May(access.Read, "bill", "a"), true},
		{"list within the prefix", shop.MayList(read, []string{"bill", "mail/a"}, "shop/1"), true},
		{"list all of it", shop.MayList(read, []string{"bill"}, ""), false},
		{"list the beginning of the prefix", shop.MayList(read, []string{"bill"}, "sho"), false},
		{"list all actions", shop.MayList(read, nil, "shop/"), false},
		{"list with two grants", auditor.MayList(read, []string{"bill", "mail/send"}, ""), true},
		{"list all", auditor.MayList(read, nil, ""), false},
		{
			"read all of two actions", auditor.MayAllOf(access.Read, []string{"bill", "mail/send"}),
			true,
		},
		{"read all of another action", auditor.MayAllOf(access.Read, []string{"bill", "x"}), false},
		{"insert all, but some IDs only", shop.MayAllOf(access.Insert, []string{"bill"}), false},
		{"control all without the verb", auditor.MayAllOf(access.Control, []string{"bill"}), false},
		{"control what it reads", operator.MayWherever(access.Control, access.ReadBodies), true},
		{"read what it controls", operator.MayWherever(access.ReadBodies, access.Control), false},
		{"control what others read", auditor.MayWherever(access.Control, access.Read), false},
		{"insert what it controls", shop.MayWherever(access.Insert, access.Control), true},
		{"own as the first actor", mailer.As("mailer-1").May(access.Own, "post", ""), true},
		{"own as the second actor", mailer.As("mailer-2").May(access.Own, "post", ""), false},
		{"everything", root.MayList(read, nil, "") && root.MayByID(access.Control, "x") &&
			root.MayOwn("a", []string{"b"}) && root.Has(access.TaskStore), true},
		{"nothing", nobody.Has(access.Insert) || nobody.Has(access.Own) ||
			nobody.MayList(read, []string{"bill"}, "x") || nobody.MayOwn("", nil), false},
		{"what everybody may", nobody.Has(access.Metrics) && mailer.Has(access.Metrics), true},
		{"without a principal", anyone.Has(access.Own) && anyone.MayList(read, nil, "") &&
			anyone.MayByID(access.Read, "a") && anyone.As("a").Has(access.Own) &&
			anyone.MayWherever(access.Control, access.Read), true},
	} {
		if c.got != c.want {
			t.Errorf("%s: %v, want %v", c.name, c.got, c.want)
		}
	}
	names, ok := auditor.ActionsOf(access.Read)
	if !ok || strings.Join(names, " ") != "bill ship mail/send" {
		t.Errorf("ActionsOf = %q, %v", names, ok)
	}
	if names, ok := shop.ActionsOf(access.Read); ok {
		t.Errorf("ActionsOf of a principal with IDs = %q", names)
	}
}

func TestParse_RefusesWhatMayMeanSomethingElse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`a: [{verbs: [own]}]`:                                       `"own" needs actions`,
		`a: [{actions: ["*"]}]`:                                     "verbs are missing",
		`a: [{verbs: [owns], actions: ["*"]}]`:                      `there is no verb "owns"`,
		`a: [{verbs: [read], actions: ["*mail"]}]`:                  "star at its end",
		`a: [{verbs: [read], actions: [""]}]`:                       "must be a name",
		`a: [{verbs: [own], actions: ["*"], ids: [x]}]`:             "cannot be narrowed by ids",
		`a: [{verbs: ["*"], actions: ["*"], ids: [x]}]`:             "cannot be narrowed by ids",
		`a: [{verb: [read], actions: ["*"]}]`:                       "verb",
		"a: [{verbs: [metrics]}]\na: [{verbs: [metrics]}]":          "already defined",
		"a: [{verbs: [metrics]}]\n---\nb: [{verbs: [taskstore]}]\n": "more than one document",
		`[]`: "grants",
	} {
		_, err := access.Parse([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%q) = %v, want %q", text, err, want)
		}
	}
	if empty := parse(t, ""); empty.Principal("a").Has(access.Read) {
		t.Error("no grants allow reading")
	}
}

// Whatever is in a file, whoever may do something everywhere may do it on each task, and nobody may
// do what no grant has.
func FuzzParse(f *testing.F) {
	f.Add([]byte(grants), "mail/send", "shop/1")
	f.Add([]byte(`"*": [{verbs: ["*"], actions: ["*"]}]`), "*", "")
	f.Add([]byte("a: &a [{verbs: [read], actions: [x], ids: [y]}]\nb: *a"), "x", "y")
	f.Fuzz(func(t *testing.T, text []byte, action, id string) {
		parsed, err := access.Parse(text)
		if err != nil {
			return
		}
		for name := range parsed {
			p := parsed.Principal(name)
			for _, verb := range []access.Verb{access.Insert, access.Read, access.Control} {
				may := p.May(verb, action, id)
				for what, implies := range map[string]bool{
					"MayAll":   p.MayAll(verb),
					"MayByID":  p.MayByID(verb, id),
					"MayAllOf": p.MayAllOf(verb, []string{action}),
					"MayBelow": action != "*" && p.MayBelow(verb, action, id),
					"MayWherever": p.May(access.Answer, action, id) &&
						p.MayWherever(verb, access.Answer),
				} {
					if implies && !may {
						t.Errorf("%s of %s by %+v does not allow %q on %q", what, verb, p, action,
							id)
					}
				}
				if may && (!p.Has(verb) || !p.MayEver(verb, id)) {
					t.Errorf("%+v may %s %q, but nothing", p, verb, id)
				}
			}
		}
	})
}
