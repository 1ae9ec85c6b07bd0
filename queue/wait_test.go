package queue

import "testing"

func TestWaitedResourceReadsWhatWaitResourceWrites(t *testing.T) {
	for _, c := range [][2]string{{"roadway", "R7"}, {"lift", "hall/2"}, {"station", ""}} {
		kind, name, ok := WaitedResource(WaitResource(c[0], c[1]))
		if !ok || kind != c[0] || name != c[1] {
			t.Errorf("%v: got %q %q %v", c, kind, name, ok)
		}
	}
	for _, wait := range []string{WaitTask("resource", "T"), "resource/R7", "", "R7"} {
		if kind, name, ok := WaitedResource(wait); ok {
			t.Errorf("%q waits for %s/%s", wait, kind, name)
		}
	}
}
