package scenario

import (
	"context"
	"fmt"
)

// together sends requests at the same moment and finds for each answer what it is.
func (p *play) together(ctx context.Context, t *Together) ([]string, error) {
	all := t.all()
	list := make([]*exchange, 0, len(all))
	requests := make([]*built, len(all))
	for i, r := range all {
		var err error
		if requests[i], err = r.build(p.where, vars{p.act.key, i + 1}); err != nil {
			return nil, err
		}
	}
	defer func() {
		for _, x := range list {
			x.hangUp()
		}
	}()
	for _, b := range requests {
		x, err := begin(ctx, p.target, p.patience, b)
		if err != nil {
			return nil, err
		}
		list = append(list, x)
	}
	counts := make([]int, len(t.Answers))
	var found []string
	for i, x := range list {
		at, why := t.find(x.wait(), p.replies, vars{p.act.key, i + 1})
		if at < 0 {
			found = append(found, fmt.Sprintf("answer %d is none of what it may be: %s", i+1, why))
			continue
		}
		counts[at]++
	}
	for i, a := range t.Answers {
		if a.Count != nil && counts[i] != *a.Count {
			found = append(found, fmt.Sprintf("%d answers are as the alternative %d says, want %d",
				counts[i], i+1, *a.Count))
		}
	}
	return found, nil
}

// find returns which alternative an answer meets: the first one; or -1 and the differences.
func (t *Together) find(got *reply, before map[string]*reply, v vars) (int, string) {
	why := ""
	for i := range t.Answers {
		problems := t.Answers[i].problems(got, before, v)
		if len(problems) == 0 {
			return i, ""
		}
		why += fmt.Sprintf("(%d) %s ", i+1, problems[0])
	}
	return -1, why
}
