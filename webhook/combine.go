package webhook

import (
	"cmp"
	"slices"
	"strings"
)

// AllOf returns a verifier that wants each of the others. Those that need no body are asked first.
func AllOf(list ...Verifier) Verifier {
	sorted := slices.Clone(list)
	slices.SortStableFunc(sorted, func(a, b Verifier) int {
		return cmp.Compare(NeedsOf(a)&NeedsBody, NeedsOf(b)&NeedsBody)
	})
	return &combined{list: sorted}
}

// AnyOf returns a verifier that wants one of the others. If none is right, the reason is that of
// the last one whose proof was there, else that of the first.
func AnyOf(list ...Verifier) Verifier { return &combined{list: slices.Clone(list), any: true} }

type combined struct {
	list []Verifier
	any  bool
}

func (c *combined) Verify(r *Request) error {
	if len(c.list) == 0 {
		return &Error{Missing, "nobody is accepted"}
	}
	var reason error
	for _, v := range c.list {
		err := v.Verify(r)
		switch {
		case err == nil && c.any:
			return nil
		case err != nil && !c.any:
			return err
		}
		if e, ok := err.(*Error); reason == nil || !ok || e.Kind != Missing {
			reason = err
		}
	}
	return reason
}

func (c *combined) Needs() Needs {
	var n Needs
	for _, v := range c.list {
		n |= NeedsOf(v)
	}
	return n
}

func (c *combined) Challenge() string {
	var list []string
	for _, v := range c.list {
		if s := ChallengeOf(v); s != "" && !slices.Contains(list, s) {
			list = append(list, s)
		}
	}
	return strings.Join(list, ", ")
}

// Split returns the part of a verifier that needs no body, so that strangers can be turned away
// before it is read, and the part that does; nil where there is no such part. A request is right if
// both are.
func Split(v Verifier) (early, late Verifier) {
	if NeedsOf(v)&NeedsBody == 0 {
		return v, nil
	}
	c, ok := v.(*combined)
	if !ok || c.any {
		return nil, v
	}
	var before, after []Verifier
	for _, one := range c.list {
		e, l := Split(one)
		if e != nil {
			before = append(before, e)
		}
		if l != nil {
			after = append(after, l)
		}
	}
	if len(before) > 0 {
		early = AllOf(before...)
	}
	return early, AllOf(after...)
}
