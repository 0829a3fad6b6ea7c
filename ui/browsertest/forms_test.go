//nolint:paralleltest // the tests share a browser, which shows one page at a time
package browsertest

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// A foundForm is a form of a page, with one of its buttons.
type foundForm struct {
	Page, Method, Action, Class, Do string
	Visible, Hidden                 []string // the names of its fields
	Scope                           string   // the folder of its page
	At                              string   `json:",omitempty"` // an address of its page
}

// key tells forms from others: what somebody sees in them, and what they send.
func (f foundForm) key() string {
	if f.Class == "find" { // it is on all pages
		f.Page = ""
	}
	f.At = ""
	text, err := json.Marshal(f)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// describer has a page describe a form: once for each of its buttons.
const describer = `window.described = (form) => {
	const names = (of) => [...new Set([...form.elements].filter(of).map((e) => e.name))].sort();
	const shown = (e) => e.name && e.type !== "hidden" && e.tagName !== "BUTTON";
	const does = [...form.querySelectorAll("button:not([type])")].map((b) => b.value);
	return (does.length ? does : [""]).map((Do) => ({
		Do, Method: form.method, Action: form.getAttribute("action").replace(/^.*\//, ""),
		Class: form.className, Visible: names(shown), Hidden: names((e) => e.type === "hidden"),
	}));
}`

// crawler follows the links of a page: of addresses that differ in values only the first ones, but
// those of some hundred tasks.
const crawler = `(async (start) => {
	const shapes = {}, forms = {}, queue = [start], seen = new Set();
	while (queue.length) {
		const at = queue.shift();
		const answer = await fetch(at);
		if (!answer.ok || !answer.headers.get("content-type").startsWith("text/html")) continue;
		const doc = new DOMParser().parseFromString(await answer.text(), "text/html");
		const Scope = at.pathname.replace(/[^/]*$/, ""), Page = at.pathname.slice(Scope.length);
		for (const one of [...doc.forms].flatMap(described)) {
			forms[JSON.stringify({...one, Scope, Page})] ??= {...one, Scope, Page, At: at.href};
		}
		for (const a of doc.querySelectorAll("a[href]:not([download])")) {
			const url = new URL(a.getAttribute("href"), at);
			url.hash = "";
			if (url.origin !== location.origin || seen.has(url.href)) continue;
			seen.add(url.href);
			const shape = url.pathname + "?" + [...new Set(url.searchParams.keys())].sort();
			shapes[shape] = (shapes[shape] ?? 0) + 1;
			const most = url.pathname.includes("/shard/") ? 20 : 200;
			if (shapes[shape] <= (url.pathname.endsWith("/task") ? most : 3)) queue.push(url);
		}
	}
	window.crawled = JSON.stringify(Object.values(forms));
})(new URL(location.href)).catch((error) => { window.crawled = "error: " + error; })`

// crawl finds the forms of all pages that links lead to from a page.
func (tab *tab) crawl(url string) (found []foundForm) {
	tab.t.Helper()
	tab.visit(url)
	tab.run(describer)
	tab.run("void " + crawler)
	tab.await("window.crawled")
	wantNil(tab.t, json.Unmarshal([]byte(eval[string](tab, "window.crawled")), &found))
	tab.mutex.Lock()
	defer tab.mutex.Unlock()
	tab.complaints = nil // of tasks that are gone, and of shards that are away
	return found
}

// A step fills in a form and sends it. The form is the first that the selector matches.
type step struct {
	form, do string
	fill     map[string]string // by the names of fields: what is typed, chosen, or checked
}

// forms is what is known of forms: where they were found, and which of their fields were filled.
type forms struct {
	tab    *tab
	found  map[string]foundForm
	filled map[string]map[string]bool // nil: the form was never sent
}

func (f *forms) add(scope string, all []foundForm) {
	for _, one := range all {
		if strings.HasPrefix(one.Scope, "/all/shard/") { // the same pages, of a store
			one.Scope = "/"
		}
		if one.Scope == scope {
			f.found[one.key()] = one
		}
	}
}

// take fills in the form of a step and sends it, once all that it says of the form is so.
func (f *forms) take(st step) {
	tab := f.tab
	tab.t.Helper()
	tab.run(describer)
	within := "document.querySelector(" + quoted(st.form) + ")"
	if !eval[bool](tab, within+" !== null") {
		tab.t.Fatalf("no form %s at %s:\n%s", st.form, eval[string](tab, "location.href"),
			eval[string](tab, `document.querySelector("main").innerText`))
	}
	var here []foundForm
	wantNil(tab.t, json.Unmarshal([]byte(eval[string](tab, `JSON.stringify(described(`+within+`).
		map((one) => {
			const Scope = location.pathname.replace(/[^/]*$/, "");
			return {...one, Scope, Page: location.pathname.slice(Scope.length)};
		}))`)), &here))
	at := slices.IndexFunc(here, func(one foundForm) bool { return one.Do == st.do })
	if at < 0 {
		tab.t.Fatalf("the form %s has no button %q: %+v", st.form, st.do, here)
	}
	if strings.HasPrefix(here[at].Scope, "/all/shard/") {
		here[at].Scope = "/"
	}
	key := here[at].key()
	f.found[key] = here[at]
	if f.filled[key] == nil {
		f.filled[key] = map[string]bool{}
	}
	for _, name := range slices.Sorted(maps.Keys(st.fill)) {
		f.filled[key][name] = true
		tab.fill(within, name, st.fill[name])
	}
	if !eval[bool](tab, within+".checkValidity()") {
		tab.t.Fatalf("the browser does not send %s with %v", st.form, st.fill)
	}
	tab.run("window.left = true")
	button := within + `.querySelector("button:not([type])")`
	if st.do != "" {
		button = within + `.querySelector('button[value="` + st.do + `"]')`
	}
	tab.run(`(` + button + ` ?? ` + within + `.elements[0]).focus()`)
	tab.do(chromedp.KeyEvent(kb.Enter))
	tab.await(`window.left === undefined && document.readyState === "complete"`)
}

// fill fills in a field: what can be typed is typed.
func (tab *tab) fill(within, name, value string) {
	tab.t.Helper()
	field := within + `.querySelector('[name="` + name + `"]:not([type=hidden])')`
	tab.run(field + `.closest("details")?.setAttribute("open", "")`)
	switch eval[string](tab, field+".type") {
	case "checkbox", "radio":
		if value != "*" { // any of them
			field = within + `.querySelector('[name="` + name + `"][value="` + value + `"]')`
		}
		tab.run(field + ".click()")
		if !eval[bool](tab, field+".checked") {
			tab.t.Fatalf("%s is not checked", name)
		}
		return
	case "select-one", "datetime-local":
		tab.run(field + ".value = " + quoted(value))
	default:
		tab.run(field + ".focus(); " + field + ".select()")
		tab.do(chromedp.KeyEvent(kb.Delete), chromedp.KeyEvent(value))
	}
	if got := eval[string](tab, field+".value"); got != value {
		tab.t.Fatalf("the field %s takes %q as %q", name, value, got)
	}
}

func quoted(value any) string {
	quote, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return string(quote)
}

// Each form of each page is filled in by hand and sent, with every field that it has, and the
// tables hold what was said. Forms are found by their links and in the templates: one that nobody
// fills in here, or a field of one, fails the test. The pages of all shards are left to the nightly
// run.
//
// Proves G310.
func TestForms_DoWhatTheySay(t *testing.T) {
	testrun.Long(t)
	s := newScene(t)
	s.fill(t)
	f := &forms{
		tab: open(t, look{}), found: map[string]foundForm{}, filled: map[string]map[string]bool{},
	}
	scopes := []*scope{{scene: s, folder: "/"}, {scene: s, folder: "/all/", shard: "eu/"}}
	for _, sc := range scopes[:testrun.Rounds(len(scopes))] {
		sc.insert(t)
		f.add(sc.folder, f.tab.crawl(s.url+sc.folder))
		for _, j := range journeys(sc) {
			if sc.shard != "" && j.alone {
				continue
			}
			t.Log(sc.folder, j.name)
			f.tab.visit(s.url + sc.folder + j.page)
			for _, st := range j.steps {
				f.take(st)
			}
			j.check(f.tab)
			f.tab.wantCalm(j.name)
		}
	}
	f.wantAllFilled(t)
	f.wantThoseOfTemplates(t)
}

// wantAllFilled checks that each form that was found was sent, and each of its fields filled in.
func (f *forms) wantAllFilled(t *testing.T) {
	t.Helper()
	for _, key := range slices.Sorted(maps.Keys(f.found)) {
		if f.filled[key] == nil {
			t.Errorf("nobody has sent the form %s, such as of %s", key, f.found[key].At)
			continue
		}
		for _, name := range f.found[key].Visible {
			if !f.filled[key][name] {
				t.Errorf("nobody has filled in %s of %s", name, key)
			}
		}
	}
}

// wantThoseOfTemplates checks that each form of the templates was sent, and that each field whose
// name they hold was filled in.
func (f *forms) wantThoseOfTemplates(t *testing.T) {
	t.Helper()
	files, err := filepath.Glob("../pages/*.html")
	wantNil(t, err)
	var (
		form  = regexp.MustCompile(`(?s)<form ([^>]*)>(.*?)</form>`)
		class = regexp.MustCompile(`class="([^"]*)"`)
		field = regexp.MustCompile(`<(?:input|select|textarea) [^>]*?\bname="([^"{]+)"`)
	)
	filled := map[string]bool{}
	for key := range f.filled {
		filled[f.found[key].Class] = true
		for name := range f.filled[key] {
			filled[f.found[key].Class+" "+name] = true
			filled["* "+name] = true
		}
	}
	n := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		wantNil(t, err)
		if strings.Count(string(text), "<form") != len(form.FindAllString(string(text), -1)) {
			t.Errorf("%s has forms that this test does not understand", file)
		}
		for _, found := range form.FindAllStringSubmatch(string(text), -1) {
			n++
			if strings.HasSuffix(found[1], " hidden") { // for the script, which goes on with it
				continue
			}
			name := ""
			if of := class.FindStringSubmatch(found[1]); of != nil {
				name = of[1]
			}
			if !filled[name] {
				t.Errorf("nobody has sent the form of %s: %s", file, found[1])
			}
			for _, of := range field.FindAllStringSubmatch(found[2], -1) {
				if !filled[name+" "+of[1]] {
					t.Errorf("nobody has filled in %s of the form of %s: %s", of[1], file, found[1])
				}
			}
		}
		for _, of := range field.FindAllStringSubmatch(string(text), -1) {
			if !filled["* "+of[1]] {
				t.Errorf("nobody has filled in %s of %s", of[1], file)
			}
		}
	}
	const known = 7 // fewer: they are not found any more
	if n < known {
		t.Errorf("%d forms in the templates", n)
	}
	t.Log(fmt.Sprint(n, " forms in the templates, ", len(f.found), " on pages"))
}
