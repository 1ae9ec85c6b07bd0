package oncetest

import (
	"slices"
	"strings"

	"github.com/oncekit/once"
)

func noteCases() []Case {
	return []Case{
		{Name: "Note/IsKept", Promise: "people see scope, key and request as they were given",
			needs: browses, run: noteKept},
		{Name: "Note/None", Promise: "a record needs no note", needs: browses, run: noteNone},
		{Name: "Note/IsCut", Promise: "a text of a note that is too long is cut, not refused, " +
			"and the claim works", needs: browses, run: noteCut},
		{Name: "Note/IsNoPartOfTheIdentity", Promise: "another note doesn't make another record",
			run: noteNoIdentity},
	}
}

func noteKept(k *kit) {
	c := claim("a")
	c.Note = once.Note{
		Scope: []string{"tenant \"1\"", "ünïcode", "a\x00b", "[1,2]"}, Key: "order-",
		Request: "POST /orders?a=b\n",
	}
	want := once.Note{
		Scope: slices.Clone(c.Note.Scope), Key: c.Note.Key, Request: c.Note.Request,
	}
	k.done(c, "done")
	got := k.record(c.Identity).Note
	if !slices.Equal(got.Scope, want.Scope) || got.Key != want.Key || got.Request != want.Request {
		k.Errorf("note %q, want %q", got, want)
	}
}

func noteNone(k *kit) {
	c := claim("a")
	c.Note = once.Note{}
	k.done(c, "done")
	if got := k.record(c.Identity).Note; len(got.Scope) != 0 || got.Key != "" || got.Request != "" {
		k.Errorf("note %q, want none", got)
	}
}

func noteCut(k *kit) {
	long := strings.Repeat("0123456789", 1000)
	exact := long[:once.MaxNoteText]
	c := claim("a")
	c.Note = once.Note{Scope: []string{"s", long, exact}, Key: long, Request: long}
	k.done(c, "done")
	got := k.record(c.Identity).Note
	if len(got.Scope) != 3 || got.Scope[0] != "s" || got.Scope[2] != exact {
		k.Fatalf("scope %.300q", got.Scope)
	}
	for _, text := range []string{got.Scope[1], got.Key, got.Request} {
		if len(text) < once.MaxNoteText || !strings.HasPrefix(long, text) {
			k.Errorf("a text of %d bytes is shown as %d bytes %.40q", len(long), len(text), text)
		}
	}
	if len(c.Note.Scope[1]) != len(long) {
		k.Error("the caller's list was changed")
	}
}

func noteNoIdentity(k *kit) {
	c := claim("a")
	k.done(c, "done")
	c = again(c)
	c.Note = once.Note{Scope: []string{"another"}, Key: "b", Request: "GET /"}
	k.wantReplay(c, kept("done"))
}
