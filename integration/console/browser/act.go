package browser

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// clickable is why an element cannot be clicked, or where.
type clickable struct {
	Why string  `json:"why"`
	X   float64 `json:"x"`
	Y   float64 `json:"y"`
}

// whereToClick scrolls to an element and says where it can be hit. From then on the page notes whether
// a click hits it, or what has taken its place and looks the same.
const whereToClick = `function() {
	const e = this.nodeType === Node.ELEMENT_NODE ? this : this.parentElement;
	if (e.matches(":disabled") || e.getAttribute("aria-disabled") === "true") return {why: "it is disabled"};
	e.scrollIntoView({block: "nearest", inline: "nearest", behavior: "instant"});
	let r = e.getBoundingClientRect();
	if (r.top < 80 || r.bottom > innerHeight - 80) e.scrollIntoView({block: "center", behavior: "instant"});
	r = [...e.getClientRects()].find((r) => r.width > 0 && r.height > 0);
	if (!r) return {why: "it has no size"};
	const x = r.left + r.width / 2, y = r.top + r.height / 2;
	const hit = document.elementFromPoint(x, y);
	if (!hit || !(e.contains(hit) || hit.contains(e) || hit.closest("label")?.control === e))
		return {why: "something else is in front of it: " + (hit?.outerHTML.slice(0, 100) ?? "nothing")};
	window.seqdClick = "awaited";
	document.addEventListener("click", (c) => {
		window.seqdClick = c.target === hit || e.contains(c.target) || c.target.outerHTML === hit.outerHTML ? "hit" : "missed";
	}, {capture: true, once: true});
	return {why: "", x, y};
}`

// missedClick is true if the click went elsewhere, as when the page was drawn anew meanwhile and its
// parts have moved. Another page knows nothing of a click that led to it.
const missedClick = `["awaited", "missed"].includes(window.seqdClick)`

// Click clicks the only element that has a role and a name, once it can be clicked.
func (s *Scope) Click(roles, name string) {
	s.page.t.Helper()
	s.page.poll(fmt.Sprintf("click %s %q", roles, name), func() error {
		e, err := s.one(roles, name)
		if err != nil {
			return err
		}
		return s.page.click(e)
	})
}

// TryClick is like Click, but does nothing if there is no such element that can be clicked now.
func (s *Scope) TryClick(roles, name string) {
	if e, err := s.one(roles, name); err == nil {
		_ = s.page.click(e)
	}
}

func (p *Page) click(e Element) error {
	object, err := p.resolve(e)
	if err != nil {
		return err
	}
	var at clickable
	if err := p.callOn(object, whereToClick, &at); err != nil {
		return err
	}
	if at.Why != "" {
		return errors.New(at.Why)
	}
	if err := p.try(chromedp.MouseClickXY(at.X, at.Y)); err != nil {
		return err
	}
	var missed bool
	if err := p.try(chromedp.Evaluate(missedClick, &missed)); err == nil && missed { // an error: it led to another page
		return errors.New("the click did not hit it")
	}
	return nil
}

// Type replaces the content of the field that has a label, as somebody who types it.
func (s *Scope) Type(label, text string) {
	s.page.t.Helper()
	s.page.poll("type into "+label, func() error {
		e, err := s.one(fields, label)
		if err != nil {
			return err
		}
		if err := s.page.click(e); err != nil {
			return err
		}
		object, err := s.page.resolve(e)
		if err != nil {
			return err
		}
		var focused bool
		if err := s.page.callOn(object, `function() { this.select?.(); return document.activeElement === this; }`, &focused); err != nil {
			return err
		}
		if !focused {
			return errors.New("it does not get the focus")
		}
		if text == "" {
			return s.page.try(stroke(kb.Backspace, false)...)
		}
		return s.page.try(input.InsertText(text))
	})
}

// Choose chooses an option of the list that has a label, by its text, in which * stands for any
// characters.
func (s *Scope) Choose(label, option string) {
	s.page.t.Helper()
	s.page.poll(fmt.Sprintf("choose %s of %s", option, label), func() error {
		e, err := s.one("combobox|listbox", label)
		if err != nil {
			return err
		}
		object, err := s.page.resolve(e)
		if err != nil {
			return err
		}
		var options []string
		if err := s.page.callOn(object, `function() { return this.disabled ? [] : [...this.options].map((o) => o.text); }`, &options); err != nil {
			return err
		}
		wanted := slices.IndexFunc(options, func(text string) bool { return fits(option, strings.TrimSpace(text)) })
		if wanted < 0 {
			return fmt.Errorf("there are %q", options)
		}
		return s.page.callOn(object, fmt.Sprintf(`function() {
			this.focus();
			this.selectedIndex = %d;
			this.dispatchEvent(new Event("input", {bubbles: true}));
			this.dispatchEvent(new Event("change", {bubbles: true}));
		}`, wanted), nil)
	})
}

// Value returns what is in the field that has a label.
func (s *Scope) Value(label string) string {
	s.page.t.Helper()
	var value string
	s.page.poll("the value of "+label, func() error {
		e, err := s.one(fields, label)
		if err != nil {
			return err
		}
		object, err := s.page.resolve(e)
		if err != nil {
			return err
		}
		return s.page.callOn(object, `function() { return this.type === "checkbox" ? String(this.checked) : this.value; }`, &value)
	})
	return value
}

var keys = map[string]string{
	"Tab": kb.Tab, "Enter": kb.Enter, "Escape": kb.Escape, "Space": " ", "ArrowDown": kb.ArrowDown, "ArrowUp": kb.ArrowUp,
	"ArrowLeft": kb.ArrowLeft, "ArrowRight": kb.ArrowRight, "Home": kb.Home, "End": kb.End, "Backspace": kb.Backspace,
}

// Press presses keys one after the other, such as Tab, Shift+Tab, Enter, Escape, Space, ArrowDown,
// or a letter.
func (p *Page) Press(names ...string) {
	p.t.Helper()
	for _, name := range names {
		plain, shift := strings.CutPrefix(name, "Shift+")
		key, known := keys[plain]
		if !known {
			key = plain
		}
		p.run("press "+name, stroke(key, shift)...)
	}
}

// stroke presses and releases a key. What the key writes is part of its press, so that a page that
// prevents the one prevents the other.
func stroke(key string, shift bool) []chromedp.Action {
	events := kb.Encode([]rune(key)[0])
	down, up := events[0], events[len(events)-1]
	if shift {
		down.Modifiers |= input.ModifierShift
		up.Modifiers |= input.ModifierShift
	}
	if len(events) == 3 && !shift {
		down.Type, down.Text, down.UnmodifiedText = input.KeyDown, events[1].Text, events[1].UnmodifiedText
	}
	return []chromedp.Action{down, up}
}

// Write types text with the keyboard into what has the focus.
func (p *Page) Write(text string) {
	p.t.Helper()
	p.run("write "+text, input.InsertText(text))
}

// Focused returns what has the focus.
func (p *Page) Focused() Element {
	p.t.Helper()
	var found Element
	p.run("look for the focus", chromedp.ActionFunc(func(ctx context.Context) error {
		active, exception, err := runtime.Evaluate("document.activeElement").Do(ctx)
		if err != nil {
			return err
		}
		if exception != nil {
			return exception
		}
		nodes, err := nodesOf(ctx, accessibility.CommandGetPartialAXTree, accessibility.GetPartialAXTree().WithObjectID(active.ObjectID).WithFetchRelatives(false))
		if err != nil || len(nodes) == 0 {
			return err
		}
		found = element(nodes[0])
		return nil
	}))
	return found
}
