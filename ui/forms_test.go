package ui_test

import (
	"encoding/xml"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stint-tasks/stint/ui"
)

// everything is what somebody may do who may do everything.
func everything(*http.Request, ui.Verb) bool { return true }

// open are options by which everybody may do everything.
func open() ui.Options {
	return ui.Options{Authorize: everything, Logger: slog.New(slog.DiscardHandler)}
}

// A sentForm is a form of a page, with the values that a browser would send.
type sentForm struct {
	action, method string
	values         url.Values
	boxes          []string // the values of its boxes that can be checked
	buttons        []string
	names          map[string]string // the types of its fields by their names
	hidden         map[string]bool   // the names of those that nobody sees
}

// formsOf are the forms of a page that are sent by POST.
func formsOf(t *testing.T, page string) (forms []sentForm) {
	t.Helper()
	for _, form := range allForms(t, page) {
		if form.method == "post" {
			forms = append(forms, form)
		}
	}
	return forms
}

// allForms are the forms of a page.
func allForms(t *testing.T, page string) (forms []sentForm) {
	t.Helper()
	decoder := xml.NewDecoder(strings.NewReader(strings.Map(inXML, page)))
	decoder.Strict, decoder.AutoClose, decoder.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	var form *sentForm
	chosen, area := "", ""
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return forms
		}
		wantNil(t, err)
		if end, ok := token.(xml.EndElement); ok && end.Name.Local == "form" {
			if form != nil {
				forms = append(forms, *form)
			}
			form = nil
		}
		if end, ok := token.(xml.EndElement); ok && end.Name.Local == "textarea" {
			area = ""
		}
		if typed, ok := token.(xml.CharData); ok && area != "" {
			form.values.Set(area, strings.TrimPrefix(string(typed), "\n"))
		}
		start, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		attrs := map[string]string{}
		for _, a := range start.Attr {
			attrs[a.Name.Local] = a.Value
		}
		switch name := attrs["name"]; {
		case start.Name.Local == "form":
			form = &sentForm{
				action: attrs["action"], method: attrs["method"], values: url.Values{},
				names: map[string]string{}, hidden: map[string]bool{},
			}
		case form == nil:
		case start.Name.Local == "button":
			form.buttons = append(form.buttons, attrs["value"])
		case start.Name.Local == "select":
			chosen, form.names[name] = name, "select"
		case start.Name.Local == "datalist":
			chosen = ""
		case start.Name.Local == "option" && chosen == "":
		case start.Name.Local == "option":
			if _, ok := attrs["selected"]; ok || !form.values.Has(chosen) {
				form.values.Set(chosen, attrs["value"])
			}
		case attrs["type"] == "checkbox" || attrs["type"] == "radio":
			form.names[name] = attrs["type"]
			if _, ok := attrs["checked"]; ok {
				form.values.Add(name, attrs["value"])
			}
			if attrs["type"] == "checkbox" && name != "" {
				form.boxes = append(form.boxes, attrs["value"])
			}
		case start.Name.Local == "input" || start.Name.Local == "textarea":
			form.names[name], form.hidden[name] = start.Name.Local, attrs["type"] == "hidden"
			form.values.Add(name, attrs["value"])
			if start.Name.Local == "textarea" {
				area = name
			}
		}
	}
}

// formWith is the form of a page with a button of that name.
func formWith(t *testing.T, page, button string) sentForm {
	t.Helper()
	for _, form := range formsOf(t, page) {
		for _, value := range form.buttons {
			if value == button {
				form.values.Set("do", button)
				return form
			}
		}
	}
	t.Fatalf("no form with the button %q on\n%s", button, page)
	return sentForm{}
}

// fillIn is the form of a page that asks how something is to be.
func fillIn(t *testing.T, page string) sentForm {
	t.Helper()
	for _, form := range formsOf(t, page) {
		if form.action == "preview" && form.values.Has("at") {
			return form
		}
	}
	t.Fatalf("there is nothing to fill in on\n%s", page)
	return sentForm{}
}

// send sends a form, with some of its values changed: those of fields that it has.
func send(t *testing.T, h http.Handler, form sentForm, changed ...string) *http.Response {
	t.Helper()
	for i := 0; i < len(changed); i += 2 {
		name, value := changed[i], changed[i+1]
		switch form.names[name] {
		case "":
			t.Fatalf("the form has no field %q: %v", name, form.names)
		case "checkbox":
			if form.values.Del(name); value == "" {
				continue
			}
		}
		form.values.Set(name, value)
	}
	return post(t, h, "/"+form.action, form.values.Encode())
}

func post(t *testing.T, h http.Handler, target, content string, headers ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, target,
		strings.NewReader(content))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

// previewOf is what a form says before it changes anything.
func previewOf(t *testing.T, h http.Handler, form sentForm, changed ...string) string {
	t.Helper()
	response := send(t, h, form, changed...)
	page := body(t, response)
	if response.StatusCode != http.StatusOK {
		t.Fatalf("the preview: %s\n%s", response.Status, page)
	}
	parse(t, page)
	return page
}

// agreement is the form of a preview.
func agreement(t *testing.T, page string) sentForm {
	t.Helper()
	for _, form := range formsOf(t, page) {
		if form.action == "change" {
			return form
		}
	}
	t.Fatalf("there is nothing to agree to on\n%s", page)
	return sentForm{}
}

// agree agrees to a preview, and returns the page to which that leads.
func agree(t *testing.T, h http.Handler, page string, changed ...string) string {
	t.Helper()
	response := send(t, h, agreement(t, page), changed...)
	location := response.Header.Get("Location")
	if response.StatusCode != http.StatusSeeOther || !strings.HasPrefix(location, "./") {
		t.Fatalf("the change: %s, to %q\n%s", response.Status, location, body(t, response))
	}
	told := text(t, h, location[1:])
	parse(t, told)
	return told
}

// sentenceOf is the sentence in which a page says what would change, or has changed.
func sentenceOf(t *testing.T, page string) string {
	t.Helper()
	for _, element := range []string{`<p class="would">`, "<h1>"} {
		if _, rest, ok := strings.Cut(page, element); ok {
			said, _, _ := strings.Cut(rest, "</")
			return said
		}
	}
	t.Fatalf("no sentence on\n%s", page)
	return ""
}
