package flow

import (
	"testing"

	"github.com/oncekit/once/queue"
)

func TestAnEffectIsMadeOnlyWhenItsConditionIsTrue(t *testing.T) {
	is := func(v any) Expr { return func(*Vars) (any, error) { return v, nil } }
	for _, c := range []struct {
		name    string
		when    Expr
		owner   string // who the roadway still belongs to after the release
		freeing int
	}{
		{"no condition", nil, "T1", 1},
		{"true", is(true), "T1", 1},
		{"false", is(false), "", 0},
		{"absent", is(Absent), "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			kinds := plant()
			for i := range kinds {
				for j := range kinds[i].OnRelease {
					kinds[i].OnRelease[j].When = c.when
				}
			}
			m := newModel(t, []*Machine{robots()}, kinds)
			m.robot("T1", "startFE", "roadway", "R1")
			m.robot("T1", "finishFE")
			m.wantTask("T1", "unloaded", 2)
			m.wantResource("roadway", "R1", c.owner, 1, c.freeing)
		})
	}
}

func TestAConditionThatIsNoBoolIsADeadLetterThatNamesIt(t *testing.T) {
	kinds := plant()
	kinds[0].OnRelease[0].When = func(*Vars) (any, error) { return "yes", nil }
	m := newModel(t, []*Machine{robots()}, kinds)
	m.robot("T1", "startFE", "roadway", "R1")
	r := m.robot("T1", "finishFE")
	m.wantRow(r, queue.Dead, ".when: gives a text, want true or false")
	m.wantTask("T1", "running", 1)
}
